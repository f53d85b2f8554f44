/**
 * What servers list and declare, checked against what clients accept: an official SDK refuses a whole list because of one
 * invalid entry, and a whole connection because of one invalid capability. What has a clear meaning is repaired, an optional
 * member without one is removed, and an entry that cannot be used is left out. Everything valid keeps its text.
 */
import type { ServerFinding } from '../core/findings.ts'
import { isNumber, toDouble } from '../core/json/exact-number.ts'
import { isDeeperThan, isObject } from '../core/json/json.ts'
import { Payload, type Fields } from '../core/payload.ts'
import { compileProblem, uncheckedPatterns, withCompilablePatterns } from '../core/schema/schema.ts'
import { shortened } from '../core/text/escape.ts'
import type { Dialect } from './dialects.ts'
import { metaKeys } from './meta-keys.ts'
import { repairedTool } from './schema-repair.ts'

/** A value from a server as clients accept it, and what was changed. */
export interface Checked {
  readonly payload: Payload
  readonly found: readonly ServerFinding[]
}

/** The maximum nesting of an entry: the SDKs read schemas recursively. */
const MAX_ENTRY_NESTING = 200

/** How a page is checked. */
interface PageCheck {
  /** Whose rules tools are compared with: what a provider refuses is reported, and left out if it cannot be repaired. */
  readonly dialect?: Dialect
}

/**
 * A page of a list with usable entries alone; the same payload if nothing is wrong. `list` is its member. Schemas that
 * `schema-repair.ts` repairs stay as they are: the gateway works with what the server says.
 */
export function checkedPage(page: Payload, list: string, { dialect }: PageCheck = {}): Checked {
  const found: ServerFinding[] = []
  const about = (problem: string): void => void found.push({ problem })
  const entries = entriesOf(page, list)
  if (!entries) about(`${list} ${wordsFor(page.fields[list])}: read as an empty list`)
  const keys = new Set<unknown>()
  const kept = (entries ?? []).flatMap((entry, index) =>
    checkedEntry(entry, { list, index, keys, found, dialect: list === 'tools' ? dialect : undefined }),
  )
  const edits: Record<string, unknown> = {}
  const isKept = Array.isArray(page.fields[list]) && kept.length === entries?.length
  if (!isKept || kept.some((entry, index) => entry !== entries?.[index])) edits[list] = Payload.list(kept)
  const { nextCursor, _meta: meta } = page.fields
  if (nextCursor !== undefined && typeof nextCursor !== 'string') {
    edits.nextCursor = undefined
    // Many servers end a list so.
    if (nextCursor !== null) about(`nextCursor ${wordsFor(nextCursor)}: the list ends here`)
  }
  if (meta !== undefined && !isObject(meta)) edits._meta = undefined
  return { payload: Object.keys(edits).length > 0 ? page.with(edits) : page, found }
}

/** The entries of a page; undefined if there is no list. PHP writes lists with gaps as objects. */
export function entriesOf(page: Payload, list: string): readonly Payload[] | undefined {
  const given = page.at(list)
  if (Array.isArray(given?.value)) return given.items
  const keys = given && isObject(given.value) ? Object.keys(given.value) : ['']
  if (keys.some((key) => !/^\d+$/.test(key))) return undefined
  return keys.flatMap((key) => given?.at(key) ?? [])
}

interface EntryContext {
  readonly list: string
  readonly index: number
  /** The names or URIs of the entries before it. */
  readonly keys: Set<unknown>
  readonly found: ServerFinding[]
  readonly dialect: Dialect | undefined
}

