/** Finds and replaces what rules name in texts and in JSON, also in JSON inside of texts. */
import type { Target } from '../../core/call.ts'
import { isObject, readJson, elements, members } from '../../core/json/json.ts'
import { type Step, parseSteps } from '../../core/json/path.ts'
import { fits } from '../../core/text/pattern.ts'
import { compilePattern, type Pattern } from '../../core/text/pattern.ts'

/** A place whose value must not stay, and what may stand there instead: the best comes first. */
export interface Place {
  readonly path: readonly (string | number)[]
  readonly replacements: readonly unknown[]
}

/** Masks the parts of one answer, and counts what it masked. */
export interface Masker {
  readonly count: number
  /** A text without what patterns match. */
  text(text: string): string
  /** A text that may be JSON, in which paths find something too. */
  document(text: string): string
  /** Where in a JSON value something must not stay. */
  places(value: unknown): readonly Place[]
}

/** How much of one answer is looked at, in characters: a text beyond that is masked as a whole. */
const MAX_CHARACTERS = 2_000_000
/** How deep a value is looked into; what is nested deeper is masked as a whole. */
const MAX_DEPTH = 200
/** How often a text is gone through, as what is put in can make up a match with what stands around it. */
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
    const edits = this.places(parseJson(original)).map(firstEdit)
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
      return [{ path, replacements: [rule?.replace ?? this.#fallback, null, GONE] }]
    }
    if (typeof value === 'string' || typeof value === 'number') {
      const masked = this.text(String(value))
      return masked === String(value) ? [] : [{ path, replacements: [masked, null, GONE] }]
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
      const removal = { path: [...path, key], replacements: [GONE] }
      // The member cannot be kept under a name that another member has, or that would be masked again.
      if (masked === undefined || Object.hasOwn(object, newName) || this.#maskName(newName) !== newName)
        return [removal]
      return [removal, { path: [...path, newName], replacements: [JSON.parse(masked), null, GONE] }]
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

/** The paths that lead on through a member or element, from there. */
function rulesBelow(rules: readonly PathRule[], key: Exclude<Step, null>): readonly PathRule[] {
  return rules.flatMap(({ steps: [first, ...steps], replace }) =>
    first === null || first === key ? [{ steps, replace }] : [],
  )
}

/** The object or array a text is; nothing where it is neither. */
function parseJson(text: string): unknown {
  return /^\s*[[{]/.test(text) ? readJson(text) : undefined
}

/** A rule as it is configured: what is masked, by one of path and pattern. */
export interface RuleSettings {
  readonly path?: string
  readonly pattern?: string
  readonly tools?: string | readonly string[]
  readonly replace: string
}

/** The rules that hold for a target, ready to be used. */
export interface Rules {
  readonly paths: readonly { readonly steps: readonly Step[]; readonly replace: string }[]
  readonly patterns: readonly { readonly pattern: Pattern; readonly replace: string }[]
}

/** The rules that hold for what a target answers; nothing where there are none. @throws TypeError */
export function rulesFor(rules: readonly RuleSettings[], target: Target): Rules | undefined {
  const own = rules.filter((rule) => isFor(rule, target))
  if (own.length === 0) return undefined
  return {
    paths: own.flatMap(({ path, replace }) => (path === undefined ? [] : { steps: stepsOf(path), replace })),
    patterns: own.flatMap(({ pattern, replace }) =>
      pattern === undefined ? [] : { pattern: patternOf(pattern), replace },
    ),
  }
}

// Whose tool a task is of, or a message between calls, cannot be known: then every rule holds.
function isFor({ tools }: RuleSettings, { method, name }: Target): boolean {
  if (tools === undefined || method.startsWith('tasks/') || method === 'subscriptions/listen') return true
  return method === 'tools/call' && (name === undefined || [tools].flat().some((glob) => fits(glob, name)))
}

function stepsOf(path: string): readonly Step[] {
  const steps = parseSteps(path)
  if (!steps) throw new TypeError(`${path} is no path`)
  return steps
}

function patternOf(source: string): Pattern {
  const pattern = compilePattern(source)
  if (!pattern) throw new TypeError(`${source} cannot be matched in linear time`)
  return pattern
}

/** What stands for a value that is left out. */
const GONE = Symbol('gone')

/** A place in a JSON value, and what is to stand there. */
interface Edit {
  readonly path: readonly (string | number)[]
  readonly to: unknown
}

interface Branch {
  /** What stands here; absent where only something below changes. */
  to?: unknown
  readonly below: Map<string, Branch>
}

/** JSON text with some places changed; all else keeps its text. Nothing where the whole is left out. */
export function editJson(text: string, edits: readonly Edit[]): string | undefined {
  const root: Branch = { below: new Map() }
  for (const { path, to } of edits) {
    let branch = root
    for (const step of path) {
      const next: Branch = branch.below.get(String(step)) ?? { below: new Map() }
      branch.below.set(String(step), next)
      branch = next
    }
    branch.to = to
  }
  return edited(text, root)
}

function edited(text: string, branch: Branch): string | undefined {
  if ('to' in branch) return branch.to === GONE ? undefined : JSON.stringify(branch.to)
  if (branch.below.size === 0) return text
  return text.trimStart().startsWith('[') ? editedArray(text, branch) : editedObject(text, branch)
}

function editedArray(text: string, { below }: Branch): string {
  const kept = elements(text).map((element, index) => {
    const branch = below.get(String(index))
    return branch ? edited(element, branch) : element
  })
  return `[${kept.filter((each) => each !== undefined).join(',')}]`
}

function editedObject(text: string, { below }: Branch): string {
  const found = members(text)
  // Of members with one name the last one is the value, and the only one that was looked at.
  const last = new Map(found.map((member) => [member.key, member]))
  const parts = found.flatMap((member) => {
    const branch = below.get(member.key)
    if (!branch) return [text.slice(member.start, member.end)]
    if (last.get(member.key) !== member) return []
    return pair(member.key, edited(text.slice(member.valueStart, member.end), branch))
  })
  const added = [...below].flatMap(([key, branch]) => (last.has(key) ? [] : pair(key, edited('', branch))))
  return `{${[...parts, ...added].join(',')}}`
}

function pair(key: string, value: string | undefined): string[] {
  return value === undefined ? [] : [`${JSON.stringify(key)}:${value}`]
}
