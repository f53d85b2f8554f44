/** The contract of a server: what it offers to clients, and which changes of it are breaking. */
import { exactly, isObject } from './json/json.ts'
import { type ChangeLevel, schemaChanges } from './schema/schema-change.ts'

/** What callers of a server rely on. */
export interface Contract {
  /** The endpoints it is reached at, such as `stdio` or `/mcp/files`. */
  readonly entrances: readonly string[]
  /** Whether callers have to authenticate. */
  readonly isGuarded: boolean
  readonly errorCodes: readonly string[]
  /** By the name clients use. */
  readonly tools: Readonly<Record<string, ToolContract>>
  readonly prompts: Readonly<Record<string, PromptContract>>
  /** Media types by URI and by URI template; empty if unknown. */
  readonly resources: Readonly<Record<string, string>>
  readonly templates: Readonly<Record<string, string>>
}

/** What callers of a tool rely on. */
export interface ToolContract {
  readonly input: unknown
  readonly output?: unknown
  /** One scope of each group is required. */
  readonly scopes: readonly (readonly string[])[]
  /** The media types of results, as declared by the owner. */
  readonly returns: readonly string[]
  /** Its annotations, such as `readOnlyHint`. */
  readonly hints: Readonly<Record<string, unknown>>
  /** The replacement, and the end of support. */
  readonly deprecated?: string
  /** A hash of its descriptive texts. */
  readonly wording: string
}

/** What callers of a prompt rely on: its arguments, and which of them are required. */
export interface PromptContract {
  readonly arguments: Readonly<Record<string, boolean>>
  readonly wording: string
}

/** One change of a contract. */
export interface ContractChange {
  readonly level: ChangeLevel
  /** Its section in a changelog. */
  readonly kind: 'added' | 'changed' | 'deprecated' | 'removed'
  /** Such as `tool get_issue`. */
  readonly subject: string
  readonly text: string
}

/** All changes between two versions of a contract; empty only if they are equal. */
export function contractChanges(before: Contract, after: Contract): readonly ContractChange[] {
  return [
    ...setChanges(before.entrances, after.entrances, 'entrance'),
    ...guardChanges(before.isGuarded, after.isGuarded),
    ...setChanges(before.errorCodes, after.errorCodes, 'error code'),
    ...mapChanges(before.tools, after.tools, 'tool', toolChanges),
    ...mapChanges(before.prompts, after.prompts, 'prompt', promptChanges),
    ...mapChanges(before.templates, after.templates, 'resource template', typeChanges),
    ...setChanges(schemesOf(before), schemesOf(after), 'URI scheme'),
    ...resourceChanges(before.resources, after.resources),
  ]
}

/** The highest level among changes; undefined if there are none. */
export function levelOf(changes: readonly { readonly level: ChangeLevel }[]): ChangeLevel | undefined {
  return (['major', 'minor', 'patch'] as const).find((level) =>
    changes.some((change) => change.level === level),
  )
}

/** The next version after a change of this level. */
export function raised(version: string, level: ChangeLevel): string {
  const [major = 1, minor = 0, patch = 0] = version.split('.').map(Number)
  if (level === 'major') return `${major + 1}.0.0`
  return level === 'minor' ? `${major}.${minor + 1}.0` : `${major}.${minor}.${patch + 1}`
}

/** Compares the value before and after. */
type Compare<Value> = (before: Value, after: Value, subject: string) => readonly ContractChange[]

function mapChanges<Value>(
  before: Readonly<Record<string, Value>>,
  after: Readonly<Record<string, Value>>,
  what: string,
  compare: Compare<Value>,
): ContractChange[] {
  return pairs(before, after).flatMap(([name, was, is]) => {
    const subject = `${what} ${name}`
    if (was === undefined) return [added(subject)]
    return is === undefined ? [removed(subject)] : compare(was, is, subject)
  })
}

/** The members of two objects by name, in order; undefined where there is none. */
function pairs<Value>(
  before: Readonly<Record<string, Value>>,
  after: Readonly<Record<string, Value>>,
): (readonly [name: string, was: Value | undefined, is: Value | undefined])[] {
  const [one, other] = [new Map(Object.entries(before)), new Map(Object.entries(after))]
  const names = [...new Set([...one.keys(), ...other.keys()])].toSorted()
  return names.map((name) => [name, one.get(name), other.get(name)])
}

function setChanges(before: readonly string[], after: readonly string[], what: string): ContractChange[] {
  const [one, other] = [before, after].map((names) => Object.fromEntries(names.map((name) => [name, true])))
  return mapChanges(one ?? {}, other ?? {}, what, () => [])
}

function guardChanges(before: boolean, after: boolean): ContractChange[] {
  if (before === after) return []
  return [
    changed(after ? 'major' : 'minor', 'authentication', after ? 'is required' : 'is no longer required'),
  ]
}

