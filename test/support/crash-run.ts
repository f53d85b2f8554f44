import { setTimeout as pause } from 'node:timers/promises'
import { until } from './condition.ts'
import type { CrashField } from './crash-field.ts'
import { additionsOf } from './effects.ts'
import { type Answer, attemptCall, type Attempt, type KeyedCall } from './keyed-client.ts'
import { type Seeded, seeded } from '../simulate/random.ts'
import { numberOf } from './server/json.ts'

/** What became of a key, as its client knows it. */
export interface Ending {
  readonly call: KeyedCall
  readonly attempts: number
  /** The first answer, where one came. */
  readonly answer?: Answer
  /** What is wrong with what came instead, where it is not the doubt that is told. */
  readonly wrong?: string
}

/** Where calls are made: at gateways, or at what is in front of them. */
export type Addresses = readonly [Address, ...Address[]]

interface Address {
  readonly url: string
}

interface RunOptions {
  readonly seed: number
  readonly keys: number
  /** How many keys are begun between two kills. */
  readonly batch: number
  readonly kills: 'gateways' | 'server'
  /** How the calls are made; they differ in their tools. */
  readonly tools: readonly [string, ...string[]]
}

/** How many keys are under way at a time, and how long one may take, in milliseconds. */
const AT_ONCE = 16
const LONGEST = 45_000

/** Makes calls with retries while a process is killed in each batch, once a seeded number of its effects are there. */
export async function runWithKills(field: CrashField, options: RunOptions): Promise<readonly Ending[]> {
  const { seed, keys, batch, tools } = options
  const random = seeded(seed)
  const calls = Array.from({ length: keys }, (_each, index): KeyedCall => {
    // 18 digits, of which the last ones differ: a double cannot hold them. Some are strings.
    const key = String(725_653_560_000_000_000n + BigInt(seed) * 1000n + BigInt(index))
    const given = index % 3 === 0 ? key : numberOf(key)
    return { tool: random.pick(tools), arguments: { key: given, value: `value of ${key}` }, key }
  })
  const endings: Ending[] = []
  const restarts: Promise<void>[] = []
  while (calls.length > 0) {
    const begun = calls.splice(0, batch)
    const effects = (): number => additionsOf(field.log).size
    const kill = effects() + 1 + random.below(begun.length / 2)
    const done = runBatch(begun, field, seed).then((ended) => endings.push(...ended))
    await until(() => effects() >= kill, 'calls to take effect', LONGEST)
    const restart = killOne(field, options.kills, random)
    restarts.push(restart)
    await Promise.all([done, restart])
  }
  await Promise.all(restarts)
  return endings
}

async function killOne(field: CrashField, kills: RunOptions['kills'], random: Seeded): Promise<void> {
  if (kills === 'server') return field.killServer()
  const gateway = random.pick(field.gateways)
  await gateway.kill()
  await gateway.start()
}

async function runBatch(calls: KeyedCall[], field: CrashField, seed: number): Promise<Ending[]> {
  const endings: Ending[] = []
  const work = async (): Promise<void> => {
    for (let call = calls.shift(); call; call = calls.shift()) {
      endings.push(await untilAnswered(call, field.gateways, seeded(seed + seedOf(call))))
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return endings
}

/** Each key has chances of its own: those of others depend on how quick they are. */
function seedOf({ key }: KeyedCall): number {
  return Number(key.slice(-3)) * 7919
}

/** Makes a call with the same key again and again, until there is an answer or the doubt is told. */
export async function untilAnswered(
  call: KeyedCall,
  gateways: Addresses,
  random: Seeded,
  longest = LONGEST,
): Promise<Ending> {
  const deadline = Date.now() + longest
  for (let attempts = 1; ; attempts++) {
    const attempt = await attemptOnce(call, gateways, random)
    if (attempt.kind === 'answered') return { call, attempts, answer: attempt.answer }
    if (attempt.kind === 'doubt') return { call, attempts }
    if (attempt.kind === 'wrong') return { call, attempts, wrong: attempt.why }
    if (Date.now() > deadline) return { call, attempts, wrong: `it never ended: ${attempt.why}` }
    await pause(attempt.wait ?? 10 + random.next() * 60)
  }
}

/** Some clients are impatient, and some make the call twice at once. */
async function attemptOnce(call: KeyedCall, gateways: Addresses, random: Seeded): Promise<Attempt> {
  const patience = random.chance(0.1) ? 1 + random.below(15) : 15_000
  const [one, other] = [random.pick(gateways), random.pick(gateways)]
  const isTwice = random.chance(0.1)
  const first = attemptCall(one.url, call, AbortSignal.timeout(patience))
  if (!isTwice) return first
  const second = attemptCall(other.url, call, AbortSignal.timeout(15_000))
  const both = await Promise.all([first, second])
  return differing(both) ?? both.find(({ kind }) => kind === 'answered') ?? both[0]
}

/** Two answers to one key must be one answer. */
function differing([one, other]: readonly [Attempt, Attempt]): Attempt | undefined {
  if (one.kind === 'wrong') return one
  if (other.kind === 'wrong') return other
  if (one.kind !== 'answered' || other.kind !== 'answered' || isSameAnswer(one.answer, other.answer))
    return undefined
  return { kind: 'wrong', why: `two answers: ${JSON.stringify([one.answer, other.answer])}` }
}

/** Whether two answers are the same, but for that one of them may be a replay. */
export function isSameAnswer(one: Answer, other: Answer): boolean {
  const said = ({ structured, text, startedAt }: Answer): string =>
    JSON.stringify([structured, text, startedAt])
  return said(one) === said(other)
}
