/** Secrets in the store, encrypted with a key of the gateway and bound to their names. */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { isObject } from '../../core/json/json.ts'
import { type Lease, type LeaseMembers, Leases, type LeaseStore } from '../../durable/lease.ts'
import { parseJson } from '../../core/json/read.ts'

/** Stores secrets, encrypted, each under its own name. */
export interface TokenVault {
  read(name: Name): Promise<VaultValue | undefined>
  write(name: Name, value: VaultValue, ttl: number): Promise<void>
  /** Reads a value that is usable once. */
  take(name: Name): Promise<VaultValue | undefined>
  /** Waits for the lease of a name; undefined if that takes too long. Times are in milliseconds. */
  acquire(name: Name, ttl: number, timeout: number): Promise<Lease | undefined>
  delete(name: Name): Promise<void>
  /** A value as a text that only a vault with the same key can read, and only under this name; nothing is stored. */
  seal(name: Name, value: VaultValue): Promise<string>
  unseal(name: Name, sealed: string): Promise<VaultValue | undefined>
}

/** The name of a value: its kind first. Only a hash of it is stored. */
type Name = readonly [
  kind: 'grant' | 'turn' | 'start' | 'state' | 'client' | 'way' | 'session',
  ...rest: string[],
]

type VaultValue = Readonly<Record<string, unknown>>

const IV = 12
const TAG = 16

/**
 * A vault in a store, with AES-256-GCM. Without a key only this process can read its values. `learn` gets the secrets in
 * grants and registrations, as they are read and written. By `members`, the lease of a process that was killed is free at once.
 */
export function createTokenVault(
  store: LeaseStore,
  keyOfVault: () => Promise<Buffer> = ownKey(),
  learn: (secret: string) => void = () => undefined,
  members: () => LeaseMembers | undefined = () => undefined,
): TokenVault {
  const learnt = <Value extends VaultValue | undefined>([kind]: Name, value: Value): Value => {
    if (kind === 'grant' || kind === 'client') for (const secret of secretsIn(value)) learn(secret)
    return value
  }
  const open = async (at: string, sealed: string | undefined): Promise<VaultValue | undefined> =>
    sealed === undefined ? undefined : decrypt(sealed, at, await keyOfVault())

  return {
    read: async (name) => learnt(name, await open(keyOf(name), await store.get(keyOf(name)))),
    write: async (name, value, ttl) =>
      store.put(
        keyOf(name),
        encrypt(JSON.stringify(learnt(name, value)), keyOf(name), await keyOfVault()),
        ttl,
      ),
    take: async (name) => {
      const sealed = await store.get(keyOf(name))
      // Of several concurrent readers, only one deletes it.
      return (await store.delete(keyOf(name))) ? open(keyOf(name), sealed) : undefined
    },
    acquire: (name, ttl, timeout) => new Leases(store, members()).acquireWithin(keyOf(name), ttl, timeout),
    delete: async (name) => void (await store.delete(keyOf(name))),
    seal: async (name, value) => encrypt(JSON.stringify(value), keyOf(name), await keyOfVault()),
    unseal: async (name, sealed) => open(keyOf(name), sealed),
  }
}

function ownKey(): () => Promise<Buffer> {
  const key = Promise.resolve(randomBytes(32))
  return () => key
}

/** The key of the grant of a principal at a server, which has this name and URL. */
export function grantKey(name: string, url: string, principal: string): string {
  return keyOf(['grant', name, url, principal])
}

/** A value of a vault by its key in the store, if it was written with this key. */
export function unsealed(key: Buffer, at: string, text: string): VaultValue | undefined {
  return decrypt(text, at, key)
}

function keyOf([kind, ...rest]: Name): string {
  return `oauth:${kind}:${createHash('sha256').update(JSON.stringify(rest)).digest('base64url')}`
}

function encrypt(text: string, at: string, key: Buffer): string {
  const iv = randomBytes(IV)
  const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(at))
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64url')
}

/** A value written with another key, or moved to another name, is treated as absent. */
function decrypt(text: string, at: string, key: Buffer): VaultValue | undefined {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.length <= IV + TAG) return undefined
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, IV), { authTagLength: TAG })
    decipher.setAAD(Buffer.from(at)).setAuthTag(bytes.subarray(IV, IV + TAG))
    const value: unknown = parseJson(
      Buffer.concat([decipher.update(bytes.subarray(IV + TAG)), decipher.final()]).toString('utf8'),
    )
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** The members of grants and registrations that are secrets. */
const secretMembers: ReadonlySet<string> = new Set(['value', 'refresh', 'secret'])

function secretsIn(value: unknown): readonly string[] {
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([key, member]) => {
    if (typeof member === 'string') return secretMembers.has(key) ? [member] : []
    return secretsIn(member)
  })
}
