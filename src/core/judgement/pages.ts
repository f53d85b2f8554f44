/**
 * Recognises results that come in pages: the arguments of a tool that select a page, and what a result says about the
 * next one.
 *
 * Invariant: a next page is known only from the result itself. A page number counts only if the result says whether
 * there is another page; nothing is guessed from the number of items.
 */
import { isObject } from '../json/json.ts'
import { follow } from '../json/path.ts'
import { wordSet, wordsOf } from '../text/words.ts'
import { isNumber, toDouble } from '../json/exact-number.ts'

type Fields = Readonly<Record<string, unknown>>

/** An argument that selects a page: by a cursor of the server, by the number of the page, or by that of its first item. */
export interface PageArgument {
  readonly name: string
  readonly kind: 'cursor' | 'number' | 'offset'
  readonly schema: Fields
}

/** The value of the argument that selects the next page. */
export interface NextPage {
  readonly argument: string
  readonly value: unknown
}

/** One page. */
export interface PageReading {
  /** Where its items are: the names of members, outermost first. */
  readonly path: readonly string[]
  readonly next?: NextPage
  /** Without `next`: there are more pages, but no argument selects the next one. Otherwise it is the last one. */
  readonly isOpen?: true
}

/** The names of arguments by kind, as their words joined by `_`. */
const argumentNames: Readonly<Record<PageArgument['kind'], ReadonlySet<string>>> = {
  cursor: wordSet(
    'cursor page_cursor next_cursor start_cursor starting_cursor after after_cursor start_after starting_after',
    'page_token next_page_token next_token start_token starting_token pagination_token continuation_token',
    'continue_token continuation marker next_marker start_marker scroll_id',
  ),
  number: wordSet('page page_number page_num page_no page_index'),
  offset: wordSet('offset skip start_at start_index start_offset'),
}

/** Members with the cursor of the next page, the clearest first. */
const cursorNames = [
  ...wordSet(
    'next_cursor next_page_cursor next_page_token next_token next_continuation_token next_marker next_start_cursor',
    'next_after end_cursor continuation_token pagination_token continue_token scroll_id after cursor',
  ),
]
/** Objects in which `after` is a cursor. */
const besideAfter = wordSet('next paging pagination cursors page_info page')
const nextNumberNames = [...wordSet('next_page next_page_number next_page_index')]
const nextOffsetNames = [...wordSet('next_offset next_skip next_start next_start_at next_start_index')]
const moreNames = wordSet(
  'has_more has_next has_next_page has_more_pages has_more_results has_more_items more_available is_truncated',
)
const lastNames = wordSet('is_last is_last_page last')
const currentNames = wordSet('page current_page page_number page_index')
const totalNames = wordSet('total_pages page_count number_of_pages num_pages last_page')

/** Whether a member of a result is about further pages, so that a merged result has it from the last page. */
export function isPagingMember(name: string): boolean {
  return pagingMembers.has(joined(name))
}

const pagingMembers: ReadonlySet<string> = new Set([
  ...cursorNames,
  ...nextNumberNames,
  ...nextOffsetNames,
  ...moreNames,
  ...lastNames,
])

/** Whether a result says something about further pages. */
export function mentionsPages(value: unknown): boolean {
  return statementOf(value).isPresent
}

/** The arguments of a tool that select a page, the most reliable kind first. */
export function pageArguments({ inputSchema }: Fields): readonly PageArgument[] {
  const properties = isObject(inputSchema) ? inputSchema.properties : undefined
  if (!isObject(properties)) return []
  const kinds = ['cursor', 'number', 'offset'] as const
  return kinds.flatMap((kind) =>
    Object.entries(properties).flatMap(([name, schema]): PageArgument[] =>
      argumentNames[kind].has(joined(name)) && isObject(schema) && !isTime(schema)
        ? [{ name, kind, schema }]
        : [],
    ),
  )
}

/** Whether an argument such as `after` is a point in time. */
function isTime({ format, description }: Fields): boolean {
  if (format === 'date' || format === 'date-time' || format === 'time') return true
  if (typeof description !== 'string') return false
  return (
    /\b(?:dates?|times?|timestamps?|iso.?8601|since)\b/i.test(description) &&
    !/cursor|page/i.test(description)
  )
}

/** Whether a declared output has a cursor, or says whether there are more pages. */
export function declaresPages({ outputSchema }: Fields, depth = 0): boolean {
  const properties = isObject(outputSchema) ? outputSchema.properties : undefined
  if (!isObject(properties)) return false
  return Object.entries(properties).some(
    ([name, schema]) =>
      isPagingMember(name) || (depth < MAX_DEPTH && declaresPages({ outputSchema: schema }, depth + 1)),
  )
}

