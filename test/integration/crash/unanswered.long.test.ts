// A server that runs its calls and never responds. Its keyed calls have one outcome, whatever their clients do:
// `max_timeout` after the call was made it is settled by a read, or stays in doubt, and it is never repeated.
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { type CrashField, startField } from '../../support/crash-field.ts'
import { additionsOf, effectsOf } from '../../support/effects.ts'
import { reportFigure } from '../../support/figure.ts'
import { type Attempt, attemptCall, type KeyedCall } from '../../support/keyed-client.ts'
import { numberOf } from '../../support/server/json.ts'

const limits = { timeout: '1s', max_timeout: '3s' }
const verify = 'list_effects(key=$.args.key) -> $.result.effects[0]'
const tools = { add_effect: { verify }, add_blind_effect: {} }
/** How long the outcome may take to be reported on a slow machine, in milliseconds. */
const LONGEST = 25_000

/** How clients repeat a call: how many concurrently, how long they wait for a response and pause after it. */
const patterns = [
  { pattern: 'it is retried at once', clients: 1, patience: 15_000, rest: 0 },
  { pattern: 'it is retried by several clients at once', clients: 3, patience: 15_000, rest: 100 },
  { pattern: 'it is retried by a client that gives up early', clients: 1, patience: 600, rest: 0 },
  { pattern: 'it is retried after a long pause', clients: 1, patience: 15_000, rest: 7000 },
] as const

// Keys are numbers that differ in the last digit: a double cannot hold them.
const rows = patterns.flatMap((row, index) => [
  { ...row, tool: 'add_effect', title: 'settled by a read', key: `72565356393345843${2 * index}` },
  { ...row, tool: 'add_blind_effect', title: 'in doubt', key: `72565356393345843${2 * index + 1}` },
])

describe.each(['http', 'stdio'] as const)('a call to which a server over %s never responds', (upstream) => {
  let field: CrashField
  beforeAll(async () => {
    field = await startField({ upstream, gateways: 1, tools, limits })
  })
  afterAll(() => field.close())

  test.concurrent.for(rows)('is $title when $pattern', async (row, { expect, task }) => {
    const { tool, clients, key } = row
    const call = { tool, arguments: { key: numberOf(key), value: `lost ${key}` }, key }
    const ends = await Promise.all(Array.from({ length: clients }, () => untilEnd(field, call, row)))
    const again = await attemptCall(field.gateways[0].url, call, AbortSignal.timeout(15_000))
    const effect = effectsOf(field.log).find((each) => each.key === key)
    for (const end of [...ends, again]) {
      if (tool === 'add_blind_effect') expect(end).toEqual({ kind: 'doubt' })
      else expect(end).toMatchObject({ kind: 'answered', answer: { structured: { id: effect?.id } } })
    }
    expect(additionsOf(field.log).get(key)).toBe(1)
    reportFigure(task, { calls: 1, clients: ends.length })
  })
})

/** Repeats a call until its outcome is reported. @throws if it is not reported in time */
async function untilEnd(
  field: CrashField,
  call: KeyedCall,
  { patience, rest }: (typeof patterns)[number],
): Promise<Attempt> {
  const deadline = Date.now() + LONGEST
  for (;;) {
    const attempt = await attemptCall(field.gateways[0].url, call, AbortSignal.timeout(patience))
    if (attempt.kind !== 'again') return attempt
    if (Date.now() > deadline) throw new Error(`it has no end: ${attempt.why}`)
    await pause(rest)
  }
}
