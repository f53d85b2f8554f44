/** Answers a request for events with those that there are. */
import type { Call } from '../../../core/call.ts'
import type { GatewayError } from '../../../core/error.ts'
import { invalid } from '../errors.ts'
import type { Follower, Loss, TakenEvent } from '../follower.ts'

/** How many events a poll returns by default, and at most. */
const DEFAULT_POLL_EVENTS = 100
const MAX_POLL_EVENTS = 500
/** How long a client should wait before it polls again, in milliseconds. */
export const POLL_INTERVAL_MS = 5000

interface Polled {
  readonly events: readonly TakenEvent[]
  /** What was lost before the first of them. */
  readonly loss: Loss
  readonly hasMore: boolean
  readonly ended?: GatewayError
}

/** How many events are requested, by the name of the member that says so. @throws INVALID_INPUT */
export function pollLimit({ params }: Call, member: string): number {
  const value = params.fields[member] ?? DEFAULT_POLL_EVENTS
  if (!isCount(value)) throw invalid(member, 'must be a whole number from 0')
  return Math.min(Math.max(value, 1), MAX_POLL_EVENTS)
}

/** At most `limit` events. `isBounded`: the oldest are dropped if too many wait. @throws SERVER_UNAVAILABLE */
export async function poll(follower: Follower, limit: number, isBounded: boolean): Promise<Polled> {
  const { hasMore, ended } = await follower.read(isBounded ? undefined : limit)
  const { loss } = follower
  const events: TakenEvent[] = []
  for (let taken = follower.take(); taken; taken = events.length < limit ? follower.take() : undefined)
    events.push(taken)
  return { events, loss, hasMore: hasMore || follower.size > 0, ...(ended && { ended }) }
}

/** Whether a value counts something: a whole number from 0. */
export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}
