import type { Nature } from '../core/entry.ts'
import type { UpstreamSettings } from '../core/settings.ts'

/** What kind of action a tool is, from what the configuration, its annotations and its name say. */
export function classify(
  _definition: Readonly<Record<string, unknown>>,
  _settings: UpstreamSettings,
): Nature {
  return { op: 'write', risk: 'reversible', idempotent: false, evidence: ['default'] }
}
