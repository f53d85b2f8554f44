import type { Call, Handler, Outcome } from '../core/call.ts'
import { asGatewayError } from '../core/error.ts'
import { isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'
import { unknownPrompt, unknownResource } from '../core/unknown.ts'
import { within } from '../core/waiting.ts'
import { listAllPages } from './walk.ts'

type Definition = Readonly<Record<string, unknown>>

/** A prompt or a resource the gateway answers itself. */
export interface BuiltinEntry {
  readonly definition: Definition
  /** Whether it stands in lists; as the gateway's own tools do unless it says so. */
  readonly isListed?: boolean
  /** Whether it answers for a name or URI beside its own. */
  matches?(name: string): boolean
  readonly handle: Handler
}

/** What the gateway has of its own at the address a call came to. */
export interface BuiltinRegistry {
  prompts(upstream: string | undefined): readonly BuiltinEntry[]
  resources(upstream: string | undefined): readonly BuiltinEntry[]
}

interface EntriesOptions {
  readonly shelf: BuiltinRegistry
  /** Whether entries stand in lists that do not say so themselves. */
  readonly isListed: boolean
  /** Does what a call of the gateway's own asks, through the chain of its target. */
  run(call: Call, end: Handler): Promise<Outcome>
}

/** How long a server may take to say whether it has an entry of a name, in milliseconds. */
export const LOOKUP_TIMEOUT_MS = 5000

/** Adds prompts and resources of the gateway to those of servers, whose own ones of the same name or URI go first. */
export function withBuiltinEntries(next: Handler, { shelf, isListed, run }: EntriesOptions): Handler {
  const there = (kind: Kind, call: Call): readonly BuiltinEntry[] => shelf[kind.shelf](call.target.upstream)
  const isTold = (entry: BuiltinEntry): boolean => entry.isListed ?? isListed

  const list = async (kind: Kind, call: Call): Promise<Outcome> => {
    const own = there(kind, call)
    if (own.length === 0) return next(call)
    const outcome = await next(call).catch((error: unknown) => absentList(error, kind.list))
    if (outcome.kind === 'input_required' || typeof outcome.result.fields.nextCursor === 'string')
      return outcome
    const entries = outcome.result.at(kind.list)?.items ?? []
    const taken = new Set(entries.map(({ fields }) => fields[kind.key]))
    const added = own.filter((entry) => isTold(entry) && !taken.has(entry.definition[kind.key]))
    if (added.length === 0) return outcome
    const texts = [
      ...entries.map(({ text }) => text),
      ...added.map((each) => JSON.stringify(each.definition)),
    ]
    return {
      kind: 'result',
      result: outcome.result.with({ [kind.list]: Payload.text(`[${texts.join(',')}]`) }),
    }
  }

  /** A server without resources of its own has no templates either. */
  const templates = async (call: Call): Promise<Outcome> => {
    if (there(resources, call).length === 0) return next(call)
    return next(call).catch((error: unknown) => absentList(error, 'resourceTemplates'))
  }

  const read = async (kind: Kind, call: Call): Promise<Outcome> => {
    const own = there(kind, call)
    if (own.length === 0) return next(call)
    const name = call.target.name ?? ''
    const found = own.find((each) => each.definition[kind.key] === name || each.matches?.(name) === true)
    if (found && !(await isTaken(kind, call, name)))
      return run({ ...call, target: { ...call.target, isBuiltin: true } }, found.handle)
    return next(call).catch((error: unknown) => {
      throw asGatewayError(error).rpc === -32601 ? kind.unknown(name) : error
    })
  }

  /** A server that lists nothing in time does not keep the gateway from its own answers. */
  const isTaken = (kind: Kind, call: Call, name: string): Promise<boolean> => {
    const entries = listAllPages(next, { ...call, emit: () => undefined }, kind.listing)
    const found = entries.then(
      (all) => all.some(({ fields }) => fields[kind.key] === name),
      () => false,
    )
    return within(found, LOOKUP_TIMEOUT_MS, false)
  }

  const discover = async (call: Call): Promise<Outcome> => {
    const added = kinds.filter((kind) => there(kind, call).length > 0).map((kind) => kind.shelf)
    const outcome = await next(call)
    return added.length === 0 ? outcome : withCapabilities(outcome, added)
  }

  return (call) => {
    switch (call.method) {
      case 'prompts/list':
        return list(prompts, call)
      case 'resources/list':
        return list(resources, call)
      case 'resources/templates/list':
        return templates(call)
      case 'prompts/get':
        return read(prompts, call)
      case 'resources/read':
        return read(resources, call)
      case 'server/discover':
        return discover(call)
      default:
        return next(call)
    }
  }
}

interface Kind {
  readonly shelf: 'prompts' | 'resources'
  readonly list: string
  readonly listing: string
  /** The member of an entry that tells it from others. */
  readonly key: 'name' | 'uri'
  unknown(name: string): Error
}

const prompts: Kind = {
  shelf: 'prompts',
  list: 'prompts',
  listing: 'prompts/list',
  key: 'name',
  unknown: unknownPrompt,
}
const resources: Kind = {
  shelf: 'resources',
  list: 'resources',
  listing: 'resources/list',
  key: 'uri',
  unknown: unknownResource,
}
const kinds = [prompts, resources]

/** The same answer to `server/discover`, with capabilities the gateway has itself. */
export function withCapabilities(outcome: Outcome, names: readonly string[]): Outcome {
  if (outcome.kind === 'input_required') return outcome
  const capabilities = outcome.result.at('capabilities') ?? Payload.of({})
  const missing = names.filter((name) => !isObject(capabilities.fields[name]))
  if (missing.length === 0) return outcome
  const added = Object.fromEntries(missing.map((name) => [name, {}]))
  return { kind: 'result', result: outcome.result.with({ capabilities: capabilities.with(added) }) }
}

/** The empty list of a server that has no such lists. */
export function absentList(error: unknown, list: string): Outcome {
  if (asGatewayError(error).rpc === -32601) return { kind: 'result', result: Payload.of({ [list]: [] }) }
  throw error
}
