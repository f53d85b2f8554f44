/** Gateways with one Redis behind a load balancer that is not sticky, and what can happen to all of them. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { ErrorCode } from '../../src/core/error.ts'
import { Secret } from '../../src/core/text/secret.ts'
import { isEnded, Operations, type StoredOperation } from '../../src/records/operations.ts'
import { openStore } from '../../src/store/open.ts'
import { tokenHash } from './auth/token-hash.ts'
import { type Balancer, openBalancer } from './balancer.ts'
import { until } from './condition.ts'
import { mortal, type MortalGateway, startAll } from './crash-field.ts'
import { type EffectsServer, startEffects } from './effects.ts'
import { EventReceivers } from './event-receiver.ts'
import { gatewayProgram } from './gateway-process.ts'
import type { NetworkPlace } from './network.ts'
import { type RedisFleet, startSentinels } from './redis-fleet.ts'
import { startRedis } from './redis-server.ts'
import { type Seeded, seeded } from '../simulate/random.ts'
import type { Json } from './server/json.ts'
import { silentLog } from './silent-log.ts'
import { steadyPort } from './steady-port.ts'

/** A store that can be lost for a while. */
export interface LosableStore {
  readonly url: string
  /** Kills the server that is written to, or stops it. Resolves once there is one again, with all its replicas. */
  lose(how: 'is killed' | 'hangs', random: Seeded): Promise<void>
  stop(): Promise<void>
}

/** One Redis with an append-only file, which is started again. */
export async function oneRedis(): Promise<LosableStore> {
  const redis = await startRedis()
  return {
    url: redis.url,
    lose: async (how, random) => {
      if (how === 'hangs') redis.freeze()
      else await redis.stop()
      await pause(300 + random.below(5000))
      if (how === 'hangs') redis.thaw()
      else await redis.start()
    },
    stop: () => redis.stop(),
  }
}

/** A master of Redis, which sentinels replace by one of two replicas. */
export async function redisWithSentinels(host?: string): Promise<LosableStore> {
  const fleet = await startSentinels({ ...(host !== undefined && { host }) })
  return {
    url: fleet.url,
    lose: async (how, random) => {
      const master = await fleet.master()
      if (how === 'hangs') master.freeze()
      else await master.kill()
      await until(async () => (await fleet.master()) !== master, 'another master')
      await pause(random.below(2000))
      if (how === 'hangs') master.thaw()
      else await master.start()
      await until(() => isComplete(fleet), 'the earlier master to follow')
    },
    stop: () => fleet.stop(),
  }
}

async function isComplete(fleet: RedisFleet): Promise<boolean> {
  const text = await (await fleet.master()).tell('INFO replication')
  return [...text.matchAll(/^slave\d+:.*state=online/gm)].length === fleet.nodes.length - 1
}

export interface ChaosField {
  /** The address of the load balancer. */
  readonly origin: string
  /** The gateways; those that were added are at the end. */
  readonly members: readonly MortalGateway[]
  /** Starts one more gateway. */
  add(): Promise<void>
  /** Has the gateway that was added last end in order. */
  leave(): Promise<void>
  readonly receivers: EventReceivers
  /** The bearer token of all callers, which the balancer adds where it is missing. */
  readonly token: string
  /** The file the effects are lines of. */
  readonly log: string
  /** How often each code was answered, and failures with none that is documented for what happens here. */
  readonly codes: ReadonlyMap<string, number>
  readonly undocumented: readonly string[]
  /** The operations that have not ended, as the store says. */
  unended(): Promise<readonly StoredOperation[]>
  /** Resolves once the servers have done what was begun. */
  settled(): Promise<void>
  close(): Promise<void>
}

interface FieldOptions {
  readonly store: LosableStore
  /** Where the last of the gateways is, which can be cut off from the store. */
  readonly place?: NetworkPlace | undefined
  readonly seed: number
}

const TOKEN = 'a-token-of-at-least-32-characters-00'
/** How many gateways there are without those that are added. */
const MEMBERS = 3
const FLEET_PORT = 8901

const program = (name: string): string => fileURLToPath(new URL(name, import.meta.url))
const verify = 'list_effects(key=$.args.key) -> $.result.effects[0]'

