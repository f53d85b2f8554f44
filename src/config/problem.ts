/** Problems and warnings of a configuration, and their places. */
import { statSync } from 'node:fs'
import type { Finding as KeyFinding } from '../core/finding.ts'

/** One thing wrong with the configuration. Line and column count from 1; they are 0 where there is no file. */
export interface ConfigProblem {
  readonly file: string
  readonly line: number
  readonly column: number
  /** The key, such as `upstreams.files.args[0]`; empty for the file as a whole. */
  readonly path: string
  /** What is wrong and how to put it right; never holds a configured value. */
  readonly message: string
}

/** The configuration cannot be used: every problem found, one line each in the message. */
export class ConfigError extends Error {
  readonly problems: readonly ConfigProblem[]

  constructor(problems: readonly ConfigProblem[]) {
    super(problems.map(problemLine).join('\n'))
    this.name = 'ConfigError'
    this.problems = problems
  }
}

/** A problem before its place in the file is known. */
export interface Finding extends KeyFinding {
  /** The place itself, where it is not that of a key or value. */
  readonly place?: Position
}

/** What a check found: what stops the start, and what only deserves a word. */
export interface Checked {
  readonly problems: readonly Finding[]
  readonly warnings: readonly Finding[]
}

/** A place in a text, counted from 1. */
export interface Position {
  readonly line: number
  readonly column: number
}

/** A problem as one line: `gateway.config.yaml:12:5 upstreams.files: …`. */
export function problemLine({ file, line, column, path, message }: ConfigProblem): string {
  const place = line === 0 ? file : `${file}:${line}:${column}`
  return path === '' ? `${place} ${message}` : `${place} ${path}: ${message}`
}

/** A key's path as people write it. */
export function pathText(path: readonly string[]): string {
  return path.map(segmentText).join('').replace(/^\./, '')
}

function segmentText(segment: string): string {
  if (/^\d+$/.test(segment)) return `[${segment}]`
  return /^[\w-]+$/.test(segment) ? `.${segment}` : `[${JSON.stringify(segment)}]`
}

/** What is at a path: nothing, a directory, something else, or why that cannot be seen. */
export type Place = 'nothing' | 'directory' | 'other' | { readonly hidden: string }

/** Looks what is at a path. Never throws. */
export function placeAt(path: string): Place {
  try {
    const found = statSync(path, { throwIfNoEntry: false })
    if (!found) return 'nothing'
    return found.isDirectory() ? 'directory' : 'other'
  } catch (error) {
    return { hidden: error instanceof Error ? error.message : String(error) }
  }
}
