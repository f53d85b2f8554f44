/**
 * The settings of a run: the gateway as it is configured for one server, with the built-in server beside it, for callers
 * of the run alone. It stores nothing, writes no audit log, and has no rate of calls, since a run makes many.
 */
import { createHash, randomBytes } from 'node:crypto'
import type { AuthSettings, ListedToken } from '../../core/auth-settings.ts'
import { isObject } from '../../core/json/json.ts'
import {
  type FeatureSettings,
  featureSettings,
  type Settings,
  type UpstreamSettings,
} from '../../core/settings.ts'
import { Secret } from '../../core/text/secret.ts'
import { echoSettings } from './echo-server.ts'

/** The tokens of the callers of a run: two that may do everything, and one that may only read at the built-in server. */
export interface RunTokens {
  readonly ours: string
  readonly theirs: string
  readonly reader: string
}

/** New tokens, for one run. */
export function createTokens(): RunTokens {
  const token = (): string => randomBytes(32).toString('hex')
  return { ours: token(), theirs: token(), reader: token() }
}

/** A name for the built-in server that no server of the configuration has. */
export function echoNameFor({ upstreams }: Settings): string {
  const names = new Set(upstreams.map(({ name }) => name))
  let name = 'conformance-echo'
  for (let number = 2; names.has(name); number++) name = `conformance-echo-${number}`
  return name
}

interface SuiteServers {
  readonly server: UpstreamSettings
  /** The settings of a server that has only defaults. */
  readonly plain: UpstreamSettings
  readonly echoName: string
  readonly tokens: RunTokens
}

/** The settings with which the gateway runs the suite against a server. */
export function runSettings(settings: Settings, { server, plain, echoName, tokens }: SuiteServers): Settings {
  const { publicUrl: _publicUrl, ...listen } = settings.listen
  return {
    ...settings,
    listen: { ...listen, host: '127.0.0.1', port: 0, aggregate: true },
    auth: authOf(settings.auth, tokens, echoName),
    store: { kind: 'memory' },
    observe: { metrics: false },
    upstreams: [server, echoSettings(plain, echoName)],
    events: new Map(),
    names: [],
    features: Object.fromEntries(
      Object.keys(settings.features).map((name) => [name, ofRun(settings, name, server.name, echoName)]),
    ),
  }
}

/** The settings of a feature: those of the server under test apply to the built-in server too. */
function ofRun(settings: Settings, feature: string, server: string, echoName: string): FeatureSettings {
  const applied = appliedInRun(feature, featureSettings(settings, feature, server))
  return { common: applied, upstreams: { [server]: applied, [echoName]: applied } }
}

/** The run makes many calls, and approves none on a page. */
function appliedInRun(feature: string, own: unknown): unknown {
  if (feature === 'rate_limit') return { rate: 'off' }
  return feature === 'confirm' && isObject(own) ? { ...own, wait: 'off' } : own
}

function authOf(auth: AuthSettings, tokens: RunTokens, echoName: string): AuthSettings {
  const { jwt: _jwt, introspect: _introspect, ...rest } = auth
  return {
    ...rest,
    tokens: [
      listed(tokens.ours, 'conformance:ours'),
      listed(tokens.theirs, 'conformance:theirs'),
      { ...listed(tokens.reader, 'conformance:reader'), scopes: [`read:${echoName}`] },
    ],
    users: [],
    authorizationServers: [],
    scopesSupported: [],
    anonymous: [],
    scopeMap: {},
  }
}

function listed(token: string, id: string): ListedToken {
  const salt = randomBytes(16).toString('hex')
  const hash = createHash('sha256').update(salt).update(token).digest('hex')
  return { hash: new Secret(`sha256:${salt}:${hash}`), id }
}
