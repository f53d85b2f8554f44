import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { until } from '../../support/condition.ts'
import { effectsOf, startEffects } from '../../support/effects.ts'
import {
  type EventAddress,
  pollEvents,
  publish,
  type Published,
  streamEvents,
  type Subscriber,
} from '../../support/event-client.ts'
import { cursorsAhead, EventReceivers } from '../../support/event-receiver.ts'
import { faultsOfSubscriber, tallyOf } from '../../support/event-verdict.ts'
import { eventPoints, type KillPoint, planKills } from '../../support/kill-plan.ts'
import { killableGateways } from '../../support/planned-kills.ts'
import { skipWithout } from '../../support/needs.ts'
import { hasRedis, needsRedis, type RedisServer, startRedis } from '../../support/redis-server.ts'
import { seeded } from '../../simulate/random.ts'
import type { Json } from '../../support/server/json.ts'
import { isSoak, repetitions, seedOf } from '../../support/soak.ts'
import { steadyPort } from '../../support/steady-port.ts'

/** EVENT_SEED reproduces the writes at which processes are killed. */
const SEED = seedOf('EVENT_SEED', 3415)
const PUBLISHERS = 6
/** How many calls have a result at least, and for how long planned kills are waited for, in milliseconds. */
const MIN_RESULTS = repetitions(200, 800)
const ADDING_MS = 180_000
const TOKEN = 'a-token-of-at-least-32-characters-00'
const tool = 'add_blind_effect'

/** With a folder a write is done or not; Redis may do what it is asked by a process that ends. */
const every: Readonly<Record<'LMDB' | 'Redis', readonly KillPoint['moment'][]>> = {
  LMDB: ['before', 'after', 'later', 'before'],
  Redis: ['during', 'later', 'after', 'during'],
}
/** Two moments for each write in the ordinary run, and each moment for some of them. */
const momentsOf = (store: 'LMDB' | 'Redis') => (index: number) =>
  isSoak ? every[store] : [every[store][index % 4] ?? 'before', every[store][(index + 1) % 4] ?? 'before']
/** How many events a receiver takes before it loses a response. */
const LOSS_INTERVAL = repetitions(100, 400)
/** The arguments of subscriptions, and the keys of the calls that they request. */
const filters: readonly (readonly [arguments: Json, isRequested: (key: string) => boolean])[] = [
  [{}, () => true],
  [{ key: '0 *' }, (key) => key.startsWith('0 ')],
  [{ key: ['1 *', '2 *'] }, (key) => key.startsWith('1 ') || key.startsWith('2 ')],
  [{ value: 'odd' }, (key) => Number(key.split(' ')[1]) % 2 === 1],
]

describe('events while gateways are killed at their writes', () => {
  let redis: RedisServer | undefined
  beforeAll(async () => {
    redis = hasRedis() ? await startRedis() : undefined
  })
  afterAll(() => redis?.stop())

  // They wait for processes most of the time.
  test.concurrent.for(['LMDB', 'Redis'] as const)(
    'arrive in order, each of them, and again only with the same id: store in %s',
    async (store, context) => {
      if (store === 'Redis') skipWithout(needsRedis, context)
      const field = await startEventField(store === 'Redis' ? redis?.url : undefined)
      const { address, killable } = field
      const wanted = filters.map(([given]) => ({ name: `${tool}.succeeded`, arguments: given }))
      const readers = wanted.flatMap((filter) => [
        pollEvents(address, filter, 200),
        streamEvents(address, filter),
      ])
      const losesResponse = (count: number): boolean => count % LOSS_INTERVAL === 0
      const receivers = await Promise.all(
        wanted.map((filter) => field.receivers.subscribe({ address, filter, losesResponse })),
      )
      const subscribers = [...readers, ...receivers]
      try {
        await Promise.all(subscribers.map((each) => each.ready))
        const planned = planKills(seeded(SEED), momentsOf(store), eventPoints)
        const kills = killable.killing(planned)
        const published = await publishAll(address, kills.isOver)
        const unmet = await kills.stop()
        const faults = [...(await judge(subscribers, published))]
        for (const each of receivers) faults.push(...(await cursorsAhead(each, address)))
        process.stdout.write(`${figuresOf(store, subscribers, published)}\n`)
        expect(faults, `EVENT_SEED=${SEED}`).toEqual([])
        expect(unmet, `points that were not met, EVENT_SEED=${SEED}`).toEqual([])
        const confirmed = published.reduce((sum, each) => sum + each.confirmed.size, 0)
        expect(confirmed).toBeGreaterThanOrEqual(MIN_RESULTS)
        // Gateways died with calls under way, and clients reconnected.
        expect(confirmed).toBeLessThan(published.reduce((sum, { keys }) => sum + keys.length, 0))
        for (const each of subscribers.filter(({ kind }) => kind === 'stream'))
          expect(each.rounds).toBeGreaterThanOrEqual(planned.length / 4)
        expect(effectsOf(field.log).length).toBeGreaterThanOrEqual(confirmed)
      } finally {
        await Promise.all(subscribers.map((each) => each.close()))
        await field.close()
      }
    },
  )
})

