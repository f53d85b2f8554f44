/** Notifies listening clients of changes that their server does not announce. */
import type { Call, Notification, Outcome, Middleware } from '../../core/call.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { CONTRACT_KEY } from '../../protocol/meta-keys.ts'
import { ACKNOWLEDGED } from '../../protocol/subscription-filter.ts'
import type { Services } from '../services.ts'
import { acknowledged, type List, lists, listsWanted, withListChanged } from '../list-changes.ts'
import type { Moved } from './watch.ts'

type ListenersDeps = Pick<Services, 'log' | 'store' | 'servers' | 'descriptions' | 'features' | 'gateway'>

/** Those who want to hear of changes, by server. */
export interface Listeners {
  /** Around the long call through which a client hears of a server. */
  listening(upstream: string): Middleware
  tell(moved: Moved): void
}

interface Listener {
  readonly call: Call
  readonly wanted: readonly List[]
}

/** Tells clients of changed lists in the stead of servers that do not tell of them. */
export function createListeners(deps: ListenersDeps): Listeners {
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
export function introduced(outcome: Outcome, version: string | undefined): Outcome {
  if (outcome.kind === 'input_required') return outcome
  const result = withListChanged(outcome.result, lists)
  return {
    kind: 'result',
    result: version === undefined ? result : result.withMeta({ [CONTRACT_KEY]: { version } }),
  }
}
