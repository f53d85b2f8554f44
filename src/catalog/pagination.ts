/**
 * Pagination of lists: all pages of a listing have the entries of the same list, in the same order. Another gateway that gets the
 * request for a later page lists anew, and its list may say other things of the same entries, such as how long calls take.
 */
import { LRUCache } from 'lru-cache'
import { createHash } from 'node:crypto'
import { type Call, type Handler, type Outcome, resultOf } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import { method } from '../protocol/methods.ts'

/** The maximum size in bytes of cached lists, from which later pages of a listing are served. */
const MAX_CACHE_BYTES = 16 * 1024 * 1024
const CURSOR_PREFIX = 'gatehouse.'

/**
 * A position in a list that the gateway paginates: the server's page, the entries of the list, and the number of those before it.
 */
interface Place {
  readonly cursor: string | undefined
  readonly digest: string
  readonly start: number
}

/** Splits lists that are longer than a page; a listing continues with the list it began with. */
export function withPages(next: Handler, size: number): Handler {
  const kept = new LRUCache<string, Payload>({
    maxSize: MAX_CACHE_BYTES,
    sizeCalculation: ({ text }) => text.length + 1,
  })

  const keyOf = ({ principal, target, method: name }: Call, digest: string): string =>
    `${principal.id} ${target.upstream} ${name} ${digest}`

  /** @throws INVALID_INPUT if the list has changed since */
  const listAt = async (call: Call, list: string, { cursor, digest }: Place): Promise<Payload> => {
    const known = kept.get(keyOf(call, digest))
    if (known) return known
    const result = resultOf(await next({ ...call, params: call.params.with({ cursor }) }))
    if (digestOf(result, list) === digest) return result
    throw new GatewayError(
      'INVALID_INPUT',
      'Invalid params: the list has changed, so this cursor is no longer valid.',
      {
        suggestion: 'Request the list again without a cursor.',
      },
    )
  }

  const page = (list: string, fullResult: Payload, { start, ...place }: Place): Payload => {
    const entries = fullResult.at(list)?.items ?? []
    const end = start + size
    const following =
      end < entries.length ? write({ ...place, start: end }) : (fullResult.fields.nextCursor ?? undefined)
    return fullResult.with({ [list]: Payload.list(entries.slice(start, end)), nextCursor: following })
  }

  const paged = async (call: Call, list: string): Promise<Outcome> => {
    const { cursor } = call.params.fields
    const place = read(cursor)
    if (place) return { kind: 'result', result: page(list, await listAt(call, list, place), place) }
    const outcome = await next(call)
    if (outcome.kind !== 'result') return outcome
    const entries = outcome.result.fields[list]
    if (!Array.isArray(entries) || entries.length <= size) return outcome
    const digest = digestOf(outcome.result, list)
    kept.set(keyOf(call, digest), outcome.result)
    const first = { cursor: typeof cursor === 'string' ? cursor : undefined, digest, start: 0 }
    return { kind: 'result', result: page(list, outcome.result, first) }
  }

  return (call) => {
    const { list } = method(call.method)
    return list === undefined ? next(call) : paged(call, list)
  }
}

/** Which entries a list has, in which order. */
function digestOf(result: Payload, list: string): string {
  const entries = result.at(list)?.items ?? []
  const names = entries.map(({ fields: { uri, uriTemplate, name } }) => uri ?? uriTemplate ?? name)
  return createHash('sha256').update(JSON.stringify(names)).digest('base64url').slice(0, 22)
}

function write({ cursor = '', digest, start }: Place): string {
  return `${CURSOR_PREFIX}${start}.${digest}.${Buffer.from(cursor).toString('base64url')}`
}

function read(cursor: unknown): Place | undefined {
  if (typeof cursor !== 'string' || !cursor.startsWith(CURSOR_PREFIX)) return undefined
  const [, start = '', digest = '', before = ''] =
    /^gatehouse\.(\d{1,9})\.([\w-]{22})\.([\w-]*)$/.exec(cursor) ?? []
  if (start === '') throw new GatewayError('INVALID_INPUT', 'Invalid params: this cursor is not valid.')
  const text = Buffer.from(before, 'base64url').toString()
  return { cursor: text === '' ? undefined : text, digest, start: Number(start) }
}
