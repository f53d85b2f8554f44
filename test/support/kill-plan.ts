import { type Seeded } from '../simulate/random.ts'
import { repetitions } from './soak.ts'

/**
 * The writes of an operation: it is created, becomes a task, asks for input, is answered, goes on, keeps the state of its
 * server's task, is cancelled, ends, is taken up by another process; and the writes of idempotency keys.
 */
const operationPoints = [
  'created',
  'task',
  'asked',
  'answered',
  'resumed',
  'state_kept',
  'cancelled',
  'ended',
  'taken_up',
  'keyed',
] as const

/**
 * The writes of events: one is appended to the log, the head of the log follows, clients begin or go on to want events,
 * and what was delivered to a webhook is settled.
 */
export const eventPoints = ['appended', 'head', 'wanted', 'settled'] as const

/**
 * What happens to kept data: it is written, in chunks where it is not a file, gets its record, is opened, and is deleted
 * by a sweep.
 */
export const referencePoints = ['blob', 'chunk', 'recorded', 'blob_opened', 'blob_deleted'] as const

export type WritePoint = (typeof operationPoints | typeof eventPoints | typeof referencePoints)[number]

/**
 * When the process ends: before a write, while it is on its way, some milliseconds after it began, once it is done, or
 * once its answer is out.
 */
const moments = ['before', 'during', 'soon', 'after', 'later'] as const

/** Where a process is killed: at the write with this number of those that are the same point. */
export interface KillPoint {
  readonly point: WritePoint
  readonly moment: (typeof moments)[number]
  readonly count: number
}

/** The highest number of a write at which a process is killed, where not the second one. */
const most: Partial<Readonly<Record<WritePoint, number>>> = {
  appended: repetitions(40, 150),
  head: repetitions(40, 150),
  wanted: 1,
  settled: repetitions(8, 20),
  blob: 4,
  chunk: 8,
  recorded: 4,
  blob_opened: 5,
}

/** Every point at some moments, in an order that a seed decides. What needs another process to die comes early. */
export function planKills(
  random: Seeded,
  moment: (index: number) => readonly KillPoint['moment'][],
  points: readonly WritePoint[] = operationPoints,
): KillPoint[] {
  const kills = points.flatMap((point, index) => {
    const numbers = most[point] ?? 2
    return moment(index).map((each): KillPoint => ({ point, moment: each, count: 1 + random.below(numbers) }))
  })
  return kills
    .map((kill) => ({ kill, at: random.next() * (kill.point === 'taken_up' ? 0.5 : 1) }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ kill }) => kill)
}