/**
 * The first page of a result; undefined if it has no items, or does not say whether there are more. Without a cursor it
 * is the last one, if the tool has an argument for a cursor, or is known to return pages.
 */
export function readPage(
  value: unknown,
  given: Fields,
  inputs: readonly PageArgument[],
  isKnown = false,
): PageReading | undefined {
  const statement = statementOf(value)
  const path = itemsPath(value, statement.path)
  if (!path) return undefined
  const isPaged = isKnown || statement.isPresent || inputs.some(({ kind }) => kind === 'cursor')
  return isPaged ? reading(path, statement, { given, inputs, count: itemsAt(value, path).length }) : undefined
}

/** A later page, whose items are where those of the first page are; undefined if it has none there. */
export function readLaterPage(
  value: unknown,
  path: readonly string[],
  given: Fields,
  inputs: readonly PageArgument[],
): PageReading | undefined {
  if (!Array.isArray(follow(value, path))) return undefined
  return reading(path, statementOf(value), { given, inputs, count: itemsAt(value, path).length })
}

/** The items at a path. */
export function itemsAt(value: unknown, path: readonly string[]): readonly unknown[] {
  const items = follow(value, path)
  return Array.isArray(items) ? items : []
}

function reading(path: readonly string[], statement: Statement, position: Position): PageReading {
  const { cursor, nextNumber, nextOffset, hasMore, current, total } = statement
  if (hasMore === false) return { path }
  const next = nextOf(statement, position)
  if (next) return { path, next }
  const hasNext = [cursor, nextNumber, nextOffset].some((each) => each !== undefined)
  const isOpen =
    hasMore === true || hasNext || (current !== undefined && total !== undefined && current < total)
  return isOpen ? { path, isOpen } : { path }
}

/** What a result says about further pages. */
interface Statement {
  /** The object with the statement. */
  readonly path: readonly string[]
  readonly isPresent: boolean
  readonly cursor?: unknown
  readonly nextNumber?: unknown
  readonly nextOffset?: unknown
  readonly hasMore?: boolean
  readonly current?: number
  readonly total?: number
}

/** How deep statements and items are searched, and in how many objects. */
const MAX_DEPTH = 3
const MAX_OBJECTS = 100

/**
 * The statement of the first object that has one, outermost first. If it only says that there are more pages, the cursor
 * may be in an object further inside.
 */
function statementOf(value: unknown): Statement {
  let found: Statement | undefined
  const pending: { readonly at: unknown; readonly path: readonly string[] }[] = [{ at: value, path: [] }]
  for (let index = 0; index < pending.length && index < MAX_OBJECTS; index++) {
    const { at, path } = pending[index] ?? { at: undefined, path: [] }
    if (!isObject(at)) continue
    const own = statementIn(at, path)
    const { cursor, nextNumber, nextOffset } = own
    const isKnown = [cursor, nextNumber, nextOffset].some((each) => each !== undefined)
    if (found && isKnown) return { ...found, cursor, nextNumber, nextOffset }
    if (!found && own.isPresent) {
      if (isKnown || own.hasMore !== true) return own
      found = own
    }
    if (path.length < MAX_DEPTH)
      for (const [name, inner] of Object.entries(at)) pending.push({ at: inner, path: [...path, name] })
  }
  return found ?? { path: [], isPresent: false }
}

function statementIn(object: Fields, path: readonly string[]): Statement {
  const members = new Map(Object.entries(object).map(([name, value]) => [joined(name), value]))
  // Elsewhere it is what follows a change, or a date.
  if (!besideAfter.has(joined(path.at(-1) ?? ''))) members.delete('after')
  const firstOf = (names: readonly string[]): unknown =>
    members.get(names.find((name) => isCursorValue(members.get(name))) ?? '')
  const valuesOf = (names: ReadonlySet<string>): unknown[] => [...names].map((name) => members.get(name))
  const more = valuesOf(moreNames).find(isBoolean)
  const isLast = valuesOf(lastNames).find(isBoolean)
  const current = valuesOf(currentNames)
    .map(toDouble)
    .find((each) => each !== undefined)
  const total = valuesOf(totalNames)
    .map(toDouble)
    .find((each) => each !== undefined)
  const isNamed = [...cursorNames, ...nextNumberNames, ...nextOffsetNames].some((name) =>
    hasCursorMember(members, name),
  )
  const hasMore = more ?? (isLast === undefined ? undefined : !isLast)
  const isPresent = isNamed || hasMore !== undefined || (current !== undefined && total !== undefined)
  return {
    path,
    isPresent,
    cursor: firstOf(cursorNames),
    nextNumber: firstOf(nextNumberNames),
    nextOffset: firstOf(nextOffsetNames),
    ...(hasMore !== undefined && { hasMore }),
    ...(current !== undefined && { current }),
    ...(total !== undefined && { total }),
  }
}