/** The entry as it is listed; none if it is left out. */
function checkedEntry(entry: Payload, context: EntryContext): readonly Payload[] {
  const { list, index, keys, found, dialect } = context
  const key = keyOfEntries(list)
  const id = entry.fields[key]
  const leftOut = (problem: string, pointer: string): readonly Payload[] => {
    found.push({ entry: labelOf(entry, index), problem: `${problem}: the entry is left out`, pointer })
    return []
  }
  if (isDeeperThan(entry.text, MAX_ENTRY_NESTING))
    return leftOut(`it is nested deeper than ${MAX_ENTRY_NESTING} levels`, '')
  const notes = new Notes()
  const value = entryShapes[list]?.(entry.value, '', notes)
  if (value === undefined) return leftOut(notes.why ?? `it ${wordsFor(entry.value)}`, notes.pointer ?? '')
  if (keys.has(id)) return leftOut(`an earlier entry has the same ${key}`, `/${key}`)
  const checked = rewritten(entry, value)
  const { changes, unusable } = dialect
    ? repairedTool(checked, dialect)
    : { changes: [], unusable: undefined }
  if (unusable) return leftOut(`${unusable.pointer} ${unusable.what}`, unusable.pointer)
  keys.add(id)
  if (dialect?.toolName.test(String(id)) === false)
    notes.repairs.push(`/name ${wordsFor(id)}, which providers refuse: listed by an alias`)
  notes.repairs.push(...changes.slice(0, MAX_NOTED_CHANGES).map(({ pointer, what }) => `${pointer} ${what}`))
  if (changes.length > MAX_NOTED_CHANGES) notes.repairs.push('and more')
  if (notes.repairs.length > 0)
    found.push({ entry: labelOf(entry, index), problem: notes.repairs.join('; ') })
  return [checked]
}

/** The maximum number of changes of one schema in a finding. */
const MAX_NOTED_CHANGES = 5

/** The member that identifies the entries of a list. */
export function keyOfEntries(list: string): 'name' | 'uri' | 'uriTemplate' {
  if (list === 'resources') return 'uri'
  return list === 'resourceTemplates' ? 'uriTemplate' : 'name'
}

function labelOf({ fields: { name, uri, uriTemplate } }: Payload, index: number): string {
  const label = [name, uri, uriTemplate].find((each) => typeof each === 'string' && each !== '')
  return typeof label === 'string' ? label : `entry ${index + 1}`
}

/** The result of `server/discover`, or of `initialize` in its form, with capabilities and an identity that clients accept. */
export function checkedDeclaration(declared: Payload): Checked {
  const notes = new Notes()
  const value = declaration(declared.value, '', notes)
  return {
    payload: rewritten(declared, value),
    found: notes.repairs.map((problem) => ({ problem })),
  }
}

// Shapes. Each gives the value if it is valid, a repaired copy, or undefined if it cannot be used.

type Shape = (value: unknown, at: string, notes: Notes) => unknown
/** What was changed in one entry. */
class Notes {
  readonly repairs: string[] = []
  /** Why the last object could not be used, where a member of it is the reason. */
  why: string | undefined
  /** Where that is in the entry, as a JSON pointer. */
  pointer: string | undefined

  readAs(at: string, value: unknown, meaning: unknown): void {
    this.repairs.push(`${at} ${wordsFor(value)}: read as ${JSON.stringify(meaning)}`)
  }

  removed(at: string, value: unknown): void {
    this.repairs.push(
      this.why === undefined ? `${at} ${wordsFor(value)}: removed` : `${this.why}: ${at} is removed`,
    )
    this.why = undefined
    this.pointer = undefined
  }
}

const MAX_QUOTED_LENGTH = 40

/** The end of a sentence about a value that is not as it should be. */
function wordsFor(value: unknown): string {
  if (value === undefined) return 'is missing'
  if (value === '') return 'is empty'
  if (Array.isArray(value)) return value.length === 0 ? 'is an empty list' : 'is a list'
  if (isObject(value)) return 'is an object'
  return `is ${JSON.stringify(typeof value === 'string' ? shortened(value, MAX_QUOTED_LENGTH) : value)}`
}

/** PHP writes an empty object as an empty list, and other languages the reverse. */
function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0
}

const text: Shape = (value) => (typeof value === 'string' ? value : undefined)
const identifier: Shape = (value) => (typeof value === 'string' && value !== '' ? value : undefined)

/** A number that is finite as a double, which is how clients read it. */
const numberIn = (min: number, max: number): Shape => {
  return (value) => {
    const double = toDouble(value)
    return double !== undefined && double >= min && double <= max ? value : undefined
  }
}

