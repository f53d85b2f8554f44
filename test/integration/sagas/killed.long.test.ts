import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { additionsOf } from '../../support/effects.ts'
import { reportFigure } from '../../support/figure.ts'
import { runSaga, type SagaEnding, statusOf } from '../../support/saga-client.ts'
import { type SagaField, startSagaField } from '../../support/saga-field.ts'
import { planSagas, type SagaPlan } from '../../support/saga-plan.ts'
import { faultsOfSaga } from '../../support/saga-verdict.ts'
import { type Seeded, seeded } from '../../simulate/random.ts'
import type { Json } from '../../support/server/json.ts'
import { repetitions, seedOf } from '../../support/soak.ts'

/** SAGA_SEED reproduces the plans and the kills. */
const SEED = seedOf('SAGA_SEED', 20_262)
const SAGAS = repetitions(90, 300)
/** How many transactions end between two kills, at most. */
const MAX_ENDINGS = 30
const AT_ONCE = 24
/** How long transactions may take to end, in milliseconds. */
const LONGEST_MS = 180_000

test('transactions over three servers end as ordered, while gateways and servers are killed', async ({
  task,
}) => {
  const field = await startSagaField(2)
  try {
    const random = seeded(SEED)
    const plans = planSagas(SAGAS, field.folder, random)
    const endings: SagaEnding[] = []
    const kills = await whileKilling(field, endings, () => runAll(plans, field, endings))
    expect(endings).toHaveLength(SAGAS)
    expect(kills).toBeGreaterThan(0)
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
})

async function runAll(plans: readonly SagaPlan[], field: SagaField, endings: SagaEnding[]): Promise<void> {
  const left = plans.map((plan, index) => ({ plan, random: seeded(SEED + 7919 * (index + 2)) }))
  const work = async (): Promise<void> => {
    for (let next = left.shift(); next; next = left.shift()) {
      endings.push(await runSaga(next.plan, field.gateways, next.random))
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
}

/** Kills gateways and servers while the work goes on; all of them are up afterwards. Returns how often. */
async function whileKilling(
  field: SagaField,
  endings: readonly SagaEnding[],
  work: () => Promise<void>,
): Promise<number> {
  const random = seeded(SEED + 1)
  let kills = 0
  let next = 1 + random.below(MAX_ENDINGS)
  const killing = (async (): Promise<void> => {
    while (next < SAGAS) {
      await until(() => endings.length >= next, 'transactions to end', LONGEST_MS)
      // At any moment of those that are under way.
      await pause(random.next() * 200)
      kills += await killSome(field, random)
      next = endings.length + 1 + random.below(MAX_ENDINGS)
    }
  })()
  await Promise.all([work(), killing])
  return kills
}

/** Kills a server, a gateway, or all gateways. Resolves once they are there again, with how many were killed. */
async function killSome(field: SagaField, random: Seeded): Promise<number> {
  if (random.chance(0.4)) {
    await field.killServer(random.pick(['files', 'graph', 'effects']))
    return 1
  }
  const [first, ...others] = field.gateways
  const killed = random.chance(0.2) ? [first, ...others] : [random.pick(field.gateways)]
  await Promise.all(killed.map((each) => each.kill()))
  await Promise.all(killed.map((each) => each.start()))
  return killed.length
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
    LONGEST_MS,
  )
}
