/** References to variables and files in values, and what a configuration gives as a secret. */
import { closeSync, constants, fstatSync, openSync, readSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { plantedProblem, strangerProblem } from '../store/private-folder.ts'
import { isObject } from '../core/json/json.ts'
import { basic, clientCredentials, MIN_SECRET_LENGTH } from '../core/text/redactor.ts'
import { isSecretName, Secret } from '../core/text/secret.ts'

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>

/**
 * The variables for references in a configuration file: those of `environment`, else those of a file of
 * `NAME=value` lines: the given one, else `.env` next to the configuration, if it exists.
 * @throws Error if the given file cannot be read
 */
export function variablesFor(file: string, environment: Environment, named?: string): Environment {
  const path = variablesFile(file, named)
  const problem = named === undefined ? strangerProblem(path, ownerOf(file)) : undefined
  if (problem !== undefined)
    throw new Error(`the file ${path} ${problem}, so it is not read: name it with --env-file, or remove it`)
  const own = variablesIn(path)
  if ('value' in own) return { ...own.value, ...environment }
  if (named !== undefined || !own.isAbsent) throw new Error(own.problem)
  return environment
}

/** The file with the variables of a configuration file, which may not exist. */
export function variablesFile(file: string, named?: string): string {
  return named ?? join(dirname(file), '.env')
}

/** The user whose configuration was named is trusted with what is beside it. */
function ownerOf(file: string): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.uid
}

function variablesIn(
  path: string,
): { readonly value: Environment } | { readonly problem: string; readonly isAbsent: boolean } {
  try {
    return { value: parseEnv(readText(path)) }
  } catch (error) {
    const isAbsent = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    return { problem: `the file ${path} cannot be read: ${whyUnreadable(error)}`, isAbsent }
  }
}

/** The sources of references: variables in `env`, and files relative to `directory`. */
export interface ReferenceSources {
  readonly env: Environment
  readonly directory: string
}

/** A value that a reference stands for: of a variable, or of a file if there is no name. */
interface Referenced {
  readonly name?: string
  readonly value: string
}

interface Interpolated {
  readonly text: string
  readonly problems: readonly string[]
  readonly referenced: readonly Referenced[]
}

/** Expands `${NAME}`, `${NAME:-default}` and `${file:/path}`; `$${` is a literal `${`. */
export function interpolate(text: string, references: ReferenceSources): Interpolated {
  const problems: string[] = []
  const referenced: Referenced[] = []
  const replaced = text.replaceAll(
    /\$\$\{|\$\{([^}]*)(\}?)/g,
    (whole, body: string | undefined, end: string) => {
      if (whole === '$${') return '${'
      const found = end === '}' ? lookUp(body ?? '', references) : unclosed
      if (!('value' in found)) {
        problems.push(found.problem)
        return ''
      }
      if (!found.isDefault) referenced.push(found)
      return found.value
    },
  )
  return { text: replaced, problems, referenced }
}

