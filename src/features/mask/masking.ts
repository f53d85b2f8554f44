/** Finds and replaces what rules name in texts and in JSON, also in JSON inside of texts. */
import type { Target } from '../../core/call.ts'
import { isObject, readJson, elements, members } from '../../core/json/json.ts'
import { type Step, parseSteps } from '../../core/json/path.ts'
import { fits } from '../../core/text/pattern.ts'
import { compilePattern, type Pattern } from '../../core/text/pattern.ts'

/** A place whose value must not stay, and what may stand there instead: the best comes first. */
export interface Place {
  readonly path: readonly (string | number)[]
  readonly instead: readonly unknown[]
}

/** Masks the parts of one answer, and counts what it masked. */
export interface Masking {
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

type Found = Rules['paths'][number]

/** Begins the masking of one answer. */
export function beginMasking({ paths, patterns }: Rules): Masking {
  const whole = patterns[0]?.replace ?? paths[0]?.replace ?? ''
  const names = new Map<string, string>()
  let left = MAX_CHARACTERS
  let count = 0

  const text = (given: string): string => {
    if (given === '' || patterns.length === 0) return given
    left -= given.length
    if (left < 0) {
      count += 1
      return whole
    }
    let rest = given
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const before = rest
      for (const { pattern, replace } of patterns) {
        const replaced = pattern.replaceAll(rest, replace)
        rest = replaced.text
        count += replaced.count
      }
      if (rest === before) return rest
    }
    return whole
  }

  const nameOf = (key: string): string => {
    const known = names.get(key) ?? text(key)
    names.set(key, known)
    return known
  }

  const places = (value: unknown, path: Place['path'] = [], ahead: readonly Found[] = paths): Place[] => {
    const rule = ahead.find(({ steps }) => steps.length === 0)
    if (rule || path.length > MAX_DEPTH) {
      if (value === null) return []
      count += 1
      return [{ path, instead: [rule?.replace ?? whole, null, GONE] }]
    }
    if (typeof value === 'string' || typeof value === 'number') {
      const masked = text(String(value))
      return masked === String(value) ? [] : [{ path, instead: [masked, null, GONE] }]
    }
    if (Array.isArray(value)) {
      return value.flatMap((each: unknown, index) => places(each, [...path, index], after(ahead, index)))
    }
    return isObject(value) ? inObject(value, path, ahead) : []
  }

  const inObject = (
    object: Readonly<Record<string, unknown>>,
    path: Place['path'],
    ahead: readonly Found[],
  ): Place[] => {
    const copies = new Map<string, number>()
    return Object.entries(object).flatMap(([key, value]) => {
      const name = nameOf(key)
      const inner = after(ahead, key)
      if (name === key) return places(value, [...path, key], inner)
      const found = places(value, [], inner).map(({ path: at, instead: [to] }) => ({ path: at, to }))
      const masked = editJson(JSON.stringify(value), found)
      const copy = (copies.get(name) ?? 0) + 1
      copies.set(name, copy)
      const own = copy === 1 ? name : `${name} ${copy}`
      const gone = { path: [...path, key], instead: [GONE] }
      // A name that is another's, or would itself be masked, is no way to keep the member.
      if (masked === undefined || Object.hasOwn(object, own) || nameOf(own) !== own) return [gone]
      return [gone, { path: [...path, own], instead: [JSON.parse(masked), null, GONE] }]
    })
  }

  return {
    get count() {
      return count
    },
    text,
    document: (given) => {
      const value = parsed(given)
      const edits = places(value).map(({ path, instead: [to] }) => ({ path, to }))
      // Once more as text: a pattern may match across names and values.
      return text(edits.length === 0 ? given : (editJson(given, edits) ?? whole))
    },
    places,
  }
}

/** The paths that lead on through a member or element, from there. */
function after(ahead: readonly Found[], key: Exclude<Step, null>): readonly Found[] {
  return ahead.flatMap(({ steps: [first, ...steps], replace }) =>
    first === null || first === key ? [{ steps, replace }] : [],
  )
}

/** The object or array a text is; nothing where it is neither. */
function parsed(text: string): unknown {
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
