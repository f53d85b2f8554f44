/** `docs/capacity.md`, from the results of `npm run bench:capacity`. */
import { readFileSync } from 'node:fs'
import { type KindName, kinds } from '../../test/bench/capacity/kinds.ts'
import type { CallRow, Capacity } from '../../test/bench/capacity/results.ts'
import { type Limits, mostReplicas, type Need, needOf, type Resource, type Workload } from './fleet-model.ts'
import { grouped, markdownTable } from './markdown.ts'

/** What each replica does in the examples. */
const LOAD: Workload = {
  calls: { read: 40, 'session-read': 40, write: 19, keyed: 1 },
  sessions: 200,
  streams: 50,
  transactions: 0,
  isFollowed: false,
  isSticky: false,
}
const FLEETS = [10, 100, 1000]
/** Transactions a day at each replica, in a variant of the examples. */
const TRANSACTIONS = 240

/** What the examples have. */
const LIMITS: Limits = {
  redisCpu: 0.7,
  redisMemory: 16e9,
  redisNetwork: 125e6,
  redisConnections: 10_000,
  storedSessions: 10_000,
  gatewayCpu: 0.6,
  gatewayMemory: 512e6,
}

const BUSY = [
  '**The machine did other work at the same time.** Round trips, commands, bytes and memory do not depend on that; CPU times are larger',
  'than those of a quiet machine.',
]

/** The page from the file beside this one. */
export function capacityDocument(): string {
  const text = readFileSync(new URL('capacity.json', import.meta.url), 'utf8')
  return capacityPage(JSON.parse(text) as Capacity)
}

/** The same from results. */
export function capacityPage(costs: Capacity): string {
  return [
    '# Capacity',
    '',
    'What calls, sessions, subscriptions and records cost gateways that share a Redis, how that grows, and what is used up first in a',
    'fleet of 10, 100 and 1,000 replicas. [Performance](performance.md) compares a gateway with bare programs and other gateways;',
    '[Operating](operating.md#several-gateways-with-one-store) says how several gateways work together.',
    '',
    `Measured on ${costs.takenAt.slice(0, 10)}: ${costs.machine.cpu}, ${costs.machine.cores} cores, Linux ${costs.machine.kernel}, ` +
      `Node.js ${costs.machine.node}, Redis ${costs.redis} on the same machine, with \`appendfsync everysec\` and no replica. Round trips, ` +
      'commands and bytes are the same everywhere; times are those of this machine, and ratios between them repeat better. `npm run docs` ' +
      'writes this page from `scripts/performance/capacity.json`.',
    '',
    ...(costs.wasBusy ? [...BUSY, ''] : []),
    ...callSection(costs),
    ...restSection(costs),
    ...growthSection(costs),
    ...fleetSection(costs),
    ...settingSection(costs),
    ...separateSection,
    ...methodSection,
  ].join('\n')
}

function callSection({ calls }: Capacity): string[] {
  const read = calls.find(({ kind }) => kind === 'read')
  const times = ({ gatewayCpu }: CallRow): string => (read ? (gatewayCpu / read.gatewayCpu).toFixed(1) : '')
  return [
    '## What a call costs',
    '',
    'All features have their defaults, the store is Redis, and results have 1 KB. A round trip is a read of Redis from a connection:',
    'commands that a gateway sends together count once. Commands include those that scripts run in Redis. CPU is that of the thread of',
    'Redis that carries them out, and of all gateways that took part. What is kept is how much memory Redis used more after a call, and how much larger a store',
    'folder was.',
    '',
    ...markdownTable(
      [
        ...['Call', 'Round trips', 'Commands', 'Bytes to Redis', 'Bytes from Redis', 'CPU of Redis, µs'],
        ...['CPU of gateways, µs', '× a read', 'Kept in Redis, bytes', 'In a folder, bytes'],
      ],
      calls.map((row) => [
        ...[
          titleOf(row),
          count(row.roundTrips),
          count(row.commands),
          whole(row.bytesIn),
          whole(row.bytesOut),
        ],
        ...[whole(row.redisCpu), whole(row.gatewayCpu), times(row), whole(row.memory)],
        row.folder === undefined ? '' : whole(row.folder),
      ]),
    ),
    '',
    'Less than one round trip is what a gateway writes for several calls together, without a call that waits for it: the log of calls, and',
    'the history for `gatehouse undo`.',
    '',
    'With `limits.concurrency` and several gateways, a call needs one round trip more if its gateway has no permit of the caller that is not in',
    'use, and one that no call waits for when the permit is returned. A gateway that is alone asks once a second for others.',
    '',
  ]
}

