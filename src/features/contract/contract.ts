/** Versions of what each server offers: recorded, announced, and the end of deprecated tools. */
import { LRUCache } from 'lru-cache'
import { hash } from 'node:crypto'
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
import type { Feature } from '../feature.ts'
import { acknowledged, type List, lists, listsWanted, withListChanged } from '../list-changes.ts'
import type { Services } from '../feature.ts'
import { createContractWatcher, NAME, type ContractWatcher, type Moved } from './watch.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'descriptions' | 'features' | 'gateway'>

/** Versions what each server offers, keeps what of it changed, and announces what will go. */
export const contract: Feature<Record<never, never>> = {
  name: NAME,
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    description:
      'A version of what each server offers, which rises with changes; clients are notified, and `gatehouse changelog` prints it.',
    properties: {},
  },
  create: (_settings, deps) => {
    const listeners = createListeners(deps)
    const watch = createContractWatcher(deps, listeners.tell)
    return {
      middleware: (target) => {
        const { upstream, method, isBuiltin } = target
        if (upstream === undefined || isBuiltin) return undefined
        if (method === 'tools/call') return standingIn(target, deps)
        if (method === 'subscriptions/listen') return listeners.listening(upstream)
        if (method === 'server/discover')
          return (next) => (call) =>
            next(call).then((outcome) => introduced(outcome, watch.version(upstream)))
        if (known(method).list === undefined) return undefined
        const announce =
          method === 'tools/list' ? announcing(deps.servers.settings(upstream)?.tools ?? {}) : undefined
        return (next) => heeding(announce ? announce(next) : next, upstream, { watch, deps })
      },
      start: async () => watch.start(),
    }
  },
}

interface Heard {
  readonly watch: ContractWatcher
  readonly deps: Deps
}

/** Of how many callers the last list is known. */
const MAX_CALLERS = 1000

/** Lists that clients get tell of changes too: a list that is another than the one before says that there is one. */
function heeding(list: Handler, upstream: string, { watch, deps }: Heard): Handler {
  // Callers may be shown different lists, so each is compared with what the same caller got before.
  const known = new LRUCache<string, string>({ max: MAX_CALLERS })
  const heed = ({ result }: Answered, { principal }: Call): void => {
    const who = [principal.id, ...[...(principal.scopes ?? [])].toSorted()].join(' ')
    const last = known.get(who)
    const digest = hash('sha256', result.text)
    known.set(who, digest)
    if (last !== undefined && last !== digest) deps.servers.records().renew(upstream)
    else watch.look(upstream)
  }
  return async (call) => {
    const outcome = await list(call)
    if (outcome.kind === 'result' && !call.internal && call.params.fields.cursor === undefined)
      heed(outcome, call)
    return outcome
  }
}

type Tools = Readonly<Record<string, ToolSettings>>

/** How the description of what will go begins. */
const DEPRECATED_PREFIX = '[DEPRECATED]'

/** Puts what will go, and until when it is there, in front of the descriptions of tools. */
function announcing(tools: Tools): Middleware | undefined {
  if (!Object.values(tools).some(({ deprecated }) => deprecated !== undefined)) return undefined
  return (next) => async (call) => {
    const outcome = await next(call)
    return outcome.kind === 'input_required'
      ? outcome
      : { kind: 'result', result: announced(outcome.result, tools) }
  }
}

function announced(result: Payload, tools: Tools): Payload {
  const entries = result.at('tools')?.items ?? []
  const marked = entries.map((entry) => {
    const { name, description } = entry.fields
    const end = settingOf(tools, String(name), 'deprecated')?.value
    if (end === undefined) return entry
    const own = typeof description === 'string' ? description : ''
    return entry.with({
      description: `${DEPRECATED_PREFIX} ${end}${/[.!?]$/.test(end) ? '' : '.'}${own === '' ? '' : ` ${own}`}`,
    })
  })
  if (marked.every((each, index) => each === entries[index])) return result
  return result.with({ tools: Payload.text(`[${marked.map(({ text }) => text).join(',')}]`) })
}

