import type { Step } from '../../core/json-path.ts'
import { isObject, readJson } from '../../core/json.ts'
import { editJson, GONE } from './edits.ts'
import type { Rules } from './rules.ts'

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