function titleOf({ kind, keys }: CallRow): string {
  const { title } = kinds[kind]
  return keys === undefined ? title : `${title}, while Redis has ${whole(keys)} keys`
}

function restSection({ idle, memory }: Capacity): string[] {
  return [
    '## What costs without a call',
    '',
    'Each gateway writes a heartbeat every 3 s, asks twice a second whether writes are paused and four times whether something is to be',
    'rewound, and pings its connection every second. One of them reads all transactions of the store every 2 s, if that takes less than',
    'a fiftieth of its time. In a second, all gateways together:',
    '',
    ...markdownTable(
      [
        'Gateways',
        'Ended transactions in the store',
        'Round trips',
        'Commands',
        'Bytes to Redis',
        'Bytes from Redis',
      ],
      idle.map((row) => [
        ...[`${row.gateways}`, whole(row.transactions ?? 0), count(row.roundTrips)],
        ...[count(row.commands), whole(row.bytesIn), whole(row.bytesOut)],
      ]),
    ),
    '',
    ...markdownTable(
      ['In the memory of a gateway', 'Size'],
      [
        ['the process, before its first call', `${whole(memory.idleMegabytes)} MB`],
        ['an idle session of an older client', kilobytes(memory.session)],
        ['the open stream of a session, with its connection', kilobytes(memory.stream)],
        ['a stream of events, with its connection', kilobytes(memory.subscription)],
      ],
    ),
    '',
    'The last three are objects and buffers of JavaScript after a garbage collection. The kernel has its own buffers for each connection,',
    'and a process under load has objects that are not collected yet.',
    '',
  ]
}

function growthSection({ calls }: Capacity): string[] {
  const [few, many] = [false, true].map((isMany) =>
    calls.find(({ kind, keys }) => kind === 'keyed' && (keys !== undefined) === isMany),
  )
  const keyed =
    few && many
      ? `A call with a key takes ${count(few.commands)} commands and ${whole(few.redisCpu)} µs of Redis while the store is new, ` +
        `and ${count(many.commands)} commands and ${whole(many.redisCpu)} µs with ${whole(many.keys ?? 0)} keys.`
      : 'Not measured.'
  return [
    '## How it grows',
    '',
    ...markdownTable(
      ['With', 'Grows', 'Why'],
      [
        [
          'members',
          'in proportion',
          'Each writes its own heartbeat. No call needs a list of the others; the gateway of a session is looked up by its id, once.',
        ],
        [
          'transactions of the last day',
          'in proportion',
          'One gateway reads all of them again and again, to find those that somebody has to continue; ended ones are kept for `features.transactions.retention`.',
        ],
        [
          'sessions',
          'not',
          'A session is one record, which is written when it begins and once an hour. Every 1,000 new sessions of a gateway, it lists all sessions of the store once, to remove those beyond the limit.',
        ],
        ['keys and records', 'hardly', keyed],
        [
          'gateways with followers of one server',
          'members × events',
          'An event is appended once. Redis publishes that, and each gateway with a follower reads it: in one read with others that have come meanwhile, so the table above is the most that it costs.',
        ],
        [
          'gateways that forward streams to each other',
          'members²',
          'While a gateway has an open request at another one, it asks the store every 2 s whether that one is alive. With older clients everywhere and a balancer that is not sticky, each asks about all others.',
        ],
        [
          'the share of forwarded requests',
          '1 − 1/N',
          'Of N gateways behind a balancer that is not sticky, one has the session. With 2 gateways half of the requests are forwarded, with 10 nine of ten; more do not make it worse.',
        ],
      ],
    ),
    '',
  ]
}

interface Shown {
  readonly title: string
  /** A value in the unit of the limits, as text. */
  show(value: number): string
}

const shown: Readonly<Record<Resource, Shown>> = {
  redisCpu: { title: 'CPU of Redis, cores', show: (value) => value.toFixed(2) },
  redisMemory: { title: 'Memory of Redis, GB', show: (value) => (value / 1e9).toFixed(1) },
  redisNetwork: { title: 'Network of Redis, MB a second', show: (value) => (value / 1e6).toFixed(1) },
  redisConnections: { title: 'Connections to Redis', show: whole },
  storedSessions: { title: 'Sessions of older clients in the store', show: whole },
  gatewayCpu: { title: 'CPU of each gateway, cores', show: (value) => value.toFixed(2) },
  gatewayMemory: { title: 'Memory of each gateway before garbage, MB', show: (value) => whole(value / 1e6) },
}
const resources = Object.keys(shown) as Resource[]

