import { isDeepStrictEqual } from 'node:util'
import type { Secret } from '../core/secret.ts'
import type { UpstreamSettings } from '../core/settings.ts'

/** Whether two servers are configured alike, secrets included. */
export function settingsEqual(one: UpstreamSettings, other: UpstreamSettings): boolean {
  return isDeepStrictEqual(revealed(one), revealed(other))
}

function revealed(settings: UpstreamSettings): unknown {
  const { reach } = settings
  const secrets = reach.kind === 'command' ? reach.env : reach.headers
  const oauth = reach.kind === 'url' ? reach.oauth?.clientSecret : undefined
  return {
    ...settings,
    reach: { ...reach, env: undefined, headers: undefined },
    secrets: values(secrets),
    clientSecret: oauth?.reveal(),
  }
}

function values(secrets: Readonly<Record<string, Secret>>): Record<string, string> {
  return Object.fromEntries(Object.entries(secrets).map(([name, secret]) => [name, secret.reveal()]))
}
