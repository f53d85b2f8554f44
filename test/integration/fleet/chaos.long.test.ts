// A fleet behind a load balancer that is not sticky, while its members are killed, stopped, added and restarted, its Redis is killed,
// hangs and is failed over, and one member is cut off from Redis. Calls of all kinds run once, and end as their clients are told.
import { expect, test, type TestContext } from 'vitest'
import { seeded } from '../../simulate/random.ts'
import {
  type ChaosField,
  type LosableStore,
  oneRedis,
  redisWithSentinels,
  startChaosField,
} from '../../support/chaos-field.ts'
import { type CallCounts, Chaos, Pace, planFaults } from '../../support/chaos-plan.ts'
import { ChaosWork, ENDING_MS, eventFilters } from '../../support/chaos-work.ts'
import { until } from '../../support/condition.ts'
import { isSameAnswer, untilAnswered } from '../../support/crash-run.ts'
import { faultsOf } from '../../support/crash-verdict.ts'
import { additionsOf, type Effect, effectsOf } from '../../support/effects.ts'
import type { Subscriber } from '../../support/event-client.ts'
import { faultsOfSubscriber, tallyOf } from '../../support/event-verdict.ts'
import { reportFigure } from '../../support/figure.ts'
import { faultsOfSession } from '../../support/fleet-session.ts'
import { needs, skipWithout } from '../../support/needs.ts'
import { NAMESPACES, type NetworkPlace, networkPlace } from '../../support/network.ts'
import { makeAgain, readAgain, transactionOf } from '../../support/operation-client.ts'
import { changesOf, faultsOfOperations } from '../../support/operation-verdict.ts'
import { REDIS } from '../../support/redis-server.ts'
import { statusOf } from '../../support/saga-client.ts'
import { before } from '../../support/saga-plan.ts'
import { faultsOfSaga } from '../../support/saga-verdict.ts'
import type { Json } from '../../support/server/json.ts'
import { isSoak, repetitions, seedOf, variantsOf } from '../../support/soak.ts'

/** CHAOS_SEED reproduces the calls, and what happens to gateways and their store. */
const SEED = seedOf('CHAOS_SEED', 42)
/** How many calls there are with each store, and how often each fault happens. Each fault meets its share of the calls. */
const CALLS = Number(process.env['CHAOS_CALLS'] ?? repetitions(320, 10_500))
const ROUNDS = Number(process.env['CHAOS_ROUNDS'] ?? repetitions(1, 12))

/** Where a fleet is. */
interface Ground {
  readonly store: LosableStore
  readonly place?: NetworkPlace
}

/** The last one where a gateway can be cut off, without the cut elsewhere; the soak also has the first one. */
const grounds = variantsOf(
  [
    ['one Redis, which is started again', async () => ({ store: await oneRedis() }), needs(REDIS)],
    ['sentinels', async () => ({ store: await redisWithSentinels() }), needs(REDIS)],
    ['sentinels, from which one gateway is cut off', cuttable, needs(REDIS, NAMESPACES)],
  ] as const satisfies readonly (readonly [string, () => Promise<Ground>, ReturnType<typeof needs>])[],
  ([name]) => name !== 'one Redis, which is started again',
).filter(([name]) => name !== 'sentinels' || needs(NAMESPACES).skip)

/** The part of each kind of all calls. */
const parts: CallCounts = { keyed: 0.28, operations: 0.28, steps: 0.16, publications: 0.1, sessions: 0.18 }

function callsOf(all: number): CallCounts {
  const part = (kind: keyof CallCounts): number => Math.ceil(parts[kind] * all)
  return {
    keyed: part('keyed'),
    operations: part('operations'),
    steps: part('steps'),
    publications: part('publications'),
    sessions: part('sessions'),
  }
}

async function cuttable(): Promise<Ground> {
  const place = networkPlace()
  return { store: await redisWithSentinels(place.cuttable), place }
}

// They wait for processes most of the time.
test.concurrent.for(grounds)(
  'a fleet with %s keeps its promises',
  async ([name, prepare, needed], context) => {
    if (!isSoak && process.env['CHAOS_ROUNDS'] === undefined)
      context.skip('it takes a minute and more: npm run test:soak, or set CHAOS_ROUNDS')
    skipWithout(needed, context)
    const { onTestFinished } = context
    const { store, place }: Ground = await prepare()
    onTestFinished(async () => {
      await store.stop()
      place?.remove()
    })
    const seed = SEED + name.length
    const field = await startChaosField({ store, place, seed })
    onTestFinished(() => field.close())
    const work = new ChaosWork(field, seed)
    onTestFinished(() => work.close())
    await work.begin()
    const random = seeded(seed)
    const plan = planFaults(random, ROUNDS, place !== undefined)
    const pace = new Pace(callsOf(CALLS), plan)
    const chaos = new Chaos({ pace, field, store, place })
    await Promise.all([chaos.run(plan, random), work.run(pace)]).finally(() => pace.end())
    const ended = performance.now()
    const faults = await verdict(field, work)
    process.stdout.write(`${name}: verdict after ${Math.round(performance.now() - ended)} ms\n`)
    report(context, work, chaos, field)
    expect(faults, `CHAOS_SEED=${SEED}\n${chaos.history.join('\n')}`).toEqual([])
  },
)

