import { appendFileSync } from 'node:fs'
import type { Json } from './json.ts'
import { Log } from './log.ts'

/** HTTP headers by lower-case name; empty on stdio. */
export type HeaderMap = Readonly<Record<string, string>>

/** Something that reached the server. */
export interface Seen {
  readonly kind: 'message' | 'get' | 'delete' | 'cancelled' | 'disconnected'
  /** The raw text of a message; the id of a cancelled or disconnected call as JSON. */
  readonly text: string
  /** The message, when the text is a JSON object. */
  readonly message?: Json
  readonly headers: HeaderMap
}

/** What the server saw and what it objects to. */
export class Journal {
  readonly violations: string[] = []
  readonly #log = new Log<Seen>()
  readonly #file: string | undefined

  constructor(file?: string) {
    this.#file = file
  }

  /** Everything seen, oldest first. */
  get seen(): readonly Seen[] {
    return this.#log.items
  }

  record(entry: Seen): void {
    if (this.#file !== undefined) appendFileSync(this.#file, `${JSON.stringify(entry)}\n`)
    this.#log.push(entry)
  }

  violation(text: string): void {
    this.violations.push(text)
  }

  /** The messages received with this method. */
  received(method: string): Seen[] {
    return this.seen.filter((entry) => entry.message?.['method'] === method)
  }

  /** Waits until something seen satisfies the predicate. */
  until(predicate: (entry: Seen) => boolean, timeoutMs?: number): Promise<Seen> {
    return this.#log.until(predicate, timeoutMs)
  }
}
