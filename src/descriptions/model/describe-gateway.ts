/** Describes the gateway itself: authentication, limits, extensions. */
import { type AuthSettings, isProtected } from '../../core/auth-settings.ts'
import { isObject } from '../../core/json/json.ts'
import { limitScope, DEFAULT_RATE } from '../../core/principal.ts'
import { self } from '../../core/identity.ts'
import { featureSettings, isAsked, onlyServer, type Settings } from '../../core/settings.ts'
import type { AuthMethod, Front } from './description.ts'

interface Options {
  readonly settings: Settings
  /** Whether a feature is on for a server or, without a name, at all. */
  isOn(feature: string, upstream?: string): boolean
  /** Callers are authenticated, or the profile is `corporate`. */
  readonly isGuarded: boolean
  /** The URL of a page of the gateway; undefined if it serves none. */
  page(path: string): string | undefined
}

/** The extensions in a manifest, and their features. */
const extensions = [
  ['progress_notifications', 'progress'],
  ['idempotency', 'idempotency'],
  ['transactions', 'transactions'],
  ['session_state', 'state'],
  ['human_in_the_loop', 'confirm'],
  ['data_references', 'references'],
  ['subscribe_notify', 'events'],
  ['structured_errors', 'errors'],
  ['provenance', 'provenance'],
  ['intent_hints', 'intent'],
  ['server_recommendations', 'discovery'],
  ['multimodal_signatures', 'multimodal'],
  ['conformance', 'conformance'],
] as const

/** Describes the gateway for documents about one server, or about all of them. */
export function frontOf(upstream: string | undefined, options: Options): Front {
  const { settings, isOn, page } = options
  const isOne = onlyServer(settings) !== undefined
  const isServed = page('/mcp') !== undefined
  const path = upstream === undefined || isOne ? '/mcp' : `/mcp/${upstream}`
  const isThere = upstream !== undefined || isOne || settings.listen.aggregate
  const endpoint = isThere ? page(path) : undefined
  // Transactions need explicit calls of the client, and idempotency keys for steps.
  const canBegin = isAsked(settings) && isOn('idempotency', upstream)
  const isPossible = (extension: string): boolean => {
    if (extension === 'transactions') return canBegin
    return extension !== 'subscribe_notify' || isAsked(settings)
  }
  return {
    ...(endpoint !== undefined && { endpoint }),
    version: self.version,
    profile: settings.profile,
    auth: authOf(options, isServed),
    rates: ratesOf(options, upstream),
    limits: !isServed ? [] : [`A request may have at most ${settings.listen.body} bytes`],
    extensions: extensions.flatMap(([name, feature]) =>
      isOn(feature, upstream) && isPossible(name) ? [name] : [],
    ),
    hasDryRuns: isOn('dry_run', upstream),
    hasEvents: isOn('events', upstream),
    isRecorded: settings.observe.audit !== undefined,
    hasHelp: isOn('help', upstream) && isAsked(settings),
    isHelpListed: isOn('help', upstream) && isListed(options, 'help', upstream),
    isSkillListed: isOn('skills', upstream) && listedBy(settings, 'skills', upstream) !== false,
    ownTools: settings.metaTools,
  }
}

/** Whether the tool of a feature is listed: by its own settings, else by those of all built-in tools. */
function isListed({ settings }: Options, feature: string, upstream: string | undefined): boolean {
  const { metaTools } = settings
  return metaTools !== 'off' && (listedBy(settings, feature, upstream) ?? metaTools === 'listed')
}

/** Validated by the feature's schema when the configuration was loaded. */
function listedBy(settings: Settings, feature: string, upstream: string | undefined): boolean | undefined {
  const own = featureSettings(settings, feature, upstream)
  return isObject(own) && typeof own.listed === 'boolean' ? own.listed : undefined
}

/** The authentication of callers over HTTP; stdio has none. */
function authOf({ settings: { auth }, isOn }: Options, isServed: boolean): Front['auth'] {
  if (!isServed || !isProtected(auth)) return { methods: ['none'] }
  const { authorizationServers, elevateUrl, session } = auth
  const methods: AuthMethod[] =
    authorizationServers.length > 0 ? ['oauth2_code', 'bearer_token'] : ['bearer_token']
  const claims = claimsOf(auth)
  return {
    methods,
    ...(claims && { claims }),
    issuers: authorizationServers,
    ...(elevateUrl !== undefined && { elevateUrl }),
    ...(isOn('permissions') && { sessionTtl: Math.round(session.idle / 1000) }),
  }
}

/** The claims that are read: of a signed token, or else of the response of the introspection endpoint. */
function claimsOf({ jwt, introspect }: AuthSettings): Front['auth']['claims'] {
  const times = { nbf: 'the start of validity, checked if present' }
  if (jwt) {
    return {
      iss: 'required, the configured issuer',
      aud: 'required, the URL of this endpoint or another configured audience',
      exp: 'required, the end of validity',
      ...times,
      iat: 'required, the time of issue, which is not in the future',
      ...Object.fromEntries(jwt.requiredClaims.map((claim) => [claim, 'required'])),
      sub: 'required, the identity of the caller',
      [jwt.scopeClaim]: 'the scopes of the caller; none without it',
    }
  }
  return (
    introspect && {
      active: 'required, true',
      aud: `${introspect.requiresAudience ? 'required' : 'checked if present'}, the URL of this endpoint or another configured audience`,
      exp: 'the end of validity, checked if present',
      ...times,
      sub: 'the identity of the caller',
      client_id: 'the identity of a caller that is a client, if there is no subject',
      scope: 'the scopes of the caller; none without it',
    }
  )
}

/** The rate limits per caller, for the server or for all servers. */
function ratesOf({ settings, isGuarded }: Options, upstream: string | undefined): string[] {
  const all = rateIn(featureSettings(settings, 'rate_limit'))
  const own = upstream === undefined ? undefined : rateIn(featureSettings(settings, 'rate_limit', upstream))
  const { together, alone } = limitScope(all, own, isGuarded ? [DEFAULT_RATE] : undefined)
  return [together, alone].flatMap((each) => each ?? [])
}

/** Validated by the feature's schema when the configuration was loaded. */
function rateIn(settings: unknown): readonly string[] | 'off' | undefined {
  const rate = isObject(settings) ? settings.rate : undefined
  if (rate === undefined || rate === 'off') return rate
  return Array.isArray(rate) ? rate.map(String) : typeof rate === 'string' ? rate.split(',') : undefined
}
