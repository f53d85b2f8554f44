/** What is known of the gateway a document is about, and of how it is reached. Nothing of it is secret. */
export interface Front {
  /** The URL of the MCP endpoint; absent where clients start the gateway and speak over its stdin and stdout. */
  readonly endpoint?: string
  /** The version of the gateway. */
  readonly version: string
  readonly profile: 'open' | 'corporate'
  readonly auth: FrontAuth
  /** Such as `60/minute`: how often each caller may call. */
  readonly rates: readonly string[]
  /** What is left of that to the caller who reads. */
  readonly quota?: Quota
  /** The same of single tools, by the name clients call them by. */
  readonly quotas?: ReadonlyMap<string, Quota>
  /** Other limits, each as a sentence. */
  readonly limits: readonly string[]
  /** The extensions that are on, by their names in the manifest. */
  readonly extensions: readonly string[]
  /** Every call is written to the audit log. */
  readonly isRecorded: boolean
  /** The gateway answers `ai_help`. */
  readonly hasHelp: boolean
}

/** How callers show who they are. */
interface FrontAuth {
  readonly methods: readonly AuthMethod[]
  /** The claims of a token that are read, with what they are read for. */
  readonly claims?: Readonly<Record<string, string>>
  /** Where clients get tokens. */
  readonly issuers?: readonly string[]
  /** What scopes open, in the words of the owner; others are described by the tools they open. */
  readonly scopes?: Readonly<Record<string, string>>
  /** Where people ask for more rights. */
  readonly elevateUrl?: string
  /** For how long a narrowed session lasts unused, in seconds; absent where there are none. */
  readonly sessionTtl?: number
}

/** The ways to authenticate that a manifest can name. */
export type AuthMethod = 'oauth2_device' | 'oauth2_code' | 'api_key' | 'bearer_token' | 'none'

/** What is left to call, and until when. */
export interface Quota {
  readonly remaining: number
  /** In milliseconds since 1970. */
  readonly resetsAt?: number
}
