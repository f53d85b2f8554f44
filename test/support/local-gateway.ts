import { loadSettings } from '../../src/config/load.ts'
import { Gateway } from '../../src/gateway/gateway.ts'
import type { Settings } from '../../src/core/settings.ts'
import type { Log } from '../../src/core/log.ts'
import type { MemoryStore } from '../../src/store/memory.ts'
import { tokenHash } from './auth/token-hash.ts'
import { isScattered, openPlace, startAll } from './scattered.ts'
import { type Json, objectAt } from './server/json.ts'

/** A gateway in this process, with what it logged. */
export interface LocalGateway {
  /** The endpoint of all servers together. */
  readonly url: string
  readonly origin: string
  /** The code for its pages; empty if people authenticate in another way. */
  readonly code: string
  /** Every line of its log: the event, and its fields. */
  readonly lines: readonly Json[]
  /** Names that would be the same. */
  readonly collisions: readonly string[]
  /** Plans and carries out rewinds. */
  readonly rewinding: Gateway['rewinding']
  /** Replaces its configuration, as a changed file does. */
  reload(config: Json): Promise<void>
  close(): Promise<void>
}

/**
 * Starts a gateway on a free port of loopback, and waits until it tried its servers. It uses the given store, which other gateways may
 * have too, and leaves it open.
 */
export function localGateway(config: Json, store?: MemoryStore): Promise<LocalGateway> {
  return isScattered() && !store ? scatteredGateway(config) : oneGateway(config, { store })
}

/** Several gateways in place of one. */
async function scatteredGateway(config: Json): Promise<LocalGateway> {
  const lines: Json[] = []
  const place = await openPlace(Number(objectAt(config, 'listen')['port'] ?? 0))
  const at = (given: Json, port: number): Json => {
    const shared = place.shared({ store: 'memory', ...given })
    return { ...shared, listen: { ...objectAt(shared, 'listen'), port } }
  }
  const { first, gateways, close } = await startAll(place, (port) => oneGateway(at(config, port), { lines }))
  const reload = async (changed: Json): Promise<void> => {
    await Promise.all(gateways.map((each, index) => each.reload(at(changed, place.ports[index] ?? 0))))
  }
  return { ...first, url: place.url, origin: place.origin, reload, close }
}

async function oneGateway(
  config: Json,
  { store, lines = [] }: { readonly store?: MemoryStore | undefined; readonly lines?: Json[] },
): Promise<LocalGateway> {
  const settings = settingsOf(config)
  const write =
    (level: string) =>
    (event: string, fields: Readonly<Record<string, unknown>> = {}): void =>
      void lines.push({ level, event, ...fields })
  const log: Log = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
  const shared = store && { openStore: () => Object.assign(store, { close: async () => undefined }) }
  const gateway = new Gateway(settings, { variables: {}, log, ...shared })
  const listener = await gateway.listen()
  const close = async (): Promise<void> => {
    await Promise.all([gateway.close(), listener.close()])
  }
  const reload = (changed: Json): Promise<void> => gateway.reload(settingsOf(changed))
  const collisions = (await gateway.start()).map(({ message }) => message)
  const { rewinding } = gateway
  const code = gateway.operatorCode ?? ''
  return {
    url: `${listener.url}/mcp`,
    origin: listener.url,
    code,
    lines,
    collisions,
    rewinding,
    reload,
    close,
  }
}

function settingsOf(config: Json): Settings {
  const text = JSON.stringify({
    store: 'memory',
    ...config,
    listen: { port: 0, ...Object(config['listen']) },
  })
  return loadSettings(text, { file: '/tmp/gateway.config.yaml', env: {} }).settings
}

const token = 'a-token-of-at-least-32-characters-00'

/** What the corporate profile needs besides servers. */
export const corporate = {
  profile: 'corporate',
  auth: { opaque: { tokens: [{ id: 'agent', hash: tokenHash(token) }] } },
}

/** The header of a caller the corporate profile lets in. */
export const caller = { authorization: `Bearer ${token}` }
