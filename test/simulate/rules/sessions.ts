/** What holds of the sessions of older clients in a fleet, whose requests go to random gateways. */
import { hash } from 'node:crypto'
import type { Entry } from '../history.ts'
import type { CreateRule } from './rule.ts'

/** How long the heartbeat of a gateway is valid, and how long it may take to notice that it is not, in milliseconds. */
const LEASE_MS = 10_000
const MARGIN_MS = 6000
/** How a process ends. */
const ENDS = new Set(['crashed', 'stopped'])
/** Where messages get lost, a client that has so many failures in a row had no bad luck. */
const MIN_FAILURES = 4

/**
 * A session is there until its client ends it: no gateway says that it is not because another one has it, also not one that began
 * while the store was away. Until the store has it, it ends with its process, or while that stands still.
 */
export const sessionsStay: CreateRule = () => {
  const ended = new Set<string>()
  const recorded = new Set<string>()
  const opened = new Map<string, number>()
  /** When a process ended last, and until when one stands still. */
  let endedAt = -Infinity
  let stoppedUntil = -Infinity
  return {
    name: 'sessions-stay',
    observe: (entry) => {
      if (entry.kind === 'fault' && ENDS.has(entry.what)) endedAt = entry.at
      if (entry.kind === 'fault' && entry.what === 'stands still')
        stoppedUntil = Math.max(stoppedUntil, entry.until ?? 0)
      if (entry.kind === 'owned') recorded.add(entry.record)
      if (entry.kind === 'session' && entry.did === 'opened') opened.set(entry.session, entry.at)
      if (entry.kind === 'session' && entry.did === 'ended') ended.add(entry.session)
      if (entry.kind !== 'exchange' || ended.has(entry.session)) return undefined
      if (entry.status !== 404 && entry.code !== 'SESSION_NOT_FOUND') return undefined
      // Others cannot tell a process that stands still from one that has ended.
      const isLost = entry.began < stoppedUntil + MARGIN_MS || (opened.get(entry.session) ?? 0) <= endedAt
      return isLost && !recorded.has(recordOf(entry.session))
        ? undefined
        : `the session ${entry.session} is not found, and its client has not ended it`
    },
  }
}

/** A session is usable again within a lease once nothing fails any more, at whichever gateway a request arrives. */
export const sessionsReturn: CreateRule = ({ loss }) => {
  const least = loss === 0 ? 1 : MIN_FAILURES
  /** How often each session that does not work failed in a row. */
  const failing = new Map<string, { failures: number }>()
  let quietSince = 0
  return {
    name: 'sessions-return',
    observe: (entry) => {
      if (entry.kind === 'fault' && entry.what !== 'starts')
        quietSince = Math.max(quietSince, entry.until ?? entry.at)
      if (entry.kind !== 'exchange') return undefined
      const { session, began, status, at } = entry
      if (status !== undefined && status < 500) {
        failing.delete(session)
        return undefined
      }
      const found = failing.get(session) ?? { failures: 0 }
      failing.set(session, found)
      // One that began before says nothing about the time after.
      if (began < quietSince + LEASE_MS + MARGIN_MS) return undefined
      found.failures++
      return found.failures >= least
        ? `the session ${session} is not usable ${at - quietSince} ms after the last fault`
        : undefined
    },
  }
}

interface Tenure {
  readonly by: number
  readonly step: number
}

