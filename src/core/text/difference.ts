/**
 * The difference between two JSON values for people and models: the lines of texts that differ, and the members and elements
 * of other values, each with its path. Bounded, whatever the values are.
 */
import { isObject, isSame } from '../json/json.ts'
import { follow } from '../json/path.ts'
import { shortened } from './escape.ts'
import { MASK } from './redactor.ts'

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
  return firstLines(texts(walk(pairOf({ real: before, shown: before }, { real: after, shown: after }))))
}

/** A value as it is compared, and as it is shown: without what is masked. */
export interface Side {
  readonly real: unknown
  readonly shown: unknown
  /** A call writes it: where it has `***`, that is its text. */
  readonly isWritten?: true
}

/**
 * The same difference of values that are not shown as they are: lines that differ only in what is masked are there as well, after a
 * line that says so.
 */
export function maskedDifference(before: Side, after: Side): readonly string[] {
  const lines = [...walk(pairOf(before, after))]
  const removed = lines.filter(({ sign }) => sign === '-')
  const added = lines.filter(({ sign }) => sign === '+')
  const isMasked = removed.some(({ real, shown }) => real !== shown && shown.includes(MASK))
  const isLiteral = after.isWritten && added.some(({ real }) => real.includes(MASK))
  const masked = new Map(
    removed.filter(({ shown }) => shown.includes(MASK)).map((line) => [line.shown, line]),
  )
  const isHidden = added.some(({ real, shown }) => (masked.get(shown)?.real ?? real) !== real)
  const notes = isMasked && isLiteral ? [LITERAL_MASK] : isHidden ? [HIDDEN_DIFFERENCE] : []
  return [...notes, ...firstLines(texts(lines))]
}

const HIDDEN_DIFFERENCE = 'Lines that look the same differ in what is masked.'
const LITERAL_MASK = `${MASK} after - stands for a secret, or for something else that is masked. ${MASK} after + is this text itself, not a secret.`

function pairOf(before: Side, after: Side): Pair {
  return { before, after, path: '', depth: 0 }
}

function* texts(lines: Iterable<Line>): Generator<string> {
  for (const { sign, shown } of lines) yield sign === '' ? shown : `${sign} ${shown}`
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
  readonly before: Side
  readonly after: Side
  readonly path: string
  readonly depth: number
}

/** A line without its sign; one without a sign names a place. */
interface Line {
  readonly sign: '-' | '+' | ''
  readonly real: string
  readonly shown: string
}

type ShownLine = Omit<Line, 'sign'>

function* walk({ before, after, path, depth }: Pair): Generator<Line> {
  const [old, now] = [before.real, after.real]
  // A member that is null is not the same as one that is not there.
  if ((old === undefined) === (now === undefined) && isSame(old, now)) return
  if (typeof old === 'string' && typeof now === 'string') {
    const [oldLines, newLines] = [linesOf(before), linesOf(after)]
    if (oldLines && newLines) return yield* textLines(oldLines, newLines, path)
  }
  const isInside = depth < MAX_DEPTH && isAlike(before) && isAlike(after)
  if (isInside && Array.isArray(old) && Array.isArray(now)) {
    for (let index = 0; index < Math.max(old.length, now.length); index++) {
      const inner = { before: member(before, index), after: member(after, index) }
      yield* walk({ ...inner, path: `${path}[${index}]`, depth: depth + 1 })
    }
    return
  }
  if (isInside && isObject(old) && isObject(now)) {
    for (const key of new Set([...Object.keys(old), ...Object.keys(now)])) {
      const inner = { before: member(before, key), after: member(after, key) }
      yield* walk({ ...inner, path: path === '' ? key : `${path}.${key}`, depth: depth + 1 })
    }
    return
  }
  if (path !== '') yield placeLine(`${path}:`)
  yield* valueLines('-', before)
  yield* valueLines('+', after)
}

function placeLine(shown: string): Line {
  return { sign: '', real: shown, shown }
}

/** A member or an element; only members of their own: texts of servers may call one `constructor`. */
function member({ real, shown }: Side, key: string | number): Side {
  return { real: follow(real, [key]), shown: follow(shown, [key]) }
}

/** Whether the members or elements of a value are those of what is shown in its place, so that their names may be shown. */
function isAlike({ real, shown }: Side): boolean {
  if (Array.isArray(real)) return Array.isArray(shown) && real.length === shown.length
  return isObject(real) && isObject(shown) && Object.keys(real).every((key) => Object.hasOwn(shown, key))
}

/** A text by its lines, if what is shown in its place has the same lines. */
function linesOf({ real, shown }: Side): readonly ShownLine[] | undefined {
  if (typeof real !== 'string' || typeof shown !== 'string') return undefined
  const lines = shown.split('\n')
  const all = real.split('\n').map((line, index) => ({ real: line, shown: lines[index] ?? '' }))
  return all.length === lines.length ? all : undefined
}

/** A value that is not compared with another: text with line breaks by its lines. */
function* valueLines(sign: '-' | '+', { real, shown }: Side): Generator<Line> {
  if (real === undefined) return
  const given = shown ?? (real === null ? null : MASK)
  const isLines = typeof given === 'string' && given.includes('\n')
  const whole = JSON.stringify(real)
  for (const line of isLines ? given.split('\n') : [JSON.stringify(given)])
    yield { sign, real: isSame(real, shown) ? line : whole, shown: line }
}

function* textLines(old: readonly ShownLine[], now: readonly ShownLine[], path: string): Generator<Line> {
  let start = 0
  while (start < Math.min(old.length, now.length) && old[start]?.real === now[start]?.real) start++
  let end = 0
  while (end < Math.min(old.length, now.length) - start && old.at(-1 - end)?.real === now.at(-1 - end)?.real)
    end++
  const removed = old.slice(start, old.length - end)
  const added = now.slice(start, now.length - end)
  const place = old.length + now.length > 2 ? `line ${start + 1}` : ''
  const header = [path, place].filter((part) => part !== '').join(', ')
  if (header !== '') yield placeLine(`${header}:`)
  yield* changedLines(removed, added)
}

/** The lines of two texts that are in only one of them, in order. */
function* changedLines(old: readonly ShownLine[], now: readonly ShownLine[]): Generator<Line> {
  const width = now.length + 1
  const isCompared = old.length * now.length <= MAX_PAIRS
  const common = isCompared ? commonLengths(old, now) : undefined
  let [from, to] = [0, 0]
  for (;;) {
    const [removed, added] = [old[from], now[to]]
    if (!removed && !added) return
    if (common && removed && removed.real === added?.real) {
      from++
      to++
    } else if (
      removed &&
      (!added || !common || (common[(from + 1) * width + to] ?? 0) >= (common[from * width + to + 1] ?? 0))
    ) {
      yield { sign: '-', ...removed }
      from++
    } else if (added) {
      yield { sign: '+', ...added }
      to++
    }
  }
}

/** The lengths of the longest common subsequences of the rests of two lists. */
function commonLengths(old: readonly ShownLine[], now: readonly ShownLine[]): Uint32Array {
  const width = now.length + 1
  const lengths = new Uint32Array((old.length + 1) * width)
  for (let from = old.length - 1; from >= 0; from--)
    for (let to = now.length - 1; to >= 0; to--) {
      const isSameLine = old[from]?.real === now[to]?.real
      lengths[from * width + to] = isSameLine
        ? (lengths[(from + 1) * width + to + 1] ?? 0) + 1
        : Math.max(lengths[(from + 1) * width + to] ?? 0, lengths[from * width + to + 1] ?? 0)
    }
  return lengths
}
