/** The processes that share a store, known by heartbeats: which are alive, and which one this is. */
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { type Timer, world } from '../core/world.ts'
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

  const beat = (target: Store): Promise<void> => target.put(keyOf(id), '1', HEARTBEAT_TTL_MS)
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
        return (await store().get(keyOf(other))) !== undefined
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
  return `alive:${id}`
}
