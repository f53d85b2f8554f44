/** Notifies listeners when what a manifest says of tools changes. */
import { createHash } from 'node:crypto'
import type { Call, Notification, Outcome, Middleware } from '../../core/call.ts'
import { isObject } from '../../core/json/json.ts'
import type { ServerRecord } from '../../core/descriptor.ts'
import { latencyOf } from '../../descriptions/model/facts.ts'
import { ACKNOWLEDGED } from '../../protocol/subscription-filter.ts'
import type { Services } from '../services.ts'
import { acknowledged, listsWanted, withListChanged } from '../list-changes.ts'

type ChangesDeps = Pick<Services, 'servers'>

/** Tells listening clients when something of a manifest changes that its server does not tell of itself. */
interface Telling {
  /** Says so where a server is discovered. */
  readonly declared: Middleware
  /** Tells those who listen. */
  readonly heard: Middleware
  close(): void
}

/** How often what was seen of calls is looked at, in milliseconds, while there are listeners. */
const POLL_INTERVAL_MS = 10_000

/** Notifications of changed tools for listeners. */
const CHANGED = 'notifications/tools/list_changed'

/** Watches what manifests are made of; nothing is asked of servers for it. */
export function telling(deps: ChangesDeps, isOn: (upstream?: string) => boolean): Telling {
  const listeners = new Map<object, { readonly upstream: string | undefined; tell(): void }>()
  const known = new Map<string, ReadonlyMap<string, string>>()
  let isHearing = false
  let timer: NodeJS.Timeout | undefined

  const look = (upstream: string): void => {
    const record = deps.servers.records().last(upstream)
    const before = known.get(upstream)
    if (!record) return
    const after = marksOf(record)
    known.set(upstream, after)
    if (!before || !isChanged(before, after, tellsItself(record))) return
    for (const listener of listeners.values()) {
      if (listener.upstream === undefined || listener.upstream === upstream) listener.tell()
    }
  }
  const start = (): void => {
    if (!isHearing) deps.servers.records().onChange((upstream) => listeners.size > 0 && look(upstream))
    isHearing = true
    deps.servers.names().forEach(look)
    timer ??= setInterval(() => deps.servers.names().forEach(look), POLL_INTERVAL_MS).unref()
  }
  const stop = (): void => {
    clearInterval(timer)
    timer = undefined
    known.clear()
  }

  const listen = async (call: Call, next: (call: Call) => Promise<Outcome>): Promise<Outcome> => {
    const { upstream } = call.target
    const listener = {}
    // Earlier changes go to the earlier listeners.
    start()
    const emit = (note: Notification): void => {
      if (note.method !== ACKNOWLEDGED) return call.emit(note)
      // Whoever asked for it hears of changed tools, whether the server tells of them or not.
      call.emit(acknowledged(note, ['tools']))
      // Nothing may come before the acknowledgement (2026-07-28 basic/utilities/subscriptions).
      listeners.set(listener, { upstream, tell: () => call.emit({ method: CHANGED }) })
    }
    try {
      return await next({ ...call, emit })
    } finally {
      listeners.delete(listener)
      if (listeners.size === 0) stop()
    }
  }

  return {
    declared: (next) => (call) => (isOn(call.target.upstream) ? next(call).then(declared) : next(call)),
    heard: (next) => (call) =>
      isOn(call.target.upstream) && listsWanted(call).includes('tools') ? listen(call, next) : next(call),
    close: stop,
  }
}

function declared(outcome: Outcome): Outcome {
  if (outcome.kind === 'input_required') return outcome
  return { kind: 'result', result: withListChanged(outcome.result, ['tools']) }
}

function tellsItself({ capabilities: { tools } }: ServerRecord): boolean {
  return isObject(tools) && tools.listChanged === true
}

/** A mark of each tool that is another one when anything of it is that the server does not tell of. */
function marksOf(record: ServerRecord): Map<string, string> {
  const { tools } = record
  const isTold = tellsItself(record)
  return new Map(
    tools.map(({ entry, facts, statistics: seen }) => {
      const shown = seen && [latencyOf({ words: {}, statistics: seen }), seen.types, seen.hasCursor]
      const text = JSON.stringify([isTold ? '' : entry.definition, facts, shown])
      return [entry.name, createHash('sha256').update(text).digest('base64url').slice(0, 22)]
    }),
  )
}

/** Whether anything changed; of a server that tells of its own list, only what the gateway knows of the same tools. */
function isChanged(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
  isTold: boolean,
): boolean {
  const isOther = [...after].some(([name, mark]) => before.has(name) && before.get(name) !== mark)
  if (isTold) return isOther
  return isOther || before.size !== after.size || [...after.keys()].some((name) => !before.has(name))
}
