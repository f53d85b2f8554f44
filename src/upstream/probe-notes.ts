/** Remembers servers whose process the probe of their era spoils, so that they are started without it. */
import { hash } from 'node:crypto'
import { asGatewayError } from '../core/error.ts'
import { canonical, isObject, readJson } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import type { CommandReach } from '../core/settings.ts'
import { within } from '../core/time/waiting.ts'

/** The version of the record: others are not read. */
const VERSION = 1
/** How long a server is not probed again, in milliseconds: a later version of it may speak a newer revision. */
const TTL_MS = 7 * 86_400_000
/** The same where the process did not end, but was silent: it may only have been slow. */
const SILENT_TTL_MS = 86_400_000
/** How long the store may take, in milliseconds: without an answer, the server is probed. */
const STORE_TIMEOUT_MS = 1000

/** The part of the store that is used. */
export interface NoteStore {
  get(key: string): Promise<string | undefined>
  /** Sets a value that expires after `ttl` milliseconds. */
  put(key: string, value: string, ttl: number): Promise<void>
  delete(key: string): Promise<boolean>
}

/** What the store remembers of the probe of one command. */
export class ProbeNotes {
  readonly #store: NoteStore
  readonly #key: string
  readonly #log: Log

  constructor(store: NoteStore, { command, args, cwd }: CommandReach, log: Log) {
    this.#store = store
    this.#key = `probe:${hash('sha256', canonical({ command, args, cwd: cwd ?? null }), 'base64url')}`
    this.#log = log
  }

  /** Whether the probe spoiled a process of the server before. */
  async isSpoiled(): Promise<boolean> {
    const text = await this.#attempt(() => this.#store.get(this.#key))
    const record = text === undefined ? undefined : readJson(text)
    return isObject(record) && record.version === VERSION && record.spoiled === true
  }

  async remember(wasSilent = false): Promise<void> {
    const record = JSON.stringify({ version: VERSION, spoiled: true })
    await this.#attempt(() => this.#store.put(this.#key, record, wasSilent ? SILENT_TTL_MS : TTL_MS))
  }

  async forget(): Promise<void> {
    await this.#attempt(() => this.#store.delete(this.#key))
  }

  /** A store that cannot be used costs a probe, not the server. */
  #attempt<Value>(act: () => Promise<Value>): Promise<Value | undefined> {
    const acting = act().catch((error: unknown) => {
      this.#log.debug('upstream.probe_not_remembered', { reason: asGatewayError(error).message })
      return undefined
    })
    return within<Value | undefined>(acting, STORE_TIMEOUT_MS, undefined)
  }
}
