/** Variables and files that values refer to. The only reader of the environment. */
import { dirname, join, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { readText, whyUnreadable } from './read-text.ts'

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>

/** The environment the gateway was started with. */
export function environment(): Environment {
  return process.env
}

/**
 * The variables that references of a configuration file stand for: those of the process, else those of a file of
 * `NAME=value` lines: the one that is named, else `.env` beside the configuration where there is one.
 * @throws Error where the file that is named cannot be read
 */
export function variablesFor(file: string, named?: string): Environment {
  const own = named === undefined ? variablesIn(join(dirname(file), '.env')) : variablesIn(named)
  if ('value' in own) return { ...own.value, ...environment() }
  if (named !== undefined || !own.isAbsent) throw new Error(own.problem)
  return environment()
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

/** Where references are looked up: variables in `env`, relative files from `directory`. */
export interface References {
  readonly env: Environment
  readonly directory: string
}

/** Replaces every `${NAME}`, `${NAME:-default}` and `${file:/path}`; `$${` is a literal `${`. */
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

const unclosed: Found = { problem: 'a `${` is never closed: write ${NAME}, or $${ for a literal ${' }

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
