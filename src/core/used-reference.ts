/** References that the arguments of a call had: where they were, and what they stood for. */
import { isObject } from './json/json.ts'
import type { Payload } from './payload.ts'

/** What one reference stood for. */
export interface UsedReference {
  /** Where it was in the arguments. */
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
  if (used.some(({ path }) => path === '')) return written
  const names = Object.keys(written.fields).filter(
    (name) => Object.hasOwn(sent.fields, name) && used.some(({ path }) => isWithin(path, name)),
  )
  return sent.with(Object.fromEntries(names.map((name) => [name, written.at(name)])))
}

/** Whether a place is a member of the arguments, or in it. */
function isWithin(path: string, name: string): boolean {
  return path.startsWith(name) && ['', '.', '['].includes(path.charAt(name.length))
}

/**
 * Arguments to compare calls by: where an argument is a path or a URL of data, they have the hash of the data and the part
 * of it.
 */
export function comparableArguments(given: unknown, references: ResolvedReferences | undefined): unknown {
  const outside = references?.used.filter(({ isOutside }) => isOutside) ?? []
  return outside.reduce<unknown>(
    (whole, { path, sha256, written }) => changedAt(whole, path, () => ({ sha256, part: partText(written) })),
    given,
  )
}

/** The part of the data that a reference selects, as it is written; empty for all of it. */
export function partText(written: string): string {
  const [, query = '', pointer = ''] = /^[^?#]*(?:\?([^#]*))?(#.*)?$/s.exec(written) ?? []
  const part = query.split('&').filter((each) => each !== '' && !each.startsWith('as='))
  return `${part.length === 0 ? '' : `?${part.join('&')}`}${pointer}`
}

/** The value at the place of a reference (`UsedReference.path`); undefined if there is none. */
export function valueAt(given: unknown, path: string): unknown {
  let found: unknown
  changedAt(given, path, (value) => {
    found = value
    return value
  })
  return found
}

/** A value with another one at the place of a reference. */
function changedAt(given: unknown, path: string, change: (value: unknown) => unknown): unknown {
  if (path === '') return change(given)
  if (Array.isArray(given)) {
    const [, index, rest = ''] = /^\[(\d+)\](.*)$/s.exec(path) ?? []
    return given.map((item: unknown, at) =>
      at === Number(index) ? changedAt(item, withoutDot(rest), change) : item,
    )
  }
  if (!isObject(given)) return given
  // A name may have any character.
  const names = Object.keys(given).filter((name) => isWithin(path, name))
  const changed = names.map((name) => {
    return [name, changedAt(given[name], withoutDot(path.slice(name.length)), change)] as const
  })
  return { ...given, ...Object.fromEntries(changed) }
}

function withoutDot(path: string): string {
  return path.startsWith('.') ? path.slice(1) : path
}
