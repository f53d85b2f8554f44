/**
 * The forms of a request to subscribe. Its members can be in `subscribe`, as the proposal of subscriptions writes them, and
 * they can name a server: then the names of the events are those that this server has.
 */
import type { Call } from '../../../core/call.ts'
import { isObject } from '../../../core/json/json.ts'
import type { Payload } from '../../../core/payload.ts'
import { escapeHidden } from '../../../core/text/escape.ts'
import { findTypes, type Parts } from '../requests.ts'
import { invalid } from './filter.ts'

/** The most servers that an error names. */
const MAX_NAMES = 50

/** A call with the members of `subscribe` among its own. @throws INVALID_INPUT if one is in both places */
export function unwrapped(call: Call): Call {
  const inner = call.params.at('subscribe')
  if (!inner || inner.value === null) return call
  if (!isObject(inner.value)) throw invalid('subscribe', 'must be an object with events')
  const outer = call.params.with({ subscribe: undefined })
  const members = Object.keys(inner.fields)
  const twice = members.find((key) => Object.hasOwn(outer.fields, key))
  if (twice !== undefined)
    throw invalid(`subscribe.${escapeHidden(twice).slice(0, 64)}`, 'is also beside subscribe: send it once')
  const moved: readonly (readonly [string, Payload | undefined])[] = members.map((key) => [
    key,
    inner.at(key),
  ])
  return { ...call, params: outer.with(Object.fromEntries(moved)) }
}

/**
 * The names of events at the address of a call that names their server, or no server. A name that the address has already,
 * with the prefix of the server, stays. @throws INVALID_INPUT for an unknown server
 */
export async function namesAt(
  call: Call,
  events: readonly string[],
  parts: Parts,
): Promise<readonly string[]> {
  const { server = null } = call.params.fields
  if (server === null) return events
  const { upstream } = call.target
  const known = upstream === undefined ? parts.upstreams() : [upstream]
  if (typeof server !== 'string' || !known.includes(server))
    throw invalid('server', `must be one of ${known.slice(0, MAX_NAMES).join(', ')}, or absent`)
  if (upstream !== undefined) return events
  const exposed = events.map((name) => parts.deps.servers.exposedEvent(server, name))
  const types = await findTypes([...exposed, ...events], call, parts)
  const isOfServer = (index: number): boolean => types[events.length + index]?.type.upstream === server
  return exposed.map((name, index) => (!types[index] && isOfServer(index) ? (events[index] ?? name) : name))
}
