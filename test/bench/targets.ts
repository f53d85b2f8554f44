// The one table of what is measured: the bare programs, and the gateway with its setups and peers.
import type { Tool } from './client.ts'
import type { Setup } from './gateway-config.ts'
import type { Shape } from './measure.ts'
import type { Era } from './reply.ts'

/** A server behind what is measured: of either era, one that answers by event streams, or one on stdio. */
export type Server = 'legacy' | 'modern' | 'events' | 'stdio'

/** Something that is measured, by its name in `targets`. */
export interface TargetKind {
  /** For people. */
  readonly title: string
  readonly client: Era
  readonly server: Server
  /** How the gateway is set up; absent of what is no gateway. */
  readonly setup?: Setup
  /** The tool that is called, `get_text` if absent. */
  readonly tool?: Tool
  /** Each call has an idempotency key of its own. */
  readonly isKeyed?: true
  /** It is also measured with large replies. */
  readonly hasLargeReplies?: true
  /** The target that it is compared with. */
  readonly baseline?: string
}

/** All targets. A gateway is compared with the bare program that does the same for the same client and server. */
export const targets: Readonly<Record<string, TargetKind>> = {
  direct: { title: 'the server itself', client: 'legacy', server: 'legacy', hasLargeReplies: true },
  bare: { title: 'bare pass-through', client: 'legacy', server: 'legacy', hasLargeReplies: true },
  // A modern client's requests have more headers and longer bodies, whoever passes them on.
  'bare-modern': { title: 'bare pass-through, modern client', client: 'modern', server: 'modern' },
  'bare-events': { title: 'bare pass-through, event streams', client: 'legacy', server: 'events' },
  'line-mux': { title: 'line multiplexer in front of stdio', client: 'legacy', server: 'stdio' },
  none: {
    title: 'features: none',
    setup: 'none',
    client: 'legacy',
    server: 'legacy',
    baseline: 'bare',
    hasLargeReplies: true,
  },
  'none-modern-legacy': {
    title: 'features: none, modern client, legacy server',
    setup: 'none',
    client: 'modern',
    server: 'legacy',
    baseline: 'bare-modern',
  },
  'none-legacy-modern': {
    title: 'features: none, legacy client, modern server',
    setup: 'none',
    client: 'legacy',
    server: 'modern',
    baseline: 'bare',
  },
  'none-modern-modern': {
    title: 'features: none, modern client and server',
    setup: 'none',
    client: 'modern',
    server: 'modern',
    baseline: 'bare-modern',
  },
  'none-events': {
    title: 'features: none, event streams',
    setup: 'none',
    client: 'legacy',
    server: 'events',
    baseline: 'bare-events',
  },
  default: {
    title: 'out of the box, a tool that writes',
    setup: 'default',
    client: 'legacy',
    server: 'legacy',
    tool: 'write',
    baseline: 'bare',
    hasLargeReplies: true,
  },
  'default-events': {
    title: 'out of the box, event streams',
    setup: 'default',
    client: 'legacy',
    server: 'events',
    tool: 'write',
    baseline: 'bare-events',
  },
  'default-stdio': {
    title: 'out of the box, stdio',
    setup: 'default',
    client: 'legacy',
    server: 'stdio',
    tool: 'write',
    baseline: 'line-mux',
  },
  'keyed-memory': { ...keyed('keyed-memory'), title: 'keyed, store in memory' },
  'keyed-disk': { ...keyed('keyed-disk'), title: 'keyed, store on disk' },
  'keyed-redis': { ...keyed('keyed-redis'), title: 'keyed, store in Redis' },
  guarded: {
    title: 'guarded',
    setup: 'guarded',
    client: 'legacy',
    server: 'legacy',
    baseline: 'bare',
  },
  everything: { ...keyed('everything'), title: 'everything on' },
}

function keyed(setup: Setup) {
  const peers = { client: 'legacy', server: 'legacy', baseline: 'bare' } as const
  return { ...peers, setup, tool: 'write', isKeyed: true } as const
}

/** How many calls are made at once; a quick run has the larger load alone, which also warms up sooner. */
export function concurrencies(isQuick: boolean): readonly number[] {
  return isQuick ? [64] : [16, 64]
}

/** The shapes of load that a target meets. */
export function shapesOf({ hasLargeReplies }: TargetKind, isQuick: boolean): readonly Shape[] {
  const [small, medium, large] = [1024, 10_240, 1_000_000]
  const usual = concurrencies(isQuick).map((concurrency) => ({ concurrency, bytes: small }))
  if (isQuick || !hasLargeReplies) return usual
  return [...usual, ...[medium, large].map((bytes) => ({ concurrency: 16, bytes }))]
}

/** The names of targets, with what they are compared with; all, or those asked for. @throws if there is no such target */
export function chosen(only: readonly string[] | undefined): readonly string[] {
  const names = Object.keys(targets)
  if (only === undefined) return names
  const unknown = only.filter((name) => !names.includes(name))
  if (unknown.length > 0) throw new TypeError(`no target ${unknown.join()}: there are ${names.join()}`)
  return names.filter((name) => only.includes(name) || only.some((each) => targets[each]?.baseline === name))
}
