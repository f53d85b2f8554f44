/**
 * Values as they stand in the database: until when they are kept, a checksum of that, the key and the text, and the
 * text. A value whose checksum is wrong was damaged on the disk; it is never taken for one that is not there, as a call
 * that was answered would run again then. Values without a checksum were written by earlier versions, which in turn
 * read those that have one.
 */
import { crc32 } from 'node:zlib'

/** A value that was found, with the version of that write. */
export interface Found {
  readonly text: string
  /** In milliseconds since 1970. */
  readonly until: number
  readonly version: number
}

/** A value is not what was written. */
export class DamagedValue extends Error {
  override readonly message = 'a value in it was damaged'
}

/** A value as it is stored. */
export function storedValue(key: string, text: string, until: number): string {
  const end = Math.ceil(until).toString(36)
  return `${end}.${checksum(key, end, text)} ${text}`
}

/** A value as it was stored; nothing where there is none. @throws DamagedValue */
export function readValue(key: string, stored: string | undefined, version = 0): Found | undefined {
  if (stored === undefined) return undefined
  const space = stored.indexOf(' ')
  const head = /^([0-9a-z]+)(?:\.([0-9a-z]+))?$/.exec(stored.slice(0, Math.max(space, 0)))
  const [, end = '', sum] = head ?? []
  const text = stored.slice(space + 1)
  if (!head || (sum !== undefined && sum !== checksum(key, end, text))) throw new DamagedValue()
  return { until: Number.parseInt(end, 36), text, version }
}

/** Whether the bytes of a value are those that were stored, its key given as bytes too. */
export function isSound(key: Buffer, stored: Buffer): boolean {
  const space = stored.subarray(0, MAX_HEAD_LENGTH).indexOf(0x20)
  const head = /^([0-9a-z]+)(?:\.([0-9a-z]+))?$/.exec(stored.toString('latin1', 0, Math.max(space, 0)))
  if (!head) return false
  const [, end = '', sum] = head
  // Keys with control characters are written in another way than their text.
  if (sum === undefined || key.some((byte) => byte < 0x20)) return true
  return sum === crc32(stored.subarray(space + 1), crc32(`${end} `, crc32(key))).toString(36)
}

/** No head of a value is longer, in bytes: two numbers of 36 digits, and what stands between them. */
const MAX_HEAD_LENGTH = 32

function checksum(key: string, end: string, text: string): string {
  return crc32(text, crc32(`${end} `, crc32(key))).toString(36)
}

/** What no other write has, of any process. */
export function newVersion(): number {
  return 1 + Math.floor(Math.random() * 2 ** 52)
}
