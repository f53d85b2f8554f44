/**
 * The gate of one entry: the scopes it requires, and the configured rules for it: allowed and denied globs
 * on arguments, over every reading of a value.
 */
import type { Call, Outcome } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { GatewayError } from '../../core/error.ts'
import { type UpstreamSettings, settingOf, type ArgumentRules } from '../../core/settings.ts'
import { fits, fitting } from '../../core/text/pattern.ts'
import type { Services } from '../feature.ts'
import {
  fullyDecoded,
  fold,
  pathVariants,
  normalisePath,
  uriReadings,
  resolveFrom,
  isAbsolute,
  isWellEncoded,
  loosePathVariants,
} from './path-variants.ts'
import { isObject } from '../../core/json/json.ts'
import { isNumber, numberOf, plainDigits } from '../../core/json/exact-number.ts'

/** The access control of one tool, prompt or resource. */
export interface Gate {
  readonly requirement: Requirement
  readonly rules: Rules | undefined
}

/** The decision about a call. */
export type AccessDecision =
  | { readonly kind: 'allowed' }
  | { readonly kind: 'denied'; readonly isMalformed?: true }
  | { readonly kind: 'missing'; readonly required: readonly string[]; readonly missing: readonly string[] }

type Refusal = Exclude<AccessDecision, { kind: 'allowed' }>
type Scopes = ReadonlySet<string> | undefined

/** The gate of an entry of a server. */
export function gateOf(entry: Entry, settings: UpstreamSettings): Gate {
  return { requirement: requirementOf(entry, settings), rules: rulesFor(settings, entry.name, entry.kind) }
}

/** The gates of listed tools, created once each. */
export function createGates(): (entry: Descriptor, settings: UpstreamSettings) => Gate {
  const gates = new WeakMap<Descriptor, Gate>()
  return (entry, settings) => {
    const known = gates.get(entry)
    if (known) return known
    const gate = gateOf(entry, settings)
    gates.set(entry, gate)
    return gate
  }
}

/** Decides about a call with these arguments; a caller without a scope set is not limited by scopes. */
export function decide({ requirement, rules }: Gate, args: unknown, scopes: Scopes): AccessDecision {
  if (rules && !rules.permits(args)) return rules.isMalformed ? malformed : denied
  const missing = missingScopes(requirement, scopes)
  return missing.length === 0 ? allowed : { kind: 'missing', required: requiredScopes(requirement), missing }
}

/** Whether a caller cannot make any call of an entry, whatever the arguments. */
export function isInaccessible({ requirement, rules }: Gate, scopes: Scopes): boolean {
  return rules?.isClosed === true || missingScopes(requirement, scopes).length > 0
}

/** The error of a refused call. */
export function refusal(decision: Refusal, elevateUrl: string | undefined): GatewayError {
  if (decision.kind === 'denied' && decision.isMalformed) {
    return new GatewayError('PERMISSION_DENIED', 'This URI is not permitted because it is malformed.', {
      suggestion: 'Send the URI as it is listed, with percent-encoded UTF-8 (RFC 3986).',
      details: { reason: 'policy' },
    })
  }
  if (decision.kind === 'denied') {
    return new GatewayError('PERMISSION_DENIED', 'This call is not permitted here.', {
      suggestion: 'Continue without this call: no scope permits it.',
      details: { reason: 'policy' },
    })
  }
  const { required, missing } = decision
  return new GatewayError('SCOPE_INSUFFICIENT', missingScopesMessage(missing), {
    suggestion:
      elevateUrl === undefined
        ? `Ask the operator for ${missing.join(' ')}.`
        : `Ask for ${missing.join(' ')} at ${elevateUrl}`,
    details: {
      required_scopes: required,
      missing_scopes: missing,
      ...(elevateUrl !== undefined && { elevation_url: elevateUrl }),
    },
  })
}

