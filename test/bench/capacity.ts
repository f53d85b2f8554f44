// Measures what calls, sessions, subscriptions and records cost gateways that share a Redis: docs/capacity.md.
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { tokenHash } from '../support/auth/token-hash.ts'
import { open } from '../support/client/raw.ts'
import type { HeaderMap } from '../support/server/journal.ts'
import type { Json } from '../support/server/json.ts'
import { workingCopy } from './builds.ts'
import { Heap } from './capacity/heap.ts'
import {
  type Gateways,
  type Kind,
  type KindName,
  kinds,
  oneTransaction,
  openEventStream,
  openSession,
  tokens,
  upstreamsOf,
} from './capacity/kinds.ts'
import { Meter, perUnit, type Usage } from './capacity/meter.ts'
import { type CallRow, type Capacity, capacityText, type IdleRow, type Memory } from './capacity/results.ts'
import { machine } from './gateways/results.ts'
import { freePort, killAll, launchCommand, launchScript, type Serving } from './launch.ts'
import { residentMegabytes } from './process-stats.ts'
import { launchRedis } from './redis.ts'

const usage = `node test/bench/capacity.ts [options]
  --quick        shorter turns, to see whether all works
  --parts A,B    only these of idle, calls, memory; the others stay as they are in the file of --json
  --only A,B     only these kinds of calls, with keyed also the row of many keys: ${Object.keys(kinds).join(', ')}
  --busy         say in the results that the machine did other work too
  --json FILE    write the results as JSON; docs/capacity.md is made of scripts/performance/capacity.json
`
const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    parts: { type: 'string', default: 'idle,calls,memory' },
    only: { type: 'string' },
    busy: { type: 'boolean', default: false },
    json: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})

/** How long a kind is warmed and measured, in milliseconds, and how many calls are made at once and one after the other. */
const turn = values.quick ? { warm: 200, measured: 400 } : { warm: 1500, measured: 1500 }
const AT_ONCE = 16
const COUNTED = 100
/** Two heartbeats of a gateway. */
const IDLE_MS = 6000
/** What a gateway writes some time after a call is written by then. */
const SETTLE_MS = 1000
/** How many gateways share the store when none is called. */
const IDLE_GATEWAYS = 3
/** For how long calls with keys are made before it is measured whether they cost more then. */
const FILL_MS = values.quick ? 500 : 20_000
/** How many ended transactions there are for the last row of what idle gateways do. */
const TRANSACTIONS = 200
const SESSIONS = 1000
const STREAMS = 200

const { main } = await workingCopy()
const folder = mkdtempSync(`${tmpdir()}/gatehouse-capacity-`)
let servers: readonly Serving[] = []
let started = 0
/** The kinds that leave a record of each call: their growth of a store folder is measured. */
const kept: ReadonlySet<KindName> = new Set(['read', 'write', 'keyed', 'session'])

if (values.help) process.stdout.write(usage)
else await run()

async function run(): Promise<void> {
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      cleanUp()
      process.exit(1)
    })
  try {
    servers = [await launchScript('upstream.ts', ['--era', 'legacy']), await launchScript('slow-upstream.ts')]
    const parts = values.parts.split(',')
    const redis = await launchRedis(`${folder}/redis`)
    const meter = await Meter.open(redis)
    let results: Capacity = {
      takenAt: new Date().toISOString(),
      machine: machine(),
      ...(values.busy && { wasBusy: true as const }),
      redis: await meter.version(),
      idle: [],
      calls: [],
      memory: { idleMegabytes: 0, session: 0, stream: 0, subscription: 0 },
      ...earlier(),
    }
    if (parts.includes('idle')) results = { ...results, idle: await measureIdle(redis.url, meter) }
    if (parts.includes('calls')) {
      await measureCalls(redis.url, meter, (row) => {
        results = { ...results, calls: withEarlier([row], results.calls) }
        // A run that is interrupted has at least these.
        save(results)
      })
    }
    await meter.close()
    await redis.stop()
    if (parts.includes('memory')) results = { ...results, memory: await measureMemory() }
    save(results)
    process.stdout.write(capacityText(results))
  } finally {
    cleanUp()
  }
}

function cleanUp(): void {
  killAll()
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
}

function save(results: Capacity): void {
  if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(results, null, 2) + '\n')
}

