/** Changes that a server notifies: of its lists, and of its resources. */
import type { Principal } from '../../../core/principal.ts'
import { Payload } from '../../../core/payload.ts'
import { asksFor, UPDATED } from '../../../protocol/subscription-filter.ts'
import { LISTENING_BEGAN } from '../../../records/logged-events.ts'
import type { Services } from '../../feature.ts'
import { type EventSource, type EventType, type Fields, forEveryone, isPermitted } from '../event-types.ts'
import type { ServerEvents } from '../server-events.ts'
import { Listeners, listTypes, RESOURCE_UPDATED } from './listeners.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'identity'>

/** The events that servers notify. The gateway listens while a client wants them. */
export function notifiedEvents(deps: Deps, events: (upstream: string) => ServerEvents): EventSource {
  const listeners = new Listeners(deps, events)
  const types = (upstream: string | undefined): readonly EventType[] => {
    if (upstream === undefined || isPersonal(upstream, deps)) return []
    const lists = Object.keys(listTypes).map((name) => listType(upstream, name, listeners))
    return [...lists, resourceType(upstream, listeners, deps)]
  }
  return {
    name: 'notifications',
    types,
    described: types,
    close: () => listeners.close(),
  }
}

/** Whether each user has credentials of a server: the gateway itself has none to listen with. */
export function isPersonal(upstream: string, { servers }: Pick<Deps, 'servers'>): boolean {
  const reach = servers.settings(upstream)?.reach
  const grant = reach?.kind === 'url' ? reach.oauth?.grant : undefined
  return grant === 'authorization_code' || grant === 'token_exchange'
}

function listType(upstream: string, name: string, listeners: Listeners): EventType {
  const list = name.slice(0, name.indexOf('_'))
  return {
    ...forEveryone,
    upstream,
    name,
    description: `The server's list of ${list} has changed.`,
    inputSchema: { type: 'object', additionalProperties: false },
    payloadSchema: { type: 'object' },
    isGap: (_wanted, entry) => entry.name === LISTENING_BEGAN && entry.data.uri === undefined,
    keep: (_wanted, principal) => listeners.keep({ upstream }, principal),
  }
}

function resourceType(upstream: string, listeners: Listeners, deps: Deps): EventType {
  const uri = { type: 'string', description: 'The URI of the resource.' }
  return {
    upstream,
    name: RESOURCE_UPDATED,
    description: 'A resource was updated.',
    inputSchema: { type: 'object', properties: { uri }, required: ['uri'], additionalProperties: false },
    payloadSchema: { type: 'object', properties: { uri }, required: ['uri'] },
    // The URIs of servers have other forms at the address of all servers.
    isOwnAddressOnly: true,
    isRequested: (wanted, { data }) =>
      asksFor({ resourceSubscriptions: [String(wanted.uri)] }, { method: UPDATED, params: Payload.of(data) }),
    isGap: (wanted, entry) => entry.name === LISTENING_BEGAN && entry.data.uri === wanted.uri,
    mayReceive: ({ data }, call) => {
      if (typeof data.uri !== 'string') return true
      const target = { upstream, method: 'resources/read', name: data.uri }
      return isPermitted(call, target, { uri: data.uri }, deps)
    },
    keep: (wanted: Fields, principal: Principal) =>
      listeners.keep({ upstream, uri: String(wanted.uri) }, principal),
  }
}
