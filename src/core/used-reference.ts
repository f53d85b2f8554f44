/** References that the arguments of a call had: where they were, and what they stood for. */
import { isObject } from './json/json.ts'
import type { Payload } from './payload.ts'

/** What one reference stood for. */
export interface UsedReference {
  /** Where it was in the arguments. */
  readonly path: string
  /** As the caller wrote it: `ref://<id>`, and the part that it selects. */
  readonly written: string
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

/** The value at the place of a reference (`UsedReference.path`); undefined if there is none. */
export function valueAt(given: unknown, path: string): unknown {
  if (path === '') return given
  if (Array.isArray(given)) {
    const [, index, rest = ''] = /^\[(\d+)\](.*)$/s.exec(path) ?? []
    return index === undefined ? undefined : valueAt(given[Number(index)], withoutDot(rest))
  }
  if (!isObject(given)) return undefined
  // A name may have any character.
  for (const [name, value] of Object.entries(given)) {
    const found = isWithin(path, name) ? valueAt(value, withoutDot(path.slice(name.length))) : undefined
    if (found !== undefined) return found
  }
  return undefined
}

function withoutDot(path: string): string {
  return path.startsWith('.') ? path.slice(1) : path
}
