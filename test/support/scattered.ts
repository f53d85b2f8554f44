/**
 * A mode of the fronts of tests: with GATEHOUSE_SCATTERED=3, each gateway of a test is three that share a store, and each request of
 * a client reaches a random one. So every journey is one through a load balancer that is not sticky. With
 * GATEHOUSE_SCATTERED=workers:3, they are the workers of one gateway. With GATEHOUSE_SCATTERED_STORE=redis, gateways of tests that say
 * nothing of their store share a Redis.
 *
 * What each of several gateways has for itself is here made one: lines of the log, metrics. Audit logs are read as one by
 * `audit-lines.ts`.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, onTestFinished, TestRunner } from 'vitest'
import { parse as parseYaml } from 'yaml'
import { combinedMetrics } from './combined-metrics.ts'
import { until } from './condition.ts'
import type { Finished, GatewayOptions, RunningGateway } from './gateway-process.ts'
import { startRedis } from './redis-server.ts'
import { openFront } from './scattering-front.ts'
import { isObject, type Json, objectAt } from './server/json.ts'
import { steadyPort } from './steady-port.ts'

const [, kind, count = '1'] = /^(workers:)?(\d+)$/.exec(process.env['GATEHOUSE_SCATTERED'] ?? '1') ?? []
const COUNT = Number(count)
/** Whether they are the workers of one. */
const hasWorkers = kind !== undefined
const hasRedisStore = process.env['GATEHOUSE_SCATTERED_STORE'] === 'redis'

let isAlone = false

/** Whether a gateway is several now. */
export function isScattered(): boolean {
  return COUNT > 1 && !isAlone
}

/** How many gateways, or workers, one is now. */
export function sizeOfEach(): number {
  return isScattered() ? COUNT : 1
}

/** How many workers a gateway has now; none if it is one process. */
export function workersOfEach(): number {
  return isScattered() && hasWorkers ? COUNT : 0
}

/**
 * Leaves the gateways of this test single, or those of all tests of this `describe` or file, where they are about what each gateway
 * has for itself: `why` says what that is. Those that were started before get all requests at the first of them. In a file or a
 * `describe` it stands before the hooks that start gateways.
 */
export function alone(why: string): void {
  if (why === '') throw new Error('say what of one gateway this is about')
  const set = (value: boolean) => (): void => void (isAlone = value)
  if (TestRunner.getCurrentTest()) {
    isAlone = true
    onTestFinished(set(false))
  } else {
    beforeAll(set(true))
    afterAll(set(false))
  }
}

/** What gateways share that are several in place of one. */
export interface Place {
  /** The addresses of clients, which are those of the front. */
  readonly url: string
  readonly origin: string
  /** The port of each gateway. */
  readonly ports: readonly number[]
  /** Where a configuration may be for all of them. */
  readonly folder: string
  /** The configuration of each. */
  shared(config: Json): Json
  /** Closes the front, once what ended gateways have sent has reached the clients. */
  leave(): Promise<void>
  /** Also removes the folder. */
  close(): Promise<void>
}

