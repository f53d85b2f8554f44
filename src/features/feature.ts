import type { AuthSettings } from '../core/auth-settings.ts'
import type { Call, Handler, Policy } from '../core/call.ts'
import type { Entry } from '../core/entry.ts'
import type { Finding } from '../core/finding.ts'
import type { Log } from '../core/log.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import type { Target } from '../core/target.ts'
import type { Presence } from '../records/presence.ts'
import type { Store } from '../store/store.ts'

type JsonSchema = Readonly<Record<string, unknown>>

/** One capability of the gateway, in one file. */
export interface Feature<Settings> {
  readonly name: string
  /** Where its settings stand in the configuration: at the top, under `features`, or among those of `limits`. */
  readonly place: 'top' | 'features' | 'limits'
  /** What its settings may be; `create` may rely on it. */
  readonly schema: JsonSchema
  create(settings: SettingsOf<Settings>, deps: Deps): Contribution
}

/** A feature's settings for one server: its own where it has any, else those for all. */
export type SettingsOf<Settings> = (upstream?: string) => Settings

/** What a feature adds. */
export interface Contribution {
  /** Wraps the calls of a target; nothing where there is nothing to do, which then costs nothing. */
  policy?(target: Target): Policy | undefined
  /** Requests the gateway answers itself, by method. */
  readonly methods?: Readonly<Record<string, Handler>>
  /** Tools the gateway answers itself. */
  readonly tools?: readonly OwnTool[]
  /** Takes up what an earlier process left behind; called once servers were tried. */
  start?(): Promise<void>
  /** What does not go together with what servers list; a server that can not be reached says nothing. */
  problems?(): Promise<readonly Finding[]>
  close?(): Promise<void>
}

/** A tool of the gateway's own. */
export interface OwnTool {
  /** The entry of `tools/list`. */
  readonly definition: Readonly<Record<string, unknown>> & { readonly name: string }
  readonly handle: Handler
}

/** What features may use. */
export interface Deps {
  readonly log: Log
  readonly store: Store
  /** Callers are told apart, or the profile is `corporate`: then some limits hold that nobody configured. */
  readonly isGuarded: boolean
  /** Makes a call of the gateway's own, through the whole chain. */
  readonly call: Handler
  /** Whether the caller is permitted to make a call of a tool; it is not made. */
  isPermitted(call: Call): Promise<boolean>
  /** Which gateways there are that share the store, and which of them this one is. */
  readonly presence: Presence
  /** Signs claims with the gateway's own key: a JWS in compact form (RFC 7515). */
  sign(claims: Readonly<Record<string, unknown>>): Promise<string>
  /** The page of the gateway at a path, as people reach it; nothing where it serves no pages. */
  page(path: string): string | undefined
  /** The names of all servers. */
  servers(): readonly string[]
  /** How a server is configured. */
  server(upstream: string): UpstreamSettings | undefined
  /** How long narrowed sessions last, and where people ask for more rights. */
  readonly auth: Pick<AuthSettings, 'session' | 'elevateUrl'>
  /**
   * What the server's own list says of the tool a call names; nothing where it has no such tool. At once when the
   * list is known. @throws what listing throws
   */
  entry(call: Call): Entry | undefined | Promise<Entry | undefined>
  /** The entry of a tool as a server lists it. */
  listed(upstream: string, definition: Readonly<Record<string, unknown>>): Entry | undefined
}
