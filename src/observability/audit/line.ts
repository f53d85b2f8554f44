/** The lines of the audit file, chained by hashes. */
import { hash } from 'node:crypto'
import { isObject } from '../../core/json/json.ts'

/** Where a chain of lines has got to: the number and hash of its last line. */
export interface Head {
  readonly seq: number
  readonly hash: string
}

/** What the first line of all follows. */
export const origin: Head = { seq: 0, hash: '0'.repeat(64) }

/** A line that was read. */
export interface AuditLine {
  readonly seq: number
  /** The hash of the line before. */
  readonly prev: string
  readonly hash: string
  /** Whether the hash is that of the line. */
  readonly isSound: boolean
  readonly event: unknown
  readonly fields: Readonly<Record<string, unknown>>
}

/**
 * The next line of a chain: a JSON object whose last member is the SHA-256 of the text it would be without that
 * member, in which stands the hash of the line before.
 */
export function encodeLine(
  before: Head,
  fields: Readonly<Record<string, unknown>>,
): { readonly line: string; readonly head: Head } {
  const seq = before.seq + 1
  const text = JSON.stringify({ seq, ...fields, prev: before.hash })
  const digest = hash('sha256', text)
  return { line: `${text.slice(0, -1)},"hash":"${digest}"}\n`, head: { seq, hash: digest } }
}

const end = /,"hash":"([0-9a-f]{64})"\}$/

/** Reads a line; nothing where it is none of an audit log. */
export function readLine(text: string): AuditLine | undefined {
  const [tail, digest] = end.exec(text) ?? []
  const fields = tail === undefined ? undefined : parsed(text)
  if (tail === undefined || digest === undefined || !isObject(fields)) return undefined
  const { seq, prev, event } = fields
  if (typeof seq !== 'number' || typeof prev !== 'string') return undefined
  const isSound = hash('sha256', `${text.slice(0, -tail.length)}}`) === digest
  return { seq, prev, hash: digest, isSound, event, fields }
}

/** Reads the number and hash of the last line, as they are kept beside a file and in the store. */
export function parseHead(text: string): Head | undefined {
  const value = parsed(text)
  if (!isObject(value)) return undefined
  const { seq, hash: digest } = value
  return typeof seq === 'number' && typeof digest === 'string' ? { seq, hash: digest } : undefined
}

/** What names a text that is no line, in the line after it. */
export function tornDigest(text: string): string {
  return hash('sha256', text)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