function oneOf(...values: readonly string[]): Shape {
  return (value) => (values.some((each) => each === value) ? value : undefined)
}

const flag: Shape = (value, at, notes) => {
  if (typeof value === 'boolean') return value
  const isTrue = value === 'true' || value === 1
  if (!isTrue && value !== 'false' && value !== 0) return undefined
  notes.readAs(at, value, isTrue)
  return isTrue
}

const DATE_TIME =
  /^(\d{4}-\d{2}-\d{2})T(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/

const dateTime: Shape = (value) => {
  const day = typeof value === 'string' ? DATE_TIME.exec(value)?.[1] : undefined
  const time = day === undefined ? Number.NaN : Date.parse(day)
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(`${day}`) ? value : undefined
}

/** A list without its unusable items. */
function list(item: Shape): Shape {
  return (given, at, notes) => {
    if (isEmpty(given) && !Array.isArray(given)) notes.readAs(at, given, [])
    const value = isEmpty(given) ? [] : given
    if (!Array.isArray(value)) return undefined
    const items = value.flatMap((each: unknown, index) => {
      const kept = item(each, `${at}[${index}]`, notes)
      if (kept === undefined) notes.removed(`${at}[${index}]`, each)
      return kept === undefined ? [] : [kept]
    })
    const isUnchanged = items.length === value.length && items.every((each, index) => each === value[index])
    return isUnchanged && Array.isArray(given) ? given : items
  }
}

/** A list of strings; a string alone is a list of one. */
function textsOf(item: Shape): Shape {
  const several = list(item)
  return (value, at, notes) => {
    if (typeof value !== 'string' || item(value, at, notes) === undefined) return several(value, at, notes)
    notes.readAs(at, value, [shortened(value, MAX_QUOTED_LENGTH)])
    return [value]
  }
}

const texts = textsOf(text)

/** An object, whose members are checked one by one: `change` gives the members that differ, undefined for those to remove. */
function objectWith(change: (value: Fields, at: string, notes: Notes) => Fields | undefined): Shape {
  return (given, at, notes) => {
    if (Array.isArray(given) && given.length === 0) notes.readAs(at, given, {})
    const value = Array.isArray(given) && given.length === 0 ? {} : given
    const changes = isObject(value) ? change(value, at, notes) : undefined
    if (!isObject(value) || !changes) return undefined
    if (Object.keys(changes).length === 0) return value
    const all = [
      ...Object.entries(value).filter(([key]) => !Object.hasOwn(changes, key)),
      ...Object.entries(changes),
    ]
    return Object.fromEntries(all.filter(([, member]) => member !== undefined))
  }
}

/** An object with these members, without unusable ones. It cannot be used itself without the required ones. */
function object(shapes: Readonly<Record<string, Shape>>, required: readonly string[] = []): Shape {
  const all = Object.entries(shapes)
  return objectWith((value, at, notes) => {
    const changes: Record<string, unknown> = {}
    for (const [key, shape] of all) {
      const isRequired = required.includes(key)
      if (!isRequired && !Object.hasOwn(value, key)) continue
      const where = at === '' ? key : `${at}.${key}`
      const member = shape(value[key], where, notes)
      if (member === value[key] && member !== undefined) continue
      if (member === undefined && isRequired) {
        notes.why ??= `${where} ${wordsFor(value[key])}`
        notes.pointer ??= `/${where.replaceAll('.', '/')}`
        return undefined
      }
      if (member === undefined) notes.removed(where, value[key])
      changes[key] = member
    }
    return changes
  })
}

/** An object with members of any name, without unusable ones. */
function record(shape: Shape): Shape {
  return objectWith((value, at, notes) =>
    Object.fromEntries(
      Object.entries(value).flatMap(([key, each]) => {
        const member = shape(each, `${at}.${key}`, notes)
        if (member === undefined) notes.removed(`${at}.${key}`, each)
        return member === each ? [] : [[key, member] as const]
      }),
    ),
  )
}

// Entries of lists.

const typeNames = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']

/** The schema of an argument. It is never removed: the schema around it may forbid arguments that it does not name. */
const argumentSchema: Shape = (value, at, notes) => {
  if (isObject(value) || typeof value === 'boolean') return value
  const meaning = typeNames.some((each) => each === value) ? { type: value } : {}
  notes.readAs(at, value, meaning)
  return meaning
}

const schemaMembers = { $schema: text, properties: record(argumentSchema), required: texts }
const schema = object(schemaMembers)

/** The schema of all arguments, an object in every revision. Without one, nothing is said about them. */
const inputSchema: Shape = (value, at, notes) => {
  const isNothing = value === undefined || value === null || value === true || isEmpty(value)
  if (isNothing) notes.readAs(at, value, { type: 'object' })
  const given = schema(isNothing ? { type: 'object' } : value, at, notes)
  if (isObject(given)) noteUnchecked(given, at, notes)
  if (!isObject(given) || given.type === 'object') return given
  const types = [given.type ?? 'object'].flat()
  if (!types.some((type) => typeof type === 'string' && type.toLowerCase() === 'object')) {
    notes.why = `${at}.type ${wordsFor(given.type)}, and arguments are an object`
    notes.pointer = `/${at}/type`
    return undefined
  }
  notes.readAs(`${at}.type`, given.type, 'object')
  return { ...given, type: 'object' }
}

/** Notes the patterns that the gateway does not check values against. */
function noteUnchecked(given: Fields, at: string, notes: Notes): void {
  for (const { at: inside, pattern, reason } of uncheckedPatterns(given).slice(0, MAX_NOTED_PATTERNS))
    notes.repairs.push(`${at}.${inside} ${wordsFor(pattern)}, which ${unchecked[reason]}: it is not checked`)
}

const unchecked = {
  syntax: 'is not a regular expression of ECMA-262',
  time: 'cannot be matched in bounded time',
}

const MAX_NOTED_PATTERNS = 3

/**
 * It is removed if clients fail to compile it: an SDK compiles those of all tools when it lists them. If only its patterns
 * are the reason, those are removed.
 */
const outputSchema: Shape = (value, at, notes) => {
  const given = isObject(value) ? schema(value, at, notes) : undefined
  if (!isObject(given)) return given
  noteUnchecked(given, at, notes)
  const problem = compileProblem(given)
  if (problem === undefined) return given
  const others = withCompilablePatterns(given)
  if (compileProblem(others) === undefined) {
    notes.repairs.push(`${at} has patterns that clients cannot compile: removed`)
    return others
  }
  notes.why = `${at} cannot be used (${shortened(problem, MAX_PROBLEM_LENGTH)})`
  return undefined
}

const MAX_PROBLEM_LENGTH = 100

const icon = object({ src: text, mimeType: text, sizes: texts, theme: oneOf('light', 'dark') }, ['src'])
const common = { title: text, description: text, icons: list(icon), _meta: object({}) }
const argument = object({ name: text, title: text, description: text, required: flag }, ['name'])
const audience = textsOf(oneOf('user', 'assistant'))
const resource = {
  name: text,
  ...common,
  mimeType: text,
  size: numberIn(-Number.MAX_VALUE, Number.MAX_VALUE),
  annotations: object({ audience, priority: numberIn(0, 1), lastModified: dateTime }),
}
const annotations = object({
  title: text,
  readOnlyHint: flag,
  destructiveHint: flag,
  idempotentHint: flag,
  openWorldHint: flag,
})
const execution = object({ taskSupport: oneOf('required', 'optional', 'forbidden') })

/** The entries of lists, by the member that has the list. */
const entryShapes: Readonly<Record<string, Shape>> = {
  tools: withFallback(
    ['inputSchema', 'input_schema', 'parameters'],
    object({ name: identifier, ...common, inputSchema, outputSchema, annotations, execution }, [
      'name',
      'inputSchema',
    ]),
  ),
  prompts: object({ name: identifier, ...common, arguments: list(argument) }, ['name']),
  resources: withFallback(['name', 'uri'], object({ uri: identifier, ...resource }, ['uri', 'name']), nameOf),
  resourceTemplates: withFallback(
    ['name', 'uriTemplate'],
    object({ uriTemplate: identifier, ...resource }, ['uriTemplate', 'name']),
    nameOf,
  ),
}

function nameOf(uri: unknown): unknown {
  return typeof uri === 'string' ? nameOfUri(uri) : undefined
}

/** Makes a member that cannot be used from another one: the first of the others that is of the same type. */
function withFallback(
  [key, ...others]: readonly [string, ...string[]],
  shape: Shape,
  make: (value: unknown) => unknown = (value) => value,
): Shape {
  const isUsable = (value: unknown): boolean =>
    key === 'inputSchema' ? isObject(value) && !isEmpty(value) : typeof value === 'string'
  return (value, at, notes) => {
    const other = isObject(value) && !isUsable(value[key]) && others.find((each) => isUsable(value[each]))
    if (!isObject(value) || typeof other !== 'string') return shape(value, at, notes)
    notes.repairs.push(`${key} ${wordsFor(value[key])}: taken from ${other}`)
    return shape({ ...value, [key]: make(value[other]) }, at, notes)
  }
}

/** A name for a resource without one: the last part of its URI. */
export function nameOfUri(uri: string): string {
  return uri.split(/[/:?#]/).findLast((part) => part !== '') ?? uri
}

// What servers declare.

/** A capability, which is there or not: `[]` and `true` are one without members. */
function capability(members: Readonly<Record<string, Shape>> = {}): Shape {
  const shape = object(members)
  return (value, at, notes) => {
    if (isObject(value) || isEmpty(value)) return shape(value, at, notes)
    if (!value || value === 'false') return undefined
    notes.readAs(at, value, {})
    return {}
  }
}

const changing = { listChanged: flag }
const taskRequests = object({ tools: object({ call: capability() }) })

const capabilities = object({
  tools: capability(changing),
  prompts: capability(changing),
  resources: capability({ ...changing, subscribe: flag }),
  logging: capability(),
  completions: capability(),
  experimental: record(capability()),
  extensions: record(capability()),
  tasks: capability({ list: capability(), cancel: capability(), requests: taskRequests }),
})

/** The name and version that clients require of a server that does not have them. */
const UNNAMED = { name: 'unnamed', version: 'unknown' }

const named =
  (key: keyof typeof UNNAMED): Shape =>
  (value, at, notes) => {
    if (typeof value === 'string') return value
    const meaning = isNumber(value) ? String(value) : UNNAMED[key]
    notes.readAs(at, value, meaning)
    return meaning
  }

const identity = object({ ...common, name: named('name'), version: named('version'), websiteUrl: text }, [
  'name',
  'version',
])

const declaration = object(
  {
    capabilities: (value, at, notes) => {
      if (!isObject(value)) notes.readAs(at, value, {})
      return isObject(value) ? capabilities(value, at, notes) : {}
    },
    instructions: text,
    _meta: object({ [metaKeys.serverInfo]: identity }),
  },
  ['capabilities'],
)

/** A payload with another value, in which everything that is the same keeps its text. */
function rewritten(payload: Payload, value: unknown): Payload {
  const { value: before } = payload
  if (value === before) return payload
  if (Array.isArray(before) && Array.isArray(value)) {
    const { items } = payload
    const kept = value.map((each: unknown, index) => {
      const from = before.length === value.length ? index : before.indexOf(each)
      return rewritten(items[from] ?? Payload.of(each), each)
    })
    return Payload.list(kept)
  }
  if (!isObject(before) || !isObject(value)) return Payload.of(value)
  const edits = Object.keys({ ...before, ...value }).flatMap((key) => {
    const member = value[key]
    if (Object.hasOwn(before, key) && before[key] === member) return []
    const from = Object.hasOwn(before, key)
      ? key
      : Object.keys(before).find((each) => before[each] === member)
    const part = from === undefined ? undefined : payload.at(from)
    return [
      [key, member === undefined ? undefined : part ? rewritten(part, member) : Payload.of(member)] as const,
    ]
  })
  return payload.with(Object.fromEntries(edits))
}
