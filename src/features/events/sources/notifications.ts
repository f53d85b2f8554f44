/** Changes that a server notifies: of its lists, and of its resources. */
import { exchangesTokens } from '../../../core/settings.ts'
import { GatewayError } from '../../../core/error.ts'
import type { Principal } from '../../../core/principal.ts'
import { Payload } from '../../../core/payload.ts'
import { asksFor, UPDATED } from '../../../protocol/subscription-filter.ts'
import { LISTENING_BEGAN } from '../../../records/logged-events.ts'
import type { Services } from '../../feature.ts'
import { type EventSource, type EventType, type Fields, forEveryone, isPermitted } from '../types.ts'
import type { ServerEvents } from '../server-events.ts'
import { Listeners, listTypes, RESOURCE_UPDATED } from './listeners.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'identity'>

/** The events that servers notify. The gateway listens while a client wants them. */
export function notifiedEvents(deps: Deps, events: (upstream: string) => ServerEvents): EventSource {
  const listeners = new Listeners(deps, events)
  const types = (upstream: string | undefined, isTogether: boolean): readonly EventType[] => {
    if (upstream === undefined || isPersonal(upstream, deps)) return []
    const lists = Object.keys(listTypes).map((name) => listType(upstream, name, listeners))
    return [...lists, resourceType(upstream, isTogether, listeners, deps)]
  }
  return {
    name: 'notifications',
    types: (upstream, { target }) => types(upstream, target.upstream === undefined),
    described: (upstream) => types(upstream, false),
    close: () => listeners.close(),
  }
}

/** Whether each user has credentials of a server: the gateway itself has none to listen with. */
export function isPersonal(upstream: string, { servers }: Pick<Deps, 'servers'>): boolean {
  const reach = servers.settings(upstream)?.reach
  const oauth = reach?.kind === 'url' ? reach.oauth : undefined
  return oauth !== undefined && (oauth.grant === 'authorization_code' || exchangesTokens(oauth))
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

function resourceType(upstream: string, isTogether: boolean, listeners: Listeners, deps: Deps): EventType {
  const { servers } = deps
  const uri = { type: 'string', description: 'The URI of the resource.' }
  // At the address of all servers, URIs say which server they are of.
  const ownUri = (given: unknown): string | undefined =>
    isTogether ? servers.ownUri(upstream, String(given)) : String(given)
  return {
    upstream,
    name: RESOURCE_UPDATED,
    description: 'A resource was updated.',
    inputSchema: { type: 'object', properties: { uri }, required: ['uri'], additionalProperties: false },
    payloadSchema: { type: 'object', properties: { uri }, required: ['uri'] },
    ...(isTogether && {
      present: (data) => ({ ...data, uri: servers.exposedUri(upstream, String(data.uri)) }),
    }),
    isRequested: (wanted, { data }) => {
      const own = ownUri(wanted.uri)
      if (own === undefined) return false
      return asksFor({ resourceSubscriptions: [own] }, { method: UPDATED, params: Payload.of(data) })
    },
    isGap: (wanted, entry) => entry.name === LISTENING_BEGAN && entry.data.uri === ownUri(wanted.uri),
    mayReceive: ({ data }, caller) => {
      if (typeof data.uri !== 'string') return true
      // The data of an event has the URI of the server, and that of a request the one of the client.
      const name = ownUri(data.uri) ?? data.uri
      return isPermitted(caller, { upstream, method: 'resources/read', name }, { uri: name }, deps)
    },
    keep: async (wanted: Fields, principal: Principal) => {
      const own = ownUri(wanted.uri)
      if (own === undefined) throw notOfServer(upstream)
      return listeners.keep({ upstream, uri: own }, principal)
    },
  }
}

function notOfServer(upstream: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: arguments.uri is not a URI of ${upstream}.`, {
    field: 'arguments.uri',
    reason: 'unknown',
    suggestion: 'Send the URI as resources/list has it.',
  })
}