/** What an earlier run left in the file, for the parts that are not measured. */
function earlier(): Partial<Capacity> {
  const { json } = values
  if (json === undefined || !existsSync(json)) return {}
  const { idle, calls, memory } = JSON.parse(readFileSync(json, 'utf8')) as Capacity
  return { idle, calls, memory }
}

/** The rows in the order of the kinds, with earlier ones of what was not measured. */
function withEarlier(rows: readonly CallRow[], before: readonly CallRow[]): readonly CallRow[] {
  const nameOf = ({ kind, keys }: CallRow): string => (keys === undefined ? kind : `${kind} with keys`)
  const all = new Map([...before, ...rows].map((row) => [nameOf(row), row]))
  return [...Object.keys(kinds), 'keyed with keys'].flatMap((name) => all.get(name) ?? [])
}

/** Starts a gateway with the defaults, but for limits that a benchmark would reach. */
async function startGateway(store: string, nodeOptions: readonly string[] = []): Promise<Serving> {
  const own = `${folder}/gateway-${started++}`
  mkdirSync(own)
  const [server, slow] = servers
  const config: Json = {
    version: 1,
    store,
    auth: {
      opaque: {
        tokens: Object.entries(tokens).map(([id, token]) => ({ id, hash: tokenHash(token) })),
      },
    },
    limits: { rate: 'off', concurrency: 'off' },
    features: { idempotency: { max_keys: 1_000_000, max_bytes: '10GB' }, confirm: { wait: 'off' } },
    upstreams: upstreamsOf(server?.url ?? '', slow?.url ?? ''),
  }
  const file = `${own}/gateway.config.yaml`
  writeFileSync(file, JSON.stringify(config))
  const port = await freePort()
  const command = [process.execPath, ...nodeOptions, main, 'serve', '--config', file, '--port', `${port}`]
  const state = { XDG_STATE_HOME: `${own}/state` }
  const running = await launchCommand(command, `http://127.0.0.1:${port}/ready`, state)
  return { ...running, url: `http://127.0.0.1:${port}/mcp` }
}

async function measureIdle(store: string, meter: Meter): Promise<readonly IdleRow[]> {
  const gateways: Serving[] = []
  const rows: IdleRow[] = []
  for (let count = 1; count <= IDLE_GATEWAYS; count++) {
    gateways.push(await startGateway(store))
    await pause(SETTLE_MS)
    rows.push({ gateways: count, ...(await idleUsage(gateways, meter)) })
    process.stderr.write(`${count} idle\n`)
  }
  const [{ url } = { url: '' }] = gateways
  for (let index = 0; index < TRANSACTIONS; index++) await oneTransaction(`${url}/plain`)
  await pause(SETTLE_MS)
  rows.push({
    gateways: gateways.length,
    transactions: TRANSACTIONS,
    ...(await idleUsage(gateways, meter)),
  })
  for (const gateway of gateways) await gateway.stop()
  return rows
}

/** What gateways do in a second without calls. */
async function idleUsage(gateways: readonly Serving[], meter: Meter): Promise<Usage> {
  const idle = await meter.during(gateways, () => pause(IDLE_MS))
  return perUnit(idle, idle.seconds)
}

async function measureCalls(store: string, meter: Meter, found: (row: CallRow) => void): Promise<void> {
  const pair = [await startGateway(store), await startGateway(store)] as const
  const gateways = { url: pair[0].url, other: pair[1].url }
  const place = `${folder}/store`
  const alone = await startGateway(place)
  // Compilers of JavaScript need it, of both gateways.
  for (const url of [gateways.url, gateways.other])
    for (const name of ['write', 'session-read'] as const)
      await turnOf(kinds[name], { url, other: url }, 2 * turn.warm)
  await pause(SETTLE_MS)
  const background = await idleUsage(pair, meter)
  const measured = { gateways, pair, meter, background }
  for (const [name, kind] of Object.entries(kinds) as [KindName, Kind][]) {
    if (values.only !== undefined && !values.only.split(',').includes(name)) continue
    found({ kind: name, ...(await measureKind(kind, measured)), ...(await inFolder(name, alone, place)) })
    process.stderr.write(`${name}\n`)
  }
  if (values.only !== undefined && !values.only.includes('keyed')) return
  await turnOf(kinds.keyed, gateways, FILL_MS)
  found({ kind: 'keyed', keys: await meter.keys(), ...(await measureKind(kinds.keyed, measured)) })
}

interface Measured {
  readonly gateways: Gateways
  readonly pair: readonly Serving[]
  readonly meter: Meter
  /** What happens in a second without a call. */
  readonly background: Usage
}