function fleetSection(costs: Capacity): string[] {
  const rates = Object.entries(LOAD.calls) as [KindName, number][]
  const perSecond = rates.reduce((sum, [, rate]) => sum + rate, 0)
  const variants: readonly (readonly [title: string, load: Workload])[] = [
    ['as described', LOAD],
    ['and at each replica somebody follows the events of the server', { ...LOAD, isFollowed: true }],
    [`and ${TRANSACTIONS} transactions a day end at each replica`, { ...LOAD, transactions: TRANSACTIONS }],
    ['as described, with a sticky balancer', { ...LOAD, isSticky: true }],
  ]
  return [
    '## Three fleets',
    '',
    `On paper, with the figures above: at each replica ${perSecond} calls a second, namely ` +
      `${rates.map(([kind, rate]) => `${rate} × ${kinds[kind].title}`).join('; ')}; ${LOAD.sessions} sessions of older clients, ` +
      `${LOAD.streams} of them with an open stream; a balancer that is not sticky. Keys are kept for a day. Bold is what exceeds the limit; ` +
      'the last column is the number of replicas that just fits.',
    '',
    ...markdownTable(
      ['Needed', 'Limit', ...FLEETS.map((replicas) => `${whole(replicas)} replicas`), 'Enough for'],
      resources.map((resource) => {
        const { title, show } = shown[resource]
        const need = (replicas: number): Need => needOf(replicas, LOAD, costs)
        const cells = FLEETS.map((replicas) => {
          const value = need(replicas).of[resource]
          return value > LIMITS[resource] ? `**${show(value)}**` : show(value)
        })
        return [title, show(LIMITS[resource]), ...cells, enough(mostReplicas(resource, LIMITS, need))]
      }),
    ),
    '',
    'Where the CPU time of Redis goes, in cores:',
    '',
    ...markdownTable(
      [
        'Fleet',
        'Replicas',
        'Calls',
        'Members',
        'Followers of events',
        'Checks of forwarded streams',
        'Scans of transactions',
        'In all',
      ],
      variants.flatMap(([title, load]) =>
        FLEETS.map((replicas) => {
          const { of, redisCpuFor } = needOf(replicas, load, costs)
          const { calls, members, followers, checks, scans } = redisCpuFor
          const parts = [calls, members, followers, checks, scans, of.redisCpu].map((cores) =>
            cores.toFixed(2),
          )
          return [title, whole(replicas), ...parts]
        }),
      ),
    ),
    '',
    'Much more than one core is not what Redis does, but what would be needed: gateways that fall behind read several events at once,',
    'scan less often, and then wait.',
    '',
  ]
}

