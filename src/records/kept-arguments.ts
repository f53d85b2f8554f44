/**
 * Arguments that are stored by reference: data that is too large for a record, and is kept as long as the record. They are
 * restored exactly, or not at all.
 */
import { follow } from '../core/json/path.ts'
import { GatewayError } from '../core/error.ts'
import { canonicalHash } from '../core/json/canonical-hash.ts'
import { isObject, readJson } from '../core/json/json.ts'
import type { Principal } from '../core/principal.ts'
import {
  changedAt,
  partText,
  type Place,
  type ResolvedReferences,
  type UsedReference,
} from '../core/used-reference.ts'
import { collected } from '../store/blobs/blobs.ts'
import type { Store } from '../store/store.ts'
import { References } from './references.ts'

/** Where data belongs in stored arguments, and which. */
export interface KeptArgument {
  readonly place: Place
  readonly id: string
  /** The hash of the data, and that of the value that was made of it (`canonicalHash`). */
  readonly sha256: string
  readonly value: string
}

type Arguments = Readonly<Record<string, unknown>>

/** How deep values are looked for. */
const MAX_DEPTH = 32

/**
 * Arguments with references in place of the data that a call got from references; `given` are the arguments of that call.
 * Undefined if they have none of it.
 */
export function withoutData(
  args: Arguments,
  given: Arguments,
  { used }: ResolvedReferences,
): { readonly arguments: Arguments; readonly kept: readonly KeptArgument[] } | undefined {
  const whole = used.filter(({ written, isOutside }) => partText(written) === '' && !isOutside)
  const values = new Map(whole.map((each) => [follow(given, each.place), each] as const))
  values.delete(undefined)
  const kept: KeptArgument[] = []
  const replaced = (value: unknown, place: Place): unknown => {
    const reference = values.get(value)
    if (reference) {
      kept.push(keptArgument(reference, value, place))
      return `ref://${reference.id}`
    }
    if (place.length >= MAX_DEPTH) return value
    if (Array.isArray(value)) return value.map((item, index) => replaced(item, [...place, index]))
    return isObject(value)
      ? replacedMembers(value, (member, name) => replaced(member, [...place, name]))
      : value
  }
  const short = replacedMembers(args, (value, name) => replaced(value, [name]))
  return kept.length === 0 ? undefined : { arguments: short, kept }
}

/** Whether arguments have a path or a URL of data that a call got: it does not work any more once the call has ended. */
export function haveOutsideData(args: Arguments, given: Arguments, { used }: ResolvedReferences): boolean {
  const places = used.filter(({ isOutside }) => isOutside).map(({ place }) => follow(given, place))
  if (places.length === 0) return false
  const text = JSON.stringify(args)
  return places.some(
    (place) => typeof place === 'string' && text.includes(JSON.stringify(place).slice(1, -1)),
  )
}

function keptArgument({ id, sha256 }: UsedReference, value: unknown, place: Place): KeptArgument {
  return { place, id, sha256, value: canonicalHash(value) }
}

function replacedMembers(value: Arguments, replace: (value: unknown, name: string) => unknown): Arguments {
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, replace(member, name)]))
}

/** The arguments with the data in its places again. @throws RESOURCE_NOT_FOUND, CONFLICT if it is other data now */
export async function withData(
  args: Arguments,
  kept: readonly KeptArgument[],
  { principal, store }: { readonly principal: Principal; readonly store: Store },
): Promise<Arguments> {
  // Only read here, so the limit does not matter.
  const references = new References(store, { total: 0 })
  let whole: unknown = args
  for (const each of kept) {
    const value = await valueOf(each, principal, references)
    whole = changedAt(whole, each.place, () => value)
  }
  return isObject(whole) ? whole : args
}

async function valueOf(
  { id, sha256, value }: KeptArgument,
  principal: Principal,
  references: References,
): Promise<unknown> {
  const reference = await references.find(principal, id)
  if (!reference)
    throw lost('RESOURCE_NOT_FOUND', `The data that undoes the call is not kept any more: ref://${id}.`)
  const bytes = await collected(await references.open(reference))
  const forms = [
    () => bytes.toString(),
    () => readJson(bytes.toString()),
    () => bytes.toString('base64'),
    () => `data:${reference.type};base64,${bytes.toString('base64')}`,
  ]
  for (const form of forms) {
    const found = form()
    if (reference.sha256 === sha256 && canonicalHash(found) === value) return found
  }
  throw lost('CONFLICT', `The data that undoes the call has changed: ref://${id}.`)
}

function lost(code: 'RESOURCE_NOT_FOUND' | 'CONFLICT', message: string): GatewayError {
  return new GatewayError(code, message, {
    isUserActionable: true,
    suggestion: 'Restore the data by hand; nothing was changed.',
  })
}
