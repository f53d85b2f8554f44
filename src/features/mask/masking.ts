/** Finds and replaces what rules name, in texts, in JSON, and in JSON inside texts. */
import type { Target } from '../../core/call.ts'
import { isObject, readJson, elements, members } from '../../core/json/json.ts'
import { type Step, parseSteps } from '../../core/json/path.ts'
import { fits, compilePattern, type Pattern } from '../../core/text/pattern.ts'
import type { RuleSettings } from './settings.ts'
import { isNumber, plainDigits } from '../../core/json/exact-number.ts'
import { parseJson } from '../../core/json/read.ts'

/** A place whose value must be masked, and its possible replacements, the best first. */
export interface Place {
  readonly path: readonly (string | number)[]
  readonly replacements: readonly unknown[]
}

/** Masks the parts of one response, and counts what it masked. */
export interface Masker {
  readonly count: number
  /** A text with the matches of patterns replaced. */
  text(text: string): string
  /** The same for a text that may be JSON, to which paths apply too. */
  document(text: string): string
  /** The places in a JSON value that must be masked. */
  places(value: unknown): readonly Place[]
}

/** How much of one response is examined, in characters: texts beyond that are replaced completely. */
const MAX_CHARACTERS = 2_000_000
/** How deep a value is examined; deeper values are replaced completely. */
const MAX_DEPTH = 200
/** How often patterns are applied to a text, because a replacement can form a new match with its surroundings. */
const MAX_ROUNDS = 4

type PathRule = Rules['paths'][number]

/** Creates the masker of one response. */
export function createMasker(rules: Rules): Masker {
  return new RuleMasker(rules)
}

class RuleMasker implements Masker {
  readonly #paths: Rules['paths']
  readonly #patterns: Rules['patterns']
  /** Replaces a text that is masked as a whole. */
  readonly #fallback: string
  readonly #maskedNames = new Map<string, string>()
  #remainingCharacters = MAX_CHARACTERS
  #count = 0

  constructor({ paths, patterns }: Rules) {
    this.#paths = paths
    this.#patterns = patterns
    this.#fallback = patterns[0]?.replace ?? paths[0]?.replace ?? ''
  }

  get count(): number {
    return this.#count
  }

  text(original: string): string {
    if (original === '' || this.#patterns.length === 0) return original
    this.#remainingCharacters -= original.length
    if (this.#remainingCharacters < 0) {
      this.#count += 1
      return this.#fallback
    }
    let masked = original
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const before = masked
      for (const { pattern, replace } of this.#patterns) {
        const replaced = pattern.replaceAll(masked, replace)
        masked = replaced.text
        this.#count += replaced.count
      }
      if (masked === before) return masked
    }
    return this.#fallback
  }

