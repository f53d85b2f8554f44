/** The callback pages for users returning from authorization servers, and the client metadata document. */
import { timingSafeEqual } from 'node:crypto'
import { isLoopbackHost } from '../../core/address.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import type { ListenSettings } from '../../core/settings.ts'
import type { SignInStep } from '../../core/events.ts'
import type { Store } from '../../store/store.ts'
import { clientMetadata, type Site } from './registration.ts'
import type { SignInRecord } from './sign-in.ts'
import { oauthError } from './token-endpoint.ts'
import { createTokenVault, type TokenVault } from './token-vault.ts'

interface Options {
  store(): Store
  /** The encryption key of stored grants; by default a key of this process. */
  key?(): Promise<Buffer>
  listen(): ListenSettings
  /** The function that completes a sign-in to a server; undefined if the server has no sign-in. */
  finisher(upstream: string): ((record: SignInRecord, params: URLSearchParams) => Promise<void>) | undefined
  /** Called at each step of a sign-in. */
  onStep?(step: SignInStep): void
  /** Gets the tokens and client secrets that are obtained or used. */
  learn?(secret: string): void
}

/** Completes sign-ins for all servers. */
export interface OAuthCallbackHandler {
  readonly vault: TokenVault
  /** The URL by which browsers reach the gateway; undefined if they cannot. */
  base(): string | undefined
  /** The OAuth URLs at that base. */
  site(): Site | undefined
  /** Called when a user is sent to sign in. */
  begun(upstream: string, principal: string): void
  /** Called with the URL the gateway listens at. */
  opened(url: string): void
  /** The page of a sign-in that begins. @throws STATE_INVALID */
  start(id: string): Promise<SignInStart>
  /**
   * Completes the sign-in of a user with the cookie set at its beginning. Resolves with the server's name.
   * @throws STATE_INVALID, SERVER_UNAVAILABLE
   */
  finish(params: URLSearchParams, cookieOf: (name: string) => string | undefined): Promise<string>
  /** The gateway's client metadata; undefined if authorization servers cannot read it. */
  document(): Readonly<Record<string, unknown>> | undefined
}

/** The beginning of a sign-in. */
interface SignInStart {
  readonly upstream: string
  /** The principal who signs in. */
  readonly principal: string
  /** The URL at the authorization server. */
  readonly url: string
  /** A cookie that binds the sign-in to this browser. */
  readonly cookie: { readonly name: string; readonly value: string }
}

const START = '/oauth/start'
const CALLBACK = '/oauth/callback'
/** The path of the client metadata. */
const DOCUMENT = '/oauth/client.json'

export function createOAuthCallbackHandler({
  store,
  key,
  listen,
  finisher,
  onStep,
  learn,
}: Options): OAuthCallbackHandler {
  let own: string | undefined
  const vault = vaultIn(store, key, learn)

  const base = (): string | undefined => {
    const isReachable = own !== undefined && isLoopbackHost(new URL(own).hostname)
    return (listen().publicUrl ?? (isReachable ? own : undefined))?.replace(/\/$/, '')
  }
  const site = (): Site | undefined => {
    const baseUrl = base()
    return baseUrl === undefined ? undefined : siteAt(baseUrl, listen())
  }

  return {
    vault,
    base,
    site,
    begun: (upstream, principal) => onStep?.({ step: 'begun', upstream, principal }),
    opened: (url) => {
      own = url
    },
    start: async (id) => {
      const record = id.length <= MAX_STATE ? await vault.read(['start', id]) : undefined
      const { upstream, principal, url, browser } = record ?? {}
      if (typeof upstream !== 'string' || typeof principal !== 'string') throw unknownSignIn()
      if (typeof url !== 'string' || typeof browser !== 'string') throw unknownSignIn()
      return { upstream, principal, url, cookie: { name: cookieName(id), value: browser } }
    },
    finish: async (params, cookieOf) => {
      const state = params.get('state') ?? ''
      const record = state.length <= MAX_STATE ? await vault.take(['state', state]) : undefined
      const { upstream, id, browser } = record ?? {}
      const finish = typeof upstream === 'string' ? finisher(upstream) : undefined
      if (!record || typeof upstream !== 'string' || typeof id !== 'string' || !finish) throw unknownSignIn()
      await vault.delete(['start', id])
      const who = { upstream, principal: String(record.principal) }
      try {
        if (typeof browser !== 'string' || !isSameText(cookieOf(cookieName(id)), browser)) {
          throw new GatewayError('STATE_INVALID', 'This sign-in was started in another browser.')
        }
        await finish({ ...record, upstream }, params)
      } catch (error) {
        onStep?.({ step: 'failed', ...who, code: asGatewayError(error).code, reason: oauthError(error) })
        throw error
      }
      onStep?.({ step: 'finished', ...who })
      return upstream
    },
    document: () => {
      const gatewaySite = site()
      return gatewaySite?.document === undefined
        ? undefined
        : { client_id: gatewaySite.document, ...clientMetadata(gatewaySite, 'none') }
    },
  }
}

const MAX_STATE = 128

/** The vault in the store that is configured at the time of each access. */
function vaultIn(store: () => Store, key: Options['key'], learn: Options['learn']): TokenVault {
  return createTokenVault(
    {
      get: (name) => store().get(name),
      put: (name, value, ttl) => store().put(name, value, ttl),
      setIfAbsent: (name, value, ttl) => store().setIfAbsent(name, value, ttl),
      delete: (name) => store().delete(name),
    },
    key,
    learn,
  )
}

/** Authorization servers read the client metadata only from an HTTPS URL. */
function siteAt(base: string, { publicUrl }: ListenSettings): Site {
  const hasDocument = publicUrl?.startsWith('https://') === true
  return {
    startUri: `${base}${START}`,
    redirectUri: `${base}${CALLBACK}`,
    ...(hasDocument && { document: `${base}${DOCUMENT}` }),
  }
}

function cookieName(id: string): string {
  return `gatehouse-${id}`
}

function isSameText(given: string | undefined, expected: string): boolean {
  const [one, other] = [Buffer.from(given ?? ''), Buffer.from(expected)]
  return one.length === other.length && timingSafeEqual(one, other)
}

function unknownSignIn(): GatewayError {
  return new GatewayError('STATE_INVALID', 'This sign-in is unknown or already complete.')
}
