/**
 * Keeps the head of an audit log in the store too, so that lines cut off its end together with the `.head` file beside it
 * are noticed: by `gatehouse audit verify`, and by the gateway when it opens the log again.
 *
 * It follows the log at a distance: one small write a second at most, and one at the end; never one for each call. What was
 * there is read before the first write, so that a cut log is reported before its anchor moves on.
 */
import { hash } from 'node:crypto'
import { within } from '../../core/time/waiting.ts'
import { type Head, parseHead } from './file.ts'

/** How often the anchor moves at most, and how long its last move may take, in milliseconds. */
const INTERVAL_MS = 1000
const LAST_WRITE_TIMEOUT_MS = 2000

/** What is needed of a store. */
interface AnchorStore {
  get(key: string): Promise<string | undefined>
  put(key: string, value: string, ttl: number): Promise<void>
}

/** Where the heads of audit logs are kept besides the files. */
export interface Anchors {
  /** Of the log in a file, named by its whole path. */
  read(path: string): Promise<Head | undefined>
  write(path: string, head: Head): Promise<void>
}

/** Anchors in a store; `host` tells machines apart that share it, and `ttl` is in milliseconds. */
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

/** Moves the anchor of one log. */
export class Anchor {
  readonly #path: string
  readonly #anchors: Anchors
  readonly #onCut: (anchored: Head) => void
  /** Where the log was when it was opened; absent once that was compared. */
  #opened: Head | undefined
  #next: Head | undefined
  #moving: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  /** `head` is that of the log as it was opened; `onCut` hears of an anchor it does not reach. */
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

  /** The log has got to here. */
  follow(head: Head): void {
    this.#next = head
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      void this.#move()
    }, INTERVAL_MS).unref()
  }

  /** Moves to where the log is, where the store answers in time. */
  async close(): Promise<void> {
    clearTimeout(this.#timer)
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
      // A store that is away is tried with the next lines.
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