/** Until its time is over, a tool that its server dropped early is answered with what to use instead, or by that. */
function standingIn({ upstream = '', name = '', isBuiltin }: Target, deps: Deps): Middleware | undefined {
  const tools = deps.servers.settings(upstream)?.tools ?? {}
  const own = nameIn(tools, name)
  const written = isBuiltin ? undefined : settingOf(tools, own, 'deprecated')?.value
  if (written === undefined) return undefined
  const deprecation = readDeprecation(written)
  const isForwarded = settingOf(tools, own, 'alias')?.value === true
  return (next) => (call) => {
    const { until } = deprecation
    if (call.internal || (until !== undefined && Date.now() >= until)) return next(call)
    // A server that cannot list its tools says itself what is wrong.
    if (call.tool || call.toolError !== undefined) return next(call)
    return absent(call, { next, deps, deprecation, isForwarded })
  }
}

/** The name a tool has in the configuration: once it is gone, nothing else knows what its alias stood for. */
function nameIn(tools: Tools, name: string): string {
  if (settingOf(tools, name, 'deprecated')) return name
  return Object.keys(tools).find((each) => aliasOf(each) === name) ?? name
}

interface Gone {
  readonly next: Handler
  readonly deps: Deps
  readonly deprecation: Deprecation
  readonly isForwarded: boolean
}

/** Who may not call it does not learn that it was there. */
async function absent(call: Call, { next, deps, deprecation, isForwarded }: Gone): Promise<Outcome> {
  if (!(await deps.invoker.isPermitted(call))) return next(call)
  const { successor } = deprecation
  if (!isForwarded || successor === undefined || successor === call.target.name)
    throw retired(call.target.name ?? '', deprecation)
  const target = { ...call.target, name: successor }
  const instead: Call = { ...call, params: call.params.with({ name: successor }), target }
  if (!(await deps.servers.tool(instead))) throw retired(call.target.name ?? '', deprecation)
  call.logFields.set('alias_of', successor)
  return deps.invoker.call(instead)
}

function retired(name: string, { text, successor }: Deprecation): GatewayError {
  return new GatewayError('UNSUPPORTED_OPERATION', `The tool ${name} is no longer there: ${text}.`, {
    isResult: true,
    field: 'name',
    reason: 'deprecated',
    suggestion:
      successor === undefined ? 'List the tools to see the available ones.' : `Call ${successor} instead.`,
    ...(successor !== undefined && { data: { replacement: successor } }),
  })
}

// Notifies listening clients of changes that their server does not announce.

/** Those who want to hear of changes, by server. */
interface Listeners {
  /** Around the long call through which a client hears of a server. */
  listening(upstream: string): Middleware
  tell(moved: Moved): void
}

interface Listener {
  readonly call: Call
  readonly wanted: readonly List[]
}

/** Tells clients of changed lists in the stead of servers that do not tell of them. */
export function createListeners(deps: Deps): Listeners {
  const listeners = new Map<string, Set<Listener>>()

  /** Which lists already have notifications, mostly by the server itself. */
  const isTold = (upstream: string, list: List): boolean => {
    // Where there are manifests, changes of tools are notified with those of manifests.
    if (list === 'tools' && deps.features.isOn('manifest', upstream)) return true
    const capability = deps.servers.records().last(upstream)?.capabilities[list]
    return isObject(capability) && capability.listChanged === true
  }

  return {
    listening: (upstream) => (next) => async (call) => {
      const wanted = listsWanted(call)
      const listener = { call, wanted }
      const there = listeners.get(upstream) ?? new Set<Listener>()
      listeners.set(upstream, there)
      const emit = (note: Notification): void => {
        if (note.method.endsWith('/list_changed')) deps.servers.records().renew(upstream)
        if (note.method !== ACKNOWLEDGED) return call.emit(note)
        call.emit(acknowledged(note, wanted))
        // Nothing may come before the acknowledgement (2026-07-28 basic/utilities/subscriptions).
        there.add(listener)
      }
      try {
        return await next({ ...call, emit })
      } finally {
        there.delete(listener)
      }
    },
    tell: ({ upstream, before, after, lists: changed }) => {
      const params = Payload.of({ _meta: { [CONTRACT_KEY]: { server: upstream, before, version: after } } })
      for (const list of changed) {
        if (isTold(upstream, list)) continue
        for (const { call, wanted } of listeners.get(upstream) ?? [])
          if (wanted.includes(list)) call.emit({ method: `notifications/${list}/list_changed`, params })
      }
    },
  }
}

/** The result of `server/discover` with the contract version, and `listChanged` capabilities. */
function introduced(outcome: Outcome, version: string | undefined): Outcome {
  if (outcome.kind === 'input_required') return outcome
  const result = withListChanged(outcome.result, lists)
  return {
    kind: 'result',
    result: version === undefined ? result : result.withMeta({ [CONTRACT_KEY]: { version } }),
  }
}
