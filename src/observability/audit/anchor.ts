/**
 * Stores the head of an audit log in the store as well, so that lines removed from its end together with the `.head` file
 * are detected: by `gatehouse audit verify`, and by the gateway when it opens the log again.
 *
 * It follows the log asynchronously: at most one small write per second, and one at the end, never one per call. The stored
 * anchor is read before the first write, so that a truncated log is reported before its anchor moves.
 */
import { hash } from 'node:crypto'
import { hostname } from 'node:os'
import { type Timer, world } from '../../core/world.ts'
import { within } from '../../core/time/waiting.ts'
import type { Settings } from '../../core/settings.ts'
import { FOREVER } from '../../store/store.ts'
import { type Head, parseHead } from './file.ts'

/** The minimum interval between writes of the anchor, and the timeout of the last one, in milliseconds. */
const INTERVAL_MS = 1000
const LAST_WRITE_TIMEOUT_MS = 2000

/** The required part of a store. */
interface AnchorStore {
  get(key: string): Promise<string | undefined>
  put(key: string, value: string, ttl: number): Promise<void>
}

/** The heads of audit logs in the store. */
export interface Anchors {
  /** Reads the head of the log at an absolute path. */
  read(path: string): Promise<Head | undefined>
  write(path: string, head: Head): Promise<void>
}

/** Creates anchors in a store; `host` distinguishes machines that share it, and `ttl` is in milliseconds. */
export function createAnchors(
  store: () => AnchorStore,
  { host, ttl }: { readonly host: string; readonly ttl: number },
): Anchors {
  const keyOf = (path: string): string => `audit:${hash('sha256', JSON.stringify([host, path]))}`
  return {
    read: async (path) => {
      const text = await store().get(keyOf(path))
      return text === undefined ? undefined : parseHead(text)
    },
    write: (path, { seq, hash: digest }) =>
      store().put(keyOf(path), JSON.stringify({ seq, hash: digest }), ttl),
  }
}

/**
 * The heads of audit logs in a store; undefined for a store in memory. The gateway that writes a log and the command that
 * verifies it use the same key.
 */
export function anchorsIn(
  { store: { kind } }: Pick<Settings, 'store'>,
  store: () => AnchorStore,
): Anchors | undefined {
  if (kind === 'memory') return undefined
  // A folder belongs to one machine, whose hostname may change.
  return createAnchors(store, { host: kind === 'redis' ? hostname() : '', ttl: FOREVER })
}

/** Moves the anchor of one log. */
export class Anchor {
  readonly #path: string
  readonly #anchors: Anchors
  readonly #onCut: (anchored: Head) => void
  /** The head when the log was opened; absent once it was compared. */
  #opened: Head | undefined
  #next: Head | undefined
  #moving: Promise<void> | undefined
  #timer: Timer | undefined

  /** `head` is the head of the opened log; `onCut` is called if the anchor is beyond it. */
  constructor(
    { path, head }: { readonly path: string; readonly head: Head },
    anchors: Anchors,
    onCut: (anchored: Head) => void,
  ) {
    this.#path = path
    this.#opened = head
    this.#anchors = anchors
    this.#onCut = onCut
  }

  /** Records the new head of the log. */
  follow(head: Head): void {
    this.#next = head
    this.#timer ??= world
      .setTimeout(() => {
        this.#timer = undefined
        void this.#move()
      }, INTERVAL_MS)
      .unref()
  }

  /** Writes the current head, if the store responds in time. */
  async close(): Promise<void> {
    world.clearTimeout(this.#timer)
    this.#timer = undefined
    await within(
      (async () => {
        await this.#moving
        await this.#move()
      })(),
      LAST_WRITE_TIMEOUT_MS,
      undefined,
    )
  }

  #move(): Promise<void> {
    this.#moving ??= this.#write()
      // If the store is unavailable, the next lines try again.
      .catch(() => undefined)
      .finally(() => {
        this.#moving = undefined
      })
    return this.#moving
  }

  async #write(): Promise<void> {
    if (this.#opened) {
      const before = await this.#anchors.read(this.#path)
      if (before && before.seq > this.#opened.seq) this.#onCut(before)
      this.#opened = undefined
    }
    const head = this.#next
    if (!head) return
    await this.#anchors.write(this.#path, head)
    if (this.#next === head) this.#next = undefined
  }
}