/** What is wrong, once all that was begun has ended; nothing where all is well. */
async function verdict(field: ChaosField, work: ChaosWork): Promise<readonly string[]> {
  await Promise.all(field.members.map((each) => until(() => isReady(each), 'the gateways', ENDING_MS)))
  await Promise.all(work.sessions.map((each) => until(() => each.call(), 'the sessions', ENDING_MS)))
  const left = async (): Promise<boolean> => (await field.unended()).length === 0
  await until(left, 'the operations of ended gateways to be taken up', ENDING_MS)
  const sagas = await sagaStatuses(work)
  await field.settled()
  // What is made again below may be done then.
  const operations = await faultsOfAll(work, field)
  const repeated = await repeat(work, field)
  await field.settled()
  const effects = effectsOf(field.log)
  return [
    ...twice(field),
    ...field.undocumented.map((answer) => `not documented: ${answer}`),
    ...faultsOf(work.keyed, effects),
    ...operations,
    ...faultsOfSagas(work, sagas, effects),
    ...faultsOfSessions(work, effects),
    ...repeated,
    ...(await faultsOfEvents(work)),
  ]
}

async function isReady({ origin }: { readonly origin: string }): Promise<boolean> {
  const response = await fetch(`${origin}/ready`)
  await response.body?.cancel()
  return response.ok
}

/** No key was done twice, whether it was undone or not. */
function twice({ log }: ChaosField): readonly string[] {
  return [...additionsOf(log)].flatMap(([key, count]) =>
    count > 1 ? [`${key} was done ${count} times`] : [],
  )
}

/** Makes keyed calls and reads tasks once more: what is wrong with what they are now, given what they were. */
async function repeat(work: ChaosWork, { log }: ChaosField): Promise<readonly string[]> {
  const random = seeded(SEED)
  const calls = work.keyed.filter(({ answer }) => !answer || random.chance(0.2))
  const again = await inTurn(calls, ({ call }) => untilAnswered(call, work.at('quick'), random, ENDING_MS))
  const additions = additionsOf(log)
  const faults = again.flatMap(({ call, answer, wrong }, index) => {
    if (wrong !== undefined) return [`${call.key} made again: ${wrong}`]
    const first = calls[index]?.answer
    // A read settles what was in doubt. Without one it stays in doubt, unless its gateway was only thought to have ended: then that
    // tells its response, or that it was not sent, so that it is made now.
    if (!first && !answer) return call.tool === 'add_effect' ? [`${call.key} is in doubt`] : []
    if (!first) return additions.get(call.key) === 1 ? [] : [`${call.key} is not done, and has an answer`]
    const isSame = answer?.wasReplay && isSameAnswer(first, answer)
    return isSame ? [] : [`${call.key}: ${JSON.stringify([first, answer])}`]
  })
  const clients = { gateways: work.at(''), history: work.history }
  const tasks = work.operations.filter(({ taskId }) => taskId !== undefined)
  const keyed = work.operations.filter(({ plan }) => plan.key !== undefined && plan.transaction === undefined)
  const read = await inTurn(tasks, ({ plan, taskId = '' }) => readAgain(plan, taskId, clients, random))
  const made = await inTurn(keyed, ({ plan }) => makeAgain(plan, clients, random))
  return [...faults, ...changesOf(work.operations, [...read, ...made])]
}

async function faultsOfAll(work: ChaosWork, field: ChaosField): Promise<readonly string[]> {
  const clients = { gateways: work.at(''), history: work.history }
  const steps = work.operations.filter(({ plan }) => plan.transaction !== undefined)
  const statuses = await inTurn(steps, async ({ plan }): Promise<[string, string]> => {
    return [String(plan.transaction), await transactionOf(plan, clients, seeded(SEED))]
  })
  const facts = { effects: effectsOf(field.log), log: field.log, transactions: new Map(statuses) }
  return faultsOfOperations(work.operations, { ...facts, wasStoreAway: true }).map((fault) => {
    const name = fault.slice(0, fault.search(/[ :]/))
    const events = work.history.filter((event) => event.name === name)
    return `${fault}\n${events.map(({ type, at, what }) => `  ${at} ${type} ${what}`).join('\n')}`
  })
}