/** Whether an object has the member, with a value that such a member has: null or empty where there is no next page. */
function hasCursorMember(members: ReadonlyMap<string, unknown>, name: string): boolean {
  if (!members.has(name)) return false
  const value = members.get(name)
  return value === null || value === '' || isCursorValue(value)
}

function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean'
}

function isCursorValue(value: unknown): boolean {
  return (typeof value === 'string' && value !== '') || (isNumber(value) && Number.isFinite(toDouble(value)))
}

interface Position {
  readonly given: Fields
  readonly inputs: readonly PageArgument[]
  /** How many items the page has. */
  readonly count: number
}

function nextOf(statement: Statement, position: Position): NextPage | undefined {
  for (const input of position.inputs) {
    const value = valueFor(input, statement, position)
    if (value !== undefined) return { argument: input.name, value: asTyped(value, input.schema) }
  }
  return undefined
}

function valueFor(
  { name, kind, schema }: PageArgument,
  { cursor, nextNumber, nextOffset, hasMore, current, total }: Statement,
  { given, count }: Position,
): unknown {
  // Some tools call a cursor `next_page`; a URL is no value of an argument.
  if (kind === 'cursor') return [cursor, nextNumber].find((each) => each !== undefined && !isUrl(each))
  if (kind === 'number') {
    if (nextNumber !== undefined) return isUrl(nextNumber) ? undefined : nextNumber
    const page = numberIn(current) ?? numberIn(given[name]) ?? numberIn(schema.default) ?? firstNumber(schema)
    if (page === undefined) return undefined
    return hasMore === true || (total !== undefined && page < total) ? page + 1 : undefined
  }
  if (nextOffset !== undefined) return nextOffset
  const start = numberIn(given[name]) ?? numberIn(schema.default) ?? 0
  return hasMore === true && count > 0 ? start + count : undefined
}

/** The number of the first page, unless it may be 0. */
function firstNumber({ minimum }: Fields): number | undefined {
  return typeof minimum === 'number' && minimum < 1 ? undefined : 1
}

function numberIn(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : undefined
}

function isUrl(value: unknown): boolean {
  return typeof value === 'string' && /^https?:\/\//.test(value)
}

/** A value of the type that an argument has. */
function asTyped(value: unknown, { type }: Fields): unknown {
  const types = [type].flat()
  if (isNumber(value) && types.includes('string') && !types.includes('number')) return String(value)
  const isNumeric = typeof value === 'string' && /^\d{1,15}$/.test(value)
  const takesNumber = types.includes('integer') || types.includes('number')
  return isNumeric && takesNumber && !types.includes('string') ? Number(value) : value
}

/** Names of lists that are the subject of a result, the clearest first. */
const itemNames = [
  ...wordSet('items results data records entries nodes edges values rows elements objects list hits'),
]

/**
 * The path of the items: of the arrays next to the statement, or else of those in the members around it, the only one,
 * or the one with the clearest name, or the only one with objects. Undefined if that is not clear.
 */
function itemsPath(value: unknown, statement: readonly string[]): readonly string[] | undefined {
  for (let length = statement.length; length >= 0; length--) {
    const around = statement.slice(0, length)
    const object = follow(value, around)
    const inner = isObject(object) ? Object.entries(object) : []
    const direct = inner.filter(([, each]) => Array.isArray(each)).map(([name]) => [...around, name])
    if (direct.length > 0) return chosen(value, direct)
    const nested = inner.flatMap(([name, each]) =>
      isObject(each)
        ? Object.entries(each).flatMap(([own, list]) => (Array.isArray(list) ? [[...around, name, own]] : []))
        : [],
    )
    if (nested.length > 0) return chosen(value, nested)
  }
  return undefined
}

function chosen(value: unknown, paths: readonly (readonly string[])[]): readonly string[] | undefined {
  if (paths.length === 1) return paths[0]
  for (const name of itemNames) {
    const found = paths.find((path) => joined(path.at(-1) ?? '') === name)
    if (found) return found
  }
  const ofObjects = paths.filter((path) => itemsAt(value, path).some(isObject))
  return ofObjects.length === 1 ? ofObjects[0] : undefined
}

function joined(name: string): string {
  return wordsOf(name).join('_')
}
