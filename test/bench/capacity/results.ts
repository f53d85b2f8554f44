// What a run of `npm run bench:capacity` found: the file of which docs/capacity.md is made.
import type { Machine } from '../gateways/results.ts'
import type { KindName } from './kinds.ts'
import type { Usage } from './meter.ts'

/** Sizes are in bytes unless they say otherwise, times in microseconds. */
export interface Capacity {
  /** When it was measured, in ISO 8601. */
  readonly takenAt: string
  readonly machine: Machine
  /** The machine did other work at the same time. */
  readonly wasBusy?: true
  /** The version of Redis. */
  readonly redis: string
  /** What gateways without a call do, in a second, all together. */
  readonly idle: readonly IdleRow[]
  readonly calls: readonly CallRow[]
  readonly memory: Memory
}

export interface IdleRow extends Usage {
  readonly gateways: number
  /** How many transactions that have ended are in the store; none without. */
  readonly transactions?: number
}

/** What one call costs. */
export interface CallRow extends Usage {
  readonly kind: KindName
  /** How many keys Redis had, where that is what the row is about. */
  readonly keys?: number
  /** By how much the store grows if it is a folder; absent where that was not measured. */
  readonly folder?: number
}

/** Memory of a gateway. */
export interface Memory {
  /** The resident set of a gateway without a call, in MB of 1,000,000 bytes. */
  readonly idleMegabytes: number
  /** On the heap: an idle session, the stream of a session that is open, and a stream of events. */
  readonly session: number
  readonly stream: number
  readonly subscription: number
}

/** The results as text. */
export function capacityText({ idle, calls, memory }: Capacity): string {
  const line = (name: string, usage: Usage): string =>
    [
      name.padEnd(26),
      `${usage.roundTrips.toFixed(1)} round trips`.padStart(18),
      `${usage.commands.toFixed(1)} commands`.padStart(16),
      `${usage.bytesIn.toFixed(0)} B in`.padStart(12),
      `${usage.bytesOut.toFixed(0)} B out`.padStart(12),
      `Redis ${usage.redisCpu.toFixed(1)} µs`.padStart(16),
      `gateways ${usage.gatewayCpu.toFixed(0)} µs`.padStart(20),
      `keeps ${usage.memory.toFixed(0)} B`.padStart(14),
    ].join(' ')
  return [
    ...idle.map((row) => line(`${row.gateways} idle, ${row.transactions ?? 0} ended`, row)),
    ...calls.map((row) => {
      const folder = row.folder === undefined ? '' : `, in a folder ${row.folder.toFixed(0)} B`
      return line(row.keys === undefined ? row.kind : `${row.kind}, ${row.keys} keys`, row) + folder
    }),
    `idle ${memory.idleMegabytes.toFixed(0)} MB; on the heap: session ${memory.session.toFixed(0)} B, its stream ` +
      `${memory.stream.toFixed(0)} B, a stream of events ${memory.subscription.toFixed(0)} B`,
    '',
  ].join('\n')
}