/** Whether a text refers to a variable or file. */
export function hasReference(text: string): boolean {
  return /(?<!\$)\$\{/.test(text)
}

type Found = (Referenced & { readonly isDefault?: true }) | { readonly problem: string }

const unclosed: Found = { problem: 'a `${` is not closed: write ${NAME}, or $${ for a literal ${' }

function lookUp(body: string, { env, directory }: ReferenceSources): Found {
  if (body.startsWith('file:')) return fileText(resolve(directory, body.slice('file:'.length)))
  const [, name, fallback] = /^([A-Za-z_]\w*)(?::-(.*))?$/s.exec(body) ?? []
  if (name === undefined) return { problem: misspelt(body) }
  const value = env[name]
  if (fallback !== undefined && (value === undefined || value === ''))
    return { value: fallback, isDefault: true }
  if (value !== undefined) return { name, value }
  return { problem: `the environment variable ${name} is not set: set it, or write \${${name}:-default}` }
}

function fileText(path: string): Found {
  try {
    return { value: readText(path).replace(/\r?\n$/, '') }
  } catch (error) {
    return { problem: `the file ${path} cannot be read: ${whyUnreadable(error)}` }
  }
}

function misspelt(body: string): string {
  const name = /^(?:env|input):([A-Za-z_]\w*)$/.exec(body)?.[1]
  const fix = name === undefined ? '${NAME} or ${file:/path}' : `\${${name}}`
  return `this is not a reference: write ${fix}, or $\${ for a literal \${`
}

// Reads files with a size limit, or explains why they cannot be read.

// Only regular files up to a size limit are read: reading a pipe or a device may never finish, or never start.

const MB = 1_048_576

/** The maximum size of a file with a secret or variables, in bytes. */
const MAX_BYTES = MB

/**
 * The text of a regular file that no other user can have put there. @throws Error with the reason, or the system error
 */
export function readText(path: string, maxBytes = MAX_BYTES): string {
  // O_NONBLOCK: `open` would block on a pipe without a writer.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    // Once it is open, as another user could put a file there after a look at the path.
    const problem = plantedProblem(path)
    if (problem !== undefined) throw new Error(`it ${problem}`)
    const found = fstatSync(file)
    if (!found.isFile()) throw new Error('it is not a regular file')
    if (found.ino !== statSync(path).ino) throw new Error('it was replaced while it was opened')
    const buffer = Buffer.alloc(maxBytes + 1)
    let length = 0
    for (let read = 1; read > 0 && length < buffer.length; length += read)
      read = readSync(file, buffer, length, buffer.length - length, null)
    if (length > maxBytes) throw new Error(`it is larger than ${maxBytes / MB} MB`)
    return buffer.toString('utf8', 0, length)
  } finally {
    closeSync(file)
  }
}

/** Why a file could not be read, as text. */
export function whyUnreadable(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'ENOENT') return 'it does not exist'
  if (code === 'EACCES') return 'permission denied'
  if (code === 'EISDIR') return 'it is a directory'
  if (typeof code === 'string') return code
  return error instanceof Error ? error.message : 'it is not readable'
}

/*
 * What a configuration gives as a secret: what `${NAME}` and `${file:…}` stand for, credentials in URLs and command lines,
 * and values that look like a secret by their name or their randomness. Everything else is ordinary text, which the
 * gateway may print.
 */

const shapes = [
  /\b(gh[pousr]_|github_pat_|glpat-|xox[a-z]-|xapp-|sk-|sk_live_|sk_test_|rk_live_)[\w-]{10,}/,
  /\b(ntn|figd|sbp|sntry[su]|lin_api|shpat|dop_v1|dckr_pat|glsa)_[\w-]{10,}/,
  /\b(npm_|hf_)[A-Za-z0-9]{20,}/,
  /\bhooks\.slack\.com\/(services|workflows)\/[\w/]{10,}/,
  /\bAKIA[A-Z0-9]{16}\b/,
  /\bAIza[\w-]{30,}/,
  /\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\./,
  /\bBearer\s+[\w.~+/=-]{8,}/i,
  /-----BEGIN [A-Z ]*PRIVATE KEY-----/,
]

/** Whether a text contains something that looks like an access token or private key. */
export function looksLikeToken(text: string): boolean {
  return shapes.some((shape) => shape.test(text))
}

/** Whether a variable, header or option with this name usually contains a secret. */
export function namesSecret(name: string): boolean {
  return isSecretName(name) || /(?:^|[_-])(?:auth|key|pass|pin|creds|jwt)$|accountkey$/i.test(name)
}

/** Whether a secret is in a text by its name: as a member of JSON, or as in `Password=…;` of a connection string. */
export function containsNamedSecret(text: string): boolean {
  return [...text.matchAll(namedValue)].some(([, name = '']) => namesSecret(name))
}

