import { type Seeded } from './seeded.ts'

/**
 * The writes of an operation: it is created, becomes a task, asks for input, is answered, goes on, keeps the state of its
 * server's task, is cancelled, ends, is taken up by another process; and the writes of idempotency keys.
 */
const points = [
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
export type WritePoint = (typeof points)[number]

/** When the process ends: before a write, while it is on its way, once it is done, or once its answer is out. */
const moments = ['before', 'during', 'after', 'later'] as const

/** Where a process is killed: at the write with this number of those that are the same point. */
export interface KillPoint {
  readonly point: WritePoint
  readonly moment: (typeof moments)[number]
  readonly count: number
}

/** Every point at some moments, in an order that a seed decides. What needs another process to die comes early. */
export function planKills(
  random: Seeded,
  moment: (index: number) => readonly KillPoint['moment'][],
): KillPoint[] {
  const kills = points.flatMap((point, index) => {
    return moment(index).map((each): KillPoint => ({ point, moment: each, count: 1 + random.below(2) }))
  })
  return kills
    .map((kill) => ({ kill, at: random.next() * (kill.point === 'taken_up' ? 0.5 : 1) }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ kill }) => kill)
}
