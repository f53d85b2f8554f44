// 500 calls of clients that give up early and repeat what they got no answer to, and 1,000 equal calls that are all meant.
import { expect, onTestFinished, test } from 'vitest'
import { reportFigure } from '../../support/figure.ts'
import { chargingField, meantTwice, storm, stormClients } from '../../support/retry-storm.ts'

const CALLS = 500
const CALLERS = 10

const kinds = Object.keys(stormClients) as (keyof typeof stormClients)[]
const callers = Array.from({ length: CALLERS }, (_each, index) => `caller-${index}`)

test('a storm of repetitions, without keys or each with a new one, has each call run once', async ({
  task,
}) => {
  const field = await chargingField(callers)
  onTestFinished(() => field.close())
  const calls = CALLS / CALLERS
  const lost = await Promise.all(
    callers.map((caller, index) =>
      storm(field, { kind: kinds[index % kinds.length] ?? 'SDK 1.x', caller, calls }),
    ),
  )
  expect(field.effects.size).toBe(CALLS)
  expect([...field.effects].filter(([, times]) => times !== 1)).toEqual([])
  reportFigure(task, { calls: CALLS, 'lost answers': lost.reduce((sum, count) => sum + count, 0) })
})

test('equal calls that are meant twice all run, at the same time and one after the other', async () => {
  const field = await chargingField(callers)
  onTestFinished(() => field.close())
  await Promise.all([
    meantTwice(field, { kind: 'SDK 1.x', caller: 'caller-0', calls: CALLS, together: CALLS }),
    meantTwice(field, { kind: 'SDK 2.x', caller: 'caller-1', calls: CALLS, together: 1 }),
  ])
  expect(Object.fromEntries(field.effects)).toEqual({ 'caller-0': CALLS, 'caller-1': CALLS })
})