/** In the order in which they are used up. */
function settingSection(costs: Capacity): string[] {
  const most = (resource: Resource, load: Workload): number =>
    mostReplicas(resource, LIMITS, (replicas) => needOf(replicas, load, costs)) ?? ANY
  const followed = { ...LOAD, isFollowed: true }
  const transacting = { ...LOAD, transactions: TRANSACTIONS }
  const causes: readonly (readonly [replicas: number, what: string, moves: string])[] = [
    [
      most('redisCpu', followed),
      'The one thread of Redis, when followers of one busy server are at every replica',
      'Follow from fewer replicas: route the paths of clients that stream events to a few of them. `upstreams.NAME.features.events: off` for servers whose events are not needed. A store of its own for that server and its clients.',
    ],
    [
      most('redisCpu', transacting),
      `The one thread of Redis, when ${TRANSACTIONS} transactions a day end at each replica`,
      '`features.transactions.retention`, which is 24 h: with `10m` the store has a small part of them. `features.transactions: off` for a fleet without transactions.',
    ],
    [
      most('redisCpu', LOAD),
      'The one thread of Redis',
      '`features.undo.history: off` for servers whose writes need no `gatehouse undo`; `observe.calls: off`. A sticky balancer saves the checks of forwarded streams. Then one `store` for each group of servers: gateways with different stores share nothing. A Redis Cluster does not help, since a store is in one slot.',
    ],
    [
      most('redisMemory', LOAD),
      'The memory of Redis',
      '`features.idempotency.ttl`, or a shorter time that the caller says; `features.idempotency.max_keys` for each caller. The log of calls (`observe.calls.max`), the history (200,000 actions) and the events of a server (100,000) have limits of their own.',
    ],
    [
      most('storedSessions', LOAD),
      'Sessions of older clients in one store',
      'No setting: beyond 10,000, and 2,500 of one authenticated caller, those that were not used for longest leave the store. They continue, from any gateway, until the gateway in which they began ends, or has not seen them for 30 minutes; then their clients get 404, and begin anew. Clients of 2026-07-28 have no sessions. Otherwise one `store` for each group of clients.',
    ],
    [
      most('redisConnections', LOAD),
      'Connections to Redis',
      '`maxclients` of Redis. Each gateway has one, and another one once it waits for changes of others.',
    ],
    [
      most('redisNetwork', LOAD),
      'The network of Redis',
      'As for its thread. `observe.calls.keep` with arguments or results makes each call larger.',
    ],
    [
      most('gatewayCpu', LOAD),
      'CPU of the gateways',
      'More replicas, since a process uses one core: the chart aims at 0.6. A sticky balancer saves the hop. `features: none` for servers that need no protection.',
    ],
    [
      most('gatewayMemory', LOAD),
      'Memory of the gateways',
      'More replicas: sessions and streams are spread over them. A session that is not used for 30 minutes leaves memory.',
    ],
  ]
  return [
    '## What saturates first',
    '',
    'In this order, for these fleets. A load that is the same for each replica never saturates the replicas themselves, only what they',
    'share. With another mix of calls the order differs: multiply the rows of the first table by your rates.',
    '',
    ...markdownTable(
      ['What', 'Enough for', 'What moves it'],
      causes
        .toSorted(([one], [other]) => one - other)
        .map(([replicas, what, moves]) => [what, enough(replicas), moves]),
    ),
    '',
    'A Redis that is too slow is not a wrong one: a command that takes over 2 s counts as [failing](safe-actions-reference.md#when-redis-is-lost-full-or-read-only).',
    'Calls with a key, approvals and transactions are then refused before anything is done, reads continue, and rates are counted by each',
    'gateway alone. Watch the latency of commands and the CPU time of its process; with [replicas](operating.md#what-survives-a-crash-and-a-failover)',
    'that confirm writes (`WAIT`), each keyed call waits for the slowest of those that have to confirm, in the same round trips.',
    '',
  ]
}

const separateSection = [
  '## What each gateway has for itself',
  '',
  'What is counted or kept by each gateway for itself does not grow with the fleet, so it does not saturate; nor does it hold for the fleet. [Operating](operating.md#what-holds-for-all-gateways) lists it.',
  '',
]

const methodSection = [
  '## Method',
  '',
  '- Two gateways, with their own processes, share a Redis; the server and the clients are other processes, whose CPU time is not counted. Clients',
  '  have tokens, so callers are authenticated; rates and concurrency have no limit but where the row says so.',
  '- Round trips, commands and bytes are counters of `INFO`, over at least 50 calls (8 tasks) that are made one after the other, without',
  '  what idle gateways do in that time. Several calls at once need as many commands, in fewer round trips.',
  '  Rows below that of transactions include what a gateway reads of these every 2 s.',
  '- CPU time and what is kept are of 16 calls at once (8 approvals, 100 tasks), after a warm-up of seconds: a process that has just',
  '  started needs several times as much. The last row of the first table, after 20 s of such calls, shows what a longer one does.',
  '  CPU time includes what gateways and Redis do in that time anyway, which is most of it for tasks.',
  '- The fleets are computed, not run: `scripts/performance/fleet-model.ts`. Contention, networks between machines, TLS and failovers are not in',
  '  them. The [simulator](simulation.md) runs many gateways in virtual time, which has neither CPU nor bandwidth: it shows that they',
  '  stay correct, not how many fit.',
  '- `npm run bench:capacity -- --json scripts/performance/capacity.json` and `npm run docs` make this page again.',
  '',
]

/** More replicas than anybody has. */
const ANY = Number.MAX_SAFE_INTEGER

function enough(replicas: number | undefined): string {
  if (replicas === undefined || replicas === ANY) return 'any number'
  return replicas === 0 ? 'not one replica' : `${whole(replicas)} ${replicas === 1 ? 'replica' : 'replicas'}`
}

function count(value: number): string {
  return grouped(Math.max(0, value), 1)
}

function whole(value: number): string {
  return grouped(Math.max(0, value))
}

function kilobytes(bytes: number): string {
  return `${grouped(Math.max(0, bytes) / 1024, 1)} KB`
}
