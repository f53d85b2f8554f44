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
export interface References {
  readonly env: Environment
  readonly directory: string
}

/** A value that a reference stands for: of a variable, or of a file if there is no name. */
export interface Referenced {
  readonly name?: string
  readonly value: string
}

interface Interpolated {
  readonly text: string
  readonly problems: readonly string[]
  readonly referenced: readonly Referenced[]
}

/** Expands `${NAME}`, `${NAME:-default}` and `${file:/path}`; `$${` is a literal `${`. */
export function interpolate(text: string, references: References): Interpolated {
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

function lookUp(body: string, { env, directory }: References): Found {
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

/** The maximum size of a file with a secret, variables, or the configuration of a client, in bytes. */
const MAX_BYTES = 1_048_576

/**
 * The text of a regular file of up to 1 MB that no other user can have put there. @throws Error with the reason, or the
 * system error
 */
export function readText(path: string): string {
  // O_NONBLOCK: `open` would block on a pipe without a writer.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    // Once it is open, as another user could put a file there after a look at the path.
    const problem = plantedProblem(path)
    if (problem !== undefined) throw new Error(`it ${problem}`)
    const found = fstatSync(file)
    if (!found.isFile()) throw new Error('it is not a regular file')
    if (found.ino !== statSync(path).ino) throw new Error('it was replaced while it was opened')
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
