/** What a server offers to clients, and whether a change of it breaks them. */
import { canonical, isObject } from './json/json.ts'
import { type ChangeLevel, schemaChanges } from './schema/schema-change.ts'

/** What callers of a server rely on. */
export interface Contract {
  /** How it is reached, such as `stdio` or `/mcp/files`. */
  readonly entrances: readonly string[]
  /** Whether callers have to prove who they are. */
  readonly isGuarded: boolean
  readonly errorCodes: readonly string[]
  /** By the name clients call them by. */
  readonly tools: Readonly<Record<string, ToolContract>>
  readonly prompts: Readonly<Record<string, PromptContract>>
  /** Media types by URI, and by template; empty where there is none. */
  readonly resources: Readonly<Record<string, string>>
  readonly templates: Readonly<Record<string, string>>
}

/** What callers of a tool rely on. */
export interface ToolContract {
  readonly input: unknown
  readonly output?: unknown
  /** Of each group one. */
  readonly scopes: readonly (readonly string[])[]
  /** The media types its owner says it gives. */
  readonly returns: readonly string[]
  /** What it says of itself, such as `readOnlyHint`. */
  readonly hints: Readonly<Record<string, unknown>>
  /** What to use instead, and until when it is there. */
  readonly deprecated?: string
  /** A hash of the words it is described with. */
  readonly wording: string
}

/** What callers of a prompt rely on: its arguments, and which of them have to be there. */
export interface PromptContract {
  readonly arguments: Readonly<Record<string, boolean>>
  readonly wording: string
}

/** One change of a contract, in words. */
export interface ContractChange {
  readonly level: ChangeLevel
  /** Where it belongs in a changelog. */
  readonly kind: 'added' | 'changed' | 'deprecated' | 'removed'
  /** Such as `tool get_issue`. */
  readonly subject: string
  readonly text: string
}

/** Everything that changed between two versions of a contract; nothing only where they are the same. */
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

/** What a list of changes asks of callers, taken together; nothing where there are none. */
export function levelOf(changes: readonly { readonly level: ChangeLevel }[]): ChangeLevel | undefined {
  return (['major', 'minor', 'patch'] as const).find((level) => changes.some((each) => each.level === level))
}

/** The version after a change of this level. */
export function raised(version: string, level: ChangeLevel): string {
  const [major = 1, minor = 0, patch = 0] = version.split('.').map(Number)
  if (level === 'major') return `${major + 1}.0.0`
  return level === 'minor' ? `${major}.${minor + 1}.0` : `${major}.${minor}.${patch + 1}`
}

/** Compares what is there before and after. */
type Compare<Value> = (before: Value, after: Value, subject: string) => readonly ContractChange[]

function mapChanges<Value>(
  before: Readonly<Record<string, Value>>,
  after: Readonly<Record<string, Value>>,
  what: string,
  compare: Compare<Value>,
): ContractChange[] {
  const [one, other] = [new Map(Object.entries(before)), new Map(Object.entries(after))]
  return [...new Set([...one.keys(), ...other.keys()])].toSorted().flatMap((name) => {
    const subject = `${what} ${name}`
    const [was, is] = [one.get(name), other.get(name)]
    if (was === undefined) return [added(subject)]
    if (is === undefined) return [removed(subject)]
    return compare(was, is, subject)
  })
}

function setChanges(before: readonly string[], after: readonly string[], what: string): ContractChange[] {
  const [one, other] = [new Set(before), new Set(after)]
  return [...new Set([...before, ...after])].toSorted().flatMap((name) => {
    if (!one.has(name)) return [added(`${what} ${name}`)]
    return other.has(name) ? [] : [removed(`${what} ${name}`)]
  })
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
    ...(canonical(before.returns) === canonical(after.returns)
      ? []
      : [changed('major', subject, 'gives other media types')]),
    ...(canonical(before.hints) === canonical(after.hints)
      ? []
      : [changed('minor', subject, 'says something else of what it does')]),
    ...deprecations(before.deprecated, after.deprecated, subject),
  ]
  const hasWordingChange = found.some(({ level }) => level === 'patch')
  return isWorded && !hasWordingChange
    ? [...found, changed('patch', subject, 'is described in other words')]
    : found
}

