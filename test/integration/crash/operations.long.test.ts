import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { reportFigure } from '../../support/figure.ts'
import { type KillPoint, planKills } from '../../support/kill-plan.ts'
import {
  type Clients,
  type HistoryEvent,
  makeAgain,
  type OperationEnding,
  type OperationPlan,
  readAgain,
  runOperation,
  transactionOf,
} from '../../support/operation-client.ts'
import { type OperationField, startOperationField } from '../../support/operation-field.ts'
import { changesOf, faultsOfOperations, planOperations } from '../../support/operation-verdict.ts'
import { skipWithout } from '../../support/needs.ts'
import { hasRedis, needsRedis, type RedisServer, startRedis } from '../../support/redis-server.ts'
import { seeded } from '../../simulate/random.ts'
import { isSoak, repetitions, seedOf } from '../../support/soak.ts'

/** OPERATION_SEED reproduces the operations, and the writes at which processes are killed. */
const SEED = seedOf('OPERATION_SEED', 20_263)
/** How many operations complete at least for each store, of how many, and how many are under way at a time. */
const COMPLETED = repetitions(66, 132)
const OPERATIONS = repetitions(132, 264)
const AT_ONCE = 48
/** How many operations are added at a time while planned kills have not happened, and for how long, in milliseconds. */
const MORE = 44
const ADDING_MS = 180_000

/** With a folder a write is done or not; Redis may do what it is asked by a process that ends. */
const every: Readonly<Record<'LMDB' | 'Redis', (index: number) => readonly KillPoint['moment'][]>> = {
  LMDB: () => ['before', 'after'],
  Redis: (index) => (index % 2 === 0 ? ['during', 'later'] : ['during', 'after']),
}

/** One moment for each write in the ordinary run, and each moment for some of them. */
const momentsOf = (store: 'LMDB' | 'Redis') => (index: number) => {
  const own = every[store](index)
  return isSoak ? own : own.filter((_moment, at) => at === Math.floor(index / 2) % own.length)
}

describe('operations while gateways are killed at each of their writes', () => {
  let redis: RedisServer | undefined
  beforeAll(async () => {
    redis = hasRedis() ? await startRedis() : undefined
  })
  afterAll(() => redis?.stop())

  // They wait for processes most of the time.
  test.concurrent.for(['LMDB', 'Redis'] as const)(
    'end once, truly and for good, in every way: store in %s',
    async (store, context) => {
      if (store === 'Redis') skipWithout(needsRedis, context)
      const random = seeded(SEED + (store === 'LMDB' ? 0 : 1))
      const field = await startOperationField(store === 'Redis' ? redis?.url : undefined)
      const history: HistoryEvent[] = []
      const clients: Clients = { gateways: field.gateways, history }
      try {
        const planned = planKills(random, momentsOf(store))
        const kills = field.killing(planned)
        const endings = await runAll(clients, kills.isOver)
        const unmet = await kills.stop()
        const left = (): Promise<boolean> => field.unended().then((found) => found.length === 0)
        await until(left, 'the operations of dead gateways to be taken up')
        const faults = [...(await judge(endings, field, clients)), ...(await changes(endings, clients))]
        await field.settled()
        faults.push(...(await judge(endings, field, clients)))
        expect(named(faults, history), `OPERATION_SEED=${SEED}`).toEqual([])
        expect(unmet, `points that were not met, OPERATION_SEED=${SEED}`).toEqual([])
        expectEveryEnd(endings)
        reportFigure(context.task, { operations: endings.length, 'kills at writes': planned.length })
      } finally {
        await field.close()
      }
    },
  )
})

/** They ended in every way: with results, in doubt, cancelled, and with a response that was lost. */
function expectEveryEnd(all: readonly OperationEnding[]): void {
  const count = (isIt: (ending: OperationEnding) => boolean): number => all.filter(isIt).length
  expect(all.length).toBeGreaterThanOrEqual(OPERATIONS)
  // How many of them complete depends on how long the kills take: those under way at a kill are in doubt or lost.
  expect(count(({ outcome }) => outcome.kind === 'completed')).toBeGreaterThanOrEqual(COMPLETED)
  expect(count(({ outcome }) => outcome.code === 'OUTCOME_UNKNOWN')).toBeGreaterThan(0)
  expect(count(({ outcome }) => outcome.kind === 'cancelled')).toBeGreaterThan(0)
  expect(count(({ outcome }) => outcome.kind === 'lost')).toBeGreaterThan(0)
}

/** Runs operations, many at a time, until there were enough of them and every planned kill has happened. */
async function runAll(clients: Clients, isOver: () => boolean): Promise<readonly OperationEnding[]> {
  const endings: OperationEnding[] = []
  const plans: OperationPlan[] = []
  let batches = 0
  const until = Date.now() + ADDING_MS
  const next = (): OperationPlan | undefined => {
    const isWanted = batches === 0 || (!isOver() && Date.now() < until)
    if (plans.length === 0 && isWanted)
      plans.push(...planOperations(batches === 0 ? OPERATIONS : MORE, `${batches}`, seeded(SEED + batches++)))
    return plans.shift()
  }
  const work = async (): Promise<void> => {
    for (let plan = next(); plan; plan = next()) {
      endings.push(await runOperation(plan, clients, seeded(SEED + 7919 * endings.length)))
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return endings
}

async function judge(
  endings: readonly OperationEnding[],
  field: OperationField,
  clients: Clients,
): Promise<string[]> {
  const steps = endings.filter(({ plan }) => plan.transaction !== undefined)
  const statuses = await Promise.all(
    steps.map(async ({ plan }): Promise<[string, string]> => {
      return [String(plan.transaction), await transactionOf(plan, clients, seeded(SEED))]
    }),
  )
  const facts = { effects: field.effects(), log: field.log, transactions: new Map(statuses) }
  return [...faultsOfOperations(endings, facts)]
}

/** What is said of operations now that was not said before. */
async function changes(endings: readonly OperationEnding[], clients: Clients): Promise<readonly string[]> {
  const tasks = endings.flatMap(({ plan, taskId }) => (taskId === undefined ? [] : [{ plan, taskId }]))
  const keyed = endings.filter(({ plan }) => plan.key !== undefined && plan.transaction === undefined)
  const again = [
    ...tasks.map(({ plan, taskId }) => readAgain(plan, taskId, clients, seeded(SEED))),
    ...keyed.map(({ plan }) => makeAgain(plan, clients, seeded(SEED))),
  ]
  return changesOf(endings, await Promise.all(again))
}

/** Faults, each with what its client did and heard. */
function named(faults: readonly string[], history: readonly HistoryEvent[]): readonly string[] {
  const byName = Map.groupBy(history, ({ name }) => name)
  return [...new Set(faults)].map((fault) => {
    const name = fault.slice(0, fault.search(/[ :]/))
    const events = byName.get(name) ?? []
    const first = events[0]?.at ?? 0
    return `${fault}\n${events.map(({ type, at, what }) => `  ${at - first} ms ${type} ${what}`).join('\n')}`
  })
}
