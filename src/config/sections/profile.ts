/** The keys `version` and `profile`, and the defaults of the profiles. */
import type { JsonSchema } from '../../core/schema/schema.ts'
import type { Settings } from '../../core/settings.ts'

/** The JSON Schema of `version`. */
export const versionSchema: JsonSchema = {
  const: 1,
  default: 1,
  errorMessage: 'must be 1, the only supported version',
  description: 'The version of the configuration format.',
}

/** The JSON Schema of `profile`. */
export const profileSchema: JsonSchema = {
  enum: ['open', 'corporate'],
  default: 'open',
  errorMessage: 'must be open or corporate',
  description: '`corporate` requires authentication and uses the strict default of every setting.',
}

/** The defaults of a profile. */
interface Profile {
  /** Strict checks of requests: both media types in `Accept`, no batches. */
  readonly isStrict: boolean
  /** Default settings of features, by name; `on` turns a feature on. */
  readonly features: Readonly<Record<string, Readonly<Record<string, unknown>> | 'on'>>
}

/** The defaults that depend on the profile. */
export const profiles: Readonly<Record<Settings['profile'], Profile>> = {
  open: { isStrict: false, features: {} },
  corporate: {
    isStrict: true,
    features: {
      errors: { http_status: 'mapped', hide_details: true },
      structured_text: 'on',
      confirm: { fallback: 'deny', remember: 'off' },
      agent_profile: 'on',
      validate: { input: 'strict' },
      complete: 'on',
    },
  },
}
