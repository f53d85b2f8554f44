import { isObject } from '../core/json.ts'
import { isHttpUrl, isLoopback } from './addresses.ts'
import type { Finding } from './problem.ts'

type Values = Readonly<Record<string, unknown>>

/** Checks how `oauth` goes together with the rest of an upstream. */
export function oauthProblems(upstream: Values, path: readonly string[]): Finding[] {
  const { oauth, url, token, headers, isolation } = upstream
  if (!isObject(oauth) || url === undefined) return []
  const at = [...path, 'oauth']
  const problems: Finding[] = []
  const named = isObject(headers) ? Object.keys(headers) : []
  if (token !== undefined || named.some((name) => name.toLowerCase() === 'authorization')) {
    problems.push({ path: at, at: 'key', message: 'there is a fixed token too: keep one of the two' })
  }
  const grant = grantOf(oauth)
  const needs = grant === 'client_credentials' ? ['client_id', 'client_secret'] : ['client_id']
  const isOfItself = grant === 'client_credentials' || grant === 'token_exchange'
  const isRegistered = isOfItself || oauth.client_secret !== undefined
  for (const key of isRegistered ? needs : []) {
    if (oauth[key] === undefined) problems.push({ path: at, at: 'key', message: `needs \`${key}\`` })
  }
  if (grant !== 'client_credentials' && isolation === 'shared') {
    const message =
      'each caller has credentials of its own here, so connections can not be shared: use auto or per_client'
    problems.push({ path: [...path, 'isolation'], message })
  }
  if (grant === 'authorization_code' && oauth.token_endpoint !== undefined && oauth.issuer === undefined) {
    const message = 'is not enough for users to sign in: give `issuer`'
    problems.push({ path: [...at, 'token_endpoint'], at: 'key', message })
  }
  return [...problems, ...plainText(oauth, at)]
}

/** Secrets go to these addresses, so they are encrypted unless they stay on this machine. */
function plainText(oauth: Values, at: readonly string[]): Finding[] {
  return ['issuer', 'token_endpoint'].flatMap((key): Finding[] => {
    const address = oauth[key]
    if (typeof address !== 'string') return []
    if (!isHttpUrl(address)) return [{ path: [...at, key], message: 'must be a whole URL' }]
    const { protocol, hostname } = new URL(address)
    const isSafe = protocol === 'https:' || isLoopback(hostname)
    return isSafe ? [] : [{ path: [...at, key], message: 'must start with https://' }]
  })
}

/** Warns where what one user grants would be used by everybody who can reach the gateway. */
export function sharedGrants(upstreams: Values, isForAll: boolean): Finding[] {
  if (!isForAll) return []
  return Object.entries(upstreams).flatMap(([name, upstream]): Finding[] => {
    const oauth = isObject(upstream) ? upstream.oauth : undefined
    if (!isObject(oauth) || grantOf(oauth) !== 'authorization_code') return []
    const message =
      'without `auth` all callers are one, so whoever signs in first does so for everybody: set `auth`'
    return [{ path: ['upstreams', name, 'oauth'], at: 'key', message }]
  })
}

/** Warns where tokens of callers are to be exchanged that nobody comes with. */
export function missingTokens(upstreams: Values, auth: unknown): Finding[] {
  const { jwt, opaque }: Values = isObject(auth) ? auth : {}
  if (jwt !== undefined || (isObject(opaque) && opaque.introspect !== undefined)) return []
  return Object.entries(upstreams).flatMap(([name, upstream]): Finding[] => {
    const oauth = isObject(upstream) ? upstream.oauth : undefined
    if (!isObject(oauth) || grantOf(oauth) !== 'token_exchange') return []
    const message =
      'no caller comes with a token that could be exchanged: set `auth.jwt` or `auth.opaque.introspect`'
    return [{ path: ['upstreams', name, 'oauth', 'grant'], message }]
  })
}

function grantOf(oauth: Values): unknown {
  return oauth.grant ?? (oauth.client_secret === undefined ? 'authorization_code' : 'client_credentials')
}
