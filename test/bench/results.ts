// What a run found, as `--json` writes it.
import type { Verdict } from './budgets.ts'
import type { Ceiling } from './ceiling.ts'
import type { Spread } from './statistics.ts'
import type { Row } from './summary.ts'

/**
 * The results of one run. Times are as their names say, memory is in MB of 1,000,000 bytes, `bytes` is the size of the reply
 * of each call. A `Spread` is a median between two quartiles; of a ratio, between the ends of its 95 % interval.
 */
export interface Results {
  /** Of this form. */
  readonly version: 1
  /** When it ended, in ISO 8601. */
  readonly takenAt: string
  readonly machine: Machine
  /** The working copy, which has no name, and each commit of `--compare`. */
  readonly builds: readonly { readonly name?: string; readonly commit: string }[]
  /** What the run was asked for: the words after `node test/bench/run.ts`. */
  readonly command: readonly string[]
  readonly launches: number
  readonly rounds: number
  /** How long a turn is, in seconds. */
  readonly seconds: number
  /** What was left out, and why. */
  readonly notes: readonly string[]
  /** What was measured, in the order of the table; each is compared with its `baseline`. */
  readonly targets: readonly {
    readonly name: string
    readonly title: string
    readonly baseline?: string
  }[]
  /** One for each target, build and shape of load. */
  readonly rows: readonly Row[]
  /** What the stores can commit, and the share of it that keyed calls reach. */
  readonly ceilings: readonly Ceiling[]
  /** Milliseconds until `/health` answers. */
  readonly startMs?: Spread
  readonly verdicts: readonly Verdict[]
}

/** What the run was made on. */
export interface Machine {
  readonly cpu: string
  readonly cores: number
  readonly kernel: string
  readonly node: string
  /** Whether what is measured has a core of its own. */
  readonly isPinned: boolean
}
