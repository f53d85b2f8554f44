// Many events for many subscribers while the gateway and the receivers are killed: what was lost, and what a delivery costs.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { tokenHash } from '../support/auth/token-hash.ts'
import { until } from '../support/condition.ts'
import { type CommandOptions } from '../support/gateway-process.ts'
import { mortal } from '../support/crash-field.ts'
import {
  type EventAddress,
  pollEvents,
  publish,
  type Published,
  streamEvents,
  type Subscriber,
} from '../support/event-client.ts'
import { faultsOfSubscriber, tallyOf } from '../support/event-verdict.ts'
import type { Json } from '../support/server/json.ts'
import { launchScript } from './launch.ts'
import { cpuNanoseconds } from './process-stats.ts'
import { KillableReceivers } from './receivers.ts'

interface Options {
  readonly events: number
  readonly kills: number
  /** How gateways are started. */
  readonly command?: CommandOptions
  /** Ends the last gateway in another way than by force. */
  readonly finish?: (pid: number) => Promise<void>
}

/** What came of a run. Times are in milliseconds. */
export interface EventRun {
  readonly faults: readonly string[]
  readonly calls: number
  readonly confirmed: number
  readonly subscribers: number
  /** Events that subscribers had to get, summed up. */
  readonly owed: number
  readonly lost: number
  /** Deliveries, with those that were repeated. */
  readonly deliveries: number
  readonly repeated: number
  readonly kills: number
  readonly duration: number
  /** From the event to its arrival, also while the gateway is started again. */
  readonly lagP50: number
  readonly lagP99: number
  /** The same for events that did not happen around a kill. */
  readonly quietLagP99: number
  /** The same for each kind of subscriber. */
  readonly lagP99By: Readonly<Record<Subscriber['kind'], number>>
  /** CPU time of the gateway in all, without that of its starts. */
  readonly cpu: number
}

const TOKEN = 'a-token-of-at-least-32-characters-00'
/** Subscribers that get everything, and those that get one of so many parts. */
const FOR_ALL = 3
const SHARDS = 47
const PUBLISHERS = 64
const POLL_INTERVAL_MS = 250
const name = 'write.succeeded'

/** Makes calls, with subscribers to their events: a third of them each poll, stream, and receive webhooks. */
export async function runEvents({ events, kills, command, finish }: Options): Promise<EventRun> {
  const home = mkdtempSync(join(tmpdir(), 'gatehouse-events-'))
  const upstream = await launchScript('upstream.ts', ['--era', 'modern'])
  const receivers = await KillableReceivers.start(home)
  const configFile = join(home, 'gateway.config.yaml')
  writeFileSync(configFile, JSON.stringify(configOf(upstream.url, join(home, 'store'), receivers.origin)))
  const gateway = await mortal(configFile, '/mcp/bench', () => command ?? {})
  await gateway.start()
  const address = { urls: [gateway.url], token: TOKEN }
  const subscribers = await subscribe(address, receivers)
  const killedAt: number[] = []
  let cpu = -cpuMilliseconds(gateway.pid())
  const began = Date.now()
  try {
    await Promise.all(subscribers.map((each) => each.ready))
    let turn = 0
    const kill = async (): Promise<void> => {
      if (turn++ % 2 === 1) {
        killedAt.push(Date.now())
        return receivers.kill()
      }
      cpu += cpuMilliseconds(gateway.pid())
      killedAt.push(Date.now())
      await gateway.kill()
      await gateway.start()
      cpu -= cpuMilliseconds(gateway.pid())
    }
    const published = await publishAll(address, { events, kills, kill })
    const tallies = () => {
      receivers.readLog()
      return subscribers.map((each) => tallyOf(each, published, requestedBy(each)))
    }
    const isComplete = (): boolean => tallies().every(({ lost }) => lost === 0)
    // A webhook goes on 10 s after its receiver was away, and later after more failures.
    await until(isComplete, 'all events to arrive', 300_000).catch(() => undefined)
    const duration = Date.now() - began
    cpu += cpuMilliseconds(gateway.pid())
    await finish?.(gateway.pid())
    return { ...figuresOf(subscribers, published, killedAt), cpu, duration, kills: killedAt.length }
  } finally {
    await Promise.all(subscribers.map((each) => each.close()))
    await gateway.kill()
    await upstream.stop()
    await receivers.close()
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  }
}

