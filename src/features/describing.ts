/**
 * Help for features that add to lists or to what servers say of themselves. A description that takes too long
 * is left out.
 */
import type { Call, Outcome, Middleware } from '../core/call.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { asGatewayError } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import { within } from '../core/time/waiting.ts'
import { describeAllServers } from '../descriptions/model/describe-server.ts'
import type { ServerDescription } from '../descriptions/model/description.ts'
import { amongCapabilities } from '../protocol/meta-keys.ts'
import type { Services } from './feature.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'descriptions' | 'features'>

type Fields = Readonly<Record<string, unknown>>

/** What is added to what a server says of itself. */
interface Said {
  /** At the top of the result, in its `_meta`, and among the capabilities of either kind. */
  readonly fields?: Fields
  readonly meta?: Fields
  readonly extensions?: Fields
  readonly experimental?: Fields
  /** A paragraph at the end of the instructions. */
  readonly instructions?: string
}

/** How long a client that connects waits for what is known of a server, in milliseconds; without it, less is said. */
const DESCRIPTION_TIMEOUT_MS = 2000

/** The description for the lists and the introduction of a server; nothing where that would keep its client waiting. */
export function descriptionSoon(
  feature: string,
  call: Call,
  deps: Deps,
): ServerDescription | undefined | Promise<ServerDescription | undefined> {
  // A description of what a caller may see is drawn from such lists: it would wait for itself.
  if (call.internal) return undefined
  const found = describedList(feature, call, deps)
  if (!(found instanceof Promise)) return found
  return within<ServerDescription | undefined>(
    found.catch(() => undefined),
    DESCRIPTION_TIMEOUT_MS,
    undefined,
  )
}

/** How long a server may take to list its tools for a check, in milliseconds. */
const CHECK_TIMEOUT_MS = 10_000

/** The tools the configuration of a server is held against; where it does not list them, `event` is logged. */
export async function toolsToCheck(
  upstream: string,
  deps: Deps,
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

/** Adds something to what a server says of itself when it is discovered, to clients of every revision. */
export function introducing(say: (call: Call) => Promise<Said | undefined>): Middleware {
  return (next) => (call) =>
    next(call).then(async (outcome) => withSaid(outcome, await say(call), call.client))
}

/** The same introduction, with what is said beside it. */
function withSaid(outcome: Outcome, said: Said | undefined, client: Call['client']): Outcome {
  if (outcome.kind === 'input_required' || !said) return outcome
  const { result } = outcome
  const capabilities = result.at('capabilities') ?? Payload.of({})
  const kinds = Object.entries({ extensions: said.extensions, experimental: said.experimental })
  const added = kinds.flatMap(([kind, members]) =>
    members
      ? [[kind, (capabilities.at(kind) ?? Payload.of({})).with(amongCapabilities(members, client))] as const]
      : [],
  )
  const { instructions } = result.fields
  const told = [instructions, said.instructions].filter((each) => typeof each === 'string' && each !== '')
  const whole = result.with({
    ...said.fields,
    capabilities: capabilities.with(Object.fromEntries(added)),
    ...(said.instructions !== undefined && { instructions: told.join('\n\n') }),
  })
  return { kind: 'result', result: said.meta ? whole.withMeta(said.meta) : whole }
}

/** Descriptions of several servers without some of them, by which ones are left. */
const fewer = new WeakMap<ServerDescription, Map<string, ServerDescription>>()

/** What the documents of a feature are made of: of several servers, those alone that the feature is on for. */
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
  const known = fewer.get(description) ?? new Map<string, ServerDescription>()
  fewer.set(description, known)
  const key = parts.map(({ name }) => name).join()
  const drawn = known.get(key) ?? describeAllServers(parts, description.front)
  known.set(key, drawn)
  return drawn
}

/** Describes each tool of a server's lists anew; a tool it gives back as it was keeps its text. */
export function describingTools(describe: (tool: Payload) => Payload): Middleware {
  let last: { readonly text: string; readonly shown: Payload } | undefined
  let lastTools: { readonly text: string; readonly shown: Payload | undefined } | undefined
  const shown = (result: Payload): Payload => {
    const tools = result.at('tools')
    if (!tools || !Array.isArray(tools.value)) return result
    const { text } = tools
    // What stands around them may differ from time to time, such as what is left of a limit.
    if (lastTools?.text !== text) lastTools = { text, shown: changed(tools, describe) }
    return lastTools.shown ? result.with({ tools: lastTools.shown }) : result
  }
  return (next) => async (call) => {
    const outcome = await next(call)
    if (outcome.kind !== 'result') return outcome
    // The same text is the same list: what was made of it is passed on as it was, and is encoded once.
    const { text } = outcome.result
    if (last?.text !== text) last = { text, shown: shown(outcome.result) }
    return last.shown.text === text ? outcome : { kind: 'result', result: last.shown }
  }
}

/** The same list with its entries changed; nothing where none is. */
function changed(tools: Payload, describe: (tool: Payload) => Payload): Payload | undefined {
  const before = tools.items
  const after = before.map(describe)
  if (after.every((tool, index) => tool === before[index])) return undefined
  return Payload.text(`[${after.map(({ text }) => text).join(',')}]`)
}
