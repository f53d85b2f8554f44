/** The processes that share a store, by heartbeats: who is alive, and which one this is. */
import { randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import type { Store } from '../store/store.ts'

/** Which gateways share a store. */
export interface Membership {
  /** Names this one, for as long as its process lives. */
  readonly id: string
  /**
   * Makes others who use the store of the moment see that this one lives, from now on. Has to be awaited before
   * anything is left to be finished.
   */
  register(): Promise<void>
  /** Is seen no more in a store that was replaced, once nothing goes on there. */
  leave(store: Store): void
  /** Whether the gateway of a name lives; one that is not sure is taken for alive. */
  isAlive(id: string): Promise<boolean>
  close(): Promise<void>
}

/** For how long a sign of life holds, and how often it is given, in milliseconds. */
const HEARTBEAT_TTL_MS = 10_000
const HEARTBEAT_INTERVAL_MS = 3000

/** The gateways of this process, by the random part of their names. */
const living = new Set<string>()

/** Tells gateways that share a store which of them live. */
export function createMembership(store: () => Store): Membership {
  const own = { token: randomBytes(8).toString('hex'), pid: process.pid, place: placeOfProcess() }
  living.add(own.token)
  const id = `${own.token}.${own.pid}.${own.place}`
  /** The stores it is seen in, until each is left, and its first sign there. */
  const announced = new Map<Store, Promise<void>>()
  let timer: NodeJS.Timeout | undefined

  const beat = (seenIn: Store): Promise<void> => seenIn.put(keyOf(id), '1', HEARTBEAT_TTL_MS)
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
      // A sign of life that could not be given is tried again by the next one who needs it.
      first.catch(() => announced.delete(current))
      timer ??= setInterval(beatAll, HEARTBEAT_INTERVAL_MS).unref()
      return first
    },
    leave: (left) => void announced.delete(left),
    isAlive: async (other) => {
      if (other === id) return true
      if (isGone(other, own)) return false
      try {
        return (await store().get(keyOf(other))) !== undefined
      } catch {
        return true
      }
    },
    close: async () => {
      clearInterval(timer)
      living.delete(own.token)
      const stores = [...announced.keys()]
      announced.clear()
      await Promise.allSettled(stores.map((each) => each.delete(keyOf(id))))
    },
  }
}

interface Own {
  readonly token: string
  readonly pid: number
  readonly place: string
}

/** Whether the process of a name is known to have ended: only its own machine can tell. */
function isGone(other: string, own: Own): boolean {
  const [token, pid, ...place] = other.split('.')
  if (place.join('.') !== own.place || !/^\d+$/.test(pid ?? '')) return false
  if (Number(pid) === own.pid) return !living.has(token ?? '')
  try {
    process.kill(Number(pid), 0)
    return false
  } catch (error) {
    // The process of another user may not be signalled, but is there.
    return error instanceof Error && 'code' in error && error.code === 'ESRCH'
  }
}

/** The machine as it runs since it was started, and the namespace its process numbers belong to. */
function placeOfProcess(): string {
  const boot = attempt(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim())
  // Such as `pid:[4026531836]`.
  const namespace = attempt(() => /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0])
  return encodeURIComponent([boot ?? hostname(), namespace ?? ''].join('-'))
}

/** What only Linux has. */
function attempt(read: () => string | undefined): string | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}

function keyOf(id: string): string {
  return `alive:${id}`
}
