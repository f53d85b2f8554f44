/** What is known of the gateway a document is about, and of how it is reached. Nothing of it is secret. */
export interface Front {
  /**
   * The URL of the MCP endpoint; absent where clients start the gateway and speak over its stdin and stdout, and
   * for all servers together where each has an endpoint of its own alone.
   */
  readonly endpoint?: string
  /** The version of the gateway. */
  readonly version: string
  readonly profile: 'open' | 'corporate'
  readonly auth: FrontAuth
  /** Such as `60/minute`: how often each caller may call. */
  readonly rates: readonly string[]
  /** Other limits, each as a sentence. */
  readonly limits: readonly string[]
  /** The extensions that are on. */
  readonly extensions: readonly Extension[]
  /** Every call is written to the audit log. */
  readonly isRecorded: boolean
  /** The gateway answers `ai_help`. */
  readonly hasHelp: boolean
  /** Lists of tools have `ai_help`: models call no other. */
  readonly isHelpListed: boolean
  /** Lists of resources have the skill of each server. */
  readonly isSkillListed: boolean
  /** How the other tools of the gateway itself are there: in lists of tools, only to be called, or not at all. */
  readonly ownTools: 'listed' | 'hidden' | 'off'
}

/** How callers show who they are. */
interface FrontAuth {
  readonly methods: readonly AuthMethod[]
  /** The claims of a token that are read, with what they are read for. */
  readonly claims?: Readonly<Record<string, string>>
  /** Where clients get tokens. */
  readonly issuers?: readonly string[]
  /** Where people ask for more rights. */
  readonly elevateUrl?: string
  /** For how long a narrowed session lasts unused, in seconds; absent where there are none. */
  readonly sessionTtl?: number
}

/** The extensions there are, by their names in the manifest. */
type Extension =
  | 'idempotency'
  | 'transactions'
  | 'human_in_the_loop'
  | 'structured_errors'
  | 'provenance'
  | 'intent_hints'
  | 'server_recommendations'
  | 'multimodal_signatures'

/** The ways to authenticate there are, by their names in the manifest. */
export type AuthMethod = 'oauth2_code' | 'bearer_token' | 'none'

/** Whether callers have to show who they are. */
export function asksForToken({ auth }: Front): boolean {
  return auth.methods.some((method) => method !== 'none')
}
