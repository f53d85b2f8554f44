/**
 * Data that callers refer to instead of holding it: for each one a record with its facts, and a blob with its bytes.
 *
 * Invariant: the record is written after the blob and removed before it, so a record always has its bytes. A blob
 * without a record is unfinished or expired; `sweep` deletes it. The clocks of processes may differ, so a blob that seems old
 * may be about to get its record: the sweep announces what it deletes before it reads the records, and whoever writes a record
 * looks for that announcement, and for the blob, afterwards. One of the two sees the other, and gives way.
 */
import { world } from '../core/world.ts'
import type { Call } from '../core/call.ts'
import { referencesSlot } from '../core/used-reference.ts'
import { asGatewayError, GatewayError, invalidParam } from '../core/error.ts'
import type { Principal } from '../core/principal.ts'
import {
  type BlobEntry,
  type BlobFacts,
  type Bytes,
  type ByteRange,
  deletedUnfinished,
  Digest,
  WHOLE,
} from '../store/blobs/blobs.ts'
import type { Store } from '../store/store.ts'
import { withinCapacity } from '../durable/bounds.ts'
import { asJson, Collection, type RecordKind } from '../durable/collection.ts'
import { plainName, UPLOADS } from './plain-name.ts'
import { isSpooled } from './spool.ts'
import { ownedId } from './principal.ts'
import { Uploads } from './uploads.ts'

/** Kept data of one caller, whose id is `caller`. Times are in milliseconds since 1970. */
export interface Reference {
  /** Unique for its caller. */
  readonly id: string
  readonly caller: string
  readonly blob: string
  /** The server that the data came from, or `UPLOADS`, and the tool. */
  readonly server: string
  readonly tool?: string
  /** The call that returned it (`Call.requestId`), if one did. */
  readonly requestId?: string
  /** What people call it. */
  readonly name: string
  /** The media type. */
  readonly type: string
  /** In bytes. */
  readonly size: number
  /** SHA-256 in hex. */
  readonly sha256: string
  readonly createdAt: number
  /** No read of it begins after that. */
  readonly expiresAt: number
  /** Until then its bytes are there although it may have expired, for readers that began before. */
  readonly heldUntil?: number
}

/** Where the bytes of data are, and what they are. */
export type KeptBlob = Pick<Reference, 'blob' | 'size' | 'sha256'>

/** What is known of data before it is kept; without `id` it gets one that cannot be guessed. `ttl` is in milliseconds. */
export interface NewReference extends Pick<Reference, 'server' | 'tool' | 'requestId' | 'name' | 'type'> {
  readonly id?: string | undefined
  readonly ttl: number
}

/** How many references are kept in all; one caller may have a quarter. */
const MAX_REFERENCES = 4000
/** How old a blob without a record is before it is deleted, in milliseconds: it may be about to get one. */
const UNFINISHED_MS = 600_000

/** How long a sweep may take to delete what it announced, in milliseconds, and how long the announcement is kept. */
const SWEEP_MS = 30_000
const ANNOUNCED_MS = 2 * SWEEP_MS

/** The characters of an id. */
const ID = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/

/** The references of all callers. */
export class References {
  readonly #store: Store
  readonly #kept: Collection<Reference>
  readonly #now: () => number

  /** `total` limits the data of all callers, in bytes; one caller may use a quarter. */
  constructor(store: Store, { total }: { readonly total: number }, now: () => number = world.now) {
    this.#store = store
    const bytes = Math.min(total, store.blobs.capacity ?? Infinity)
    const bounds = { count: MAX_REFERENCES, bytes, sizeOf: ({ size }: Reference) => size, refuse }
    this.#kept = new Collection(store, { ...referenceKind, bounds: [bounds] }, now)
    this.#now = now
  }

  /** Whether a text can be the id of a reference. */
  static isId(text: string): boolean {
    return ID.test(text)
  }

