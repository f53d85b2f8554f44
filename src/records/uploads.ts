/**
 * Uploads that callers requested: who will own the data, under which id, and what may be sent. Each accepts one file; the
 * data has the id that was announced, so of two files that are sent at once, one is kept.
 */
import { world } from '../core/world.ts'
import { GatewayError } from '../core/error.ts'
import { readJson } from '../core/json/json.ts'
import type { Principal } from '../core/principal.ts'
import { Collection, hasMembers, type RecordKind } from '../durable/collection.ts'
import type { Store } from '../store/store.ts'
import {
  callerHash,
  fromStoredPrincipal,
  ownedId,
  type StoredPrincipal,
  toStoredPrincipal,
} from './principal.ts'

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
  readonly #kept: Collection<UploadRequest>
  readonly #now: () => number

  constructor(store: Store, now: () => number = world.now) {
    const open = {
      count: MAX_OPEN_UPLOADS,
      sizeOf: (upload: UploadRequest) => (isOpen(upload, now()) ? 0 : undefined),
    }
    const known = { count: MAX_KNOWN_UPLOADS }
    this.#kept = new Collection(
      store,
      { ...uploadKind, bounds: [open, known].map((each) => ({ ...each, refuse: tooMany })) },
      now,
    )
    this.#now = now
  }

  /** @throws QUOTA_EXHAUSTED */
  async request(owner: Principal, { ttl, ...facts }: NewUpload): Promise<UploadRequest> {
    const createdAt = this.#now()
    const id = `upload_${world.randomBytes(16).toString('hex')}`
    const request: UploadRequest = { ...facts, id, owner, createdAt, expiresAt: createdAt + ttl }
    await this.#kept.insert(ownedId(owner, id), request, owner)
    return request
  }

  /** An upload by the hash of its owner and its id. */
  find(owner: string, id: string): Promise<UploadRequest | undefined> {
    return this.#kept.get(`${owner}:${id}`)
  }

  /** Records that the file was kept. */
  async finish({ owner, id }: UploadRequest): Promise<void> {
    await this.#kept.update(ownedId(owner, id), (before) => (before ? { ...before, isDone: true } : 'keep'))
  }

  /** Throws if a caller requested an upload with this id which is not done. @throws RESOURCE_NOT_FOUND */
  async refuseIfPending({ id: caller }: Principal, id: string): Promise<void> {
    const found = await this.find(callerHash(caller), id)
    if (!found || !isOpen(found, this.#now())) return
    throw new GatewayError('RESOURCE_NOT_FOUND', 'Nothing has been uploaded for this reference yet.', {
      reason: 'not_uploaded',
      suggestion: 'Wait until the person has sent the file at the URL of the upload, or request another one.',
    })
  }
}

const uploadKind: RecordKind<UploadRequest> = {
  name: 'upload',
  prefix: 'upload/',
  encode: ({ owner, ...rest }) => JSON.stringify({ ...rest, owner: toStoredPrincipal(owner) }),
  decode: (text) => {
    const value: unknown = readJson(text)
    if (!isStoredUpload(value)) return undefined
    const { owner, ...rest } = value
    return { ...rest, owner: fromStoredPrincipal(owner) }
  },
  ttlOf: ({ expiresAt }, now) => expiresAt + UPLOAD_RETENTION_MS - now,
}

interface StoredUpload extends Omit<UploadRequest, 'owner'> {
  readonly owner: StoredPrincipal
}

const isStoredUpload = hasMembers<StoredUpload>({
  string: ['id'],
  number: ['maxSize', 'createdAt', 'expiresAt'],
  principal: ['owner'],
  list: ['types'],
})

function isOpen({ isDone, expiresAt }: UploadRequest, now: number): boolean {
  return !isDone && expiresAt > now
}

function tooMany(): GatewayError {
  return new GatewayError('QUOTA_EXHAUSTED', 'Too many uploads are requested.', {
    data: { limit: 'uploads' },
    suggestion: 'Wait until some of them are done or expire.',
  })
}
