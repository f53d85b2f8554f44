/**
 * The place of this gateway among those that share its store: it opens the private listener at which they reach it, tells them
 * where that is, and forwards to them what is theirs. A gateway that they cannot reach owns no sessions: then each of them
 * continues what it does not have.
 */
import { readdirSync, rmSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { hostname, platform, tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { self } from '../core/identity.ts'
import type { Log } from '../core/log.ts'
import { readRedisUrl } from '../core/redis-url.ts'
import type { Seal } from '../core/seal.ts'
import type { FleetSettings, Settings } from '../core/settings.ts'
import { excerpt } from '../core/text/redact.ts'
import { world } from '../core/world.ts'
import type { OtherProcesses } from '../downstream/http/endpoint.ts'
import { createEnvelopes } from '../downstream/http/hop/envelope.ts'
import { Forwarder, UNIX } from '../downstream/http/hop/forwarder.ts'
import { listenPrivately, type Place, refuseMoved } from '../downstream/http/hop/listener.ts'
import { createPlaces } from '../downstream/http/hop/place.ts'
import type { Forwarding } from '../downstream/http/hop/request.ts'
import type { Network } from '../downstream/http/network.ts'
import { isLoopback } from '../downstream/http/origin.ts'
import type { Listener } from '../downstream/http/server.ts'
import type { Fleet, MemberDetails } from '../durable/members.ts'
import { createPrivateFolder } from '../store/private-folder.ts'
import type { Placements } from './placements.ts'

interface Options {
  readonly fleet: Fleet
  readonly network: Network
  readonly settings: Pick<Settings, 'store' | 'fleet'>
  /** The environment, which may name the address of this machine. */
  readonly variables: Readonly<Record<string, string | undefined>>
  /** Seals with the key that the gateways share. */
  readonly seal: Seal
  onForwarded(outcome: Forwarding): void
  onMoved(how: 'adopted' | 'fenced'): void
  /** Answers what the others forward about servers that run here. */
  readonly placements: Pick<Placements, 'serve'>
  readonly log: Log
}

/** A gateway that the others reach. */
export interface JoinedFleet {
  /** For the listener of its clients. */
  readonly others: OtherProcesses
  /** Serves what the others forward about clients, from now on. */
  serveBy(listener: Pick<Listener, 'serveForwarded'>): void
  /** Tells the others where it is, also after its store was replaced. */
  describe(): Promise<void>
  /** Tells the others that it takes no new clients, and finishes what it has. */
  drain(): Promise<void>
  /** Leaves what it owned to the others. Never rejects. */
  close(): Promise<void>
}

/** Makes this gateway reachable for the others. Resolves with undefined, and a line in the log, if it cannot be. */
export async function joinFleet(options: Options): Promise<JoinedFleet | undefined> {
  try {
    return await joinReachable(options)
  } catch (error) {
    options.log.warn('fleet.unreachable', { error: excerpt(String(error)) })
    return undefined
  }
}

async function joinReachable(options: Options): Promise<JoinedFleet | undefined> {
  const { fleet, network, settings, seal, log } = options
  const place = placeOf(settings)
  if (!place) return undefined
  const envelopes = createEnvelopes(seal, fleet.id)
  let serve: Listener['serveForwarded'] = (_incoming, outgoing) => refuseMoved(outgoing)
  const listener = await listenPrivately({
    place,
    network,
    envelopes,
    serve: (incoming, outgoing, decision) =>
      decision.isPlaced === true
        ? options.placements.serve(incoming, outgoing, decision)
        : serve(incoming, outgoing, decision),
    log,
  })
  const forwarder = new Forwarder({
    fleet,
    envelopes,
    network,
    onForwarded: options.onForwarded,
    log,
  })
  const address = addressOf(place, listener.port, options)
  const since = world.now()
  let state: MemberDetails['state'] = 'serving'
  const describe = (): Promise<void> => {
    return fleet.describe({
      version: self.version,
      host: hostname(),
      pid: world.processId(),
      since,
      state,
      address,
    })
  }
  // If the store is away, this is repeated once it is back.
  await describe().catch((error: unknown) => log.warn('fleet.unreachable', { error: excerpt(String(error)) }))
  return {
    others: { fleet: sessionFleet(options, address), forwarder },
    serveBy: (by) => {
      serve = (...request) => by.serveForwarded(...request)
    },
    describe,
    drain: () => {
      state = 'draining'
      return describe().catch(() => undefined)
    },
    close: async () => {
      await fleet.describe(undefined).catch(() => undefined)
      await Promise.allSettled([forwarder.close(), listener.close()])
    },
  }
}

function sessionFleet({ fleet, seal, onMoved }: Options, address: string): OtherProcesses['fleet'] {
  return {
    id: fleet.id,
    get term() {
      return fleet.term
    },
    renew: () => fleet.renew(),
    find: (id) => fleet.find(id),
    hasEnded: (id) => fleet.hasEnded(id),
    places: createPlaces({ id: fleet.id, address }, seal),
    onMoved,
  }
}

/** Where the private listener is; undefined if no other gateway can share the store. @throws Error if no private folder can be made */
function placeOf({ store, fleet }: Pick<Settings, 'store' | 'fleet'>): Place | undefined {
  if (store.kind === 'memory') return undefined
  if (fleet.listen) return fleet.listen
  if (store.kind === 'folder') return { path: socketPath(store.path) }
  const isLocal = readRedisUrl(store.url.reveal()).hosts.every(({ host }) => isLoopback(host))
  return { host: isLocal ? '127.0.0.1' : '0.0.0.0', port: 0 }
}

function addressOf(
  place: Place,
  port: number | undefined,
  { settings, variables }: Pick<Options, 'settings' | 'variables'>,
): string {
  const { address }: FleetSettings = settings.fleet
  if (address !== undefined) return address
  if ('path' in place) return `${UNIX}${place.path}`
  const given = isAny(place.host) ? (variables['POD_IP'] ?? hostname()) : place.host
  return `http://${given.includes(':') ? `[${given}]` : given}:${port}`
}

function isAny(host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}

/** The longest path of a Unix socket on all systems, in bytes. */
const MAX_SOCKET_PATH = 100
/** A younger socket may be of a gateway that is about to listen, in milliseconds. */
const NEW_SOCKET_MS = 60_000

/** The path of a new socket: in the folder of the store, which the others have too, or in one of the user if that is too long. */
function socketPath(store: string): string {
  const name = world.randomBytes(6).toString('hex')
  if (platform() === 'win32') return `\\\\.\\pipe\\gatehouse-${name}`
  const beside = join(store, 'fleet')
  const isShort = Buffer.byteLength(join(beside, `${name}.sock`)) <= MAX_SOCKET_PATH
  const folder = createPrivateFolder(isShort ? beside : join(tmpdir(), `gatehouse-fleet-${userInfo().uid}`))
  if (folder === undefined) throw new Error(`no private folder for a socket can be made in ${store}`)
  removeStaleSockets(folder)
  return join(folder, `${name}.sock`)
}

/** Removes the sockets without a listener: a process that is killed leaves its own. */
function removeStaleSockets(folder: string): void {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name)
    const changed = statSync(path, { throwIfNoEntry: false })?.mtimeMs
    if (changed === undefined || !name.endsWith('.sock') || world.now() - changed < NEW_SOCKET_MS) continue
    const socket = connect(path, () => socket.destroy())
    socket.on('error', (error) => {
      if ('code' in error && error.code === 'ECONNREFUSED') rmSync(path, { force: true })
    })
  }
}
