/** Contract versions of servers: recording, announcing changes, and the end of deprecated tools. */
import { LRUCache } from 'lru-cache'
import { hash } from 'node:crypto'
import { world } from '../../core/world.ts'
import { isPermitted } from '../own-calls.ts'
import type { Call, Handler, Outcome, Middleware, Target, Notification } from '../../core/call.ts'
import { type Deprecation, readDeprecation } from '../../core/contract.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { type ToolSettings, settingOf } from '../../core/settings.ts'
import { aliasOf } from '../../core/text/alias.ts'
import { CONTRACT_KEY } from '../../protocol/meta-keys.ts'
import { method as known } from '../../protocol/methods.ts'
import { ACKNOWLEDGED } from '../../protocol/subscription-filter.ts'
import type { Answered } from '../builtin-tool.ts'
import type { Feature, Services } from '../feature.ts'
import { acknowledged, type List, lists, requestedLists, withListChanged } from '../tool-lists.ts'
import { createContractWatcher, type ContractWatcher, type ContractChangeEvent } from './watch.ts'
import { contractSchema } from '../settings/admit.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'descriptions' | 'features' | 'gateway'>

/** Versions the contract of each server, keeps its changes, and announces deprecations. */
export const contract: Feature<Record<never, never>> = {
  ...contractSchema,
  create: (_settings, deps) => {
    const listeners = createListeners(deps)
    const watch = createContractWatcher(deps, listeners.notify)
    return {
      calls: {
        middleware: (target) => {
          const { upstream, method, isBuiltin } = target
          if (upstream === undefined || isBuiltin) return undefined
          if (method === 'tools/call') return replaceRemoved(target, deps)
          if (method === 'subscriptions/listen') return listeners.subscribe(upstream)
          if (method === 'server/discover')
            return (next) => (call) =>
              next(call).then((outcome) => withContract(outcome, watch.version(upstream)))
          if (known(method).list === undefined) return undefined
          const announce =
            method === 'tools/list'
              ? announceDeprecations(deps.servers.settings(upstream)?.tools ?? {})
              : undefined
          return (next) => detectChanges(announce ? announce(next) : next, upstream, { watch, deps })
        },
        dryRun: 'same', // a call of a tool that was replaced goes to its successor, as a dry run
      },
      start: async () => watch.start(),
    }
  },
}

interface ListContext {
  readonly watch: ContractWatcher
  readonly deps: Deps
}

/** How many callers' last lists are remembered. */
const MAX_CALLERS = 1000

/** Detects changes in lists that clients request: a list that differs from the previous one indicates a change. */
function detectChanges(list: Handler, upstream: string, { watch, deps }: ListContext): Handler {
  // Callers may see different lists, so each list is compared with the previous one of the same caller.
  const known = new LRUCache<string, string>({ max: MAX_CALLERS })
  const compare = ({ result }: Answered, { principal }: Call): void => {
    const callerKey = [principal.id, ...[...(principal.scopes ?? [])].toSorted()].join(' ')
    const last = known.get(callerKey)
    const digest = hash('sha256', result.text)
    known.set(callerKey, digest)
    if (last !== undefined && last !== digest) deps.servers.records().renew(upstream)
    else watch.check(upstream)
  }
  return async (call) => {
    const outcome = await list(call)
    if (outcome.kind === 'result' && !call.internal && call.params.fields.cursor === undefined)
      compare(outcome, call)
    return outcome
  }
}

type Tools = Readonly<Record<string, ToolSettings>>

/** The prefix of the descriptions of deprecated tools. */
const DEPRECATED_PREFIX = '[DEPRECATED]'

/** Adds deprecation notices to the descriptions of tools. */
function announceDeprecations(tools: Tools): Middleware | undefined {
  if (!Object.values(tools).some(({ deprecated }) => deprecated !== undefined)) return undefined
  return (next) => async (call) => {
    const outcome = await next(call)
    return outcome.kind !== 'result'
      ? outcome
      : { kind: 'result', result: withDeprecations(outcome.result, tools) }
  }
}

function withDeprecations(result: Payload, tools: Tools): Payload {
  const entries = result.at('tools')?.items ?? []
  const marked = entries.map((entry) => {
    const { name, description } = entry.fields
    const end = settingOf(tools, String(name), 'deprecated')?.value
    if (end === undefined) return entry
    const originalDescription = typeof description === 'string' ? description : ''
    return entry.with({
      description: `${DEPRECATED_PREFIX} ${end}${/[.!?]$/.test(end) ? '' : '.'}${originalDescription === '' ? '' : ` ${originalDescription}`}`,
    })
  })
  if (marked.every((each, index) => each === entries[index])) return result
  return result.with({ tools: Payload.text(`[${marked.map(({ text }) => text).join(',')}]`) })
}

