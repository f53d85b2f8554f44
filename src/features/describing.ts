/**
 * Adds to tool lists and to `server/discover`. A description that takes too long to create is left out.
 */
import type { Call, Outcome, Middleware } from '../core/call.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { asGatewayError } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import { attempt, within } from '../core/time/waiting.ts'
import { describeAllServers } from '../descriptions/model/describe.ts'
import type { ServerDescription } from '../descriptions/model/description.ts'
import { amongCapabilities } from '../protocol/meta-keys.ts'
import type { Services } from './feature.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'descriptions' | 'features'>

type Fields = Readonly<Record<string, unknown>>

/** Additions to the result of `server/discover`. */
interface DiscoverAdditions {
  /** At the top level of the result and among the experimental capabilities, made of what the server has there. */
  readonly extended?: Readonly<Record<string, (own: unknown) => Fields>>
  /** In `_meta` of the result, and among the capabilities of extensions. */
  readonly meta?: Fields
  readonly extensions?: Fields
  /** Capabilities without members, where the server has none of that name. */
  readonly kinds?: readonly string[]
  /** Lines of a paragraph at the end of the instructions; those that are in them already are left out. */
  readonly instructions?: readonly string[]
}

/** How long a connecting client waits for the description of a server, in milliseconds; after that it is left out. */
const DESCRIPTION_TIMEOUT_MS = 2000

/** The description for lists and `server/discover`; undefined if the client would have to wait too long. */
export function descriptionSoon(
  feature: string,
  call: Call,
  deps: Deps,
): ServerDescription | undefined | Promise<ServerDescription | undefined> {
  // Internal calls create descriptions themselves, so they would wait for their own result.
  if (call.internal) return undefined
  const found = attempt(() => describedList(feature, call, deps))
  if (!(found instanceof Promise)) return found
  return within<ServerDescription | undefined>(
    found.catch(() => undefined),
    DESCRIPTION_TIMEOUT_MS,
    undefined,
  )
}

/** How long a server may take to list its tools for a check, in milliseconds. */
const CHECK_TIMEOUT_MS = 10_000

/** The tools against which a server's configuration is checked; if they cannot be listed, `event` is logged. */
export async function toolsToCheck(
  upstream: string,
  deps: Pick<Deps, 'servers' | 'log'>,
  event: string,
): Promise<readonly Descriptor[] | undefined> {
  try {
    const tools = await within(deps.servers.tools(upstream), CHECK_TIMEOUT_MS, undefined)
    if (!tools) deps.log.warn(event, { upstream, reason: 'the server does not list its tools in time' })
    return tools
  } catch (error) {
    deps.log.warn(event, { upstream, reason: asGatewayError(error).message })
    return undefined
  }
}

/** Adds to the result of `server/discover`, for clients of every revision. */
export function extendDiscover(
  additionsFor: (call: Call) => Promise<DiscoverAdditions | undefined>,
): Middleware {
  // Both may wait for the same server, so they do at the same time.
  return (next) => async (call) => {
    const additions = additionsFor(call)
    // The failure of the request itself comes first.
    additions.catch(() => undefined)
    return withAdditions(await next(call), await additions, call.client)
  }
}

/** The result with the additions. */
function withAdditions(
  outcome: Outcome,
  additions: DiscoverAdditions | undefined,
  client: Call['client'],
): Outcome {
  if (outcome.kind !== 'result' || !additions) return outcome
  const { result } = outcome
  const capabilities = result.at('capabilities') ?? Payload.of({})
  const extend = ({ fields }: Payload): Fields =>
    Object.fromEntries(
      Object.entries(additions.extended ?? {}).map(([key, make]) => [key, make(fields[key])] as const),
    )
  const experimental = additions.extended && extend(capabilities.at('experimental') ?? Payload.of({}))
  const kinds = Object.entries({ extensions: additions.extensions, experimental })
  const added = kinds.flatMap(([kind, members]) =>
    members
      ? [[kind, (capabilities.at(kind) ?? Payload.of({})).with(amongCapabilities(members, client))] as const]
      : [],
  )
  const missing = (additions.kinds ?? []).filter((kind) => !Object.hasOwn(capabilities.fields, kind))
  const { instructions } = result.fields
  const given = typeof instructions === 'string' ? instructions : ''
  const lines = (additions.instructions ?? []).filter((line) => line !== '' && !given.includes(line))
  const paragraphs = [given, lines.join('\n')].filter((each) => each !== '')
  const extended = result.with({
    ...extend(result),
    capabilities: capabilities.with(
      Object.fromEntries([...added, ...missing.map((kind) => [kind, {}] as const)]),
    ),
    ...(lines.length > 0 && { instructions: paragraphs.join('\n\n') }),
  })
  return { kind: 'result', result: additions.meta ? extended.withMeta(additions.meta) : extended }
}

/** Descriptions that omit some servers, by the names of the others. */
const partialDescriptions = new WeakMap<ServerDescription, Map<string, ServerDescription>>()

/** The description for the documents of a feature; of several servers, it covers those with the feature on. */
export function describedList(
  feature: string,
  call: Call,
  deps: Deps,
): ServerDescription | Promise<ServerDescription> {
  const found = deps.descriptions.of(call.target.upstream, call)
  return found instanceof Promise
    ? found.then((description) => partsWith(feature, description, deps))
    : partsWith(feature, found, deps)
}

function partsWith(feature: string, description: ServerDescription, deps: Deps): ServerDescription {
  const parts = description.parts.filter(({ name }) => deps.features.isOn(feature, name))
  if (parts.length === description.parts.length) return description
  const known = partialDescriptions.get(description) ?? new Map<string, ServerDescription>()
  partialDescriptions.set(description, known)
  const key = parts.map(({ name }) => name).join()
  const partial = known.get(key) ?? describeAllServers(parts, description.front)
  known.set(key, partial)
  return partial
}

/** Rewrites each tool in a server's lists; an unchanged tool keeps its original text. */
export function describingTools(describe: (tool: Payload) => Payload): Middleware {
  let last: { readonly text: string; readonly rewritten: Payload } | undefined
  let lastTools: { readonly text: string; readonly rewritten: Payload | undefined } | undefined
  const rewrite = (result: Payload): Payload => {
    const tools = result.at('tools')
    if (!tools || !Array.isArray(tools.value)) return result
    const { text } = tools
    // Members beside the tools may change with each response, such as a remaining quota.
    if (lastTools?.text !== text) lastTools = { text, rewritten: changed(tools, describe) }
    return lastTools.rewritten ? result.with({ tools: lastTools.rewritten }) : result
  }
  return (next) => async (call) => {
    const outcome = await next(call)
    if (outcome.kind !== 'result') return outcome
    // The same text is the same list: its result is reused, and encoded once.
    const { text } = outcome.result
    if (last?.text !== text) last = { text, rewritten: rewrite(outcome.result) }
    return last.rewritten.text === text ? outcome : { kind: 'result', result: last.rewritten }
  }
}

/** The list with its entries rewritten; undefined if none changed. */
function changed(tools: Payload, describe: (tool: Payload) => Payload): Payload | undefined {
  const before = tools.items
  const after = before.map(describe)
  if (after.every((tool, index) => tool === before[index])) return undefined
  return Payload.text(`[${after.map(({ text }) => text).join(',')}]`)
}