/** Starts the servers, the gateways and the balancer. */
export async function startChaosField({ store, place, seed }: FieldOptions): Promise<ChaosField> {
  const home = mkdtempSync(join(tmpdir(), 'gatehouse-chaos-'))
  const log = join(home, 'effects.log')
  const host = place?.steady ?? '127.0.0.1'
  const at = ['--host', host]
  const servers = await Promise.all([
    startEffects(log, await steadyPort(), at),
    startEffects(log, await steadyPort(), [...at, '--slow', '400']),
    startEffects(log, await steadyPort(), [...at, '--slow', '400', '--tasks']),
  ])
  const receivers = await EventReceivers.start(host)
  const answers = new Answers()
  const members: MortalGateway[] = []
  const balancer = await openBalancer(members, {
    random: seeded(seed),
    headers: { authorization: `Bearer ${TOKEN}` },
    onAnswer: (status, text) => answers.add(status, text),
  })
  const common = { store, balancer, receivers, servers }
  const fileFor = (name: string, own?: string): string => {
    const file = join(home, `${name}.yaml`)
    const fleet = own === undefined ? {} : { fleet: { listen: `${own}:${FLEET_PORT}` } }
    writeFileSync(file, JSON.stringify({ ...configuration(common), ...fleet }))
    return file
  }
  const here = fileFor('here', place?.steady)
  const make = (): Promise<MortalGateway> => mortal(here, '/mcp')
  members.push(...(await Promise.all(Array.from({ length: place ? MEMBERS - 1 : MEMBERS }, make))))
  if (place) {
    const own = { host: place.own, program: [...place.command, ...gatewayProgram()] }
    members.push(await mortal(fileFor('there', place.own), '/mcp', () => own))
  }
  const close = async (): Promise<void> => {
    for (const each of members) each.thaw()
    await Promise.all(members.map((each) => each.kill()))
    await Promise.all([...servers.map((each) => each.kill()), balancer.close(), receivers.close()])
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  }
  await startAll(members, close)
  return {
    origin: balancer.origin,
    members,
    add: async () => {
      const added = await make()
      await added.start()
      members.push(added)
    },
    leave: async () => {
      const last = members.length > MEMBERS ? members.pop() : undefined
      await last?.stop()
    },
    receivers,
    token: TOKEN,
    log,
    codes: answers.codes,
    undocumented: answers.undocumented,
    unended: () => unended(store.url),
    settled: async () => void (await Promise.all(servers.map((each) => each.settled()))),
    close,
  }
}

interface Common {
  readonly store: LosableStore
  readonly balancer: Balancer
  readonly receivers: EventReceivers
  readonly servers: readonly EffectsServer[]
}

function configuration({ store, balancer, receivers, servers }: Common): Json {
  const [quick, slow, tasked] = servers.map(({ url }) => url)
  const own = { trust: true, revision: '2025-11-25' }
  const add_effect = { verify, undo: 'remove_effect(id=$.result.id)' }
  const brief = { timeout: '1s' }
  const known = { add_effect: { ...add_effect, ...brief }, add_blind_effect: brief, remove_effect: brief }
  const confirm = { confirm: true, ...brief }
  return {
    store: store.url,
    listen: { public_url: balancer.origin },
    auth: { opaque: { tokens: [{ hash: tokenHash(TOKEN), id: 'ada' }] } },
    // After a crash a read is believed once the longest call is over.
    limits: { max_timeout: '6s', timeout: '2s', concurrency: 'off', rate: 'off' },
    features: {
      breaker: { pause: '250ms' },
      confirm: { level: 'none' },
      idempotency: { max_keys: 100_000 },
      // Tasks are read once more at the end of a run.
      progress: { keep: '2h', tasks: { after: '100ms' } },
      transactions: { max_active: 1000 },
      events: { webhooks: { allow: [receivers.origin] } },
    },
    upstreams: {
      quick: { ...own, url: quick, tools: known },
      events: { ...own, url: quick },
      confirmed: {
        ...own,
        url: quick,
        tools: { add_blind_effect: confirm, add_effect: { ...add_effect, ...confirm } },
      },
      effects: { ...own, url: slow, tools: { add_effect } },
      tasked: { ...own, url: tasked, tools: { add_effect } },
      asking: {
        trust: true,
        command: [process.execPath, program('../fixtures/task-server/main.ts')],
        env: { MODE: 'plain' },
      },
    },
  }
}

async function unended(url: string): Promise<readonly StoredOperation[]> {
  const store = openStore({ kind: 'redis', url: new Secret(url) }, silentLog)
  try {
    await store.opened?.()
    const all = await new Operations(store, Date.now).all()
    return all.filter(({ record }) => !isEnded(record))
  } finally {
    await store.close()
  }
}

/** What gateways answered. */
class Answers {
  readonly codes = new Map<string, number>()
  readonly undocumented: string[] = []
  readonly #documented = documentedCodes()

  add(status: number, text: string): void {
    const codes = [...text.matchAll(/"code":"([A-Z_]+)"/g)].map(([, code = '']) => code)
    for (const code of codes) this.codes.set(code, (this.codes.get(code) ?? 0) + 1)
    // A gateway that was stopped may find that a request took too long to arrive.
    if (status === 408 && text === '') return
    const isFailed = status >= 400 || /"error":\{|"isError":true/.test(text)
    if (!isFailed || (codes.length > 0 && codes.every((code) => this.#documented.has(code)))) return
    if (this.undocumented.length < 20) this.undocumented.push(`${status} ${text.slice(0, 500)}`)
  }
}

/** What a right request may be refused with while something is away, as far as the documents explain it. */
function documentedCodes(): ReadonlySet<string> {
  const text = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8')
  return new Set<ErrorCode>(refusals.filter((code) => text.includes(`\`${code}\``)))
}

const refusals = [
  'SERVER_UNAVAILABLE',
  'OVERLOADED',
  'OPERATION_TIMEOUT',
  'OUTCOME_UNKNOWN',
  'CANCELLED',
  'IDEMPOTENCY_IN_PROGRESS',
  // An attempt whose answer was lost has used it, or it was made by a gateway that is gone.
  'STATE_INVALID',
  'STATE_EXPIRED',
  'CONFIRMATION_TOKEN_INVALID',
  'CONFIRMATION_DECLINED',
  // It is ended already, or being ended.
  'TRANSACTION_CONFLICT',
  // Some steps fail, and some cannot be undone.
  'UPSTREAM_ERROR',
  'COMPENSATION_UNAVAILABLE',
] as const satisfies readonly ErrorCode[]
