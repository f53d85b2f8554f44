/**
 * The difference between two JSON values for people and models: the lines of texts that differ, and the members and elements
 * of other values, each with its path. Bounded, whatever the values are.
 */
import { isObject, isSame } from '../json/json.ts'
import { follow } from '../json/path.ts'
import { shortened } from './escape.ts'

/** How many lines a difference has, how long each is in characters, and how deep members are compared. */
const MAX_LINES = 40
const MAX_LINE_LENGTH = 200
const MAX_DEPTH = 16
/** How many pairs of lines are compared; texts with more are shown as a whole. */
const MAX_PAIRS = 250_000

/**
 * The difference in lines: `- ` starts what was there before, `+ ` what is there after, and other lines name the place, such
 * as `items[2].title:` or `content, line 3:`.
 */
export function differenceLines(before: unknown, after: unknown): readonly string[] {
  return firstLines(walk({ before, after, path: '', depth: 0 }))
}

/** The first lines, each shortened, and how many more there are. */
export function firstLines(all: Iterable<string>): readonly string[] {
  const lines: string[] = []
  let more = 0
  for (const line of all) {
    if (lines.length < MAX_LINES) lines.push(shortened(line, MAX_LINE_LENGTH))
    else more++
  }
  return more === 0 ? lines : [...lines, `… and ${more} more ${more === 1 ? 'line' : 'lines'}`]
}

interface Pair {
  readonly before: unknown
  readonly after: unknown
  readonly path: string
  readonly depth: number
}

function* walk({ before, after, path, depth }: Pair): Generator<string> {
  // A member that is null is not the same as one that is not there.
  if ((before === undefined) === (after === undefined) && isSame(before, after)) return
  if (typeof before === 'string' && typeof after === 'string') return yield* textLines(before, after, path)
  if (depth < MAX_DEPTH && Array.isArray(before) && Array.isArray(after)) {
    for (let index = 0; index < Math.max(before.length, after.length); index++) {
      const inner = { before: before[index], after: after[index], path: `${path}[${index}]` }
      yield* walk({ ...inner, depth: depth + 1 })
    }
    return
  }
  if (depth < MAX_DEPTH && isObject(before) && isObject(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
      // Only members of their own: texts of servers may call one `constructor`.
      const inner = { before: follow(before, [key]), after: follow(after, [key]) }
      yield* walk({ ...inner, path: path === '' ? key : `${path}.${key}`, depth: depth + 1 })
    }
    return
  }
  if (path !== '') yield `${path}:`
  if (before !== undefined) yield* valueLines('-', before)
  if (after !== undefined) yield* valueLines('+', after)
}

/** A value that is not compared with another: text with line breaks by its lines. */
function* valueLines(sign: '-' | '+', value: unknown): Generator<string> {
  const isLines = typeof value === 'string' && value.includes('\n')
  for (const line of isLines ? value.split('\n') : [JSON.stringify(value)]) yield `${sign} ${line}`
}

function* textLines(before: string, after: string, path: string): Generator<string> {
  const [old, now] = [before.split('\n'), after.split('\n')]
  let start = 0
  while (start < Math.min(old.length, now.length) && old[start] === now[start]) start++
  let end = 0
  while (end < Math.min(old.length, now.length) - start && old.at(-1 - end) === now.at(-1 - end)) end++
  const removed = old.slice(start, old.length - end)
  const added = now.slice(start, now.length - end)
  const place = old.length + now.length > 2 ? `line ${start + 1}` : ''
  const header = [path, place].filter((part) => part !== '').join(', ')
  if (header !== '') yield `${header}:`
  yield* changedLines(removed, added)
}

/** The lines of two texts that are in only one of them, in order. */
function* changedLines(old: readonly string[], now: readonly string[]): Generator<string> {
  const width = now.length + 1
  const isCompared = old.length * now.length <= MAX_PAIRS
  const common = isCompared ? commonLengths(old, now) : undefined
  let [from, to] = [0, 0]
  while (from < old.length || to < now.length) {
    if (common && from < old.length && to < now.length && old[from] === now[to]) {
      from++
      to++
    } else if (
      from < old.length &&
      (to === now.length ||
        !common ||
        (common[(from + 1) * width + to] ?? 0) >= (common[from * width + to + 1] ?? 0))
    )
      yield `- ${old[from++]}`
    else yield `+ ${now[to++]}`
  }
}

/** The lengths of the longest common subsequences of the rests of two lists. */
function commonLengths(old: readonly string[], now: readonly string[]): Uint32Array {
  const width = now.length + 1
  const lengths = new Uint32Array((old.length + 1) * width)
  for (let from = old.length - 1; from >= 0; from--)
    for (let to = now.length - 1; to >= 0; to--) {
      const isSameLine = old[from] === now[to]
      lengths[from * width + to] = isSameLine
        ? (lengths[(from + 1) * width + to + 1] ?? 0) + 1
        : Math.max(lengths[(from + 1) * width + to] ?? 0, lengths[from * width + to + 1] ?? 0)
    }
  return lengths
}
