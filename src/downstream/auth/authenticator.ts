/** Chooses among the configured kinds of credentials: listed tokens, JWTs, introspection, passwords. */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type AuthSettings, isProtected, type ListedToken } from '../../core/auth-settings.ts'
import type { Probes } from '../../core/log.ts'
import { anonymous, type Principal } from '../../core/principal.ts'
import { basicCredentials, bearerToken, checkToken } from './credentials.ts'
import { createIntrospection, createTokenCache } from './introspection.ts'
import { fetchKeys } from './issuer.ts'
import { createJwtReader, createKeys, type Keys } from './jwt.ts'
import { createPasswords } from './passwords.ts'
import type { Resources } from './resources.ts'
import { unauthorized, audiencesIn, MAX_CACHE_MS, principalOf, type Verified } from './verified.ts'

/** Tells who makes a request. */
interface Authenticator {
  /**
   * Who calls an endpoint: at once where the token is known already.
   * @throws AUTHENTICATION_REQUIRED, TOKEN_EXPIRED, SERVER_UNAVAILABLE, OVERLOADED
   */
  caller(incoming: IncomingMessage, upstream: string | undefined): Principal | Promise<Principal>
  /** Who uses a service path: as above, or with a name and password. */
  serviceAccount(incoming: IncomingMessage): Principal | Promise<Principal>
  /** What it needs. */
  readonly probes: Probes
}

interface Options {
  readonly auth: AuthSettings
  readonly resources: Resources
  now(): number
}

/** Who calls without a token where lists are open to all; may do nothing that needs a scope. */
export const anonymousCaller: Principal = { id: 'anonymous', scopes: new Set() }

/** Checks credentials by the settings. */
export function createAuthenticator({ auth, resources, now }: Options): Authenticator {
  if (!isProtected(auth) && auth.users.length === 0)
    return { caller: () => anonymous, serviceAccount: () => anonymous, probes: {} }
  const keys = auth.jwt && keysOf(auth.jwt, now)
  const look = createTokenCache({ verify: verifier(auth, keys, now), now })
  const check = createPasswords(auth.users)
  const isOpen = auth.anonymous.length > 0

  // The header of the last request on each connection: to tell that it is the same costs less than its hash.
  const lasts = new WeakMap<object, { readonly header: string | undefined; readonly verified: Verified }>()

  const find = (incoming: IncomingMessage, token: string): Verified | Promise<Verified> => {
    const header = incoming.headers.authorization
    const last = lasts.get(incoming.socket)
    if (last && last.header === header && last.verified.until > now()) return last.verified
    const found = look(token)
    if (!(found instanceof Promise)) lasts.set(incoming.socket, { header, verified: found })
    return found
  }
  const bearer: Authenticator['caller'] = (incoming, upstream) => {
    const token = bearerToken(incoming)
    if (token === undefined) {
      if (isOpen) return anonymousCaller
      throw unauthorized('missing', 'Authentication is required.')
    }
    const found = find(incoming, token)
    const admit = ({ principal, audiences }: Verified): Principal => {
      if (audiences && !resources.accepts(audiences, upstream))
        throw unauthorized('audience', 'The token is meant for another server.')
      return principal
    }
    return found instanceof Promise ? found.then(admit) : admit(found)
  }
  return {
    probes: keys && !auth.jwt?.secret ? { jwks: { isNeeded: true, works: () => keys.works() } } : {},
    caller: isProtected(auth) ? bearer : () => anonymous,
    serviceAccount: (incoming) => {
      const credentials = auth.users.length > 0 ? basicCredentials(incoming) : undefined
      if (credentials) return check(credentials)
      const principal = bearer(incoming, undefined)
      if (principal === anonymousCaller) throw unauthorized('missing', 'Authentication is required.')
      return principal
    },
  }
}

/** How long an answer about a token counts, in milliseconds: its issuer may take it back. */
const INTROSPECTION_TTL_MS = 60_000

function verifier(
  auth: AuthSettings,
  keys: Keys | undefined,
  now: () => number,
): (token: string) => Promise<Verified> {
  const { jwt, introspect, scopeMap } = auth
  const listed = createListed(auth.tokens)
  const readJwt = jwt && keys && createJwtReader({ settings: jwt, keys, now })
  const ask = introspect && createIntrospection(introspect, now)

  return async (token) => {
    checkToken(token)
    const found = listed(token)
    if (found) return found
    if (jwt && readJwt && (isJwt(token) || !ask)) {
      const claims = await readJwt(token)
      const until = expiry(claims.exp, now() + MAX_CACHE_MS)
      const principal = principalOf(token, claims, jwt.scopeClaim, scopeMap)
      return { principal, audiences: audiencesIn(claims.aud), until }
    }
    if (!introspect || !ask) throw unauthorized('unknown_token', 'The token is not known here.')
    const claims = await ask(token)
    const isBound = claims.aud !== undefined || introspect.requiresAudience
    return {
      principal: principalOf(token, claims, 'scope', scopeMap),
      ...(isBound && { audiences: audiencesIn(claims.aud) }),
      until: expiry(claims.exp, now() + INTROSPECTION_TTL_MS),
    }
  }
}

function expiry(exp: unknown, latest: number): number {
  return typeof exp === 'number' ? Math.min(exp * 1000, latest) : latest
}

function keysOf(jwt: NonNullable<AuthSettings['jwt']>, now: () => number): Keys {
  return createKeys({ load: () => fetchKeys(jwt), now })
}

/** Whether a token has the form of a signed one. */
function isJwt(token: string): boolean {
  return token.startsWith('ey') && token.split('.').length === 3
}

/** Finds tokens in the configured list of hashes. */
function createListed(tokens: readonly ListedToken[]): (token: string) => Verified | undefined {
  const entries = tokens.map(({ hash, id, scopes }) => {
    const [, salt = '', digest = ''] = hash.reveal().split(':')
    const principal = { id: `token:${id}`, ...(scopes && { scopes: new Set(scopes) }) }
    return { salt, digest: Buffer.from(digest, 'hex'), verified: { principal, until: Infinity } }
  })
  return (token) => {
    const matches = ({ salt, digest }: (typeof entries)[number]): boolean =>
      timingSafeEqual(createHash('sha256').update(salt).update(token).digest(), digest)
    return entries.find(matches)?.verified
  }
}
