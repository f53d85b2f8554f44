/**
 * Uploads that callers requested: who will own the data, under which id, and what may be sent. Each accepts one file; the
 * data has the id that was announced, so of two files that are sent at once, one is kept.
 */
import { world } from '../core/world.ts'
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { hasReachedShare, type Principal } from '../core/principal.ts'
import type { Store } from '../store/store.ts'
import { inTurn } from './in-turn.ts'
import {
  callerHash,
  callerHashIn,
  fromStoredPrincipal,
  type StoredPrincipal,
  toStoredPrincipal,
} from './principal.ts'
import { parseJson } from '../core/json/read.ts'

/** A requested upload. Times are in milliseconds since 1970. */
export interface UploadRequest {
  /** The id that the data gets. */
  readonly id: string
  readonly owner: Principal
  /** What the data is called, and what it is for; written by the caller. */
  readonly name?: string | undefined
  readonly purpose?: string | undefined
  /** The largest file, in bytes. */
  readonly maxSize: number
  /** The media types that are accepted, such as `image/*`; all of them if empty. */
  readonly types: readonly string[]
  /** What the sender announced; another file is refused. */
  readonly size?: number | undefined
  readonly sha256?: string | undefined
  /** A program sends the file: the URL is its only credential. */
  readonly isForProgram?: true | undefined
  readonly createdAt: number
  readonly expiresAt: number
  /** A file was kept. */
  readonly isDone?: true
}

/** What is known of an upload when it is requested; `ttl` is in milliseconds. */
export interface NewUpload extends Omit<
  UploadRequest,
  'id' | 'owner' | 'createdAt' | 'expiresAt' | 'isDone'
> {
  readonly ttl: number
}

/** How many uploads may be requested and not done, and how many may be known, in all; one caller may have a quarter. */
const MAX_OPEN_UPLOADS = 1000
const MAX_KNOWN_UPLOADS = 4000
/** How long a request is known after its expiry, in milliseconds. */
export const UPLOAD_RETENTION_MS = 600_000

/** The uploads of all callers. */
export class Uploads {
  readonly #store: Store
  readonly #now: () => number

  constructor(store: Store, now: () => number = world.now) {
    this.#store = store
    this.#now = now
  }

  /** @throws QUOTA_EXHAUSTED */
  async request(owner: Principal, { ttl, ...facts }: NewUpload): Promise<UploadRequest> {
    const createdAt = this.#now()
    const id = `upload_${world.randomBytes(16).toString('hex')}`
    const request: UploadRequest = { ...facts, id, owner, createdAt, expiresAt: createdAt + ttl }
    // Of several that are counted at once, each would be the last one.
    await inTurn(this.#store, async () => {
      await this.#checkQuota(owner)
      await this.#store.put(keyOf(callerHash(owner.id), id), textOf(request), ttl + UPLOAD_RETENTION_MS)
    })
    return request
  }

  /** An upload by the hash of its owner and its id. */
  async find(owner: string, id: string): Promise<UploadRequest | undefined> {
    const text = await this.#store.get(keyOf(owner, id))
    return text === undefined ? undefined : parse(text)
  }

  /** Records that the file was kept. */
  async finish({ owner, id }: UploadRequest): Promise<void> {
    const key = keyOf(callerHash(owner.id), id)
    const text = await this.#store.get(key)
    const found = text === undefined ? undefined : parse(text)
    if (text === undefined || !found) return
    const ttl = Math.max(1, found.expiresAt + UPLOAD_RETENTION_MS - this.#now())
    await this.#store.compareAndSwap(key, text, textOf({ ...found, isDone: true }), ttl)
  }

  async #checkQuota(owner: Principal): Promise<void> {
    const known = [...(await this.#store.scan(COLLECTION))]
    const open = known.filter(([, text]) => {
      const found = parse(text)
      return found !== undefined && !found.isDone && found.expiresAt > this.#now()
    })
    if (isBelow(owner, open, MAX_OPEN_UPLOADS) && isBelow(owner, known, MAX_KNOWN_UPLOADS)) return
    throw new GatewayError('QUOTA_EXHAUSTED', 'Too many uploads are requested.', {
      data: { limit: 'uploads' },
      suggestion: 'Wait until some of them are done or expire.',
    })
  }
}

/** Whether a caller may have one more of some uploads. */
function isBelow(
  owner: Principal,
  entries: readonly (readonly [key: string, text: string])[],
  limit: number,
): boolean {
  const owners = new Map(entries.map(([key]) => [key, callerHashIn(COLLECTION, key)]))
  const own = { ...owner, id: callerHash(owner.id) }
  return owners.size < limit && !hasReachedShare(own, owners, (id) => id, limit)
}

/** Throws if a caller requested an upload with this id which is not done. @throws RESOURCE_NOT_FOUND */
export async function refuseIfPending(
  { store, now }: { readonly store: Store; now(): number },
  { id: caller }: Principal,
  id: string,
): Promise<void> {
  const text = await store.get(keyOf(callerHash(caller), id))
  const found = text === undefined ? undefined : parse(text)
  if (!found || found.isDone || found.expiresAt <= now()) return
  throw new GatewayError('RESOURCE_NOT_FOUND', 'Nothing has been uploaded for this reference yet.', {
    reason: 'not_uploaded',
    suggestion: 'Wait until the person has sent the file at the URL of the upload, or request another one.',
  })
}

const COLLECTION = 'upload'

function keyOf(owner: string, id: string): string {
  return `${COLLECTION}/${owner}:${id}`
}

function textOf({ owner, ...rest }: UploadRequest): string {
  return JSON.stringify({ ...rest, owner: toStoredPrincipal(owner) })
}

function parse(text: string): UploadRequest | undefined {
  const value: unknown = parseJson(text)
  if (!isObject(value)) return undefined
  // Only this file writes them.
  const { owner, ...rest } = value as unknown as Omit<UploadRequest, 'owner'> & { owner: StoredPrincipal }
  return { ...rest, owner: fromStoredPrincipal(owner) }
}
