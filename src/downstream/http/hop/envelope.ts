/**
 * What the gateway that got a request says of it to the one that answers it: who asks, and for which endpoint, as it has
 * decided. It travels in one header, sealed with the key that gateways with the same store share.
 *
 * Invariants: an envelope opens only at the gateway that it is for, once, and for a short time. It never holds a credential
 * of the client, and a request that carries one beside it is refused.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { LRUCache } from 'lru-cache'
import type { ClientPeer } from '../../../core/exchange.ts'
import { isObject } from '../../../core/json/json.ts'
import { isSubject, type Principal } from '../../../core/principal.ts'
import type { Seal } from '../../../core/seal.ts'
import { expiryByWorld, world } from '../../../core/world.ts'

/** The header of a forwarded request, and of answers that are for the gateway that forwarded it. */
export const FORWARDED = 'gatehouse-forwarded'

/** A request whose caller another gateway has authenticated. */
export interface Decision {
  readonly principal: Principal
  /** Identifies the token of the caller, where servers get tokens in exchange for it. */
  readonly token?: string | undefined
  /** The server in the URL; absent at the endpoint of all servers. */
  readonly upstream: string | undefined
  readonly requestId: string
  /** The connection of the client. */
  readonly peer: ClientPeer
  /**
   * The request is about a server that runs at the receiver, and was decided about by all features of the sender
   * (`gateway/placements.ts`). It is sealed, so no request of a client can pass for one.
   */
  readonly isPlaced?: true
}

/** Makes envelopes, and opens those for this gateway. */
export interface Envelopes {
  /** An envelope for another gateway; undefined before the shared key is known. */
  close(decision: Decision, receiver: string): string | undefined
  /** The decision in the headers of a request; otherwise why it is refused. */
  open(headers: IncomingHttpHeaders): Decision | Refused
}

/** Why a request from another gateway is not taken. */
export type Refused = 'missing' | 'credential' | 'expired' | 'invalid' | 'repeated'

/** Headers that carry credentials of a client. */
export const credentialHeaders = ['authorization', 'cookie', 'proxy-authorization'] as const

const PURPOSE = 'forward'
/** How long an envelope can be opened, in milliseconds. */
const TTL_MS = 30_000
/** How many opened envelopes are remembered. */
const MAX_OPENED = 100_000

/** The envelopes of the gateway with this id (`Membership.id`). */
export function createEnvelopes(seal: Seal, id: string): Envelopes {
  // An LRU cache with `max` would allocate memory for all entries at once.
  const opened = new LRUCache<string, true>({
    maxSize: MAX_OPENED,
    sizeCalculation: () => 1,
    ttl: TTL_MS * 2,
    ...expiryByWorld,
  })
  return {
    close: (decision, receiver) =>
      seal.isShared()
        ? seal.close(encode(decision), { purpose: PURPOSE, binding: receiver }, world.now() + TTL_MS)
        : undefined,

    open: (headers) => {
      const text = headers[FORWARDED]
      if (typeof text !== 'string') return 'missing'
      if (credentialHeaders.some((name) => headers[name] !== undefined)) return 'credential'
      const unsealed = seal.open(text, { purpose: PURPOSE, binding: id })
      if (unsealed.kind !== 'valid') return unsealed.kind
      if (opened.has(unsealed.nonce)) return 'repeated'
      opened.set(unsealed.nonce, true)
      return decode(unsealed.value) ?? 'invalid'
    },
  }
}

function encode({ principal, token, upstream, requestId, peer, isPlaced }: Decision): unknown {
  const { id, scopes, claims, isEverybody } = principal
  const hasToken = principal.token !== undefined
  const { remoteAddress: address, remotePort: port } = peer.socket
  return {
    principal: { id, ...(scopes && { scopes: [...scopes] }), claims, isEverybody, hasToken },
    token,
    upstream,
    requestId,
    peer: { version: peer.httpVersion, address, port },
    isPlaced,
  }
}

/** Gateways of several versions may share a store. */
function decode(value: unknown): Decision | undefined {
  if (!isObject(value) || !isObject(value.principal) || !isObject(value.peer)) return undefined
  const { principal, token, upstream, requestId, peer, isPlaced } = value
  const { id, scopes, claims, isEverybody, hasToken } = principal
  if (!isSubject(id) || typeof requestId !== 'string') return undefined
  if (upstream !== undefined && typeof upstream !== 'string') return undefined
  // Without a list of scopes, access would be unlimited.
  if (scopes !== undefined && !Array.isArray(scopes)) return undefined
  return {
    principal: {
      id,
      ...(scopes && { scopes: new Set(scopes.map(String)) }),
      ...(isObject(claims) && { claims }),
      ...(isEverybody === true && { isEverybody }),
      ...(hasToken === true && { hasTokenElsewhere: hasToken }),
    },
    token: typeof token === 'string' ? token : undefined,
    upstream,
    requestId,
    peer: {
      httpVersion: String(peer.version),
      socket: {
        remoteAddress: typeof peer.address === 'string' ? peer.address : undefined,
        remotePort: typeof peer.port === 'number' ? peer.port : undefined,
      },
    },
    ...(isPlaced === true && { isPlaced }),
  }
}
