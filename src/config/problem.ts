/** Problems and warnings of a configuration, and their positions. */
import type { Finding as KeyFinding } from '../core/findings.ts'
import { accessSync, constants, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** One problem of the configuration. Line and column count from 1; they are 0 without a file. */
export interface ConfigProblem {
  readonly file: string
  readonly line: number
  readonly column: number
  /** The key, such as `upstreams.files.args[0]`; empty for the file as a whole. */
  readonly path: string
  /** The problem and how to fix it; never contains a configured value. */
  readonly message: string
}

/** The configuration is invalid: all problems, one line each in the message. */
export class ConfigError extends Error {
  readonly problems: readonly ConfigProblem[]

  constructor(problems: readonly ConfigProblem[]) {
    super(problems.map(problemLine).join('\n'))
    this.name = 'ConfigError'
    this.problems = problems
  }
}

/** A problem without its position in the file. */
export interface Finding extends KeyFinding {
  /** The position, if it is not that of a key or value. */
  readonly place?: Position
}

/** A path of keys. */
type Path = readonly string[]

/** The finding about a value; none without a message, such as that of a condition which does not hold. */
export function atValue(path: Path, message: string | false | undefined): Finding[] {
  return message === undefined || message === false ? [] : [{ path, message }]
}

/** The same about a key. */
export function atKey(path: Path, message: string | false | undefined): Finding[] {
  return atValue(path, message).map((finding) => ({ ...finding, at: 'key' }))
}

/** The result of a check: problems that prevent the start, and warnings. */
export interface Findings {
  readonly problems: readonly Finding[]
  readonly warnings: readonly Finding[]
}

/** A position in a text, counted from 1. */
export interface Position {
  readonly line: number
  readonly column: number
}

/** A problem as one line: `gateway.config.yaml:12:5 upstreams.files: …`. */
export function problemLine({ file, line, column, path, message }: ConfigProblem): string {
  const place = line === 0 ? file : `${file}:${line}:${column}`
  return path === '' ? `${place} ${message}` : `${place} ${path}: ${message}`
}

/** A path as text, such as `upstreams.files.args[0]`. */
export function pathText(path: readonly string[]): string {
  return path.map(segmentText).join('').replace(/^\./, '')
}

function segmentText(segment: string): string {
  if (/^\d+$/.test(segment)) return `[${segment}]`
  return /^[\w-]+$/.test(segment) ? `.${segment}` : `[${JSON.stringify(segment)}]`
}

/** What exists at a path: nothing, a directory, something else, or why that is unknown. */
export type PathKind = 'nothing' | 'directory' | 'other' | { readonly hidden: string }

/** Determines what exists at a path. Never throws. */
export function placeAt(path: string): PathKind {
  try {
    const found = statSync(path, { throwIfNoEntry: false })
    if (!found) return 'nothing'
    return found.isDirectory() ? 'directory' : 'other'
  } catch (error) {
    return { hidden: error instanceof Error ? error.message : String(error) }
  }
}

/** Why this process cannot write a file, or create it with the folders above it; undefined if it can. Never throws. */
export function writeProblem(path: string): string | undefined {
  const found = placeAt(path)
  if (found === 'directory') return 'is a folder'
  if (typeof found === 'object') return `cannot be reached: ${found.hidden}`
  if (found === 'other')
    return isAllowed(path, constants.R_OK | constants.W_OK) ? undefined : 'cannot be written by this user'
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const above = placeAt(folder)
    if (above === 'nothing' && dirname(folder) !== folder) continue
    if (above === 'other') return `cannot be created: ${folder} is not a folder`
    return isAllowed(folder, constants.W_OK | constants.X_OK)
      ? undefined
      : `cannot be created: this user may not write in ${folder}`
  }
}

function isAllowed(path: string, mode: number): boolean {
  try {
    accessSync(path, mode)
    return true
  } catch {
    return false
  }
}

/**
 * Findings of two steps: a problem from an earlier step explains problems of later steps at the same key, which are left
 * out.
 */
export function withoutEchoes(known: readonly Finding[], later: readonly Finding[]): Finding[] {
  const paths = new Set(known.map(({ path }) => pathText(path)))
  return [...known, ...later.filter(({ path }) => !paths.has(pathText(path)))]
}
