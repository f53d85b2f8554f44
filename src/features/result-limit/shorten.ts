import { isObject } from '../../core/json.ts'

/** How deep a value is shortened; what is nested deeper is kept whole or not at all. */
const MAX_DEPTH = 6
const ELLIPSIS = '…'

/** The size of a value as JSON, in bytes. */
export function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? 'null')
}

/**
 * A value with the same shape that fits into so many bytes as JSON: the ends of arrays are left out and, with
 * `strings`, those of strings. Nothing where that is not enough.
 */
export function shorten(value: unknown, budget: number, strings: boolean): unknown {
  return fit({ value, size: sizeOf(value) }, budget, { strings, depth: 0 })
}

/** Measured once, as measuring takes as long as encoding. */
interface Measured {
  readonly value: unknown
  readonly size: number
}

interface How {
  readonly strings: boolean
  readonly depth: number
}

function fit({ value, size }: Measured, budget: number, { strings, depth }: How): unknown {
  if (size <= budget) return value
  if (depth > MAX_DEPTH) return undefined
  const how = { strings, depth: depth + 1 }
  if (typeof value === 'string') return strings ? cut(value, budget) : undefined
  if (Array.isArray(value)) return fitArray(value, budget, how)
  return isObject(value) ? fitObject(value, budget, how) : undefined
}

/** The start of a text that fits into so many bytes as a JSON string; nothing where not even its mark does. */
export function cut(text: string, budget: number): string | undefined {
  if (sizeOf(text) <= budget) return text
  const room = budget - sizeOf(ELLIPSIS)
  if (room < 0) return undefined
  let length = Math.min(text.length, room)
  for (;;) {
    const part = whole(text, length)
    const excess = sizeOf(part) - 2 - room
    if (excess <= 0) return part + ELLIPSIS
    // Every character takes at least a byte, and at most six.
    length = Math.max(
      0,
      Math.min(length - Math.ceil(excess / 6), Math.floor((length * room) / (room + excess))),
    )
  }
}

/** So many characters, without half of one. */
function whole(text: string, length: number): string {
  const last = text.charCodeAt(length - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length)
}

function fitArray(items: readonly unknown[], budget: number, how: How): unknown[] | undefined {
  let left = budget - 2
  if (left < 0) return undefined
  const kept: unknown[] = []
  for (const value of items) {
    const size = sizeOf(value)
    if (size < left) {
      kept.push(value)
      left -= size + 1
      continue
    }
    const part = kept.length === 0 ? fit({ value, size }, left, how) : undefined
    return part === undefined ? kept : [part]
  }
  return kept
}

/** Small members are kept; the large ones share what is left. */
function fitObject(
  object: Readonly<Record<string, unknown>>,
  budget: number,
  how: How,
): Record<string, unknown> | undefined {
  const members = Object.entries(object).map(([key, value]) => ({ key, value, size: sizeOf(value) }))
  let left = budget - 1 - members.reduce((sum, { key }) => sum + sizeOf(key) + 2, 0)
  if (left < (members.length === 0 ? 1 : 0)) return undefined
  const short = new Map<string, unknown>()
  const bySize = members.toSorted((one, other) => one.size - other.size)
  for (const [index, member] of bySize.entries()) {
    const share = Math.floor(left / (bySize.length - index))
    const part = fit(member, share, how)
    if (part === undefined) return undefined
    short.set(member.key, part)
    left -= part === member.value ? member.size : sizeOf(part)
  }
  return Object.fromEntries(members.map(({ key }) => [key, short.get(key)]))
}
