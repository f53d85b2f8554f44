/** What descriptions say of the gateway itself: authentication, limits, extensions. */
import { isProtected } from '../../core/auth-settings.ts'
import { isObject } from '../../core/json/json.ts'
import { limitScope, DEFAULT_RATE } from '../../core/principal.ts'
import { self } from '../../core/identity.ts'
import { featureSettings, isAsked, type Settings } from '../../core/settings.ts'
import type { AuthMethod, Front } from './description.ts'

interface Options {
  readonly settings: Settings
  /** Whether a feature is on, for one server or at all. */
  isOn(feature: string, upstream?: string): boolean
  /** Callers are told apart, or the profile is `corporate`. */
  readonly isGuarded: boolean
  /** The page of the gateway at a path; nothing where it serves none. */
  page(path: string): string | undefined
}

/** The extensions a manifest can name, with the features they are of. */
const extensions = [
  ['idempotency', 'idempotency'],
  ['transactions', 'transactions'],
  ['human_in_the_loop', 'confirm'],
  ['structured_errors', 'errors'],
  ['provenance', 'provenance'],
  ['intent_hints', 'intent'],
  ['server_recommendations', 'discovery'],
  ['multimodal_signatures', 'multimodal'],
] as const

/** What documents about a server, or about all of them, say of the gateway. */
export function frontOf(upstream: string | undefined, options: Options): Front {
  const { settings, isOn, page } = options
  const isOne = settings.upstreams.length === 1
  const isServed = page('/mcp') !== undefined
  const path = upstream === undefined || isOne ? '/mcp' : `/mcp/${upstream}`
  const isThere = upstream !== undefined || isOne || settings.listen.aggregate
  const endpoint = isThere ? page(path) : undefined
  // A transaction is begun by who asks for it, and its steps have keys.
  const canBegin = isAsked(settings) && isOn('idempotency', upstream)
  return {
    ...(endpoint !== undefined && { endpoint }),
    version: self.version,
    profile: settings.profile,
    auth: authOf(options, isServed),
    rates: ratesOf(options, upstream),
    limits: !isServed ? [] : [`A request may have at most ${settings.listen.body} bytes`],
    extensions: extensions.flatMap(([name, feature]) =>
      isOn(feature, upstream) && (name !== 'transactions' || canBegin) ? [name] : [],
    ),
    isRecorded: settings.observe.audit !== undefined,
    hasHelp: isOn('help', upstream) && isAsked(settings),
    isHelpListed: isOn('help', upstream) && isListed(options, 'help', upstream),
    isSkillListed: isOn('skills', upstream) && listedBy(settings, 'skills', upstream) !== false,
    ownTools: settings.metaTools,
  }
}

/** Whether lists have the tool of a feature: as its own settings say, or as those of all tools of the gateway do. */
function isListed({ settings }: Options, feature: string, upstream: string | undefined): boolean {
  const { metaTools } = settings
  return metaTools !== 'off' && (listedBy(settings, feature, upstream) ?? metaTools === 'listed')
}

/** Checked against the feature's own schema when the configuration was read. */
function listedBy(settings: Settings, feature: string, upstream: string | undefined): boolean | undefined {
  const own = featureSettings(settings, feature, upstream)
  return isObject(own) && typeof own.listed === 'boolean' ? own.listed : undefined
}

/** How callers over HTTP show who they are; not over pipes. */
function authOf({ settings: { auth }, isOn }: Options, isServed: boolean): Front['auth'] {
  if (!isServed || !isProtected(auth)) return { methods: ['none'] }
  const { jwt, authorizationServers, elevateUrl, session } = auth
  const methods: AuthMethod[] =
    authorizationServers.length > 0 ? ['oauth2_code', 'bearer_token'] : ['bearer_token']
  const required = jwt?.requiredClaims.map((claim) => [claim, 'must be there'] as const) ?? []
  return {
    methods,
    ...(jwt && {
      claims: {
        ...Object.fromEntries(required),
        sub: 'who the caller is',
        [jwt.scopeClaim]: 'what the caller may do',
      },
    }),
    issuers: authorizationServers,
    ...(elevateUrl !== undefined && { elevateUrl }),
    ...(isOn('permissions') && { sessionTtl: Math.round(session.idle / 1000) }),
  }
}

/** How often each caller may call, as far as that holds for the server, or for all together. */
function ratesOf({ settings, isGuarded }: Options, upstream: string | undefined): string[] {
  const all = rateIn(featureSettings(settings, 'rate_limit'))
  const own = upstream === undefined ? undefined : rateIn(featureSettings(settings, 'rate_limit', upstream))
  const { together, alone } = limitScope(all, own, isGuarded ? [DEFAULT_RATE] : undefined)
  return [together, alone].flatMap((each) => each ?? [])
}

/** Checked against the feature's own schema when the configuration was read. */
function rateIn(settings: unknown): readonly string[] | 'off' | undefined {
  const rate = isObject(settings) ? settings.rate : undefined
  if (rate === undefined || rate === 'off') return rate
  return Array.isArray(rate) ? rate.map(String) : typeof rate === 'string' ? rate.split(',') : undefined
}
