/**
 * Texts of servers as YAML that a person can paste into the configuration.
 *
 * Plain words stay as they are; everything else is quoted as JSON, which is YAML, with each character that cannot be
 * seen by its number.
 */
import { escapeHidden } from './hidden.ts'

/** Any text as a quoted scalar. */
export function quotedText(text: string): string {
  return escapeHidden(JSON.stringify(text))
}

/** A name as the key of a mapping. */
export function yamlKey(name: string): string {
  return /^[A-Za-z][\w-]*$/.test(name) && !isYamlWord(name) ? name : quotedText(name)
}

/** Whether YAML of some version reads a word as something else than text. */
export function isYamlWord(text: string): boolean {
  return /^(?:y|n|yes|no|on|off|true|false|null|nan|inf)$/i.test(text)
}
