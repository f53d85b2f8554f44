/** Where the server is that accepts writes: sentinels are asked for the address of their master, nodes of a cluster for their slots. */
import type { RedisClientType } from '@redis/client'
import { readFileSync } from 'node:fs'
import type { RedisHost, RedisLocation, RedisLogin } from '../../core/redis-url.ts'
import { within } from '../../core/time/waiting.ts'
import { CLUSTER_TAG } from './keys.ts'

/** The package of the driver. */
export type Driver = typeof import('@redis/client')

/** How long a connection may take to open, in milliseconds. */
const CONNECT_TIMEOUT_MS = 2000
/** How long sentinels and nodes may take to answer, in milliseconds. */
const LOCATE_TIMEOUT_MS = 1000

/** What every connection has. @throws Error if a file of the location cannot be read */
export function connectOptions(
  { isTls, files }: RedisLocation,
  { host, port }: RedisHost,
  login: RedisLogin,
): ConnectOptions {
  const place = { host, port, connectTimeout: CONNECT_TIMEOUT_MS }
  // They are read each time, so that renewed certificates are used.
  const read = Object.entries(files).map(([use, file]) => [use, readFileSync(file)] as const)
  return {
    ...login,
    maintNotifications: 'disabled',
    disableClientInfo: true,
    socket: isTls ? { ...place, tls: true, ...Object.fromEntries(read) } : place,
  }
}

interface ConnectOptions extends RedisLogin {
  readonly maintNotifications: 'disabled'
  readonly disableClientInfo: true
  readonly socket: RedisHost & { readonly connectTimeout: number; readonly tls?: true }
}

/**
 * The address of the master, which is that of most answers: one that is cut off may still name an earlier master.
 * @throws Error if none of them knows it
 */
export async function locate(driver: Driver, location: RedisLocation): Promise<RedisHost> {
  const asked = location.hosts.map((host) => ask(driver, location, host))
  const answers = await Promise.all(asked)
  const counts = new Map<string, { readonly place: RedisHost; count: number }>()
  for (const place of answers.flatMap(({ found }) => found ?? [])) {
    const name = `${place.host}:${place.port}`
    const counted = counts.get(name) ?? { place, count: 0 }
    counted.count++
    counts.set(name, counted)
  }
  const [best] = [...counts.values()].toSorted((one, other) => other.count - one.count)
  if (best) return best.place
  const problems = answers.map(({ problem }, index) => `${location.hosts[index]?.host}: ${problem}`)
  const what = location.kind === 'sentinel' ? 'no sentinel' : 'no node of the cluster'
  throw new Error(`${what} says where the master is (${[...new Set(problems)].join('; ')})`)
}

/**
 * Ends a client for good. One that is still connecting forgets its socket, and would use it, and say that it is ready, once that is
 * connected: the process could not end, or a server would be used that was left.
 */
export function endClient(client: RedisClientType): void {
  client.on('connect', () => client.destroy())
  if (client.isOpen) client.destroy()
}

interface Answer {
  readonly found?: RedisHost
  readonly problem?: string
}

/** Asks one sentinel or node, which has a bounded time. */
async function ask(driver: Driver, location: RedisLocation, host: RedisHost): Promise<Answer> {
  let client: RedisClientType | undefined
  try {
    const login = location.kind === 'sentinel' ? location.sentinelLogin : location.login
    const { socket, ...options } = connectOptions(location, host, login)
    client = driver.createClient({ ...options, socket: { ...socket, reconnectStrategy: false } })
    client.on('error', () => undefined)
    const question = location.kind === 'sentinel' ? masterOf : slotOwner
    const answer = client.connect().then((open) => question(open as RedisClientType, location, host))
    return await within(answer, LOCATE_TIMEOUT_MS, { problem: 'no response in time' })
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) }
  } finally {
    if (client) endClient(client)
  }
}

async function masterOf(client: RedisClientType, { master }: RedisLocation): Promise<Answer> {
  const reply = await client.sendCommand(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', master])
  const found = Array.isArray(reply) ? placeOf(reply) : undefined
  return found ? { found } : { problem: `it knows no master with the name ${JSON.stringify(master)}` }
}

/** The master of the slot in which everything is. */
async function slotOwner(
  client: RedisClientType,
  _location: RedisLocation,
  asked: RedisHost,
): Promise<Answer> {
  const slot = Number(await client.sendCommand(['CLUSTER', 'KEYSLOT', CLUSTER_TAG]))
  const ranges: unknown = await client.sendCommand(['CLUSTER', 'SLOTS'])
  const lists: readonly unknown[] = Array.isArray(ranges) ? ranges : []
  const range = lists.find(
    (each): each is readonly unknown[] =>
      Array.isArray(each) && Number(each[0]) <= slot && slot <= Number(each[1]),
  )
  const [, , owner] = range ?? []
  const found = Array.isArray(owner) ? placeOf(owner, asked.host) : undefined
  return found ? { found } : { problem: 'no node has the slot of the keys' }
}

/** A host and a port, at the beginning of a reply. Nodes that do not know their own host name none. */
function placeOf([given, number]: readonly unknown[], otherwise = ''): RedisHost | undefined {
  const host = typeof given === 'string' && given !== '' && given !== '?' ? given : otherwise
  const port = Number(number)
  return host !== '' && Number.isInteger(port) && port > 0 ? { host, port } : undefined
}