interface EventField {
  readonly address: EventAddress
  readonly killable: Awaited<ReturnType<typeof killableGateways>>
  readonly receivers: EventReceivers
  /** The file the effects of the calls are lines of. */
  readonly log: string
  close(): Promise<void>
}

/** Two gateways that share a store, in front of a server of effects; `redis` is the URL of the store, if not a folder. */
async function startEventField(redis: string | undefined): Promise<EventField> {
  const home = mkdtempSync(join(tmpdir(), 'gatehouse-events-'))
  const log = join(home, 'effects.log')
  const server = await startEffects(log, await steadyPort(), ['--slow', '1'])
  const receivers = await EventReceivers.start()
  const configFile = join(home, 'gateway.config.yaml')
  const config = {
    store: redis ?? join(home, 'store'),
    auth: { opaque: { tokens: [{ hash: tokenHash(TOKEN), id: 'ada' }] } },
    limits: { concurrency: 'off', rate: 'off' },
    features: {
      breaker: { pause: '250ms' },
      confirm: 'off',
      events: { webhooks: { allow: [receivers.origin] } },
    },
    upstreams: { effects: { url: server.url, revision: '2025-11-25', trust: true } },
  }
  writeFileSync(configFile, JSON.stringify(config))
  const killable = await killableGateways(configFile, '/mcp/effects')
  const close = async (): Promise<void> => {
    await killable.kill()
    await server.kill()
    await receivers.close()
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  }
  await killable.start().catch(async (error: unknown) => {
    await close()
    throw error
  })
  const urls = killable.gateways.map(({ url }) => url)
  return { address: { urls, token: TOKEN }, killable, receivers, log, close }
}

/** Calls of all publishers, until enough have a result and every planned kill has happened. */
async function publishAll(address: EventAddress, isOver: () => boolean): Promise<readonly Published[]> {
  const end = Date.now() + ADDING_MS
  const results = Array.from({ length: PUBLISHERS }, () => 0)
  const areEnough = (): boolean => results.reduce((sum, each) => sum + each, 0) >= MIN_RESULTS
  const publishers = results.map((_none, publisher) => {
    let number = 0
    const next = (count: number): Json | undefined => {
      results[publisher] = count
      if (areEnough() && (isOver() || Date.now() > end)) return undefined
      number++
      return { key: `${publisher} ${number}`, value: number % 2 === 1 ? 'odd' : 'even' }
    }
    return publish(address, tool, next)
  })
  return Promise.all(publishers)
}

/** The faults that are left once nothing is missing any more, or a minute has passed. */
async function judge(
  subscribers: readonly Subscriber[],
  published: readonly Published[],
): Promise<readonly string[]> {
  const tallies = () => subscribers.map((each) => tallyOf(each, published, requestedBy(each)))
  const isComplete = (): boolean => tallies().every(({ lost }) => lost === 0)
  // A webhook that was not accepted comes again after 10 s at least, and holds up those far behind it.
  await until(isComplete, 'all events to arrive', 300_000).catch(() => undefined)
  return subscribers.flatMap((each) => faultsOfSubscriber(each, published, requestedBy(each)))
}

function requestedBy({ filter }: Subscriber): (key: string) => boolean {
  return filters.find(([given]) => given === filter.arguments)?.[1] ?? (() => false)
}

function figuresOf(
  store: string,
  subscribers: readonly Subscriber[],
  published: readonly Published[],
): string {
  const tallies = subscribers.map((each) => tallyOf(each, published, requestedBy(each)))
  const sum = (of: keyof (typeof tallies)[number]): number =>
    tallies.reduce((total, each) => total + each[of], 0)
  const calls = published.reduce((total, { keys }) => total + keys.length, 0)
  const confirmed = published.reduce((total, each) => total + each.confirmed.size, 0)
  return [
    `${store}: ${calls} calls, ${confirmed} with a result`,
    `${sum('expected')} events owed to ${subscribers.length} subscribers, ${sum('lost')} lost`,
    `${sum('repeated')} repeated`,
  ].join('; ')
}
