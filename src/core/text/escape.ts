/** Untrusted text on one line, with invisible characters made visible, or quoted for YAML. */

// Characters that are invisible, change the text direction, or are unassigned.
const hidden = /[\p{C}\p{Zl}\p{Zp}\p{DI}\u2800]|(?! )\p{Zs}/gu
const line = '\n'
/** Most texts, which need not be examined by character. */
const plain = /^[\n -~]*$/

/** A part of a text: visible text, or one invisible character. */
interface Part {
  readonly text: string
  readonly isHidden: boolean
}

/** Splits a text at invisible characters; a line feed counts as visible. */
export function splitHidden(text: string): readonly Part[] {
  const parts: Part[] = []
  let at = 0
  for (const { 0: character, index } of text.matchAll(hidden)) {
    if (character === line) continue
    if (index > at) parts.push({ text: text.slice(at, index), isHidden: false })
    parts.push({ text: character, isHidden: true })
    at = index + character.length
  }
  if (at < text.length) parts.push({ text: text.slice(at), isHidden: false })
  return parts
}

/** The name of a character, such as `U+202E`. */
export function codePointName(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`
}

/** The same JSON or text, with each invisible character escaped as in JSON. */
export function escapeHidden(text: string): string {
  if (plain.test(text)) return text
  return splitHidden(text)
    .map((part) => (part.isHidden ? escapedUnits(part.text) : part.text))
    .join('')
}

function escapedUnits(character: string): string {
  return Array.from({ length: character.length }, (_, index) => {
    return `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`
  }).join('')
}

/** Untrusted text on a single line: without line breaks and invisible characters. */
export function oneLine(text: string): string {
  return escapeHidden(text).replaceAll('\n', '\\n')
}

/** Text of one or several lines, with tabs as they are and other invisible characters escaped. */
export function visibleText(text: string): string {
  return plain.test(text) ? text : text.split('\t').map(escapeHidden).join('\t')
}

/** The same on one line. */
export function visibleLine(text: string): string {
  return visibleText(text).replaceAll('\n', '\\n')
}

/** A text with its percent-encoded characters decoded (RFC 3986); as it is if an escape is invalid. */
export function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** A text of at most `max` characters: a longer one is cut, and ends with an ellipsis. */
export function shortened(text: string, max: number): string {
  return text.length > max ? `${text.slice(0, max - 1).toWellFormed()}…` : text
}

// Texts of servers as YAML that a person can paste into the configuration. Plain words are unquoted; everything else is
// quoted as JSON, which is YAML, with invisible characters escaped.

/** A text as a quoted scalar. */
export function quotedText(text: string): string {
  return escapeHidden(JSON.stringify(text))
}

/** A name as a mapping key. */
export function yamlKey(name: string): string {
  return /^[A-Za-z][\w-]*$/.test(name) && !isYamlWord(name) ? name : quotedText(name)
}

/** Whether some version of YAML reads a word as something other than text. */
export function isYamlWord(text: string): boolean {
  return /^(?:y|n|yes|no|on|off|true|false|null|nan|inf)$/i.test(text)
}
