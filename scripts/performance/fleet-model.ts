/** What fleets of gateways need, computed from the measured costs of single calls: no I/O, and nothing that is not in its arguments. */
import type { KindName } from '../../test/bench/capacity/kinds.ts'
import type { Usage } from '../../test/bench/capacity/meter.ts'
import type { Capacity } from '../../test/bench/capacity/results.ts'

/** What each replica has to do. All replicas have the same. */
export interface Workload {
  /** Calls a second, by kind; those in sessions are `session-read`, wherever they arrive. */
  readonly calls: Readonly<Partial<Record<KindName, number>>>
  /** Open sessions of older clients, and how many of them have their stream open. */
  readonly sessions: number
  readonly streams: number
  /** How many of its transactions ended in the last day: the store has them for so long. */
  readonly transactions: number
  /** At each replica somebody follows the events of one server, which all writes go to. */
  readonly isFollowed: boolean
  /** The balancer sends all requests of a session to the same replica. */
  readonly isSticky: boolean
}

/** What is limited, of Redis unless it is of each gateway. */
export type Resource =
  | 'redisCpu'
  | 'redisMemory'
  | 'redisNetwork'
  | 'redisConnections'
  | 'storedSessions'
  | 'gatewayCpu'
  | 'gatewayMemory'

/** How much of each resource there is: cores, bytes, bytes a second, numbers. */
export type Limits = Readonly<Record<Resource, number>>

/** What a fleet needs of each resource, in the units of the limits, and where the CPU time of Redis goes. */
export interface Need {
  readonly of: Readonly<Record<Resource, number>>
  /**
   * Cores of Redis for calls, members, followers of events, checks of gateways to which requests are forwarded, and scans of
   * transactions.
   */
  readonly redisCpuFor: {
    readonly calls: number
    readonly members: number
    readonly followers: number
    readonly checks: number
    readonly scans: number
  }
  /** The share of the requests of sessions that another gateway forwards. */
  readonly forwarded: number
}

/** How long a key is remembered by default, in seconds. */
const KEY_TTL_S = 86_400
/** How many actions of all callers, and calls in the log, a store has at most. */
const MAX_ACTIONS = 200_000
const MAX_LOGGED_CALLS = 100_000
/** How often a gateway asks whether another one is alive to which it forwards open requests, in a second. */
const CHECKS_PER_SECOND = 0.5
/** The connections of a gateway to Redis: for commands, and for changes that others publish. */
const CONNECTIONS = 2

/** What so many replicas need. */
export function needOf(replicas: number, load: Workload, costs: Capacity): Need {
  const cost = costsOf(costs)
  const forwarded = load.isSticky ? 0 : 1 - 1 / replicas
  const rates = Object.entries(load.calls) as [KindName, number][]
  const total = (of: keyof Usage): number =>
    rates.reduce((sum, [kind, rate]) => {
      const elsewhere = kind === 'session-read' ? forwarded : 0
      return sum + rate * ((1 - elsewhere) * cost.call(kind)[of] + elsewhere * cost.call('forwarded')[of])
    }, 0)
  const writes = (load.calls.write ?? 0) + (load.calls.keyed ?? 0)
  const events = load.isFollowed ? writes : 0
  const [appended, followed] = [
    cost.beyond('event-kept', 'write'),
    cost.beyond('event-elsewhere', 'event-kept'),
  ]
  // Each event is appended once, and read by every other gateway.
  const eventUsage = (of: keyof Usage): number => events * (appended(of) + (replicas - 1) * followed(of))
  const checked = load.streams > 0 ? Math.min(replicas - 1, load.streams) * forwarded : 0
  const checks = checked * CHECKS_PER_SECOND
  // One gateway reads the transactions of all.
  const scanned = replicas * load.transactions
  const inFleet = (of: keyof Usage): number =>
    replicas * (total(of) + eventUsage(of) + cost.member(of) + checks * cost.ask(of)) +
    scanned * cost.scan(of)
  const cores = (microseconds: number): number => microseconds / 1e6
  return {
    of: {
      redisCpu: cores(inFleet('redisCpu')),
      redisMemory: storedBytes(replicas, load, cost.call),
      redisNetwork: Math.max(inFleet('bytesIn'), inFleet('bytesOut')),
      redisConnections: replicas * CONNECTIONS,
      storedSessions: replicas * load.sessions,
      gatewayCpu: cores(total('gatewayCpu') + eventUsage('gatewayCpu')),
      gatewayMemory:
        costs.memory.idleMegabytes * 1e6 +
        load.sessions * costs.memory.session +
        load.streams * costs.memory.stream,
    },
    redisCpuFor: {
      calls: cores(replicas * total('redisCpu')),
      members: cores(replicas * cost.member('redisCpu')),
      followers: cores(replicas * eventUsage('redisCpu')),
      checks: cores(replicas * checks * cost.ask('redisCpu')),
      scans: cores(scanned * cost.scan('redisCpu')),
    },
    forwarded,
  }
}