/** The refusal of a caller who has the scopes, but sent a session token without them. */
export function limitedBySession(error: GatewayError): GatewayError {
  const { elevation_url: _url, ...details } = error.extra.details ?? {}
  const suggestion = 'Call without the session token, or negotiate a session with the scope.'
  return error.with({ isOfSession: true, suggestion, details })
}

/** Lists the scopes that a caller lacks. */
export function missingScopesMessage(missing: readonly string[]): string {
  return `Missing ${missing.length === 1 ? 'scope' : 'scopes'}: ${missing.join(' ')}`
}

const allowed: AccessDecision = { kind: 'allowed' }
const denied: AccessDecision = { kind: 'denied' }
const malformed: AccessDecision = { kind: 'denied', isMalformed: true }

/** An entry that may require scopes. */
type Entry = Pick<Descriptor, 'kind' | 'name'> & {
  readonly classification: Pick<Descriptor['classification'], 'op' | 'risk'>
}

/** The required scopes: one of each group. The first of a group is the narrowest. */
export type Requirement = readonly (readonly string[])[]

/** The scopes that a caller needs for an entry of a server. */
export function requirementOf(entry: Entry, settings: UpstreamSettings): Requirement {
  const explicit = entry.kind === 'tool' ? settingOf(settings.tools, entry.name, 'scopes') : undefined
  if (explicit) return explicit.value.map((scope) => [scope])
  const groups = new Map<string, readonly string[]>()
  for (const name of entry.kind === 'resource' ? pathVariants(entry.name) : [entry.name]) {
    const configured = scopesCovering(settings.scopes, name)
    const group = configured.length > 0 ? configured : [derivedScope(entry, settings.name)]
    groups.set(group.join(' '), group)
  }
  if (entry.kind !== 'resource' || Object.keys(settings.scopes).length === 0) return [...groups.values()]
  // The readings of a URI only matter for scopes that name it specifically.
  for (const reading of uriReadings(entry.name)) {
    const group = scopesCoveringFolded(settings.scopes, reading)
    if (group.length > 0) groups.set(group.join(' '), group)
  }
  return [...groups.values()]
}

/** One list of scopes that satisfies a requirement. */
export function requiredScopes(requirement: Requirement): string[] {
  return [...new Set(requirement.flatMap(([least]) => (least === undefined ? [] : [least])))]
}

/** The missing scopes: granting exactly these satisfies the requirement. */
export function missingScopes(
  requirement: Requirement,
  available: ReadonlySet<string> | undefined,
): string[] {
  if (!available) return []
  const unmet = requirement.filter((group) => !group.some((scope) => available.has(scope)))
  return unmet.length === 0 ? [] : requiredScopes(unmet)
}

function derivedScope({ classification: { op, risk } }: Entry, server: string): string {
  if (op === 'admin' || op === 'execute') return `${op}:${server}`
  if (op === 'delete' || risk === 'destructive') return `delete:${server}`
  return op === 'read' ? `read:${server}` : `write:${server}`
}

/** The scopes that cover a name, the one with the most specific glob first. */
function scopesCovering(scopes: UpstreamSettings['scopes'], name: string): string[] {
  const globs = Object.values(scopes).flat()
  const found = fitting(globs, name)
  const encoded = globs.filter((glob) => !found.includes(glob) && fits(fullyDecoded(glob), name))
  const owners = [...found, ...encoded].flatMap((glob) =>
    Object.keys(scopes).filter((scope) => scopes[scope]?.includes(glob)),
  )
  return [...new Set(owners)]
}

/** The same for a reading of a name, case-insensitively; none if only catch-all globs match. */
function scopesCoveringFolded(scopes: UpstreamSettings['scopes'], reading: string): string[] {
  const globs = Object.values(scopes).flat()
  const folded = (glob: string): string => fold(normalisePath(fullyDecoded(glob)))
  const found = new Set(fitting(globs.map(folded), fold(reading)))
  if ([...found].every((glob) => glob.startsWith('*'))) return []
  const owners = [...found].flatMap((glob) =>
    Object.keys(scopes).filter((scope) => scopes[scope]?.some((each) => folded(each) === glob)),
  )
  return [...new Set(owners)]
}