function outputChanges(before: unknown, after: unknown) {
  if (before === undefined && after === undefined) return []
  if (before === undefined) return [{ level: 'minor', path: '', text: 'are described' } as const]
  if (after === undefined) return [{ level: 'major', path: '', text: 'are no longer described' } as const]
  return schemaChanges(before, after, 'output')
}

/** Callers have one of each group: a group more, or a choice less, takes something from them. */
function scopeChanges(
  before: ToolContract['scopes'],
  after: ToolContract['scopes'],
  subject: string,
): ContractChange[] {
  if (canonical(before) === canonical(after)) return []
  const isWider = after.every((group) =>
    before.some((other) => other.every((scope) => group.includes(scope))),
  )
  return [
    isWider
      ? changed('minor', subject, 'takes fewer rights')
      : changed('major', subject, 'takes other rights'),
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
  const [one, other] = [new Map(Object.entries(before.arguments)), new Map(Object.entries(after.arguments))]
  const found = [...new Set([...one.keys(), ...other.keys()])].toSorted().flatMap((name) => {
    const [was, is] = [one.get(name), other.get(name)]
    if (was === is) return []
    if (is === undefined) return [changed('major', subject, `argument ${name} was removed`)]
    if (was === undefined)
      return [
        changed(
          is ? 'major' : 'minor',
          subject,
          `argument ${name} was added${is ? ', and is required' : ''}`,
        ),
      ]
    return [
      changed(
        is ? 'major' : 'minor',
        subject,
        `argument ${name} is ${is ? 'required' : 'no longer required'}`,
      ),
    ]
  })
  if (before.wording === after.wording) return found
  return [...found, changed('patch', subject, 'is described in other words')]
}

function typeChanges(before: string, after: string, subject: string): ContractChange[] {
  return before === after ? [] : [changed('major', subject, 'has another media type')]
}

/** Single resources are data that comes and goes; what is promised are schemes, templates and media types. */
function resourceChanges(before: Contract['resources'], after: Contract['resources']): ContractChange[] {
  return mapChanges(before, after, 'resource', typeChanges).map((each) =>
    each.kind === 'removed' ? { ...each, level: 'minor' } : each,
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

/** Whether a value that was kept is a contract. */
export function isContract(value: unknown): value is Contract {
  return (
    isObject(value) &&
    Array.isArray(value.entrances) &&
    Array.isArray(value.errorCodes) &&
    [value.tools, value.prompts, value.resources, value.templates].every(isObject)
  )
}

/** The contract of a server as it was last seen, and how it became so. Kept under `contract/…` as JSON. */
export interface ContractHistory {
  readonly upstream: string
  readonly contract: Contract
  /** The newest first. */
  readonly versions: readonly ContractVersion[]
}

/** One version of a contract. */
export interface ContractVersion {
  readonly version: string
  /** When it was first seen, in milliseconds since 1970. */
  readonly at: number
  readonly changes: readonly KeptChange[]
  /** How many changes there were more than are kept. */
  readonly more?: number
}

/** A change, and whether something went that was not announced, or not for long enough. */
export type KeptChange = ContractChange & { readonly isEarly?: true }

/** What the owner of a tool says of its end. */
export interface Deprecation {
  /** In the owner's words. */
  readonly text: string
  /** The tool to use instead. */
  readonly successor?: string
  /** The end of the last day it is there, in milliseconds since 1970. */
  readonly until?: number
}

const DAY_MS = 86_400_000

/** Reads what is written of the end of a tool, such as `use log_work, support ends 2027-03-31`. */
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
