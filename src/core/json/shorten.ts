/** Shortens JSON values to a size, so that they keep their shape. */
import { isObject } from './json.ts'

/** How deep a value is shortened; deeper values are kept completely or not at all. */
const MAX_DEPTH = 6
const ELLIPSIS = '…'

/** Whether a text has more bytes. A character takes at most three, so that nearly every text need not be measured. */
export function isLongerThan(text: string, bytes: number): boolean {
  return text.length * 3 > bytes && Buffer.byteLength(text) > bytes
}

/** The size of a value as JSON, in bytes. */
export function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? 'null')
}

/**
 * A value of the same shape that fits into a budget in bytes as JSON: the ends of arrays are removed and, with `strings`,
 * those of strings. Undefined if that is not enough.
 */
export function shorten(value: unknown, budget: number, strings: boolean): unknown {
  return fit({ value, size: sizeOf(value) }, budget, strings)
}

/** Measured once, because measuring costs as much as encoding. */
interface Measured {
  readonly value: unknown
  readonly size: number
}

function fit({ value, size }: Measured, budget: number, strings: boolean, depth = 0): unknown {
  if (size <= budget) return value
  if (depth > MAX_DEPTH) return undefined
  if (typeof value === 'string') return strings ? cut(value, budget) : undefined
  const fitInner = (inner: Measured, share: number): unknown => fit(inner, share, strings, depth + 1)
  if (Array.isArray(value)) return fitArray(value, budget, fitInner)
  return isObject(value) ? fitObject(value, budget, fitInner) : undefined
}

/** The start of a text that fits into a budget in bytes as a JSON string; undefined if not even the ellipsis does. */
export function cut(text: string, budget: number): string | undefined {
  if (sizeOf(text) <= budget) return text
  const available = budget - sizeOf(ELLIPSIS)
  if (available < 0) return undefined
  let length = Math.min(text.length, available)
  for (;;) {
    const part = prefixOf(text, length)
    const excess = sizeOf(part) - 2 - available
    if (excess <= 0) return part + ELLIPSIS
    // Every character takes one to six bytes.
    length = Math.max(
      0,
      Math.min(length - Math.ceil(excess / 6), Math.floor((length * available) / (available + excess))),
    )
  }
}

/** A prefix of a text that does not split a surrogate pair. */
function prefixOf(text: string, length: number): string {
  const last = text.charCodeAt(length - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length)
}

/** Fits a member or an element into its share of a budget. */
type FitInner = (inner: Measured, share: number) => unknown

function fitArray(items: readonly unknown[], budget: number, fitInner: FitInner): unknown[] | undefined {
  let remaining = budget - 2
  if (remaining < 0) return undefined
  const kept: unknown[] = []
  for (const value of items) {
    const size = sizeOf(value)
    if (size < remaining) {
      kept.push(value)
      remaining -= size + 1
      continue
    }
    const part = kept.length === 0 ? fitInner({ value, size }, remaining) : undefined
    return part === undefined ? kept : [part]
  }
  return kept
}

/** Small members are kept; the large ones share the remaining budget. */
function fitObject(
  object: Readonly<Record<string, unknown>>,
  budget: number,
  fitInner: FitInner,
): Record<string, unknown> | undefined {
  const members = Object.entries(object).map(([key, value]) => ({ key, value, size: sizeOf(value) }))
  let remaining = budget - 1 - members.reduce((sum, { key }) => sum + sizeOf(key) + 2, 0)
  if (remaining < (members.length === 0 ? 1 : 0)) return undefined
  const short = new Map<string, unknown>()
  const bySize = members.toSorted((one, other) => one.size - other.size)
  for (const [index, member] of bySize.entries()) {
    const share = Math.floor(remaining / (bySize.length - index))
    const part = fitInner(member, share)
    if (part === undefined) return undefined
    short.set(member.key, part)
    remaining -= part === member.value ? member.size : sizeOf(part)
  }
  return Object.fromEntries(members.map(({ key }) => [key, short.get(key)]))
}