/** What one call costs: Redis is counted for one after the other, CPU time and what is kept for several at once. */
async function measureKind(kind: Kind, { gateways, pair, meter, background }: Measured): Promise<Usage> {
  const warmed = await turnOf(kind, gateways, turn.warm)
  if (warmed === 0) throw new Error(`no call of ${kind.title}`)
  const prepared = await kind.prepare(gateways)
  const count = kind.counted ?? COUNTED
  try {
    await pause(SETTLE_MS)
    const counted = await meter.during(pair, async () => {
      for (let index = 0; index < count; index++) await prepared.call(-1)
      await pause(SETTLE_MS)
    })
    let calls = 0
    const loaded = await meter.during(pair, async () => {
      calls = await manyCalls(kind, prepared, turn.measured)
    })
    const settled = await meter.during(pair, () => pause(SETTLE_MS))
    const { redisCpu, gatewayCpu, memory } = perUnit(loaded, calls)
    return {
      ...perUnit(counted, count, background),
      redisCpu,
      gatewayCpu,
      memory: memory + settled.used.memory / calls,
    }
  } finally {
    await prepared.close?.()
  }
}

/** Makes calls of a kind for so long; returns how many. */
async function turnOf(kind: Kind, gateways: Gateways, milliseconds: number): Promise<number> {
  const prepared = await kind.prepare(gateways)
  try {
    return await manyCalls(kind, prepared, milliseconds)
  } finally {
    await prepared.close?.()
  }
}

async function manyCalls(
  { atOnce = AT_ONCE, most = Infinity }: Kind,
  prepared: Awaited<ReturnType<Kind['prepare']>>,
  milliseconds: number,
): Promise<number> {
  const end = performance.now() + milliseconds
  let calls = 0
  const worker = async (_none: unknown, index: number): Promise<void> => {
    while (performance.now() < end && calls < most) {
      calls++
      await prepared.call(index)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  return calls
}

async function inFolder(name: KindName, { url }: Serving, place: string): Promise<{ folder?: number }> {
  if (!kept.has(name)) return {}
  const kind: Kind = kinds[name]
  const gateways = { url, other: url }
  await turnOf(kind, gateways, turn.measured / 4)
  await pause(SETTLE_MS)
  const before = sizeOf(place)
  const calls = await turnOf(kind, gateways, turn.measured)
  await pause(SETTLE_MS)
  return { folder: (sizeOf(place) - before) / calls }
}

/** Bytes that the files of a folder take on the disk. */
function sizeOf(place: string): number {
  const sizes = globSync(`${place}/**`).map((file) => statSync(file, { throwIfNoEntry: false }))
  return sizes.reduce((sum, stats) => sum + (stats?.isFile() === true ? stats.blocks * 512 : 0), 0)
}

async function measureMemory(): Promise<Memory> {
  const redis = await launchRedis(`${folder}/redis-for-memory`)
  const idle = await startGateway(redis.url)
  await pause(SETTLE_MS)
  const idleMegabytes = residentMegabytes(idle.pid)
  await idle.stop()
  const port = await freePort()
  const { url } = await startGateway(redis.url, [`--inspect=127.0.0.1:${port}`])
  const heap = await Heap.open(port)
  const at = `${url}/followed`
  const opened: (() => unknown)[] = []
  const openMany = async (count: number, one: () => Promise<void>): Promise<number> => {
    // The first ones load and compile what the others use.
    for (let index = 0; index < 20; index++) await one()
    await pause(SETTLE_MS)
    const before = await heap.bytes()
    for (let index = 0; index < count; index++) await one()
    await pause(SETTLE_MS)
    return ((await heap.bytes()) - before) / count
  }
  const sessions: HeaderMap[] = []
  const session = await openMany(SESSIONS, async () => void sessions.push(await openSession(at)))
  const stream = await openMany(STREAMS, async () => {
    const headers = {
      accept: 'text/event-stream',
      authorization: `Bearer ${tokens.caller}`,
      ...sessions.pop(),
    }
    const reply = await open(at, { method: 'GET', headers })
    if (reply.status !== 200) throw new Error(`the stream of a session: HTTP ${reply.status}`)
    opened.push(() => reply.destroy())
  })
  const subscription = await openMany(STREAMS, async () => void opened.push(await openEventStream(at)))
  heap.close()
  await Promise.all(opened.map((close) => close()))
  return { idleMegabytes, session, stream, subscription }
}