/** Opens a front at this port, which sends each request to a random one of the gateways that start at the ports of the place. */
export async function openPlace(port = 0, size = COUNT): Promise<Place> {
  const ports = await Promise.all(Array.from({ length: size }, steadyPort))
  const gateways = ports.map((each) => ({ origin: `http://127.0.0.1:${each}` }))
  const answer = (incoming: IncomingMessage, outgoing: ServerResponse): boolean => {
    const isOfAll = incoming.url === '/metrics' && size > 1
    if (isOfAll) void answerMetrics(gateways, incoming, outgoing)
    return isOfAll
  }
  const pick = (): number => (isAlone ? 0 : Math.floor(Math.random() * size))
  const { origin, url, settled, close } = await openFront(gateways, { pick, answer, port })
  const leave = async (): Promise<void> => {
    await settled()
    await close()
  }
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  const redis = hasRedisStore ? await nextRedis() : undefined
  const shared = (config: Json): Json => {
    const { store = 'default' } = config
    const isReplaced = store === 'memory' || (store === 'default' && redis !== undefined)
    return {
      ...config,
      listen: { public_url: origin, ...objectAt(config, 'listen') },
      ...(isReplaced && { store: redis ?? join(folder, 'store') }),
    }
  }
  return {
    url,
    origin,
    ports,
    folder,
    shared,
    leave,
    close: async () => {
      await leave()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Starts a gateway at each port of a place; `close` also closes the place. @throws what the first failed with, if one did */
export async function startAll<Gateway extends { close(): Promise<void> }>(
  place: Place,
  start: (port: number) => Promise<Gateway>,
): Promise<{ first: Gateway; gateways: readonly Gateway[]; close(): Promise<void> }> {
  const begun = place.ports.map(start)
  const ends = await Promise.allSettled(begun)
  const gateways = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []))
  const close = async (): Promise<void> => {
    await Promise.all(gateways.map((each) => each.close()))
    await place.close()
  }
  const [first] = await Promise.all(begun).catch(async (error: unknown) => {
    await close()
    throw error
  })
  if (!first) throw new Error('there is no gateway')
  return { first, gateways, close }
}

/** Starts several gateways in place of one, with one configuration file; `start` starts one of them. */
export async function startScattered<Gateway extends RunningGateway>(
  config: Json,
  options: GatewayOptions,
  start: (config: Json, options: GatewayOptions) => Promise<Gateway>,
): Promise<RunningGateway & { readonly gateways: readonly Gateway[] }> {
  const { port, args } = wordsOf(options)
  const place = await openPlace(port, hasWorkers ? 1 : COUNT)
  const { folder, shared } = place
  const configFile = join(folder, 'gateway.config.yaml')
  const configure = (next: Json | string): void =>
    writeFileSync(configFile, typeof next === 'string' ? sharedText(next, shared) : textOf(shared(next)))
  configure(config)
  const words = hasWorkers ? [...args, '--workers', `${COUNT}`] : args
  const { first, gateways, close } = await startAll(place, (each) =>
    start(config, { ...options, configFile, args: words, port: each }),
  )
  const log = (): readonly Json[] => joinedLog(gateways)
  // A gateway with a public URL of its own says that.
  const hasOwn = options.port === undefined && objectAt(config, 'listen')['public_url'] !== undefined
  const origin = hasOwn ? publicOrigin(first) : place.origin
  return {
    ...first,
    gateways,
    url: `${origin}/mcp`,
    origin,
    stderr: () => gateways.map((each) => each.stderr()).join(''),
    log,
    logged: (predicate, timeoutMs) => until(() => log().find(predicate), 'a line of the log', timeoutMs),
    configure,
    stop: () => gateways.forEach((each) => each.stop()),
    ended: endOf(gateways, place),
    close,
  }
}

/** The port that clients use, which is that of the front, and the other words. */
function wordsOf({ port, args = [] }: GatewayOptions): { port: number | undefined; args: readonly string[] } {
  const at = args.indexOf('--port')
  if (at >= 0) return { port: Number(args[at + 1]), args: args.toSpliced(at, 2) }
  return { port, args }
}

/** The origin of the URL that a gateway prints. */
function publicOrigin(gateway: RunningGateway): string {
  return new URL(/^Gatehouse serves (\S+)$/m.exec(gateway.stdout())?.[1] ?? '').origin
}

function textOf(config: Json): string {
  return JSON.stringify(config, null, 2)
}

/** The same for a configuration as text, unless it is none. */
function sharedText(text: string, shared: Place['shared']): string {
  try {
    const config: unknown = parseYaml(text)
    return isObject(config) ? textOf(shared(config)) : text
  } catch {
    return text
  }
}

/** The lines of all, in the order of their times. What all do at a change of the configuration is there once, when all have done it. */
function joinedLog(gateways: readonly RunningGateway[]): readonly Json[] {
  const logs = hasWorkers
    ? [...Map.groupBy(gateways[0]?.log() ?? [], ({ worker }) => worker).values()]
    : gateways.map((each) => each.log())
  const linesOf = (kind: ReturnType<typeof kindOf>): readonly (readonly Json[])[] =>
    logs
      .map((log) => log.filter((line) => kindOf(line) === kind))
      .toSorted((one, other) => one.length - other.length)
  return [
    ...linesOf('own').flat(),
    ...(linesOf('of all')[0] ?? []),
    ...(linesOf('of one').at(-1) ?? []),
  ].toSorted((one, other) => Date.parse(String(one['time'])) - Date.parse(String(other['time'])))
}

/** Whose a line is. Of workers, the first one says for all what is wrong with the configuration at the start. */
function kindOf({ event }: Json): 'own' | 'of all' | 'of one' {
  const name = String(event)
  if (!name.startsWith('config.')) return 'own'
  return hasWorkers && (name === 'config.problem' || name === 'config.unchecked') ? 'of one' : 'of all'
}

/** The end of all, after which nothing listens at their address. */
async function endOf(gateways: readonly RunningGateway[], place: Place): Promise<Finished> {
  const ends = await Promise.all(gateways.map(({ ended }) => ended))
  await place.leave()
  const failed = ends.find(({ code }) => code !== 0) ?? ends[0]
  if (!failed) throw new Error('there is no gateway')
  return { ...failed, stderr: ends.map(({ stderr }) => stderr).join('') }
}

/** The headers of one connection. */
const ofConnection = new Set(['connection', 'content-length', 'host', 'keep-alive', 'transfer-encoding'])

/** Answers with the metrics of all gateways, as what collects them makes one of them. */
async function answerMetrics(
  gateways: readonly { readonly origin: string }[],
  { headers }: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  try {
    const given = Object.entries(headers).filter(([name]) => !ofConnection.has(name))
    const sent = { headers: Object.fromEntries(given.map(([name, value]) => [name, String(value)])) }
    const answers = await Promise.all(gateways.map(({ origin }) => fetch(`${origin}/metrics`, sent)))
    const texts = await Promise.all(answers.map((each) => each.text()))
    const refused = answers.findIndex(({ ok }) => !ok)
    const { status = 502, headers: told = new Headers() } = answers[Math.max(refused, 0)] ?? {}
    const kept = [...told].filter(([name]) => !ofConnection.has(name))
    outgoing.writeHead(status, Object.fromEntries(kept))
    outgoing.end(refused < 0 ? combinedMetrics(texts) : texts[refused])
  } catch {
    outgoing.destroy()
  }
}

let redis: Promise<string> | undefined
let databases = 0

/** A database of its own in a Redis of this process. */
async function nextRedis(): Promise<string> {
  redis ??= startRedis({ databases: 4096 }).then(({ url }) => url)
  return `${await redis}/${databases++}`
}
