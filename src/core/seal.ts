/**
 * Seals values into opaque texts that callers keep: AES-256-GCM with a purpose, a binding and an expiry. A text can be
 * opened any number of times.
 *
 * Invariant: a text opens only for the purpose and the binding that it was sealed for. A forged text and a text of
 * another caller fail in the same way, before anything is looked up.
 */
import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject } from 'node:crypto'
import { world } from './world.ts'
import { parseJson } from './json/read.ts'

/** What a text is sealed for. */
export interface SealUse {
  /** The kind of text, such as `task` or `checkpoint`: a text of one kind is never taken for another. */
  readonly purpose: string
  /** Whom and what it belongs to, such as a caller and a route; not in the text. */
  readonly binding: string
}

/** What became of a text that was opened. `nonce` is unique to each sealed text. */
type Unsealed =
  | { readonly kind: 'valid'; readonly value: unknown; readonly nonce: string }
  | { readonly kind: 'expired' }
  | { readonly kind: 'invalid'; readonly cause?: unknown }

/** Seals values, and opens what was sealed. */
export interface Seal {
  /** A text in base64url that holds a JSON value. It expires at `until`, in milliseconds since 1970; 0: never. */
  close(value: unknown, use: SealUse, until: number): string
  /** The value of a text. Never throws. */
  open(text: string, use: SealUse): Unsealed
  /**
   * Whether every process that shares the keys can open what is sealed. Until then, a text that does not open may still
   * be a valid one.
   */
  isShared(): boolean
}

const IV_BYTES = 12
const TAG_BYTES = 16
const EXPIRY_BYTES = 6

/**
 * A seal with keys of 32 bytes: the first one seals, any of them opens. `now` is the clock, in milliseconds since 1970.
 * Without `keys` it opens only what it sealed itself.
 */
export function createSeal(
  now: () => number,
  keys: () => readonly Buffer[] = ownKeys(),
  isShared: () => boolean = () => true,
): Seal {
  return {
    isShared,

    close(value, use, until) {
      const [key] = keys()
      if (!key) throw new TypeError('a seal needs a key')
      const iv = world.randomBytes(IV_BYTES)
      const cipher = createCipheriv('aes-256-gcm', keyObject(key), iv).setAAD(associated(use))
      const plain = Buffer.from(`${' '.repeat(EXPIRY_BYTES)}${JSON.stringify(value)}`)
      plain.writeUIntBE(until, 0, EXPIRY_BYTES)
      const sealed = cipher.update(plain)
      // The mode has no last block, and final() computes the tag.
      cipher.final()
      return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64url')
    },

    open(text, use) {
      const bytes = Buffer.from(text, 'base64url')
      if (bytes.length <= IV_BYTES + TAG_BYTES + EXPIRY_BYTES) return { kind: 'invalid' }
      let cause: unknown
      for (const key of keys()) {
        try {
          return opened(bytes, decrypt(bytes, key, use), now())
        } catch (error) {
          cause ??= error
        }
      }
      return { kind: 'invalid', cause }
    },
  }
}

function opened(bytes: Buffer, plain: Buffer, now: number): Unsealed {
  const until = plain.readUIntBE(0, EXPIRY_BYTES)
  if (until !== 0 && until < now) return { kind: 'expired' }
  const value: unknown = parseJson(plain.toString('utf8', EXPIRY_BYTES))
  // Other spellings of the same base64 have the same nonce.
  return { kind: 'valid', value, nonce: bytes.toString('base64', 0, IV_BYTES) }
}

function decrypt(bytes: Buffer, key: Buffer, use: SealUse): Buffer {
  const options = { authTagLength: TAG_BYTES }
  const decipher = createDecipheriv('aes-256-gcm', keyObject(key), bytes.subarray(0, IV_BYTES), options)
  decipher.setAAD(associated(use)).setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES))
  return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), decipher.final()])
}

/** The purpose and the binding as bytes, so that no two pairs have the same. */
function associated({ purpose, binding }: SealUse): Buffer {
  return Buffer.from(JSON.stringify([purpose, binding]))
}

/** Keys as the library takes them: to import one takes longer than to seal a short text. */
const keyObjects = new WeakMap<Buffer, KeyObject>()

function keyObject(key: Buffer): KeyObject {
  const known = keyObjects.get(key)
  if (known) return known
  const imported = createSecretKey(key)
  keyObjects.set(key, imported)
  return imported
}

function ownKeys(): () => readonly Buffer[] {
  const keys = [world.randomBytes(32)]
  return () => keys
}
