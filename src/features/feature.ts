import type { Handler, Policy } from '../core/call.ts'
import type { Log } from '../core/log.ts'
import type { Target } from '../core/target.ts'

type JsonSchema = Readonly<Record<string, unknown>>

/** One capability of the gateway, in one file. */
export interface Feature<Settings> {
  readonly name: string
  /** Where its settings stand in the configuration: at the top or under `features`. */
  readonly place: 'top' | 'features'
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
  /** Requests the gateway answers itself. */
  readonly methods?: Readonly<Record<string, Handler>>
  close?(): Promise<void>
}

/** What features may use. */
interface Deps {
  readonly log: Log
}