/** What guards need besides their target. */
export interface Context extends Pick<Services, 'servers'> {
  readonly gates: ReturnType<typeof createGates>
  /** Whether permissions are off. */
  readonly isOff: boolean
  /** Where people request more rights. */
  readonly elevateUrl: string | undefined
  /** Whether entries that a caller may not use are hidden from lists. */
  readonly hidesInaccessible: boolean
}

/** The access control for the calls of one target. */
export interface Guard {
  /** Whether callers without a scope set have to be checked too. */
  readonly isForAll: boolean
  /** The call as it may continue. @throws SCOPE_INSUFFICIENT, PERMISSION_DENIED, UNKNOWN_TOOL, INVALID_INPUT */
  admit?(call: Call): Call | Promise<Call>
  /** The result as the caller may see it. */
  filterResult?(call: Call, outcome: Outcome): Outcome
}

/** What the configuration permits of a tool, prompt or resource, whatever the scopes of the caller. */
interface Rules {
  /** Whether no arguments are permitted at all. */
  readonly isClosed: boolean
  /** It is a resource with an ambiguous URI. */
  readonly isMalformed?: true
  permits(args: unknown): boolean
}

/** The rules for a name; undefined if every call is permitted. */
export function rulesFor(
  settings: UpstreamSettings,
  name: string,
  kind: Descriptor['kind'] = 'tool',
): Rules | undefined {
  const isUri = kind === 'resource'
  const isLimited = hasRules(settings) || Object.keys(settings.scopes).length > 0
  if (isUri && isLimited && !isWellEncoded(name)) return malformedRules
  const denying = Object.keys(settings.deny).filter((glob) => appliesTo(glob, name, isUri))
  const [allowing] = fitting(Object.keys(settings.allow), name)
  const denied = denying.flatMap((glob) => ruleOf(settings.deny, glob))
  const allowed = allowing === undefined ? [] : ruleOf(settings.allow, allowing)
  if (denied.includes(true)) return closed
  const directories = directoriesOf(settings)
  const denials = denied.flatMap((rule) => (rule === true ? [] : argumentsOf(rule, directories, denies)))
  const conditions = allowed.flatMap((rule) => (rule === true ? [] : argumentsOf(rule, directories, allows)))
  if (denials.length === 0 && conditions.length === 0) return undefined
  return {
    isClosed: false,
    permits: (args = {}) =>
      isObject(args) &&
      !denials.some((matches) => matches(args)) &&
      conditions.every((matches) => matches(args)),
  }
}

/** Whether a server has any rules. */
export function hasRules({ allow, deny }: UpstreamSettings): boolean {
  return Object.keys(allow).length > 0 || Object.keys(deny).length > 0
}

const closed: Rules = { isClosed: true, permits: () => false }
const malformedRules: Rules = { ...closed, isMalformed: true }

/** The limits on texts of one argument: number, length of one, and total length. Arguments beyond them are not permitted. */
const MAX_TEXTS = 1000
const MAX_LENGTH = 65_536
const MAX_TOTAL_LENGTH = 131_072

type Args = Readonly<Record<string, unknown>>
type Test = (args: Args) => boolean

function ruleOf(rules: ArgumentRules, glob: string): (Readonly<Record<string, string>> | true)[] {
  const rule = rules[glob]
  return rule === undefined ? [] : [rule]
}

/** Rules apply to a resource however its URI is spelled. */
function appliesTo(glob: string, name: string, isUri: boolean): boolean {
  if (fits(glob, name)) return true
  return (isUri || name.includes('/')) && denies(glob, [])([name])
}