/** How transactions are, once they have ended. */
function sagaStatuses(work: ChaosWork): Promise<readonly Json[]> {
  return inTurn(work.sagas, ({ plan }) =>
    until(
      async () => {
        const status = await statusOf(plan, work.at('quick'), seeded(SEED))
        const isGoingOn = status['status'] === 'active' || status['status'] === 'rolling_back'
        // What is left over is undone later and later; the ordinary run takes it as it is.
        return !isGoingOn && (!isSoak || status['next_retry_at'] === undefined) && status
      },
      `the end of ${plan.id}`,
      ENDING_MS,
    ),
  )
}

function faultsOfSagas(
  { sagas }: ChaosWork,
  statuses: readonly Json[],
  effects: readonly Effect[],
): readonly string[] {
  const none = new Set<string>()
  const keys = new Set(effects.map(({ key }) => key))
  const world = { file: before, entities: none, relations: none, effects: keys }
  return sagas.flatMap((ending, index) => {
    const status = statuses[index] ?? {}
    return faultsOfSaga(ending, status, world).map((fault) => `${fault} ${JSON.stringify(status)}`)
  })
}

function faultsOfSessions({ sessions }: ChaosWork, effects: readonly Effect[]): readonly string[] {
  const byKey = Map.groupBy(effects, ({ key }) => key)
  const ids = new Map([...byKey].map(([key, all]) => [key, all.map(({ id }) => id)]))
  return sessions.flatMap((each) => faultsOfSession(each, ids))
}

/** A subscriber was told that events are missing, or may be: they could not be kept while the store was away. */
const isGap = (fault: string): boolean => /truncated|"type":"gap"/.test(fault)

/** The faults that are left once nothing is missing any more without being said, or time is over. */
async function faultsOfEvents({ subscribers, published }: ChaosWork): Promise<readonly string[]> {
  const isComplete = (each: Subscriber): boolean =>
    each.faults.some(isGap) || tallyOf(each, published, requestedBy(each)).lost === 0
  await until(() => subscribers.every(isComplete), 'all events to arrive', ENDING_MS).catch(() => undefined)
  return subscribers.flatMap((each) => {
    const found = faultsOfSubscriber(each, published, requestedBy(each))
    return each.faults.some(isGap)
      ? found.filter((fault) => !isGap(fault) && !fault.includes('were lost'))
      : found
  })
}

function requestedBy({ filter }: Subscriber): (key: string) => boolean {
  return eventFilters.find(([given]) => given === filter.arguments)?.[1] ?? (() => false)
}

/** Does something for each, a few at a time; the results are in the order of the items. */
async function inTurn<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<readonly Result[]> {
  const left = [...items.entries()]
  const results: Result[] = []
  const next = async (): Promise<void> => {
    for (let entry = left.shift(); entry; entry = left.shift()) results[entry[0]] = await work(entry[1])
  }
  await Promise.all(Array.from({ length: 16 }, next))
  return results
}

function report({ task }: TestContext, work: ChaosWork, chaos: Chaos, field: ChaosField): void {
  const longest = Math.max(...work.sessions.map(({ longestMs }) => longestMs))
  const streams = work.sessions.reduce((sum, each) => sum + each.streams, 0)
  const listeners = work.operations.flatMap(({ listened }) => listened ?? [])
  const facts = {
    calls: work.counts,
    operations: countsOf(work.operations.map(({ plan }) => plan.kind)),
    tasks: work.operations.filter(({ taskId }) => taskId !== undefined).length,
    listens: listeners.reduce((sum, each) => sum + each.streams, 0),
    listenersToldOfTheEnd: listeners.filter(({ wasTold }) => wasTold).length,
    unkeyed: unkeyedOf(work),
    faults: Object.fromEntries(chaos.counts),
    sessions: { longestWithoutAnswerMs: longest, streams },
    codes: Object.fromEntries(field.codes),
  }
  process.stdout.write(`${JSON.stringify(facts)}; ${eventsOf(work)}\n`)
  const struck = [...chaos.counts.values()].reduce((sum, each) => sum + each, 0)
  const calls = Object.values(work.counts).reduce((sum, each) => sum + each, 0)
  reportFigure(task, { calls, faults: struck })
}

/** How many calls had no key: each of them is made once. */
function unkeyedOf({ operations, counts }: ChaosWork): number {
  const plain = operations.filter(({ plan }) => plan.key === undefined)
  return plain.length + counts.publications + counts.sessions
}

function countsOf(names: readonly string[]): Readonly<Record<string, number>> {
  return Object.fromEntries([...Map.groupBy(names, (name) => name)].map(([name, all]) => [name, all.length]))
}

function eventsOf({ subscribers, published }: ChaosWork): string {
  const tallies = subscribers.map((each) => tallyOf(each, published, requestedBy(each)))
  const sum = (of: 'expected' | 'lost' | 'repeated'): number =>
    tallies.reduce((total, each) => total + each[of], 0)
  return `${sum('expected')} events owed, ${sum('lost')} lost, ${sum('repeated')} repeated`
}
