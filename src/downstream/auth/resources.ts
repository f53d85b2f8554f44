/**
 * The endpoints as protected resources (RFC 9728): identifiers, metadata, and whether an audience matches one.
 */
import type { IncomingMessage } from 'node:http'
import { type AuthSettings, roleScopes } from '../../core/auth-settings.ts'
import type { ListenSettings } from '../../core/settings.ts'
import { OPERATOR_ADDRESS } from '../../core/slot.ts'
import { isLoopback } from '../http/origin.ts'
import { scopesToAskFor } from './verified.ts'

const WELL_KNOWN = '/.well-known/oauth-protected-resource'

/** The endpoints as protected resources (RFC 9728). */
export interface Resources {
  /** Whether a token with one of these audiences is valid for an endpoint. */
  accepts(audiences: readonly string[], upstream: string | undefined): boolean
  /** The URL of the metadata of an endpoint; undefined if clients cannot obtain tokens. */
  metadataUrl(incoming: IncomingMessage, upstream: string | undefined): string | undefined
  /** The scopes that clients of an endpoint are told to request. */
  scopes(upstream: string | undefined): readonly string[]
  /** The metadata of an endpoint; undefined if clients cannot obtain tokens. */
  metadata(incoming: IncomingMessage, upstream: string | undefined): Record<string, unknown> | undefined
}

/** Creates the identifiers of the endpoints; `port` is the port of the listener. */
export function createResources(auth: AuthSettings, listen: ListenSettings, port: number): Resources {
  const isOffered = auth.authorizationServers.length > 0
  const names = basesOf(listen, port)
  const configured = auth.jwt?.audiences ?? []
  const general = new Set([...configured, ...names.flatMap((base) => [`${base}/mcp`, `${base}/sse`])])
  // A token for all servers is not one for the owner's endpoint.
  const ofOperator = new Set([...configured, ...names.map((base) => `${base}${OPERATOR_PATH}`)])
  const operatorScopes = scopesToAskFor(Object.values(roleScopes), auth.scopeMap)
  const publicBase = listen.publicUrl === undefined ? undefined : withoutSlash(new URL(listen.publicUrl).href)
  // The host is chosen by the client; the Host header was checked before.
  const baseOf = ({ headers }: IncomingMessage): string => publicBase ?? `http://${headers.host}`

  const scopes = (upstream: string | undefined): readonly string[] =>
    upstream === OPERATOR_ADDRESS ? operatorScopes : auth.scopesSupported

  return {
    accepts: (audiences, upstream) =>
      audiences.some((audience) => {
        const name = withoutSlash(audience)
        const known = upstream === OPERATOR_ADDRESS ? ofOperator : general
        if (known.has(audience) || known.has(name)) return true
        if (upstream === undefined || upstream === OPERATOR_ADDRESS) return false
        return names.some((base) => name === `${base}/mcp/${upstream}` || name === `${base}/sse/${upstream}`)
      }),
    scopes,
    metadataUrl: (incoming, upstream) =>
      isOffered ? `${baseOf(incoming)}${WELL_KNOWN}${endpoint(incoming, upstream)}` : undefined,
    metadata: (incoming, upstream) =>
      isOffered
        ? {
            resource: `${baseOf(incoming)}${endpoint(incoming, upstream)}`,
            authorization_servers: auth.authorizationServers,
            ...(scopes(upstream).length > 0 && { scopes_supported: scopes(upstream) }),
            bearer_methods_supported: ['header'],
            resource_name: upstream === undefined ? auth.realm : `${auth.realm}: ${nameOf(upstream)}`,
          }
        : undefined,
  }
}

function nameOf(upstream: string): string {
  return upstream === OPERATOR_ADDRESS ? 'operator' : upstream
}

/** The path of the endpoint of the owner's client. */
export const OPERATOR_PATH = '/operator/mcp'

/** The server whose metadata is at a path; undefined for other paths. */
export function metadataPath(path: string): { readonly upstream?: string } | undefined {
  if (path === `${WELL_KNOWN}${OPERATOR_PATH}`) return { upstream: OPERATOR_ADDRESS }
  const [, name] = /^\/\.well-known\/oauth-protected-resource(?:\/(?:mcp|sse)(?:\/((?:p\/)?[^/]+))?)?$/.exec(
    path,
  ) ?? [undefined, null]
  if (name === null) return undefined
  return name === undefined ? {} : { upstream: name }
}

// HTTP+SSE has separate endpoints with their own metadata.
function endpoint({ url = '' }: IncomingMessage, upstream: string | undefined): string {
  if (upstream === OPERATOR_ADDRESS) return OPERATOR_PATH
  const name = /^\/(?:sse|messages)(?![\w-])|\/sse(?:\/(?:p\/)?[^/]+)?$/.test(url) ? '/sse' : '/mcp'
  return upstream === undefined ? name : `${name}/${upstream}`
}

/** The audiences that a token for this endpoint may name. */
function basesOf({ host, publicUrl }: ListenSettings, port: number): readonly string[] {
  if (publicUrl !== undefined) return [withoutSlash(new URL(publicUrl).href)]
  return isLoopback(host) ? ['127.0.0.1', 'localhost', '[::1]'].map((name) => `http://${name}:${port}`) : []
}

function withoutSlash(url: string): string {
  return url.replace(/\/$/, '')
}
