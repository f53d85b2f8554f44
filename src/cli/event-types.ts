/**
 * `gatehouse events list`: the types of events of servers, as clients of 2026-07-28 are offered them, and what the logs in the
 * store contain of each.
 */
import { NS } from '../core/identity.ts'
import { asGatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import type { Payload } from '../core/payload.ts'
import { featureSettings, type Settings, type UpstreamSettings } from '../core/settings.ts'
import { isoTime } from '../core/time/waiting.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { Given } from './command.ts'
import type { commands } from './commands.ts'
import { withStore } from './config-file.ts'
import type { Io } from './io.ts'
import { type Output, tableLines, timeText } from './output.ts'
import { readableLog, readOnlySettings, readServers, withGateway } from './source.ts'
import { logsOf, Tail, type ReadLog } from './event-tail.ts'

/** `gatehouse events list`: exit code 1 if a server cannot be asked. */
export async function list(
  { server, ...given }: Given<(typeof commands)['events list']>,
  io: Io,
): Promise<Output> {
  const { source, servers } = readServers(
    { ...given, server: server === undefined ? undefined : { name: server } },
    io,
  )
  const { settings } = source
  const offered = await offeredTypes(settings, servers, io)
  const all = settings.upstreams.map(({ name }) => name)
  // A store in memory exists only inside of the gateway.
  const logged =
    settings.store.kind === 'memory'
      ? undefined
      : await withStore(settings, io, (store) => loggedTypes(logsOf(store, server, all)))
  return {
    json: { servers: offered.map((each) => typesView(each, logged)) },
    text: offered.flatMap((each) => typeLines(each, logged)).join('\n'),
    code: offered.some(({ problem }) => problem !== undefined) ? 1 : 0,
  }
}

/** A type of events. */
interface OfferedType {
  readonly name: string
  readonly description: string
  /** What its events come from; `server` for one of the server itself. */
  readonly source: string
  readonly delivery: readonly string[]
}

/** The types that a server has; those of the gateway itself without a server. */
export interface OfferedTypes {
  readonly upstream: string | undefined
  readonly types: readonly OfferedType[]
  /** Why they are not known. */
  readonly problem?: string
  /** Why there are none. */
  readonly reason?: string
}

/** How many events of a type a log contains, and when the last one happened, in milliseconds since 1970. */
interface LoggedType {
  readonly count: number
  readonly lastAt: number
}

/** The types in the log of each server. */
export type LoggedTypes = ReadonlyMap<string | undefined, ReadonlyMap<string, LoggedType>>

/** Connects to servers and lists their types, and with all servers those of the gateway itself. */
async function offeredTypes(
  settings: Settings,
  servers: readonly UpstreamSettings[],
  io: Io,
): Promise<readonly OfferedTypes[]> {
  const only = readOnlySettings(settings, servers)
  return withGateway(only, { io, log: readableLog(io) }, async (gateway) => {
    await gateway.start()
    const found: OfferedTypes[] = []
    for (const { name } of servers) {
      const isOn = featureSettings(settings, 'events', name) !== false
      found.push(await typesOf(name, isOn, gateway))
    }
    return [...found, await gatewayTypes(gateway)]
  })
}

async function typesOf(upstream: string, isOn: boolean, gateway: Gateway): Promise<OfferedTypes> {
  try {
    const listed = await gateway.eventTypes(upstream)
    // The address of the only server also has the types that belong to no server.
    const own = listed?.filter((each) => !isOfGateway(each))
    if (own) return { upstream, types: own.map(({ fields }) => typeOf(fields)) }
    const reason = isOn
      ? 'clients cannot list events'
      : 'features.events is off, and the server has no events of its own'
    return { upstream, types: [], reason }
  } catch (error) {
    return { upstream, types: [], problem: asGatewayError(error).message }
  }
}

/** The types that belong to no server. If no server can be asked, they are left out. */
async function gatewayTypes(gateway: Gateway): Promise<OfferedTypes> {
  const listed = (await gateway.eventTypes(undefined).catch(() => undefined)) ?? []
  return { upstream: undefined, types: listed.filter(isOfGateway).map(({ fields }) => typeOf(fields)) }
}

/** Whether a type belongs to no server. */
function isOfGateway({ fields: { _meta: meta } }: Payload): boolean {
  return isObject(meta) && meta[`${NS}/source`] !== undefined && meta[`${NS}/upstream`] === undefined
}

function typeOf(fields: Readonly<Record<string, unknown>>): OfferedType {
  const { name, description, delivery, _meta: meta } = fields
  const source = isObject(meta) ? meta[`${NS}/source`] : undefined
  return {
    name: String(name),
    description: typeof description === 'string' ? description : '',
    source: typeof source === 'string' ? source : 'server',
    delivery: Array.isArray(delivery) ? delivery.map(String) : [],
  }
}

/** Counts the events of logs by type. @throws SERVER_UNAVAILABLE */
export async function loggedTypes(logs: readonly ReadLog[]): Promise<LoggedTypes> {
  const found = new Map<string | undefined, Map<string, LoggedType>>()
  for await (const entry of new Tail(logs).entries()) {
    if (entry.kind !== 'event') continue
    const { upstream, event } = entry
    const types = found.get(upstream) ?? new Map<string, LoggedType>()
    found.set(upstream, types)
    types.set(event.name, { count: (types.get(event.name)?.count ?? 0) + 1, lastAt: event.at })
  }
  return found
}

// Types as text and as JSON. Names come from servers.

/** The types of one server as lines; `logged` is absent if there is no store to read. */
export function typeLines(offered: OfferedTypes, logged: LoggedTypes | undefined): string[] {
  const { upstream, problem, reason } = offered
  const rows = typeRows(offered, logged)
  const notes = [problem, reason].flatMap((each) => (each === undefined ? [] : [[`  ${each}`]]))
  if (upstream === undefined && rows.length === 0) return []
  const table = rows.map(({ name, source, delivery, count, lastAt }) => [
    `  ${name}`,
    source ?? 'not offered any more',
    delivery.length === 0 ? '-' : delivery.join(', '),
    ...(logged ? [String(count), lastAt === undefined ? '-' : timeText(lastAt)] : []),
  ])
  const head = ['  type', 'source', 'delivery', ...(logged ? ['logged', 'last'] : [])]
  return [
    ...tableLines([[upstream ?? 'gateway']]),
    ...tableLines(notes),
    ...(table.length === 0 ? [] : tableLines([head, ...table])),
  ]
}

/** The same as JSON. */
export function typesView(offered: OfferedTypes, logged: LoggedTypes | undefined) {
  const { upstream, problem, reason } = offered
  return {
    server: upstream ?? null,
    problem,
    reason,
    types: typeRows(offered, logged).map(({ name, description, source, delivery, count, lastAt }) => ({
      name,
      is_offered: source !== undefined,
      ...(source !== undefined && { description, source, delivery }),
      logged: logged && count,
      last_at: lastAt === undefined ? undefined : isoTime(lastAt),
    })),
  }
}

interface TypeRow extends Omit<OfferedType, 'source'> {
  /** Undefined for a type that is only in the log. */
  readonly source: string | undefined
  readonly count: number
  readonly lastAt: number | undefined
}

function typeRows({ upstream, types }: OfferedTypes, logged: LoggedTypes | undefined): readonly TypeRow[] {
  const inLog = logged?.get(upstream) ?? new Map<string, LoggedType>()
  const offered = types.map((type): TypeRow => {
    const { count = 0, lastAt } = inLog.get(type.name) ?? {}
    return { ...type, count, lastAt }
  })
  const others = [...inLog].filter(([name]) => types.every((type) => type.name !== name))
  return [
    ...offered,
    ...others.map(([name, { count, lastAt }]): TypeRow => {
      return { name, description: '', source: undefined, delivery: [], count, lastAt }
    }),
  ]
}
