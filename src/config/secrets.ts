/** References to variables and files in values. */
import { closeSync, constants, fstatSync, openSync, readSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { plantedProblem, strangerProblem } from '../store/private-folder.ts'

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>

/**
 * The variables for references in a configuration file: those of `environment`, else those of a file of
 * `NAME=value` lines: the given one, else `.env` next to the configuration, if it exists.
 * @throws Error if the given file cannot be read
 */
export function variablesFor(file: string, environment: Environment, named?: string): Environment {
  const path = named ?? join(dirname(file), '.env')
  const problem = named === undefined ? strangerProblem(path, ownerOf(file)) : undefined
  if (problem !== undefined)
    throw new Error(`the file ${path} ${problem}, so it is not read: name it with --env-file, or remove it`)
  const own = variablesIn(path)
  if ('value' in own) return { ...own.value, ...environment }
  if (named !== undefined || !own.isAbsent) throw new Error(own.problem)
  return environment
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
export interface References {
  readonly env: Environment
  readonly directory: string
}

/** Expands `${NAME}`, `${NAME:-default}` and `${file:/path}`; `$${` is a literal `${`. */
export function interpolate(
  text: string,
  references: References,
): { readonly text: string; readonly problems: readonly string[] } {
  const problems: string[] = []
  const replaced = text.replaceAll(
    /\$\$\{|\$\{([^}]*)(\}?)/g,
    (whole, body: string | undefined, end: string) => {
      if (whole === '$${') return '${'
      const found = end === '}' ? lookUp(body ?? '', references) : unclosed
      if ('value' in found) return found.value
      problems.push(found.problem)
      return ''
    },
  )
  return { text: replaced, problems }
}

/** Whether a text refers to a variable or file. */
export function hasReference(text: string): boolean {
  return /(?<!\$)\$\{/.test(text)
}

type Found = { readonly value: string } | { readonly problem: string }

const unclosed: Found = { problem: 'a `${` is not closed: write ${NAME}, or $${ for a literal ${' }

function lookUp(body: string, { env, directory }: References): Found {
  if (body.startsWith('file:')) return fileText(resolve(directory, body.slice('file:'.length)))
  const [, name, fallback] = /^([A-Za-z_]\w*)(?::-(.*))?$/s.exec(body) ?? []
  if (name === undefined) return { problem: misspelt(body) }
  const value = env[name]
  if (fallback !== undefined) return { value: value === undefined || value === '' ? fallback : value }
  if (value !== undefined) return { value }
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

// Recognizes values that look like secrets.

const shapes = [
  /\b(gh[pousr]_|github_pat_|glpat-|xox[a-z]-|sk-|sk_live_|sk_test_|rk_live_)[\w-]{10,}/,
  /\b(npm_|hf_)[A-Za-z0-9]{20,}/,
  /\bAKIA[A-Z0-9]{16}\b/,
  /\bAIza[\w-]{30,}/,
  /\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\./,
  /\bBearer\s+[\w.~+/=-]{8,}/i,
  /-----BEGIN [A-Z ]*PRIVATE KEY-----/,
]
const secretName =
  /(^|[_-])(token|secret|passwords?|passwd|pwd|credentials?|cookie|pat|dsn|authorization|auth)$|(api|access|private|secret|auth|subscription|encryption|app)[_-]?key$|^key$|(token|secret|password|authorization)$/i

/** Whether a text contains something that looks like an access token or private key. */
export function looksLikeToken(text: string): boolean {
  return shapes.some((shape) => shape.test(text))
}

/** Whether a variable, header or option with this name usually contains a secret. */
export function namesSecret(name: string): boolean {
  return secretName.test(name)
}

/** Whether a text is a URL with a password in it. */
export function holdsPassword(text: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\/[^/@\s]*:[^/@\s]+@/i.test(text)
}

/** Whether a text is long and mixed enough to be a generated key. */
export function looksRandom(text: string): boolean {
  return (
    /^[\w+/=.~-]{20,}$/.test(text) && /\d/.test(text) && /[a-z]/i.test(text) && !/[/\\.].*[/\\.]/.test(text)
  )
}

// Reads files with a size limit, or explains why they cannot be read.

// Only regular files up to a size limit are read: reading a pipe or a device may never finish, or never start.

/** The maximum size of a file with a secret, variables, or the configuration of a client, in bytes. */
const MAX_BYTES = 1_048_576

/**
 * The text of a regular file of up to 1 MB that no other user can have put there. @throws Error with the reason, or the
 * system error
 */
export function readText(path: string): string {
  const problem = plantedProblem(path)
  if (problem !== undefined) throw new Error(`it ${problem}`)
  // O_NONBLOCK: `open` would block on a pipe without a writer.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    if (!fstatSync(file).isFile()) throw new Error('it is not a regular file')
    const buffer = Buffer.alloc(MAX_BYTES + 1)
    let length = 0
    for (let read = 1; read > 0 && length < buffer.length; length += read)
      read = readSync(file, buffer, length, buffer.length - length, null)
    if (length > MAX_BYTES) throw new Error('it is larger than 1 MB')
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
