import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>

/** The environment the gateway was started with. */
export function environment(): Environment {
  return process.env
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
    return { value: readFileSync(path, 'utf8').replace(/\r?\n$/, '') }
  } catch (error) {
    return { problem: `the file ${path} cannot be read: ${reason(error)}` }
  }
}

function reason(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'ENOENT') return 'it does not exist'
  if (code === 'EACCES') return 'permission is denied'
  if (code === 'EISDIR') return 'it is a directory'
  return typeof code === 'string' ? code : 'it is not readable'
}

function misspelt(body: string): string {
  const name = /^(?:env|input):([A-Za-z_]\w*)$/.exec(body)?.[1]
  const fix = name === undefined ? '${NAME} or ${file:/path}' : `\${${name}}`
  return `this is not a reference: write ${fix}, or $\${ for a literal \${`
}