function cpuMilliseconds(pid: number): number {
  return cpuNanoseconds(pid) / 1e6
}

function configOf(url: string, store: string, origin: string): Json {
  return {
    store,
    auth: {
      opaque: { tokens: [{ hash: tokenHash(TOKEN), id: 'ada', scopes: ['read:bench', 'write:bench'] }] },
    },
    limits: { concurrency: 'off', rate: 'off' },
    features: { breaker: { pause: '250ms' }, confirm: 'off', events: { webhooks: { allow: [origin] } } },
    observe: { metrics: 'off' },
    upstreams: { bench: { url, trust: true } },
  }
}

function subscribe(address: EventAddress, receivers: KillableReceivers): Promise<readonly Subscriber[]> {
  const all = Array.from({ length: FOR_ALL + SHARDS }, async (_none, index): Promise<Subscriber> => {
    const filter = { name, arguments: index < FOR_ALL ? {} : { shard: `${index - FOR_ALL}` } }
    if (index % 3 === 0) return pollEvents(address, filter, POLL_INTERVAL_MS)
    return index % 3 === 1 ? streamEvents(address, filter) : receivers.subscribe({ address, filter })
  })
  return Promise.all(all)
}

interface Publishing {
  readonly events: number
  readonly kills: number
  kill(): Promise<void>
}

/** Makes the calls, and kills at equal distances. */
async function publishAll(
  address: EventAddress,
  { events, kills, kill }: Publishing,
): Promise<readonly Published[]> {
  let calls = 0
  let killing = Promise.resolve()
  const next = (publisher: number) => (): Json | undefined => {
    if (calls >= events) return undefined
    const number = calls++
    if (kills > 0 && number % Math.floor(events / kills) === Math.floor(events / kills / 2))
      killing = killing.then(kill)
    return { key: `${publisher} ${number}`, shard: `${number % SHARDS}` }
  }
  const published = await Promise.all(
    Array.from({ length: PUBLISHERS }, (_none, publisher) => publish(address, 'write', next(publisher))),
  )
  await killing
  return published
}

function requestedBy({ filter }: Subscriber): (key: string) => boolean {
  const { shard } = filter.arguments
  return (key) => shard === undefined || String(Number(key.split(' ')[1]) % SHARDS) === shard
}

function figuresOf(
  subscribers: readonly Subscriber[],
  published: readonly Published[],
  killedAt: readonly number[],
): Omit<EventRun, 'cpu' | 'duration' | 'kills'> {
  const tallies = subscribers.map((each) => tallyOf(each, published, requestedBy(each)))
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0)
  const all = subscribers.flatMap(({ arrived }) => arrived)
  const isQuiet = (at: number): boolean =>
    killedAt.every((killed) => at < killed - 5000 || at > killed + 5000)
  const lags = (events: typeof all): readonly number[] =>
    events.map(({ at, arrivedAt }) => arrivedAt - at).toSorted((one, other) => one - other)
  const sorted = lags(all)
  const lagOf = (kind: Subscriber['kind']): number =>
    at(lags(subscribers.flatMap((each) => (each.kind === kind ? each.arrived : []))), 0.99)
  return {
    faults: subscribers.flatMap((each) => faultsOfSubscriber(each, published, requestedBy(each))),
    calls: sum(published.map(({ keys }) => keys.length)),
    confirmed: sum(published.map(({ confirmed }) => confirmed.size)),
    subscribers: subscribers.length,
    owed: sum(tallies.map(({ expected }) => expected)),
    lost: sum(tallies.map(({ lost }) => lost)),
    deliveries: all.length,
    repeated: sum(tallies.map(({ repeated }) => repeated)),
    lagP50: at(sorted, 0.5),
    lagP99: at(sorted, 0.99),
    lagP99By: { poll: lagOf('poll'), stream: lagOf('stream'), webhook: lagOf('webhook') },
    quietLagP99: at(lags(all.filter((each) => isQuiet(each.at))), 0.99),
  }
}

function at(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN
}
