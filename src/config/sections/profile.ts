/**
 * The keys `version` and `profile`, and what `profile`, `compat` and `for_models` change of the defaults. The lists at
 * /mcp/p/<name> are configured in `profiles.ts`.
 */
import type { Settings } from '../../core/settings.ts'

/** The JSON Schema of `version`. */
export const versionSchema = {
  const: 1,
  default: 1,
  errorMessage: 'must be 1, the only supported version',
  description: 'The version of the configuration format.',
} as const

/** The JSON Schema of `profile`. */
export const profileSchema = {
  enum: ['open', 'corporate'],
  default: 'open',
  errorMessage: 'must be open or corporate',
  description:
    '`corporate` requires authentication and uses the strict default of every setting. Lists of tools with a URL of their own are under `profiles`. See [The profile corporate](guard.md#the-profile-corporate).',
} as const

/** The JSON Schema of `compat`, for all servers or for one. */
export const compatSchema = {
  enum: ['proposals', 'off', false],
  errorMessage: 'must be proposals or off',
  description:
    '`proposals`: clients of the MCP extension proposals find everything in the places where they look for it, whether or not they ask. It only changes defaults of features. By default `off`.',
} as const

/** The value of `compat` in a file. */
export type CompatTarget = (typeof compatSchema)['enum'][number]

/** The defaults of one feature: whether it is on, and values that take precedence over those of its schema. */
export interface FeatureDefaults {
  readonly isOn?: true
  readonly values?: Readonly<Record<string, unknown>>
}

type Defaults = Readonly<Record<string, FeatureDefaults>>

/** What depends on the profile. */
interface Profile {
  /** Strict checks of requests: both media types in `Accept`, no batches. */
  readonly isStrict: boolean
  readonly features: Defaults
}

/** The defaults that depend on the profile. */
export const profiles: Readonly<Record<Settings['profile'], Profile>> = {
  open: { isStrict: false, features: {} },
  corporate: {
    isStrict: true,
    features: {
      errors: { values: { http_status: 'mapped', hide_details: true } },
      structured_text: { isOn: true },
      confirm: { values: { fallback: 'deny', remember: 'off', exact_undo: 'ask' } },
      agent_profile: { isOn: true },
      validate: { values: { input: 'strict' } },
      complete: { isOn: true },
    },
  },
}

/** The defaults of `compat: proposals`. Results are kept as references where a client asks, and not by their size. */
const proposals: Defaults = {
  errors: { values: { compat: 'always' } },
  intent: { values: { forward: true } },
  multimodal: { values: { compat: 'always' } },
  progress: { values: { compat: true } },
  provenance: { values: { compat: 'always' } },
  references: { isOn: true, values: { over: Number.MAX_SAFE_INTEGER, listed: false } },
  state: { values: { compat: 'always' } },
}

/** The defaults of `for_models`. Each of them can be written in the file, and is in effect then. */
export const modelDefaults = { schemas: 'repair', budget: 20_000 } as const

/** The defaults of one feature with a profile and a `compat`. */
export function featureDefaults(
  feature: string,
  { profile, compat }: { readonly profile: Settings['profile']; readonly compat: CompatTarget },
): FeatureDefaults {
  const ofProfile = profiles[profile].features[feature]
  const ofCompat = compat === 'proposals' ? proposals[feature] : undefined
  if (!ofProfile || !ofCompat) return ofCompat ?? ofProfile ?? {}
  return { ...ofProfile, ...ofCompat, values: { ...ofProfile.values, ...ofCompat.values } }
}
