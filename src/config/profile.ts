import type { Settings } from '../core/settings.ts'

/** What a profile decides where the file says nothing. */
interface Profile {
  /** Requests must be to the letter: both types in `Accept`, one message at a time. */
  readonly isStrict: boolean
  /** Settings of features, by the name of the feature, that stand below those of the file; `on` switches it on. */
  readonly features: Readonly<Record<string, Readonly<Record<string, unknown>> | 'on'>>
}

/** Every default that depends on the profile. */
export const profiles: Readonly<Record<Settings['profile'], Profile>> = {
  open: { isStrict: false, features: {} },
  corporate: {
    isStrict: true,
    features: {
      errors: { http_status: 'mapped' },
      structured_text: 'on',
      confirm: { fallback: 'deny', remember: 'off' },
      agent_profile: 'on',
      complete: 'on',
    },
  },
}