/** Until its end date, a deprecated tool that its server already dropped is answered by its successor, or by an error naming it. */
function replaceRemoved({ upstream = '', name = '', isBuiltin }: Target, deps: Deps): Middleware | undefined {
  const tools = deps.servers.settings(upstream)?.tools ?? {}
  const configuredName = nameIn(tools, name)
  const deprecatedSetting = isBuiltin ? undefined : settingOf(tools, configuredName, 'deprecated')?.value
  if (deprecatedSetting === undefined) return undefined
  const deprecation = readDeprecation(deprecatedSetting)
  const isForwarded = settingOf(tools, configuredName, 'alias')?.value === true
  return (next) => (call) => {
    const { until } = deprecation
    if (call.internal || (until !== undefined && world.now() >= until)) return next(call)
    // A server that cannot list its tools reports the problem itself.
    if (call.tool || call.toolError !== undefined) return next(call)
    return callSuccessor(call, { next, deps, deprecation, isForwarded })
  }
}

/** The name of a tool in the configuration: once the tool is gone, nothing else knows what its alias referred to. */
function nameIn(tools: Tools, name: string): string {
  if (settingOf(tools, name, 'deprecated')) return name
  return Object.keys(tools).find((each) => aliasOf(each) === name) ?? name
}

interface RemovedToolContext {
  readonly next: Handler
  readonly deps: Deps
  readonly deprecation: Deprecation
  readonly isForwarded: boolean
}

/** Callers without permission do not learn that the tool existed. */
async function callSuccessor(
  call: Call,
  { next, deps, deprecation, isForwarded }: RemovedToolContext,
): Promise<Outcome> {
  if (!(await isPermitted(deps, call))) return next(call)
  const { successor } = deprecation
  if (!isForwarded || successor === undefined || successor === call.target.name)
    throw toolRemoved(call.target.name ?? '', deprecation)
  const target = { ...call.target, name: successor }
  const successorCall: Call = { ...call, params: call.params.with({ name: successor }), target }
  if (!(await deps.servers.tool(successorCall))) throw toolRemoved(call.target.name ?? '', deprecation)
  call.logFields.set('alias_of', successor)
  return deps.invoker.call(successorCall)
}

function toolRemoved(name: string, { text, successor }: Deprecation): GatewayError {
  return new GatewayError('UNSUPPORTED_OPERATION', `The tool ${name} no longer exists: ${text}.`, {
    isResult: true,
    field: 'name',
    reason: 'deprecated',
    suggestion:
      successor === undefined ? 'List the tools to see the available ones.' : `Call ${successor} instead.`,
    ...(successor !== undefined && { data: { replacement: successor } }),
  })
}

// Notifies listening clients of changes that their server does not announce.

/** The clients that listen for list changes, by server. */
interface Listeners {
  /** Wraps the long-lived call with which a client listens to a server. */
  subscribe(upstream: string): Middleware
  notify(change: ContractChangeEvent): void
}

interface Listener {
  readonly call: Call
  readonly wanted: readonly List[]
}

/** Notifies clients of changed lists on behalf of servers that do not. */
export function createListeners(deps: Deps): Listeners {
  const listeners = new Map<string, Set<Listener>>()
  /** The lists whose changes a server was seen to announce, by server: some do without declaring it. */
  const seen = new Map<string, Set<string>>()

  /** Whether changes of a list are already announced, usually by the server itself. */
  const isAnnounced = (upstream: string, list: List): boolean => {
    // With manifests, changes of tools are announced together with those of manifests.
    if (list === 'tools' && deps.features.isOn('manifest', upstream)) return true
    const capability = deps.servers.records().last(upstream)?.capabilities[list]
    const isDeclared = isObject(capability) && capability.listChanged === true
    return isDeclared || seen.get(upstream)?.has(`notifications/${list}/list_changed`) === true
  }

  return {
    subscribe: (upstream) => (next) => async (call) => {
      const wanted = requestedLists(call)
      const listener = { call, wanted }
      const registered = listeners.get(upstream) ?? new Set<Listener>()
      listeners.set(upstream, registered)
      const emit = (notification: Notification): void => {
        if (notification.method.endsWith('/list_changed')) {
          seen.set(upstream, (seen.get(upstream) ?? new Set()).add(notification.method))
          deps.servers.records().renew(upstream)
        }
        if (notification.method !== ACKNOWLEDGED) return call.emit(notification)
        call.emit(acknowledged(notification, wanted))
        // Nothing may come before the acknowledgement (2026-07-28 basic/utilities/subscriptions).
        registered.add(listener)
      }
      try {
        return await next({ ...call, emit })
      } finally {
        registered.delete(listener)
      }
    },
    notify: ({ upstream, before, after, lists: changed }) => {
      const params = Payload.of({ _meta: { [CONTRACT_KEY]: { server: upstream, before, version: after } } })
      for (const list of changed) {
        if (isAnnounced(upstream, list)) continue
        for (const { call, wanted } of listeners.get(upstream) ?? [])
          if (wanted.includes(list)) call.emit({ method: `notifications/${list}/list_changed`, params })
      }
    },
  }
}

/** The result of `server/discover` with the contract version, and `listChanged` capabilities. */
function withContract(outcome: Outcome, version: string | undefined): Outcome {
  if (outcome.kind !== 'result') return outcome
  const result = withListChanged(outcome.result, lists)
  return {
    kind: 'result',
    result: version === undefined ? result : result.withMeta({ [CONTRACT_KEY]: { version } }),
  }
}