/** A call in a session runs in the process that owns the session, and in no other one. */
export const oneOwner: CreateRule = (_rates, { missedAt }) => {
  /** The session and the attempts of each call. */
  const calls = new Map<string, { readonly session: string; readonly attempts: number[] }>()
  const owners = new Map<string, Tenure[]>()
  const handled = new Map<number, (Tenure & { readonly at: number })[]>()
  /** Those that any gateway may finish which another one left: with a key, or of tools that may run again. */
  const shared = new Set<string>()
  const append = <Key, Item>(map: Map<Key, Item[]>, key: Key, item: Item): void => {
    map.set(key, [...(map.get(key) ?? []), item])
  }
  return {
    name: 'one-owner',
    observe: (entry) => {
      const { step, at } = entry
      if (entry.kind === 'invoke') {
        const { order, key, isIdempotent } = entry.operation
        if (key !== undefined || isIdempotent) shared.add(order)
      }
      if (entry.kind === 'within') {
        const found = calls.get(entry.order) ?? { session: entry.session, attempts: [] }
        found.attempts.push(entry.attempt)
        calls.set(entry.order, found)
      }
      if (entry.kind === 'handled') append(handled, entry.attempt, { by: entry.by, step, at })
      if (entry.kind === 'owned') append(owners, entry.record, { by: entry.by, step })
      if (entry.kind !== 'effect') return undefined
      const { order, by } = entry
      const call = calls.get(order)
      if (!call || shared.has(order)) return undefined
      const began = call.attempts.flatMap((each) => handled.get(each) ?? []).find((each) => each.by === by)
      if (!began) return `order ${order} ran in a process that did not get its call`
      const tenures = owners.get(recordOf(call.session)) ?? []
      const before = tenures.findLast((each) => each.step <= began.step)
      const since = tenures.filter((each) => each.step > began.step)
      const isOwner = [...(before ? [before] : []), ...since].some((each) => each.by === by)
      // While the store does not answer, sessions stay where they are.
      const isCutOff = (missedAt(by) ?? -Infinity) >= began.at - LEASE_MS
      return tenures.length === 0 || isOwner || isCutOff
        ? undefined
        : `order ${order} ran in the process ${by}, which did not own the session ${call.session}`
    },
  }
}

/** The part of the key of a session's record that is of the session. */
function recordOf(session: string): string {
  return hash('sha256', session).slice(0, 32)
}

/** What a fleet gives out is given out once: sessions, tasks, and the ids of requests within a session. */
export const idsUnique: CreateRule = () => {
  const given = new Set<string>()
  const nameOf = (entry: Entry): string | undefined => {
    if (entry.kind === 'session' && entry.did === 'opened') return `session ${entry.session}`
    if (entry.kind === 'asked') return `request ${entry.id} in the session ${entry.session}`
    if (entry.kind === 'task' && entry.did === 'accepted') return `task ${entry.task}`
    return undefined
  }
  return {
    name: 'ids-unique',
    observe: (entry) => {
      const name = nameOf(entry)
      if (name === undefined) return undefined
      if (given.has(name)) return `${name} is there twice`
      given.add(name)
      return undefined
    },
  }
}

/** What a person accepted runs once, however often, and at whichever gateways, the answer arrives. */
export const acceptedOnce: CreateRule = () => {
  const accepted = new Map<string, Set<string>>()
  const effects = new Map<string, number>()
  return {
    name: 'accepted-once',
    observe: (entry) => {
      if (entry.kind === 'accepted') {
        const questions = accepted.get(entry.order) ?? new Set()
        accepted.set(entry.order, questions.add(entry.question))
      }
      if (entry.kind !== 'effect' || entry.tool !== 'close_account') return undefined
      if (entry.lie === 'answered without doing') return undefined
      const count = (effects.get(entry.order) ?? 0) + 1
      effects.set(entry.order, count)
      const times = accepted.get(entry.order)?.size ?? 0
      return count > times
        ? `order ${entry.order} was accepted ${times} times and done ${count} times`
        : undefined
    },
  }
}

/** A task that a client was told of can be found, and ends. */
export const tasksEnd: CreateRule = () => {
  const open = new Set<string>()
  return {
    name: 'tasks-end',
    observe: (entry) => {
      if (entry.kind !== 'task') return undefined
      if (entry.did === 'accepted') open.add(entry.task)
      if (entry.did === 'ended') open.delete(entry.task)
      return entry.did === 'missing' ? `the task ${entry.task} is not found` : undefined
    },
    finish: () => {
      const [task] = open
      return task === undefined ? undefined : `the task ${task} does not end`
    },
  }
}
