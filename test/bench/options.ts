import { parseArgs } from 'node:util'

/** How a run of the benchmark was asked for. */
export interface Options {
  readonly quick: boolean
  readonly standIn: boolean
  readonly fail: boolean
  readonly json?: string
  readonly only?: readonly string[]
  /** Commits to measure beside the working copy. */
  readonly compare: readonly string[]
  readonly pin: boolean
  readonly launches: number
  readonly rounds: number
  readonly seconds: number
}

/** What `--help` prints. */
export const usage = `node test/bench/run.ts [options]
  --quick        64 calls at once and replies of 1 KB only, about two minutes
  --launches N   how often all targets are started, since equal processes differ by some percent (default 5, quick 1)
  --rounds N     how often every target gets its turn in each launch (default 5)
  --seconds S    length of one turn (default 0.5, quick 0.25)
  --only A,B     only these targets, and what they are compared with, for example none,default
  --compare C    also build the gateway of this commit or tag, and measure it in the same rounds; may be repeated
  --no-pin       do not give what is measured a processor core of its own
  --stand-in     the baselines themselves in place of the gateway: ratios must come out near 1
  --json FILE    write everything as JSON: Results in test/bench/results.ts
  --no-fail      exit 0 even if a budget is missed or could not be measured
`

/** Reads the command line; undefined if only the usage was asked for. */
export function readOptions(args: readonly string[]): Options | undefined {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: 'boolean', default: false },
      'stand-in': { type: 'boolean', default: false },
      'no-fail': { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
      json: { type: 'string' },
      only: { type: 'string' },
      compare: { type: 'string', multiple: true, default: [] },
      'no-pin': { type: 'boolean', default: false },
      launches: { type: 'string' },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
    },
  })
  if (values.help) return undefined
  return {
    quick: values.quick,
    standIn: values['stand-in'],
    fail: !values['no-fail'],
    compare: values.compare,
    pin: !values['no-pin'],
    launches: positive('launches', values.launches, values.quick ? 1 : 5),
    rounds: positive('rounds', values.rounds, 5),
    seconds: positive('seconds', values.seconds, values.quick ? 0.25 : 0.5),
    ...(values.json === undefined ? {} : { json: values.json }),
    ...(values.only === undefined ? {} : { only: values.only.split(',') }),
  }
}

function positive(name: string, text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise
  const value = Number(text)
  if (!(value > 0)) throw new TypeError(`--${name} must be a positive number, not ${text}`)
  return value
}