/** The largest number of replicas that need no more of a resource than there is; undefined if there is always enough. */
export function mostReplicas(
  resource: Resource,
  limits: Limits,
  need: (replicas: number) => Need,
): number | undefined {
  const fits = (replicas: number): boolean => need(replicas).of[resource] <= limits[resource]
  let [low, high] = [0, 1]
  while (fits(high)) {
    if (high > MOST_REPLICAS) return undefined
    ;[low, high] = [high, high * 2]
  }
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2)
    if (fits(middle)) low = middle
    else high = middle
  }
  return low
}

const MOST_REPLICAS = 100_000

/** What the store has after a day or longer. */
function storedBytes(replicas: number, load: Workload, call: (kind: KindName) => Usage): number {
  const kept = (kind: KindName): number => Math.max(0, call(kind).memory)
  const rate = (kind: KindName): number => replicas * (load.calls[kind] ?? 0)
  const calls = Object.values(load.calls).reduce((sum, each) => sum + each, 0) * replicas
  const logged = Math.min(MAX_LOGGED_CALLS, calls * KEY_TTL_S) * kept('read')
  const writes = rate('write') + rate('keyed')
  const actions = Math.min(MAX_ACTIONS, writes * KEY_TTL_S) * Math.max(0, kept('write') - kept('read'))
  const keys = rate('keyed') * KEY_TTL_S * Math.max(0, kept('keyed') - kept('write'))
  return logged + actions + keys + replicas * load.sessions * kept('session')
}

interface Costs {
  call(kind: KindName): Usage
  /** What one kind costs more than another. */
  beyond(kind: KindName, than: KindName): (of: keyof Usage) => number
  /** A gateway without calls, for a second: what Redis does for it. */
  member(of: keyof Usage): number
  /** A round trip of such a gateway. */
  ask(of: keyof Usage): number
  /** All gateways for a second, for each transaction in the store. */
  scan(of: keyof Usage): number
}

function costsOf({ idle, calls }: Capacity): Costs {
  const call = (kind: KindName): Usage => {
    const row = calls.find((each) => each.kind === kind && each.keys === undefined)
    if (!row) throw new Error(`the cost of ${kind} was not measured`)
    return row
  }
  const last = idle.findLast(({ transactions }) => transactions === undefined)
  const scanning = idle.find(({ transactions }) => transactions !== undefined)
  if (!last || !scanning?.transactions) throw new Error('idle gateways were not measured')
  const { gateways, transactions } = scanning
  // A process that is woken for each command takes many times as long for it as one that is busy, so no CPU time of idle ones.
  const { redisCpu, commands } = call('keyed')
  const perCommand = redisCpu / Math.max(1, commands)
  const busy = (usage: Usage, share: number) => (of: keyof Usage) => {
    if (of === 'redisCpu') return usage.commands * share * perCommand
    return of === 'gatewayCpu' || of === 'memory' ? 0 : usage[of] * share
  }
  const member = busy(last, 1 / last.gateways)
  return {
    call,
    beyond: (kind, than) => (of) => {
      const more = (what: keyof Usage): number => Math.max(0, call(kind)[what] - call(than)[what])
      return of === 'redisCpu' ? more('commands') * perCommand : more(of)
    },
    member,
    ask: busy(last, 1 / last.roundTrips),
    scan: (of) => Math.max(0, busy(scanning, 1)(of) - gateways * member(of)) / transactions,
  }
}
