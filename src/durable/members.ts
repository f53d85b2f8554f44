/**
 * Who shares a store: gateways, known by heartbeats, and their instances, of which a reload makes the next one. Records name
 * their owner by its id, and whoever finds that an owner is not alive takes its records over by compare-and-swap. So an
 * owner that was only thought to have ended loses its next write, and nothing else.
 */
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { type Timer, world } from '../core/world.ts'
import { partOf } from './process-scope.ts'
import type { Store } from '../store/store.ts'

/** The gateways that share a store. */
export interface Membership {
  /** Identifies this gateway, for the lifetime of its process. */
  readonly id: string
  /**
   * Announces this gateway to the others in the current store, from now on. Must be awaited before work is left for
   * others to finish.
   */
  register(): Promise<void>
  /** Stops announcing this gateway in a replaced store, once nothing runs there any more. */
  leave(store: Store): void
  /** Whether a gateway is alive; true if that cannot be determined. */
  isAlive(id: string): Promise<boolean>
  /** Whether the process of a gateway is known to have ended, which only its own machine can tell. */
  hasEnded(id: string): boolean
  close(): Promise<void>
}

/** How long a heartbeat is valid, and how often it is sent, in milliseconds. */
const HEARTBEAT_TTL_MS = 10_000
const HEARTBEAT_INTERVAL_MS = 3000

/** The gateways of this process, by the random part of their ids. */
const localTokens = new Set<string>()

/** Creates the membership of this process. */
export function createMembership(store: () => Store): Membership {
  const own = { token: world.randomBytes(8).toString('hex'), pid: world.processId(), place: placeOfProcess() }
  localTokens.add(own.token)
  const id = `${own.token}.${own.pid}.${own.place}`
  /** The stores in which this gateway is announced, with the first heartbeat there. */
  const announced = new Map<Store, Promise<void>>()
  let timer: Timer | undefined
  /** When a heartbeat of this gateway failed last, by `world.monotonic()`. */
  let failedAt = Number.NEGATIVE_INFINITY

  const beat = async (target: Store): Promise<void> => {
    try {
      await target.put(keyOf(id), '1', HEARTBEAT_TTL_MS)
    } catch (error) {
      failedAt = world.monotonic()
      throw error
    }
  }
  const beatAll = (): void => {
    for (const each of announced.keys()) void beat(each).catch(() => undefined)
  }
  return {
    id,
    register: () => {
      const current = store()
      const done = announced.get(current)
      if (done) return done
      const first = beat(current)
      announced.set(current, first)
      // A failed heartbeat is sent again by the next caller that needs it.
      first.catch(() => announced.delete(current))
      timer ??= world.setInterval(beatAll, HEARTBEAT_INTERVAL_MS).unref()
      return first
    },
    leave: (left) => void announced.delete(left),
    isAlive: async (other) => {
      if (other === id) return true
      if (hasEnded(other, own)) return false
      try {
        if ((await store().get(keyOf(other))) !== undefined) return true
        // While the store takes no writes, the heartbeats of all gateways expire. They get the time to send the next one.
        return world.monotonic() - failedAt < HEARTBEAT_TTL_MS
      } catch {
        return true
      }
    },
    hasEnded: (other) => hasEnded(other, own),
    close: async () => {
      world.clearInterval(timer)
      localTokens.delete(own.token)
      const stores = [...announced.keys()]
      announced.clear()
      await Promise.allSettled(stores.map((each) => each.delete(keyOf(id))))
    },
  }
}

/** The instances of a gateway that have not ended, by the last part of their ids. */
class LiveInstances {
  readonly ids = new Set<string>()
}

/** A key by which an instance tells other processes that it is alive; without one they see only whether its process is. */
interface Announcement {
  readonly store: Store
  readonly keyPrefix: string
  readonly ttlMs: number
}

/**
 * One of the successive parts of a gateway that do the same work: a reload makes the next one, which must not do the work
 * of the one before, until that one has ended.
 */
export class Instance {
  /** The id of its gateway, a separator, and a part of its own. */
  readonly id: string
  readonly #own = world.randomBytes(6).toString('hex')
  readonly #membership: Membership
  readonly #live: Set<string>
  readonly #announcement: Announcement | undefined
  #announcedAt = Number.NEGATIVE_INFINITY

  /** The separator is that of the stored records of this kind. */
  constructor(membership: Membership, separator: '#' | '/', announcement?: Announcement) {
    this.#membership = membership
    this.#announcement = announcement
    this.#live = partOf(membership, LiveInstances).ids
    this.id = `${membership.id}${separator}${this.#own}`
    this.#live.add(this.#own)
  }

  /** Says that it is alive, unless it did so lately; to be awaited before its id is stored. @throws SERVER_UNAVAILABLE */
  async register(now = world.monotonic()): Promise<void> {
    await this.#membership.register()
    if (!this.#announcement) return
    const { store, keyPrefix, ttlMs } = this.#announcement
    // A clock that was set back does not say how long ago it was.
    if (now >= this.#announcedAt && now - this.#announcedAt < ttlMs / 3) return
    await store.put(`${keyPrefix}${this.id}`, '1', ttlMs)
    this.#announcedAt = now
  }

  /** Whether an instance of this or another gateway is alive. @throws SERVER_UNAVAILABLE */
  async isAlive(id: string): Promise<boolean> {
    if (id === this.id) return true
    const [, gateway, own] = /^(.*)[#/](.*)$/.exec(id) ?? []
    if (gateway === undefined || own === undefined) return false
    if (gateway === this.#membership.id) return this.#live.has(own)
    const { store, keyPrefix } = this.#announcement ?? {}
    if (store && (await store.get(`${keyPrefix}${id}`)) === undefined) return false
    return this.#membership.isAlive(gateway)
  }

  /** Leaves its records to others. */
  async end(): Promise<void> {
    this.#live.delete(this.#own)
    if (!this.#announcement || this.#announcedAt === Number.NEGATIVE_INFINITY) return
    const { store, keyPrefix } = this.#announcement
    await store.delete(`${keyPrefix}${this.id}`).catch(() => false)
  }
}

interface Own {
  readonly token: string
  readonly pid: number
  readonly place: string
}

/** Whether the process of an id is known to have ended: only its own machine can tell. */
function hasEnded(other: string, own: Own): boolean {
  const [token, pid, ...place] = other.split('.')
  if (place.join('.') !== own.place || !/^\d+$/.test(pid ?? '')) return false
  if (Number(pid) === own.pid) return !localTokens.has(token ?? '')
  return !world.isRunning(Number(pid))
}

/** Identifies the machine since its last boot, and the PID namespace. */
function placeOfProcess(): string {
  const machine = world.machine()
  if (machine !== undefined) return machine
  const boot = attempt(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim())
  // For example `pid:[4026531836]`.
  const namespace = attempt(() => /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0])
  return encodeURIComponent([boot ?? hostname(), namespace ?? ''].join('-'))
}

/** Reads what only Linux provides. */
function attempt(read: () => string | undefined): string | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}

function keyOf(id: string): string {
  return `${PREFIX}${id}`
}

const PREFIX = 'alive:'

/** The gateway that a key in a store says is alive; undefined if it is another key. */
export function memberIn(key: string): string | undefined {
  return key.startsWith(PREFIX) ? key.slice(PREFIX.length) : undefined
}
