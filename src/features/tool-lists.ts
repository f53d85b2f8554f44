/**
 * Lists of servers: which changes of them a client subscribes to and how `server/discover` declares them, tools with additions,
 * and tools against which the configuration is checked.
 */
import type { Call, Handler, Middleware, Notification, Target } from '../core/call.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { asGatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import type { ProfileSettings, UpstreamSettings } from '../core/settings.ts'
import { profileSlot } from '../core/slot.ts'
import { within } from '../core/time/waiting.ts'
import { type Dialect, dialectFor } from '../protocol/dialects.ts'
import { toolsFor } from '../protocol/schema-repair.ts'
import { readFilter, withFilter } from '../protocol/subscription-filter.ts'
import type { Services } from './feature.ts'

/** A list whose changes clients can subscribe to. */
export type List = 'tools' | 'prompts' | 'resources'

/** All lists. */
export const lists: readonly List[] = ['tools', 'prompts', 'resources']

/** The lists whose changes a subscription requests. */
export function requestedLists({ params }: Call): readonly List[] {
  const filter = readFilter(params)
  return lists.filter((list) => filter[`${list}ListChanged`] === true)
}

/** An acknowledgement that also accepts changes of these lists, which the gateway announces itself. */
export function acknowledged(notification: Notification, accepted: readonly List[]): Notification {
  const added = Object.fromEntries(accepted.map((list) => [`${list}ListChanged`, true]))
  return { ...notification, params: withFilter(notification.params, added) }
}

/** The result of `server/discover`, with `listChanged` for those of these lists that the server has. */
export function withListChanged(result: Payload, announced: readonly List[]): Payload {
  const capabilities = result.at('capabilities')
  const changed = announced.flatMap((list) => {
    const capability = capabilities?.at(list)
    if (!capability || !isObject(capability.value) || capability.fields.listChanged === true) return []
    return [[list, capability.with({ listChanged: true })] as const]
  })
  if (!capabilities || changed.length === 0) return result
  return result.with({ capabilities: capabilities.with(Object.fromEntries(changed)) })
}

/** How long a server may take to list its tools for a check, in milliseconds. */
const CHECK_TIMEOUT_MS = 10_000

/** The tools against which a server's configuration is checked; if they cannot be listed, `event` is logged. */
export async function toolsToCheck(
  upstream: string,
  deps: Pick<Services, 'servers' | 'log'>,
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

/** Rewrites a tool of a list, given all tools of that list. */
type DescribeTool = (tool: Payload, all: readonly Payload[]) => Payload

/** Rewrites each tool in a server's lists; an unchanged tool keeps its original text. */
export function describingTools(describe: DescribeTool): Middleware {
  return rewritingTools((tools) => tools.map((tool) => describe(tool, tools)))
}

/** Rewrites the tools of each list of a server. */
function rewritingTools(rewritten: (tools: readonly Payload[]) => readonly Payload[]): Middleware {
  let last: { readonly text: string; readonly rewritten: Payload } | undefined
  let lastTools: { readonly text: string; readonly rewritten: Payload | undefined } | undefined
  const rewrite = (result: Payload): Payload => {
    const tools = result.at('tools')
    if (!tools || !Array.isArray(tools.value)) return result
    const { text } = tools
    // Members beside the tools may change with each response, such as a remaining quota.
    if (lastTools?.text !== text) lastTools = { text, rewritten: changed(tools, rewritten) }
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

/**
 * Lists tools as the provider of the client takes them; features below read those of the server. The list for each dialect
 * is kept, as clients of several providers take turns.
 */
export function repairedLists(
  { method }: Target,
  { repairsSchemas }: UpstreamSettings,
  profiles: readonly ProfileSettings[] = [],
): Middleware | undefined {
  const forModels = new Set(profiles.filter(({ isForModels }) => isForModels).map(({ name }) => name))
  const isRepaired = repairsSchemas === undefined ? forModels.size > 0 : repairsSchemas !== 'off'
  if (method !== 'tools/list' || !isRepaired) return undefined
  return (next) => {
    const handlers = new Map<Dialect, Handler>()
    return (call) => {
      const setting = repairsSchemas ?? (forModels.has(profileSlot.of(call) ?? '') ? 'auto' : undefined)
      if (setting === undefined || setting === 'off') return next(call)
      const dialect = dialectFor(setting, call.client)
      const handle = handlers.get(dialect) ?? rewritingTools((tools) => toolsFor(tools, dialect))(next)
      handlers.set(dialect, handle)
      return handle(call)
    }
  }
}

/** The list with its entries rewritten; undefined if none changed. */
function changed(
  tools: Payload,
  rewritten: (tools: readonly Payload[]) => readonly Payload[],
): Payload | undefined {
  const before = tools.items
  const after = rewritten(before)
  if (after.length === before.length && after.every((tool, index) => tool === before[index])) return undefined
  return Payload.text(`[${after.map(({ text }) => text).join(',')}]`)
}
