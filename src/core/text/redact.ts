/** Finds secrets in untrusted text: known values, and the formats of tokens and connection strings. */
import { isObject } from '../json/json.ts'
import { Secret } from './secret.ts'

/** The replacement of a secret. */
const MASK = '***'
/** Shorter values occur in ordinary text. */
const MIN_SECRET_LENGTH = 6
const MAX_DEPTH = 8
/** Lines of a multi-line secret are secrets too, unless they are as short as ordinary lines. */
const MIN_LINE_LENGTH = 16
/** The maximum number of cached decisions about keys, and the longest such key in characters. */
const MAX_CACHED_KEYS = 1000
const MAX_CACHED_KEY_LENGTH = 100
/** The maximum number of known secrets. */
const MAX_SECRETS = 2000

type Fields = Readonly<Record<string, unknown>>

/** Removes secrets from values: by their content, and by the key they are stored under. */
export class Redactor {
  #secrets: RegExp | undefined
  #known: readonly string[] = []

  /** Adds secrets. Earlier ones remain secret, because a server that received them may still be running. */
  learn(secrets: readonly string[]): void {
    this.#known = [...new Set([...secrets, ...this.#known])].slice(0, MAX_SECRETS)
    const forms = new Set(this.#known.flatMap(formsOf).filter((form) => form.length >= MIN_SECRET_LENGTH))
    // Of two with the same beginning, the longer one is matched first.
    const sorted = [...forms].toSorted((one, other) => other.length - one.length)
    this.#secrets = sorted.length > 0 ? new RegExp(sorted.map(escaped).join('|'), 'g') : undefined
  }

  /** Whether a text contains a secret. */
  finds(text: string): boolean {
    if (!this.#secrets) return false
    this.#secrets.lastIndex = 0
    return this.#secrets.test(text)
  }

  /** A text without secrets, except those that may stay. */
  text(text: string, mayStay?: (secret: string) => boolean): string {
    if (!this.#secrets) return text
    return text.replace(this.#secrets, (found) => (mayStay?.(found) ? found : MASK))
  }

  /** A value without secrets, at any depth. */
  value(value: unknown, depth = 0): unknown {
    if (typeof value === 'string') return this.text(value)
    if (depth > MAX_DEPTH) return MASK
    if (Array.isArray(value)) return value.map((item) => this.value(item, depth + 1))
    if (!isObject(value) || value instanceof Secret) return value
    const entries = Object.entries(value).map(([key, each]) => {
      return [
        this.text(key),
        isSecretKey(key) && each !== undefined ? MASK : this.value(each, depth + 1),
      ] as const
    })
    return Object.fromEntries(entries)
  }

  fields(fields: Fields): Fields {
    const entries = Object.entries(fields)
    return Object.fromEntries(
      entries.map(([key, value]) => [key, isSecretKey(key) ? MASK : this.value(value)]),
    )
  }
}

const secretKeyPattern =
  /authorization|cookie|passw(?:or)?d|passphrase|secret|credential|api[-_]?key|private[-_]?key|(?:^|[-_a-z])token$/i
const known = new Map<string, boolean>()

/** Whether values under a key are always secret. */
export function isSecretKey(key: string): boolean {
  const found = known.get(key)
  if (found !== undefined) return found
  const isSecret = secretKeyPattern.test(key)
  if (known.size < MAX_CACHED_KEYS && key.length <= MAX_CACHED_KEY_LENGTH) known.set(key, isSecret)
  return isSecret
}

/** All secret values in settings. */
export function secretsOf(settings: unknown): string[] {
  if (settings instanceof Secret) return [settings.reveal()]
  if (Array.isArray(settings)) return settings.flatMap(secretsOf)
  return isObject(settings) ? Object.values(settings).flatMap(secretsOf) : []
}

/** The forms in which a secret can occur: as a whole or by line, without its scheme, escaped in JSON or in a URL. */
function formsOf(secret: string): string[] {
  const lines = secret.split(/[\r\n]+/).map((line) => line.trim())
  const [, bareToken] = /^(?:bearer|basic|token)\s+(.+)$/i.exec(secret) ?? []
  const password = URL.canParse(secret) ? new URL(secret).password : ''
  const parts = lines.length > 1 ? lines.filter((line) => line.length >= MIN_LINE_LENGTH) : []
  const plain = [secret, bareToken ?? '', password, decoded(password), ...parts].filter(
    (part) => part.length >= MIN_SECRET_LENGTH,
  )
  return plain.flatMap((item) => [item, JSON.stringify(item).slice(1, -1), encodeURIComponent(item)])
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** A text as a part of a regular expression that matches it. */
export function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, String.raw`\$&`)
}

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
    const isSecret = isSecretKey(key) && typeof member === 'string'
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

const words = new Set(
  'expired invalid missing required unknown revoked malformed must should cannot not no none null undefined true false string number object'.split(
    ' ',
  ),
)