function toolChanges(before: ToolContract, after: ToolContract, subject: string): ContractChange[] {
  const schemas = [
    ...schemaChanges(before.input, after.input, 'input').map((each) => ({ ...each, what: 'argument' })),
    ...outputChanges(before.output, after.output).map((each) => ({ ...each, what: 'result' })),
  ].map(({ level, path, text, what }) =>
    changed(level, subject, path === '' ? `its ${what}s: ${text}` : `${what} ${path} ${text}`),
  )
  const isWorded = before.wording !== after.wording
  const found = [
    ...schemas,
    ...scopeChanges(before.scopes, after.scopes, subject),
    ...(exactly(before.returns) === exactly(after.returns)
      ? []
      : [changed('major', subject, 'returns other media types')]),
    ...(exactly(before.hints) === exactly(after.hints)
      ? []
      : [changed('minor', subject, 'has other annotations')]),
    ...deprecations(before.deprecated, after.deprecated, subject),
  ]
  const hasWordingChange = found.some(({ level }) => level === 'patch')
  return isWorded && !hasWordingChange
    ? [...found, changed('patch', subject, 'has a new description')]
    : found
}

function outputChanges(before: unknown, after: unknown) {
  if (before === undefined && after === undefined) return []
  if (before === undefined) return [{ level: 'minor', path: '', text: 'are described' } as const]
  if (after === undefined) return [{ level: 'major', path: '', text: 'are no longer described' } as const]
  return schemaChanges(before, after, 'output')
}

/** Callers need one scope of each group: an added group or a removed alternative takes access away. */
function scopeChanges(
  before: ToolContract['scopes'],
  after: ToolContract['scopes'],
  subject: string,
): ContractChange[] {
  if (exactly(before) === exactly(after)) return []
  const isWider = after.every((group) =>
    before.some((other) => other.every((scope) => group.includes(scope))),
  )
  return [
    isWider
      ? changed('minor', subject, 'requires fewer scopes')
      : changed('major', subject, 'requires other scopes'),
  ]
}

function deprecations(
  before: string | undefined,
  after: string | undefined,
  subject: string,
): ContractChange[] {
  if (before === after) return []
  if (after === undefined) return [changed('minor', subject, 'is no longer deprecated')]
  return [{ level: 'minor', kind: 'deprecated', subject, text: `is deprecated: ${after}` }]
}

function promptChanges(before: PromptContract, after: PromptContract, subject: string): ContractChange[] {
  const found = pairs(before.arguments, after.arguments).flatMap(([name, was, is]) => {
    if (was === is) return []
    if (is === undefined) return [changed('major', subject, `argument ${name} was removed`)]
    const requirement = is ? 'required' : 'no longer required'
    const text = was === undefined ? `was added${is ? ', and is required' : ''}` : `is ${requirement}`
    return [changed(is ? 'major' : 'minor', subject, `argument ${name} ${text}`)]
  })
  if (before.wording === after.wording) return found
  return [...found, changed('patch', subject, 'has a new description')]
}

function typeChanges(before: string, after: string, subject: string): ContractChange[] {
  return before === after ? [] : [changed('major', subject, 'has another media type')]
}

/** Individual resources are data that come and go; the contract covers schemes, templates and media types. */
function resourceChanges(before: Contract['resources'], after: Contract['resources']): ContractChange[] {
  return mapChanges(before, after, 'resource', typeChanges).map((change) =>
    change.kind === 'removed' ? { ...change, level: 'minor' } : change,
  )
}

function schemesOf({ resources, templates }: Contract): string[] {
  const all = [...Object.keys(resources), ...Object.keys(templates)]
  return [...new Set(all.map((uri) => uri.split(':', 1)[0] ?? ''))]
}

function added(subject: string): ContractChange {
  return { level: 'minor', kind: 'added', subject, text: 'was added' }
}

function removed(subject: string): ContractChange {
  return { level: 'major', kind: 'removed', subject, text: 'was removed' }
}

function changed(level: ChangeLevel, subject: string, text: string): ContractChange {
  return { level, kind: 'changed', subject, text }
}

/** Whether a stored value is a contract. */
export function isContract(value: unknown): value is Contract {
  return (
    isObject(value) &&
    Array.isArray(value.entrances) &&
    Array.isArray(value.errorCodes) &&
    [value.tools, value.prompts, value.resources, value.templates].every(isObject)
  )
}

/** The last known contract of a server and its versions. Stored under `contract/…` as JSON. */
export interface ContractHistory {
  readonly upstream: string
  readonly contract: Contract
  /** Newest first. */
  readonly versions: readonly ContractVersion[]
}

/** One version of a contract. */
export interface ContractVersion {
  readonly version: string
  /** When it was first seen, in milliseconds since 1970. */
  readonly at: number
  readonly changes: readonly KeptChange[]
  /** The number of further changes that are not stored. */
  readonly more?: number
}

/** A change, and whether something was removed without a deprecation or before its end. */
export type KeptChange = ContractChange & { readonly isEarly?: true }

/** The deprecation of a tool, as declared by its owner. */
export interface Deprecation {
  /** In the owner's words. */
  readonly text: string
  /** The replacement tool. */
  readonly successor?: string
  /** The end of the last supported day, in milliseconds since 1970. */
  readonly until?: number
}

const DAY_MS = 86_400_000

/** Parses the text of a deprecation, such as `use log_work, support ends 2027-03-31`. */
export function readDeprecation(text: string): Deprecation {
  const [, successor] = /\buse\s+[`"']?([\w./:-]*[\w])/i.exec(text) ?? []
  const [day] = /\b\d{4}-\d{2}-\d{2}\b/.exec(text) ?? []
  const start = day === undefined ? Number.NaN : Date.parse(`${day}T00:00:00Z`)
  return {
    text,
    ...(successor !== undefined && { successor }),
    ...(Number.isFinite(start) && { until: start + DAY_MS }),
  }
}