function argumentsOf(
  rule: Readonly<Record<string, string>>,
  directories: readonly string[],
  make: (glob: string, directories: readonly string[]) => (texts: readonly string[]) => boolean,
): Test[] {
  return Object.entries(rule).map(([argument, glob]) => {
    const test = make(glob, directories)
    const isDenial = make === denies
    const named = JSON_NUMBER.test(glob) ? plainDigits(numberOf(glob)) : undefined
    // Rules name the number, however it is written, there and in the call.
    const written = (digits: string): string => (digits === named ? glob : digits)
    return (args) => {
      const values = valuesOf(args, argument)
      const texts = textsOf(values, isDenial, written)
      const totalLength = texts.reduce((sum, { length }) => sum + length, 0)
      const isTooLong = totalLength > MAX_TOTAL_LENGTH || texts.some(({ length }) => length > MAX_LENGTH)
      if (texts.length > MAX_TEXTS || isTooLong) return isDenial
      return texts.length > 0 && test(texts)
    }
  })
}

const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/** Some servers ignore the case of argument names. */
function valuesOf(args: Args, argument: string): unknown[] {
  const name = fold(argument)
  return Object.keys(args).flatMap((key) => (key === argument || fold(key) === name ? [args[key]] : []))
}

/** Every text and number inside values, and for a denial the keys of objects and the spelling of numbers. */
function textsOf(
  values: readonly unknown[],
  isDenial: boolean,
  written: (digits: string) => string,
): string[] {
  const found: string[] = []
  const pending = [...values]
  while (pending.length > 0 && found.length <= MAX_TEXTS) {
    const value = pending.pop()
    if (Array.isArray(value)) for (const each of value) pending.push(each)
    else if (isObject(value)) {
      if (isDenial) found.push(...Object.keys(value).slice(0, MAX_TEXTS + 1))
      for (const key in value) pending.push(value[key])
    } else if (typeof value === 'string') found.push(value)
    else if (isNumber(value)) found.push(written(plainDigits(value)), ...(isDenial ? [String(value)] : []))
    else if (typeof value === 'boolean') found.push(String(value))
  }
  return found
}

/** Whether one of the texts could be read as something that the glob covers. */
function denies(glob: string, directories: readonly string[]): (texts: readonly string[]) => boolean {
  const plain = fold(glob)
  const normalised = fold(normalisePath(glob.replaceAll('\\', '/')))
  const globs = [...new Set([plain, normalised, fold(normalisePath(fullyDecoded(glob)))])]
  const ends = endsOf(normalised)
  return (texts) =>
    texts.some((text) =>
      [...loosePathVariants(text, directories), ...uriReadings(text).map(fold)].some((path) =>
        (isAbsolute(path) ? globs : [...globs, ...ends]).some((each) => covers(each, path)),
      ),
    )
}

/** Whether all texts can only be read as something that the glob covers. */
function allows(glob: string, directories: readonly string[]): (texts: readonly string[]) => boolean {
  const normalised = normalisePath(glob)
  const isPath = isAbsolute(glob)
  const resolutions = (text: string): string[] =>
    isPath && !isAbsolute(text)
      ? directories.map((directory) => normalisePath(resolveFrom(directory, text)))
      : [text]
  return (texts) =>
    texts.every((text) => {
      const read = pathVariants(text).flatMap(resolutions)
      return read.length > 0 && read.every((each) => covers(glob, each) || covers(normalised, each))
    })
}

/** A glob for the content of a directory covers the directory too. */
function covers(glob: string, path: string): boolean {
  return fits(glob, path) || fits(glob, `${path}/`)
}

/** The remainders of an absolute glob relative to each directory on its way. */
function endsOf(glob: string): string[] {
  if (!isAbsolute(glob)) return []
  const segments = glob.split('/')
  return segments.flatMap((segment, index) =>
    index > 0 && segment !== '' && !segment.includes('*') ? [segments.slice(index).join('/')] : [],
  )
}

/** Where a server may resolve relative paths: its working directory, and the directories in its arguments. */
function directoriesOf({ reach }: UpstreamSettings): string[] {
  if (reach.kind === 'url') return []
  const named = reach.args.filter((argument) => isAbsolute(argument))
  return [...(reach.cwd === undefined ? [] : [reach.cwd]), ...named]
}
