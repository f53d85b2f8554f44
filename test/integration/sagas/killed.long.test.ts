import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { additionsOf } from '../../support/effects.ts'
import { reportFigure } from '../../support/figure.ts'
import { runSaga, type SagaEnding, statusOf } from '../../support/saga-client.ts'
import { type SagaField, startSagaField } from '../../support/saga-field.ts'
import { planSagas, type SagaPlan } from '../../support/saga-plan.ts'
import { faultsOfSaga } from '../../support/saga-verdict.ts'
import { type Seeded, seeded } from '../../support/seeded.ts'
import type { Json } from '../../support/server/json.ts'

/** SAGA_SEED reproduces the plans and the kills. */
const SEED = Number(process.env['SAGA_SEED'] ?? 20_262)
const SAGAS = 300
const AT_ONCE = 24

test(
  'transactions over three servers end as ordered, while gateways and servers are killed',
  { timeout: 300_000 },
  async ({ task }) => {
    const field = await startSagaField(2)
    try {
      const random = seeded(SEED)
      const plans = planSagas(SAGAS, field.folder, random)
      const { done: endings, kills } = await whileKilling(field, seeded(SEED + 1), () => runAll(plans, field))
      expect(endings).toHaveLength(SAGAS)
      const statuses = await Promise.all(plans.map((plan) => ended(plan, field)))
      await field.settled()
      const world = field.world()
      const faults = endings.flatMap((ending) => {
        return faultsOfSaga(ending, statuses[plans.indexOf(ending.plan)] ?? {}, world)
      })
      expect(faults, `SAGA_SEED=${SEED}`).toEqual([])
      const twice = [...additionsOf(field.effectsLog)].filter(([, count]) => count > 1)
      expect(twice, `SAGA_SEED=${SEED}`).toEqual([])
      const counts = Map.groupBy(statuses, ({ status }) => status)
      for (const status of ['committed', 'rolled_back', 'partially_rolled_back'])
        expect(counts.get(status)?.length).toBeGreaterThan(SAGAS / 30)
      reportFigure(task, { transactions: endings.length, kills })
    } finally {
      await field.close()
    }
  },
)

async function runAll(plans: readonly SagaPlan[], field: SagaField): Promise<readonly SagaEnding[]> {
  const left = plans.map((plan, index) => ({ plan, random: seeded(SEED + 7919 * (index + 2)) }))
  const endings: SagaEnding[] = []
  const work = async (): Promise<void> => {
    for (let next = left.shift(); next; next = left.shift()) {
      endings.push(await runSaga(next.plan, field.gateways, next.random))
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return endings
}

/** Kills gateways and servers until the work is done; all of them are up afterwards. */
async function whileKilling<Done>(
  field: SagaField,
  random: Seeded,
  work: () => Promise<Done>,
): Promise<{ readonly done: Done; readonly kills: number }> {
  let isDone = false
  let kills = 0
  const killing = (async (): Promise<void> => {
    while (!isDone) {
      await pause(200 + random.next() * 1200)
      if (random.chance(0.4)) {
        kills++
        await field.killServer(random.pick(['files', 'graph', 'effects']))
        continue
      }
      const [first, ...others] = field.gateways
      const killed = random.chance(0.2) ? [first, ...others] : [random.pick(field.gateways)]
      kills += killed.length
      await Promise.all(killed.map((each) => each.kill()))
      await Promise.all(killed.map((each) => each.start()))
    }
  })()
  const done = await work().finally(() => (isDone = true))
  await killing
  return { done, kills }
}

/** The state of a transaction once it is over. */
async function ended(plan: SagaPlan, { gateways }: SagaField): Promise<Json> {
  const random = seeded(SEED)
  return until(
    async () => {
      const status = await statusOf(plan, gateways, random)
      const isOver = status['status'] !== 'active' && status['status'] !== 'rolling_back'
      // All servers are up by then, so retried compensations succeed.
      return isOver && status['next_retry_at'] === undefined && status
    },
    `the end of ${plan.id}`,
    180_000,
  )
}
