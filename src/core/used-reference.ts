/**
 * References that the arguments of a call had: where they were, what they stood for, and how they are written:
 * `ref://<id>`, or `{"$ref_id": "<id>"}`.
 */
import { isObject } from './json/json.ts'
import type { Payload } from './payload.ts'
import { Slot } from './slot.ts'

/** The names and indexes that lead to a value in arguments; none for the arguments themselves. */
export type Place = readonly (string | number)[]

/** What one reference stood for. */
export interface UsedReference {
  /** Where it was in the arguments. */
  readonly place: Place
  /** The same for people (`placeText`). */
  readonly path: string
  /** As the caller wrote it: `ref://<id>`, and the part that it selects. */
  readonly written: string
  /** The argument is a path or a URL of the data, which is another one in the next call. */
  readonly isOutside?: true
  readonly id: string
  /** Where the data came from: the server, the tool and the id of the request, if a call returned it. */
  readonly server: string
  readonly tool?: string
  readonly requestId?: string
  /** When it was kept, in milliseconds since 1970. */
  readonly createdAt: number
  readonly name: string
  readonly type: string
  /** Size in bytes, and SHA-256 in hex, of all of the data. */
  readonly size: number
  readonly sha256: string
}

/** The references of a call, and its arguments before the data took their places. */
export interface ResolvedReferences {
  readonly used: readonly UsedReference[]
  readonly written: Payload
}

/** The references that the arguments had, if any; the arguments have the data in their places. */
export const referencesSlot = new Slot<ResolvedReferences>('references')

/** Receives the ids of the references, before the call continues: a layer above may have to make it again. */
export const usesReferencesSlot = new Slot<(ids: readonly string[]) => void>('uses references')

/** What is kept of the result stays at least until then, in milliseconds since 1970: a layer above records the result. */
export const keepsResultSlot = new Slot<number>('keeps result')

/**
 * The arguments of a call, where members with references are as the caller wrote them: for people and records, which have
 * no use for the data.
 */
export function writtenArguments(
  params: Payload,
  references: ResolvedReferences | undefined,
): Payload | undefined {
  const sent = params.at('arguments')
  if (!sent || !references || !isObject(sent.value)) return sent
  const { used, written } = references
  if (used.some(({ place }) => place.length === 0)) return written
  const names = Object.keys(written.fields).filter(
    (name) => Object.hasOwn(sent.fields, name) && used.some(({ place }) => place[0] === name),
  )
  return sent.with(Object.fromEntries(names.map((name) => [name, written.at(name)])))
}

/** A place as text, such as `files[0].path`. Names that would read as several ones are quoted: no two places read the same. */
export function placeText(place: Place): string {
  const segments = place.map((segment) => {
    if (typeof segment === 'number') return `[${segment}]`
    return segment === '' || /[.[\]"]/.test(segment) ? `[${JSON.stringify(segment)}]` : `.${segment}`
  })
  return segments.join('').replace(/^\./, '')
}

/**
 * Arguments to compare calls by: where an argument is a path or a URL of data, they have the hash of the data and the part
 * of it.
 */
export function comparableArguments(given: unknown, references: ResolvedReferences | undefined): unknown {
  const outside = references?.used.filter(({ isOutside }) => isOutside) ?? []
  return outside.reduce<unknown>(
    (whole, { place, sha256, written }) =>
      changedAt(whole, place, () => ({ sha256, part: partText(written) })),
    given,
  )
}

/** The part of the data that a reference selects, as it is written; empty for all of it. */
export function partText(written: string): string {
  const [, query = '', pointer = ''] = /^[^?#]*(?:\?([^#]*))?(#.*)?$/s.exec(written) ?? []
  const part = query.split('&').filter((each) => each !== '' && !each.startsWith('as='))
  return `${part.length === 0 ? '' : `?${part.join('&')}`}${pointer}`
}

/** A value with another one at a place; the same if there is no such place. */
export function changedAt(
  given: unknown,
  [first, ...rest]: Place,
  change: (value: unknown) => unknown,
): unknown {
  if (first === undefined) return change(given)
  if (Array.isArray(given))
    return given.map((item: unknown, index) => (index === first ? changedAt(item, rest, change) : item))
  if (!isObject(given) || typeof first !== 'string' || !Object.hasOwn(given, first)) return given
  // A name may be one that an assignment would treat differently, such as `__proto__`.
  return { ...given, ...Object.fromEntries([[first, changedAt(given[first], rest, change)]]) }
}

/**
 * Whether the JSON text of arguments can have a reference. Nearly no call has one. An escape (`\u`) may stand for any of
 * these characters.
 */
export function mayRefer(text: string): boolean {
  return text.includes('ref:') || text.includes('$ref_id') || text.includes('\\u')
}
