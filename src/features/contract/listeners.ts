import type { Call, Note, Outcome, Policy } from '../../core/call.ts'
import { isObject } from '../../core/json.ts'
import { Payload } from '../../core/payload.ts'
import { NS } from '../../wire/extensions.ts'
import type { Deps } from '../feature.ts'
import type { List, Moved } from './watch.ts'

/** Those who want to hear of changes, by server. */
export interface Listeners {
  /** Around the long call through which a client hears of a server. */
  listening(upstream: string): Policy
  tell(moved: Moved): void
}

const lists: readonly List[] = ['tools', 'prompts', 'resources']

const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged'

/** Where in `_meta` stands which version of a contract there is. */
const CONTRACT_KEY = `${NS}/contract`

interface Listener {
  readonly call: Call
  readonly wanted: ReadonlySet<List>
}

/** Tells clients of changed lists in the stead of servers that do not tell of them. */
export function createListeners(deps: Deps): Listeners {
  const listeners = new Map<string, Set<Listener>>()

  /** Which lists are told of already, by the server itself most often. */
  const isTold = (upstream: string, list: List): boolean => {
    // Where there are manifests, changes of tools are told of with those of manifests.
    if (list === 'tools' && deps.isOn('manifest', upstream)) return true
    const capability = deps.records().last(upstream)?.capabilities[list]
    return isObject(capability) && capability.listChanged === true
  }

  return {
    listening: (upstream) => (next) => async (call) => {
      const wanted = wantedOf(call)
      const listener = { call, wanted }
      const emit = (note: Note): void => {
        if (note.method.endsWith('/list_changed')) deps.records().renew(upstream)
        call.emit(note.method === ACKNOWLEDGED ? honouring(note, wanted) : note)
      }
      const there = listeners.get(upstream) ?? new Set<Listener>()
      listeners.set(upstream, there)
      there.add(listener)
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
          if (wanted.has(list)) call.emit({ method: `notifications/${list}/list_changed`, params })
      }
    },
  }
}

function wantedOf({ params }: Call): ReadonlySet<List> {
  const { notifications } = params.fields
  const asked = isObject(notifications) ? notifications : {}
  return new Set(lists.filter((list) => asked[`${list}ListChanged`] === true))
}

/** What is honoured, with what the gateway tells of itself. */
function honouring(note: Note, wanted: ReadonlySet<List>): Note {
  const params = note.params ?? Payload.of({})
  const honoured = params.at('notifications') ?? Payload.of({})
  const added = Object.fromEntries([...wanted].map((list) => [`${list}ListChanged`, true]))
  return { ...note, params: params.with({ notifications: honoured.with(added) }) }
}

/** The answer to `server/discover` with the version of what is offered, and that changes of lists are told of. */
export function introduced(outcome: Outcome, version: string | undefined): Outcome {
  if (outcome.kind === 'ask') return outcome
  const capabilities = outcome.result.at('capabilities') ?? Payload.of({})
  const there = lists.filter((list) => isObject(capabilities.fields[list]))
  const told = Object.fromEntries(
    there.map((list) => [list, (capabilities.at(list) ?? Payload.of({})).with({ listChanged: true })]),
  )
  const result = outcome.result.with({ capabilities: capabilities.with(told) })
  return {
    kind: 'result',
    result: version === undefined ? result : result.withMeta({ [CONTRACT_KEY]: { version } }),
  }
}
