import { onTestFinished } from 'vitest'
import { noProxy } from '../../src/core/proxy.ts'
import type { Call, Client, Outcome } from '../../src/core/call.ts'
import { Payload } from '../../src/core/payload.ts'
import type { Principal } from '../../src/core/principal.ts'
import { Secret } from '../../src/core/text/secret.ts'
import type { ListenSettings, OAuthSettings, UpstreamSettings } from '../../src/core/settings.ts'
import type { SignInStep } from '../../src/core/audit-step.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import { createOAuthCallbackHandler, type OAuthCallbackHandler } from '../../src/upstream/oauth/sign-in.ts'
import { createUpstream, type Upstream } from '../../src/upstream/upstream.ts'
import { metaKeys } from '../../src/protocol/meta-keys.ts'
import { silentLog } from './silent-log.ts'
import { toolCall } from './tool-call.ts'

/** A server reached with OAuth, and where its users come back to. */
export interface OAuthUpstream {
  readonly upstream: Upstream
  readonly desk: OAuthCallbackHandler
  readonly store: MemoryStore
  /** What was told of those who sign in. */
  readonly steps: readonly SignInStep[]
}

interface Options {
  readonly publicUrl?: string
  readonly settings?: Partial<UpstreamSettings>
  /** What gateways share. */
  readonly store?: MemoryStore
  readonly key?: () => Promise<Buffer>
}

/** The way to a server with these OAuth settings, until the test is over. */
export function oauthUpstream(
  url: string,
  oauth: Partial<OAuthSettings>,
  { publicUrl, settings = {}, store = new MemoryStore(), key }: Options = {},
): OAuthUpstream {
  const steps: SignInStep[] = []
  const desk = createOAuthCallbackHandler({
    store: () => store,
    ...(key && { key }),
    listen: () => ({ ...listen, ...(publicUrl !== undefined && { publicUrl }) }),
    finisher: (name) => (name === 'one' ? upstream.finishSignIn : undefined),
    onStep: (step) => void steps.push(step),
  })
  desk.opened('http://127.0.0.1:8900')
  const upstream = createUpstream(
    {
      ...defaults,
      reach: { kind: 'url', url, headers: {}, oauth: { ...base, resource: url, ...oauth } },
      ...settings,
    },
    { variables: {}, proxies: noProxy, store, oauth: desk, log: silentLog },
  )
  onTestFinished(() => upstream.close())
  return { upstream, desk, store, steps }
}

const base = { grant: 'authorization_code', scopes: [] } as const
const listen: ListenSettings = {
  host: '127.0.0.1',
  port: 8900,
  origins: [],
  legacySse: false,
  operatorMcp: false,
  aggregate: true,
  aggregateTimeout: 2000,
  body: 1_000_000,
  isStrict: false,
}
const defaults: UpstreamSettings = {
  name: 'one',
  prefix: 'auto',
  reach: { kind: 'command', command: '', args: [], env: {} },
  transport: 'auto',
  revision: '2026-07-28',
  isolation: 'auto',
  trust: false,
  roots: 'off',
  reconnect: 0,
  startTimeout: 5000,
  idle: 60_000,
  renames: {},
  tools: {},
  scopes: {},
  allow: {},
  deny: {},
  errors: [],
  about: {},
  intent: [],
  recommend: [],
}

/** Clients by what they can do about a link. */
export const clients = {
  modern: { era: 'modern', revision: '2026-07-28', capabilities: { elicitation: { url: {} } } },
  modernPlain: { era: 'modern', revision: '2026-07-28', capabilities: {} },
  legacy: { era: 'legacy', revision: '2025-11-25', capabilities: { elicitation: { url: {} } } },
  legacyMute: {
    era: 'legacy',
    revision: '2025-11-25',
    capabilities: { elicitation: { url: {} } },
    nonInteractive: true,
  },
  legacyPlain: { era: 'legacy', revision: '2025-06-18', capabilities: { elicitation: {} } },
} as const satisfies Record<string, Client>

/** A caller, with the token it came with. */
export function caller(id: string, token?: string): Principal {
  return { id, ...(token !== undefined && { token: new Secret(token) }) }
}

/** Calls the tool `echo`. */
export function echo(principal: Principal, given: Partial<Call> = {}): Call {
  const { revision, capabilities } = given.client ?? clients.modern
  const meta = { [metaKeys.version]: revision, [metaKeys.capabilities]: capabilities }
  return toolCall({
    params: Payload.of({ name: 'echo', arguments: { text: 'hello' }, _meta: meta }),
    target: { method: 'tools/call', upstream: 'one', name: 'echo' },
    principal,
    client: clients.modern,
    ...given,
  })
}

/** The text of a result. */
export function textOf(outcome: Outcome): unknown {
  if (outcome.kind !== 'result') throw new Error(`There is no result: ${JSON.stringify(outcome)}`)
  return outcome.result.fields['content']
}

/** The link a caller was asked to open. */
export function linkOf(outcome: Outcome): string {
  if (outcome.kind !== 'input_required') throw new Error('There is no question.')
  return String(outcome.inputRequests['sign_in']?.params?.fields['url'])
}

/** What a user sees who opens a link of a sign-in. */
export function startOf(desk: OAuthCallbackHandler, link: string): ReturnType<OAuthCallbackHandler['start']> {
  return desk.start(link.split('/').at(-1) ?? '')
}
