/** Finds what looks like a secret in untrusted text: tokens, keys, passwords, connection strings, cookies. */
import { isObject } from '../json/json.ts'
import { MASK } from './redactor.ts'
import { isSecretName } from './secret.ts'
import { wordSet } from './words.ts'

type Replace = (found: string, groups: readonly string[]) => string
type Shape = readonly [RegExp, Replace]

/** The maximum number of characters examined for an excerpt. */
const MAX_EXCERPT_SOURCE_LENGTH = 20_000

/** Untrusted text without anything that looks like a secret: keys, tokens, passwords, connection strings, cookies. */
export function withoutSecrets(text: string): string {
  return shapes.reduce(
    (before, [pattern, replace]) =>
      before.replaceAll(pattern, (found: string, ...groups: string[]) => replace(found, groups)),
    text,
  )
}

/**
 * The beginning of an untrusted text, for a log: without anything that looks like a secret, and cut between words,
 * because a part of a secret would not be recognized.
 */
export function excerpt(text: string, maxLength = 200): string {
  const safe = withoutSecrets(text.slice(0, MAX_EXCERPT_SOURCE_LENGTH))
  if (safe.length <= maxLength && text.length <= MAX_EXCERPT_SOURCE_LENGTH) return safe
  return `${safe.slice(0, maxLength).replace(/\S+$/, '')}…`
}

/** The maximum nesting of a value that is cleaned; deeper values are replaced. */
const MAX_CLEANED_DEPTH = 64

/** A value with every text in it cleaned by `text`, and with the texts under secret keys replaced. */
export function cleanedValue(value: unknown, text: (given: string) => string, depth = 0): unknown {
  if (typeof value === 'string') return text(value)
  if (typeof value !== 'object' || value === null) return value
  if (depth > MAX_CLEANED_DEPTH) return MASK
  if (Array.isArray(value)) return value.map((item) => cleanedValue(item, text, depth + 1))
  if (!isObject(value)) return value
  const members = Object.entries(value).map(([key, member]) => {
    const isSecret = isSecretName(key) && typeof member === 'string'
    return [text(key), isSecret ? MASK : cleanedValue(member, text, depth + 1)] as const
  })
  return Object.fromEntries(members)
}

const redacted = (): string => '[redacted]'
const connection = (): string => '[connection]'

const word = String.raw`[\w-]{0,40}(?:passw(?:or)?d|pwd|passphrase|secret|token(?!s|iz)|api[_-]?key|access[_-]?key|private[_-]?key|credentials?|authorization)[\w-]{0,20}`
const quoted = String.raw`"[^"\n]{0,500}"|'[^'\n]{0,500}'`

const shapes: readonly Shape[] = [
  [
    /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,20000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/g,
    redacted,
  ],
  [/(?<![\w+.-])[a-z][a-z0-9+.-]{1,30}:\/\/[^\s:/@'"]{0,200}:[^\s@'"]{1,500}@[^\s'"]{0,500}/gi, connection],
  [
    /(?<![\w;])(?:[\w ]{1,40}=[^;\n=]{1,200};){1,20}\s?(?:password|pwd)\s?=[^;\n'"]{1,200}(?:;[^\n'"]{0,500})?/gi,
    connection,
  ],
  [/(?<!\w)(bearer|basic)\s{1,3}[A-Za-z0-9._~+/=-]{8,4000}/gi, (_found, [kind = '']) => `${kind} [redacted]`],
  [/eyJ[\w-]{5,4000}\.[\w-]{5,8000}(?:\.[\w-]{0,4000})?/g, redacted],
  [/(?<!\w)(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{12,128}/g, redacted],
  [
    /(?:gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|[spr]k_(?:live|test)_|AIza|ya29\.|pypi-|dop_v1_|shpat_|(?<!\w)(?:sk-|npm_|hf_|SG\.))[\w.-]{16,1000}/g,
    redacted,
  ],
  [
    new RegExp(
      `(?<![\\w-])(${word}["']?\\s{0,3}=\\s{0,3})(\\[[a-z]{4,10}\\]|${quoted}|[^\\s,;&"')\\]}]{1,1000})`,
      'gi',
    ),
    assigned,
  ],
  [
    new RegExp(
      `(?<![\\w-])(${word}["']?\\s{0,3}:\\s{0,3})(\\[[a-z]{4,10}\\]|${quoted}|[^\\s,;&"')\\]}]{1,1000})(?=(.{0,40}))`,
      'gi',
    ),
    maskedValue,
  ],
  [
    /(?<![\w-])((?:set-)?cookie["']?\s{0,3}[:=]\s{0,3}["']?)[\w.!#$%&*+^`|~-]{1,100}=[^\r\n"']{0,4000}/gi,
    assigned,
  ],
]

function assigned(_found: string, [name = '']: readonly string[]): string {
  return `${name}[redacted]`
}

/** `token: expired` is prose, `password: hunter2` is a secret. */
function maskedValue(found: string, [name = '', value = '', rest = '']: readonly string[]): string {
  const isWord = /^[a-z]{1,20}[.!]?$/i.test(value)
  const isSentence = isWord && (/^ [a-z]{1,20}(?![\w:=])/i.test(rest) || isWordOfErrors(value))
  return isSentence || value === '' ? found : `${name}[redacted]`
}

/** Whether a word describes a problem of a secret and is not one: `token: expired`. */
export function isWordOfErrors(word: string): boolean {
  return words.has(word.toLowerCase())
}

const words = wordSet(
  'expired invalid missing required unknown revoked malformed must should cannot not no none null undefined true false string number object',
)