  document(original: string): string {
    const edits = this.places(readContainer(original)).map(firstEdit)
    // Once more as text: a pattern may match across names and values.
    return this.text(edits.length === 0 ? original : (editJson(original, edits) ?? this.#fallback))
  }

  places(value: unknown): readonly Place[] {
    return this.#placesIn(value, [], this.#paths)
  }

  #placesIn(value: unknown, path: Place['path'], rules: readonly PathRule[]): Place[] {
    const rule = rules.find(({ steps }) => steps.length === 0)
    if (rule || path.length > MAX_DEPTH) {
      if (value === null) return []
      this.#count += 1
      return [{ path, replacements: [rule?.replace ?? this.#fallback, null, REMOVED] }]
    }
    if (typeof value === 'string' || isNumber(value)) {
      // Patterns match the digits of a number, however it is written.
      const texts = isNumber(value) ? new Set([plainDigits(value), String(value)]) : [value]
      for (const text of texts) {
        const masked = this.text(text)
        if (masked !== text) return [{ path, replacements: [masked, null, REMOVED] }]
      }
      return []
    }
    if (Array.isArray(value)) {
      return value.flatMap((element: unknown, index) =>
        this.#placesIn(element, [...path, index], rulesBelow(rules, index)),
      )
    }
    return isObject(value) ? this.#placesInObject(value, path, rules) : []
  }

  #placesInObject(
    object: Readonly<Record<string, unknown>>,
    path: Place['path'],
    rules: readonly PathRule[],
  ): Place[] {
    const copies = new Map<string, number>()
    return Object.entries(object).flatMap(([key, value]) => {
      const maskedName = this.#maskName(key)
      const memberRules = rulesBelow(rules, key)
      if (maskedName === key) return this.#placesIn(value, [...path, key], memberRules)
      const edits = this.#placesIn(value, [], memberRules).map(firstEdit)
      const masked = editJson(JSON.stringify(value), edits)
      const copy = (copies.get(maskedName) ?? 0) + 1
      copies.set(maskedName, copy)
      const newName = copy === 1 ? maskedName : `${maskedName} ${copy}`
      const removal = { path: [...path, key], replacements: [REMOVED] }
      // The member cannot be kept under a name that another member has, or that would be masked again.
      if (masked === undefined || Object.hasOwn(object, newName) || this.#maskName(newName) !== newName)
        return [removal]
      return [removal, { path: [...path, newName], replacements: [parseJson(masked), null, REMOVED] }]
    })
  }

  #maskName(name: string): string {
    const masked = this.#maskedNames.get(name) ?? this.text(name)
    this.#maskedNames.set(name, masked)
    return masked
  }
}

function firstEdit({ path, replacements: [to] }: Place): Edit {
  return { path, to }
}

/** The path rules that continue through a member or element, from there on. */
function rulesBelow(rules: readonly PathRule[], key: Exclude<Step, null>): readonly PathRule[] {
  return rules.flatMap(({ steps: [first, ...steps], replace }) =>
    first === null || first === key ? [{ steps, replace }] : [],
  )
}

/** The object or array that a text contains; undefined if it is neither. */
function readContainer(text: string): unknown {
  return /^\s*[[{]/.test(text) ? readJson(text) : undefined
}

/** The compiled rules of a target. */
export interface Rules {
  readonly paths: readonly { readonly steps: readonly Step[]; readonly replace: string }[]
  readonly patterns: readonly { readonly pattern: Pattern; readonly replace: string }[]
}

/** The rules for the responses of a target; undefined if there are none. @throws TypeError */
export function rulesFor(rules: readonly RuleSettings[], target: Target): Rules | undefined {
  const applicable = rules.filter((rule) => isFor(rule, target))
  if (applicable.length === 0) return undefined
  return {
    paths: applicable.flatMap(({ path, replace }) =>
      path === undefined ? [] : { steps: stepsOf(path), replace },
    ),
    patterns: applicable.flatMap(({ pattern, replace }) =>
      pattern === undefined ? [] : { pattern: patternOf(pattern), replace },
    ),
  }
}

// The tool of a task, or of a message between calls, is unknown: then every rule applies.
function isFor({ tools }: RuleSettings, { method, name }: Target): boolean {
  if (tools === undefined || method.startsWith('tasks/') || method === 'subscriptions/listen') return true
  return method === 'tools/call' && (name === undefined || [tools].flat().some((glob) => fits(glob, name)))
}

function stepsOf(path: string): readonly Step[] {
  const steps = parseSteps(path)
  if (!steps) throw new TypeError(`${path} is not a valid path`)
  return steps
}

function patternOf(source: string): Pattern {
  const pattern = compilePattern(source)
  if (!pattern) throw new TypeError(`${source} cannot be matched in linear time`)
  return pattern
}

/** Marks a value that is removed. */
const REMOVED = Symbol('removed')

/** A place in a JSON value, and its new value. */
interface Edit {
  readonly path: readonly (string | number)[]
  readonly to: unknown
}

interface Branch {
  /** The new value; absent if only something below changes. */
  to?: unknown
  readonly children: Map<string, Branch>
}

/** JSON text with some places changed; everything else keeps its text. Undefined if the whole value is removed. */
export function editJson(text: string, edits: readonly Edit[]): string | undefined {
  const root: Branch = { children: new Map() }
  for (const { path, to } of edits) {
    let branch = root
    for (const step of path) {
      const next: Branch = branch.children.get(String(step)) ?? { children: new Map() }
      branch.children.set(String(step), next)
      branch = next
    }
    branch.to = to
  }
  return applyBranch(text, root)
}

function applyBranch(text: string, branch: Branch): string | undefined {
  if ('to' in branch) return branch.to === REMOVED ? undefined : JSON.stringify(branch.to)
  if (branch.children.size === 0) return text
  return text.trimStart().startsWith('[') ? applyToArray(text, branch) : applyToObject(text, branch)
}

function applyToArray(text: string, { children }: Branch): string {
  const elementTexts = elements(text).map((element, index) => {
    const branch = children.get(String(index))
    return branch ? applyBranch(element, branch) : element
  })
  return `[${elementTexts.filter((each) => each !== undefined).join(',')}]`
}

function applyToObject(text: string, { children }: Branch): string {
  const found = members(text)
  // Of duplicate keys, the last member is the value, and the only one that was examined.
  const last = new Map(found.map((member) => [member.key, member]))
  const parts = found.flatMap((member) => {
    const branch = children.get(member.key)
    if (!branch) return [text.slice(member.start, member.end)]
    if (last.get(member.key) !== member) return []
    return pair(member.key, applyBranch(text.slice(member.valueStart, member.end), branch))
  })
  const added = [...children].flatMap(([key, branch]) =>
    last.has(key) ? [] : pair(key, applyBranch('', branch)),
  )
  return `{${[...parts, ...added].join(',')}}`
}

function pair(key: string, value: string | undefined): string[] {
  return value === undefined ? [] : [`${JSON.stringify(key)}:${value}`]
}