/** The names of values in a text, without those of references, objects and lists, and of what precedes a reference. */
const namedValue =
  /(?<![\w.-])([a-z_][\w.-]*)(?:\\*["']\s*:|\s*=)\s*\\*["']?(?!(?:true|false|null)\b|(?:Bearer|Basic|Token)\s*$)[^\s\\"',;&{}[\]$%]/gi

/** Whether a text is a URL with a password in it. */
export function holdsPassword(text: string): boolean {
  return urlWithPassword.test(text)
}

/** Whether a URL with a password is anywhere in a text. */
export function containsPassword(text: string): boolean {
  return partWithPassword.test(text)
}

const userAndPassword = String.raw`:\/\/[^/@\s]*:[^/@\s]+@`
const urlWithPassword = new RegExp(`^[a-z][a-z0-9+.-]*${userAndPassword}`, 'i')
const partWithPassword = new RegExp(String.raw`\w${userAndPassword}`)

/** Whether a text is long and mixed enough to be a generated key. */
export function looksRandom(text: string): boolean {
  return (
    /^[\w+/=.~-]{20,}$/.test(text) && /\d/.test(text) && /[a-z]/i.test(text) && !/[/\\.].*[/\\.]/.test(text)
  )
}

/** Whether a text has a part that looks generated at random: `us-east-1-production-2` and `gpt-4o-2024-07-18` have none. */
export function looksGenerated(text: string): boolean {
  if (!/^\S{16,}$/.test(text)) return false
  return (text.match(/[A-Za-z\d]{12,}/g) ?? []).some((run) => {
    const changes = run.match(/\d(?=[A-Za-z])|[A-Za-z](?=\d)|[a-z](?=[A-Z])/g) ?? []
    return /\d/.test(run) && changes.length >= 4
  })
}

/** Whether a value is not ordinary text: a token, a password in a URL, random, or calls itself a secret. */
function looksSecret(value: string): boolean {
  const isCalledOne = /^(?=.*[-\d])\S{10,}$/.test(value) && isSecretName(value)
  return isCalledOne || looksLikeToken(value) || looksGenerated(value) || holdsPassword(value)
}

/**
 * Variables or headers as secrets; texts are not searched for those that are ordinary by their name and their look, and
 * for names of servers.
 */
export function namedSecrets(
  given: Readonly<Record<string, Secret>>,
  servers: readonly string[] = [],
): Readonly<Record<string, Secret>> {
  const entries = Object.entries(given).map(([name, secret]) => {
    const value = secret.reveal()
    const isSecret = (namesSecret(name) || looksSecret(value)) && !servers.includes(value)
    return [name, isSecret ? secret : new Secret(value, { isOrdinary: true })] as const
  })
  return Object.fromEntries(entries)
}

/** A reference in the configuration, and the path of the value that it is in. */
export interface PlacedReference extends Referenced {
  readonly path: readonly string[]
}

/** The secrets in the expanded values of a configuration, besides those whose keys say so. */
export function configuredSecrets(value: unknown, references: readonly PlacedReference[]): readonly Secret[] {
  const names = isObject(value) && isObject(value.upstreams) ? Object.keys(value.upstreams) : []
  const given = references.filter(isGivenAsSecret).map((reference) => reference.value)
  const texts = new Set([...given, ...textsIn(value)])
  return [...texts]
    .filter((text) => text.length >= MIN_SECRET_LENGTH && !names.includes(text))
    .map((text) => new Secret(text))
}

/** Variables whose values are in ordinary texts. */
const ordinaryVariables =
  /^(?:HOME|HOMEPATH|HOMEDRIVE|USERPROFILE|USER|USERNAME|LOGNAME|HOST|HOSTNAME|COMPUTERNAME|PWD|OLDPWD|PATH|SHELL|TERM|TZ|LANG|LC_\w+|TMP|TEMP|TMPDIR|NODE_ENV|APPDATA|LOCALAPPDATA|SYSTEMROOT|XDG_\w+)$|(?:^|_)(?:HOST|HOSTNAME|PORT|DIR|PATH|FILE|REGION|ZONE|TIMEZONE|ENV|ENVIRONMENT|STAGE|MODE|LEVEL|VERSION|LOCALE|LANGUAGE)$/i

/** Whether what a reference stands for is a secret: a value where no secrets are expected is one only by its look. */
function isGivenAsSecret({ name, value, path }: PlacedReference): boolean {
  if (looksSecret(value)) return true
  if (!isPlaceOfSecrets(path)) return false
  const key = path.at(-1) ?? ''
  if (namesSecret(name ?? '') || namesSecret(key)) return true
  const isOrdinary = [name ?? '', key].some((each) => ordinaryVariables.test(each))
  return name === undefined || !(isOrdinary || isPlace(value))
}

/** Whether a value is where servers, or other services, get their credentials. */
function isPlaceOfSecrets([section, ...path]: readonly string[]): boolean {
  if (section === 'store') return true
  if (section === 'notify') return /^(?:url|secret|token|password)$/.test(path.at(-1) ?? '')
  if (section !== 'upstreams') return namesSecret(path.at(-1) ?? '') || path.includes('headers')
  const key = path[1]
  return path.length === 1 || 'env headers token oauth command args url events'.split(' ').includes(key ?? '')
}

/** Whether a value is a path, or a URL: its credentials are secrets, and nothing else of it. */
function isPlace(value: string): boolean {
  return /^(?:~|\.{0,2}|[A-Za-z]:)[\\/]/.test(value) || /^[a-z][a-z0-9+.-]*:\/\/[^\s]+$/i.test(value)
}

/** The values with secret names, and the credentials in the URLs and command lines of a value. */
function textsIn(value: unknown, path: readonly string[] = []): readonly string[] {
  if (typeof value === 'string') {
    const isNamed = isSecretName(path.at(-1) ?? '') && isPlaceOfSecrets(path)
    return isNamed ? [value, ...inUrl(value)] : inUrl(value)
  }
  if (Array.isArray(value)) return [...value.flatMap((each) => textsIn(each, path)), ...inWords(value)]
  if (!isObject(value)) return []
  const { client_id: id, client_secret: secret } = value
  const pair = typeof id === 'string' && typeof secret === 'string' ? basicPairs(id, secret) : []
  return [...pair, ...Object.entries(value).flatMap(([key, each]) => textsIn(each, [...path, key]))]
}

/** A client and its secret in HTTP Basic: as the gateway sends them, and form-encoded. */
function basicPairs(id: string, secret: string): readonly string[] {
  const encoded = [id, secret].map((each) => new URLSearchParams({ each }).toString().slice('each='.length))
  return [...clientCredentials(id, secret), basic(encoded.join(':'))]
}

/** The user and password of a URL, and the parameters and steps that are secrets by their name or look. */
function inUrl(text: string): readonly string[] {
  if (!/^[a-z][a-z0-9+.-]*:\/\/\S+$/i.test(text) || !URL.canParse(text)) return []
  const { username, password, searchParams, pathname } = new URL(text)
  const parameters = [...searchParams].filter(([name, value]) => isParameter(name, value))
  const steps = pathname.split('/').filter((step) => looksLikeToken(step) || looksGenerated(step))
  return [
    ...(password !== '' || looksGenerated(username) ? [text] : []),
    ...parameters.flatMap(([, value]) => [value]),
    ...steps,
  ]
}

function isParameter(name: string, value: string): boolean {
  return (
    namesSecret(name) ||
    /key$|^(?:sig|signature|sas|code)$/i.test(name) ||
    looksLikeToken(value) ||
    looksGenerated(value)
  )
}

/** The words after options such as `--api-key`, and after the `=` of such an option. */
function inWords(words: readonly unknown[]): readonly string[] {
  return words.flatMap((word, at): string[] => {
    if (typeof word !== 'string') return []
    const [, option = '', given] = /^--?([\w.-]+)(?:[=:]\s*(.*))?$/s.exec(word) ?? []
    if (!namesSecret(option)) return []
    const next = words[at + 1]
    if (given !== undefined) return [given]
    return typeof next === 'string' && !next.startsWith('-') ? [next] : []
  })
}