  /** Keeps data for a caller. @throws QUOTA_EXHAUSTED, CONFLICT if the caller has other data with this id */
  async add(
    principal: Principal,
    { id = newId(), ...facts }: NewReference,
    bytes: Bytes,
  ): Promise<Reference> {
    const blob = world.randomBytes(16).toString('hex')
    const capacity = await this.#kept.capacity(ownedId(principal, id), principal)
    if (capacity.count <= 0) throw tooMany()
    this.#mustTakeWrites()
    const kept = await this.#store.blobs.put(
      blob,
      withinCapacity(this.#store, principal.id, {
        bytes,
        capacity,
        refuse: () => tooLarge(Math.min(capacity.all, capacity.own)),
      }),
    )
    try {
      return await this.adopt(principal, { ...facts, id }, { blob, ...kept })
    } catch (error) {
      await this.#deleteUnused(ownedId(principal, id), blob)
      throw error
    }
  }

  /** Deletes a blob, unless its record may be there. What remains without one is left to `sweep`. */
  async #deleteUnused(id: string, blob: string): Promise<void> {
    try {
      if ((await this.#kept.get(id))?.blob !== blob) await this.#store.blobs.delete(blob)
    } catch {
      // The error that led here says more.
    }
  }

  /** The same for data that is a blob already: it belongs to the reference then. @throws QUOTA_EXHAUSTED, CONFLICT */
  async adopt(
    principal: Principal,
    { ttl, id = newId(), ...facts }: NewReference,
    blob: KeptBlob,
  ): Promise<Reference> {
    const createdAt = this.#now()
    const record: Reference = {
      ...facts,
      name: plainName(facts.name),
      id,
      caller: principal.id,
      ...blob,
      createdAt,
      expiresAt: createdAt + ttl,
    }
    await this.#record(principal, record)
    return record
  }

  /** Checks an id that a caller chose. @throws INVALID_INPUT, CONFLICT if the caller has other data with it */
  async mustBeFree(principal: Principal, id: string): Promise<void> {
    if (!ID.test(id)) throw invalidParam('ref_id', 'must be 1 to 64 letters, digits, _, - and .')
    if (await this.#kept.has(ownedId(principal, id))) throw taken(id)
  }

  /**
   * The record of a reference; undefined if the caller has none with this id.
   * @throws RESOURCE_NOT_FOUND if the caller requested its upload, which is not done
   */
  async find(principal: Principal, id: string): Promise<Reference | undefined> {
    if (!ID.test(id)) return undefined
    const record = await this.#kept.get(ownedId(principal, id))
    const found = record && record.expiresAt > this.#now() ? record : undefined
    if (!found) await new Uploads(this.#store, this.#now).refuseIfPending(principal, id)
    return found
  }

  /** Keeps a reference at least until a time, in milliseconds since 1970. */
  async extend(principal: Principal, id: string, until: number): Promise<void> {
    await keepReferences(this.#store, principal, { ids: [id], until, now: this.#now })
  }

  /** Holds the bytes of a reference for a reader until a time, in milliseconds since 1970; it expires as before. */
  async hold({ caller, id, blob }: Reference, until: number): Promise<void> {
    await this.#kept.update(ownedId({ id: caller }, id), (before) =>
      before?.blob === blob && lastOf(before) < until ? { ...before, heldUntil: until } : 'keep',
    )
  }

  /** The bytes of a reference. @throws RESOURCE_NOT_FOUND if it was removed meanwhile, CONFLICT if it is not as it was */
  async open(reference: KeptBlob, range?: ByteRange): Promise<Bytes> {
    const bytes = await this.#store.blobs.open(reference.blob, range)
    if (!bytes) throw unknownReference()
    return unchanged(bytes, reference, range)
  }

  /** All references of all callers, the oldest first. */
  async all(): Promise<readonly Reference[]> {
    return (await this.#kept.all()).toSorted((one, other) => one.createdAt - other.createdAt)
  }

  /** Deletes a reference and its data, whatever needs them, but no other data with this id; resolves with whether it was there. */
  async drop({ caller, id, blob }: Reference): Promise<boolean> {
    const isDropped = await this.#kept.change(ownedId({ id: caller }, id), (before) =>
      before?.blob === blob ? ['remove', true] : ['keep', false],
    )
    if (isDropped) await this.#store.blobs.delete(blob)
    return isDropped
  }

  /** Deletes data that has no record, because it expired or never got one; resolves with how many there were. */
  async sweep(): Promise<number> {
    const { blobs } = this.#store
    const old = this.#now() - UNFINISHED_MS
    const candidates = (await blobs.list()).filter(
      ({ id, writtenAt }) => writtenAt < old && !isSpooled(blobs, id),
    )
    if (candidates.length === 0) return 0
    const unused = await this.#unused(candidates)
    const startedAt = world.monotonic()
    for (const { id } of unused) await this.#store.put(announcedKey(id), '', ANNOUNCED_MS)
    let deleted = 0
    for (const { id } of await this.#unused(unused)) {
      if (world.monotonic() - startedAt > SWEEP_MS) break
      await blobs.delete(id)
      deleted++
    }
    for (const { id } of unused) await this.#store.delete(announcedKey(id))
    return deleted
  }

  async #unused(blobs: readonly BlobEntry[]): Promise<readonly BlobEntry[]> {
    const used = new Set((await this.#kept.all()).map(({ blob }) => blob))
    return blobs.filter(({ id }) => !used.has(id))
  }

  /** Whether a sweep deletes a blob, or has deleted it. */
  async #isSwept(blob: string): Promise<boolean> {
    if ((await this.#store.get(announcedKey(blob))) !== undefined) return true
    return (await this.#store.blobs.open(blob, NOTHING)) === undefined
  }

  /** A blob would be left without a record. */
  #mustTakeWrites(): void {
    if (this.#store.unavailableReason !== undefined)
      throw new GatewayError(
        'SERVER_UNAVAILABLE',
        'The store of the gateway cannot be used. Nothing was kept.',
      )
  }

  /** Writes the record of a blob. @throws QUOTA_EXHAUSTED, CONFLICT */
  async #record(principal: Principal, record: Reference): Promise<void> {
    const id = ownedId(principal, record.id)
    const existing = await this.#kept.insert(id, record, principal)
    // A store that is asked again after its answer was lost finds what it wrote the first time.
    if (existing && existing.record?.blob !== record.blob) throw taken(record.id)
    try {
      if (await this.#isSwept(record.blob)) throw deletedUnfinished()
    } catch (error) {
      // A record that has changed is in use already.
      if (await this.#kept.withdraw(id, record)) throw error
    }
  }
}

/**
 * Keeps references of a caller at least until a time, in milliseconds since 1970: a record needs them that lasts that long.
 * Nothing expires earlier than before. They count toward the limits for as long as they are kept. Resolves with whether all
 * of them are still there.
 */
export async function keepReferences(
  store: Store,
  principal: Pick<Principal, 'id'>,
  { ids, until, now = world.now }: { ids: Iterable<string>; until: number; now?: () => number },
): Promise<boolean> {
  const references = new Collection(store, referenceKind, now)
  const kept = await Promise.all(
    [...new Set(ids)].map((id) =>
      references.update(ownedId(principal, id), (before) =>
        before && isWithin(before.expiresAt, now(), until) ? { ...before, expiresAt: until } : 'keep',
      ),
    ),
  )
  return kept.every((each) => each !== undefined && each.expiresAt > now())
}

/** Whether a reference that has not expired does so before a time. */
function isWithin(expiresAt: number, now: number, until: number): boolean {
  return now < expiresAt && expiresAt < until
}

/** Until when the bytes of a reference are there. */
function lastOf({ expiresAt, heldUntil }: Reference): number {
  // Another program may have written anything there.
  return typeof heldUntil === 'number' ? Math.max(expiresAt, heldUntil) : expiresAt
}

/** The same for the data that a call used; true if it used none. */
export async function keepUsed(
  store: Store,
  call: Pick<Call, 'slots' | 'principal'>,
  until: number,
): Promise<boolean> {
  const ids = referencesSlot.of(call)?.used.map(({ id }) => id) ?? []
  return keepReferences(store, call.principal, { ids, until })
}

/** Why some data is not kept, in words; undefined if all of it is. */
export function whyNotKept(keeping: Promise<boolean>): Promise<string | undefined> {
  return keeping.then(
    (isKept) => (isKept ? undefined : 'some of the data has expired'),
    (error: unknown) => asGatewayError(error).message,
  )
}

/** How many references there are in a store, and how large they are, by kind: results of calls, and what callers sent. */
export async function referenceLevels(
  store: Store,
): Promise<Record<'result' | 'upload', { readonly count: number; readonly bytes: number }>> {
  const levels = { result: { count: 0, bytes: 0 }, upload: { count: 0, bytes: 0 } }
  for (const reference of await new Collection(store, referenceKind).all()) {
    const level = levels[reference.server === UPLOADS ? 'upload' : 'result']
    level.count++
    level.bytes += reference.size
  }
  return levels
}

/**
 * The same bytes. The last chunk is held back until it is known that nothing has changed, so that a part is never taken for
 * the whole. All bytes are compared by their SHA-256, a range by its size. @throws CONFLICT if they are different
 */
async function* unchanged(
  bytes: Bytes,
  { size, sha256 }: BlobFacts,
  range: ByteRange = WHOLE,
): AsyncGenerator<Uint8Array> {
  const isWhole = range.start === 0 && range.end >= size
  const expected = Math.max(0, Math.min(range.end, size) - range.start)
  const digest = isWhole ? new Digest() : undefined
  let seen = 0
  let last: Uint8Array | undefined
  for await (const chunk of bytes) {
    digest?.add(chunk)
    seen += chunk.byteLength
    if (seen > expected) throw dataChanged()
    if (last) yield last
    last = chunk
  }
  if (seen !== expected || (digest && digest.facts().sha256 !== sha256)) throw dataChanged()
  if (last) yield last
}

function dataChanged(): GatewayError {
  return new GatewayError('CONFLICT', 'The kept data has changed in the store. It cannot be used.', {
    reason: 'checksum',
    suggestion: 'Make the call again that returned it, with another idempotency key if it had one.',
  })
}

/** The error for a reference that the caller does not have, for whatever reason. */
export function unknownReference(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'There is no such reference, or it has expired.', {
    suggestion: 'Make the call again that returned it, with another idempotency key if it had one.',
  })
}

const referenceKind: RecordKind<Reference> = {
  name: 'reference',
  prefix: 'reference/',
  ...asJson<Reference>({
    string: ['id', 'caller', 'blob', 'server', 'name', 'type', 'sha256'],
    number: ['size', 'createdAt', 'expiresAt'],
  }),
  ttlOf: (reference, now) => lastOf(reference) - now,
  isStrict: true,
}

const NOTHING: ByteRange = { start: 0, end: 0 }

/** Says that a sweep deletes a blob. */
function announcedKey(blob: string): string {
  return `blob-swept:${blob}`
}

function newId(): string {
  return `ref_${world.randomBytes(16).toString('hex')}`
}

function taken(id: string): GatewayError {
  return new GatewayError('CONFLICT', `You have other data under the reference ${id}.`, {
    suggestion: 'Choose another id, or none.',
  })
}

function refuse(limit: 'count' | 'bytes', left: number): GatewayError {
  return limit === 'count' ? tooMany() : tooLarge(left)
}

function tooMany(): GatewayError {
  return new GatewayError('QUOTA_EXHAUSTED', 'Too many references are kept.', {
    data: { limit: 'references' },
    suggestion: 'Wait until some of them expire.',
  })
}

function tooLarge(left: number): GatewayError {
  return new GatewayError('QUOTA_EXHAUSTED', `There is room for ${left} more bytes of kept data.`, {
    data: { limit: 'reference_bytes' },
    suggestion: 'Wait until other references expire, or request less.',
  })
}
