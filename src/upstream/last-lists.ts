/**
 * What a server listed last, and what it said of itself, for the time when it cannot be reached: in memory, and in the store for
 * the time after a restart, and for the gateways that share it. Only complete answers of the server get here, in the form that
 * clients accept.
 *
 * Invariant: where a server may list other things to each caller, because of credentials, roots or connections of their own, a
 * caller gets what was listed to the same one, and it is not written to the store.
 */
import { LRUCache } from 'lru-cache'
import { hash } from 'node:crypto'
import { type Timer, world } from '../core/world.ts'
import type { Call } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { asList, canonical, isObject, readJson } from '../core/json/json.ts'
import { type Log, background } from '../core/log.ts'
import { Payload } from '../core/payload.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { isoTime, within } from '../core/time/waiting.ts'
import type { ListedTool } from '../protocol/found-tool.ts'
import { LAST_KNOWN_KEY } from '../protocol/meta-keys.ts'
import { method } from '../protocol/methods.ts'
import type { NoteStore } from './probe-notes.ts'
import { ToolIndex } from './tool-index.ts'

/** The version of the record: others are not read. */
const VERSION = 1
/** How long a server that cannot be reached keeps its last lists, in milliseconds. */
const LAST_LISTS_TTL_MS = 30 * 86_400_000
/** How often a record is written although nothing changed, so that it does not expire, in milliseconds. */
const RENEWAL_INTERVAL_MS = 86_400_000
/** How long changes are collected before they are written, in milliseconds. */
const WRITE_DELAY_MS = 100
/** How often what others wrote is read while the server is away, in milliseconds. What is not known is looked for at once. */
const READ_INTERVAL_MS = 5000
/** How often a write is attempted that another gateway interferes with. */
const MAX_WRITES = 10
/** How long the store may take, in milliseconds: without an answer, nothing is known. */
const STORE_TIMEOUT_MS = 1000
/** The maximum number of kinds of callers, of pages of a list, and of characters of a list and of a record. */
const MAX_CALLERS = 20
const MAX_PAGES = 100
const MAX_LIST_LENGTH = 8 * 1024 * 1024
const MAX_RECORD_LENGTH = 4 * 1024 * 1024

/** One list: the texts of its pages by cursor, of which the first page has none. */
interface KeptList {
  /** When its first page was last received. */
  readonly at: number
  readonly pages: ReadonlyMap<string, Payload>
}

/** The lists of one kind of caller by method. */
type CallerLists = Map<string, KeptList>

/** The part of the store that is used. */
export interface ListStore extends NoteStore {
  /** Sets a value if there is none. Resolves with the existing value. */
  setIfAbsent(key: string, value: string, ttl: number): Promise<string | undefined>
  /** Replaces a value if the current one is `before`; resolves with whether it was. */
  compareAndSwap(key: string, before: string, value: string, ttl: number): Promise<boolean>
}

/** Keeps the last lists of one server. */
export class LastLists {
  readonly #store: ListStore
  readonly #key: string
  readonly #log: Log
  /** Whether other callers may get other lists. */
  readonly #isOwn: boolean
  readonly #callers = new LRUCache<string, CallerLists>({ max: MAX_CALLERS })
  readonly #tools = new LRUCache<string, ToolIndex>({ max: MAX_CALLERS })
  #reading: Promise<void> | undefined
  #readAt = Number.NEGATIVE_INFINITY
  #timer: Timer | undefined
  #writtenAt = 0

  constructor(store: ListStore, settings: UpstreamSettings, isPersonal: boolean, log: Log) {
    const { name, reach, isolation, roots } = settings
    // Another server under the same name has lists of its own.
    const place =
      reach.kind === 'url' ? reach.url : { command: reach.command, args: reach.args, cwd: reach.cwd ?? null }
    this.#store = store
    this.#key = `last-lists:${hash('sha256', canonical([name, place]), 'base64url')}`
    this.#isOwn = isPersonal || isolation === 'per_client' || roots === 'client'
    this.#log = log
  }

  /** Keeps an answer of the server. */
  remember(call: Call, answer: Payload): void {
    const key = this.#keyOf(call)
    const lists: CallerLists = this.#callers.get(key) ?? new Map()
    const before = lists.get(call.method)
    const after = withPage(before, cursorOf(call), answer)
    if (!after) return
    lists.set(call.method, after)
    this.#callers.set(key, lists)
    const isDue = world.now() - this.#writtenAt > RENEWAL_INTERVAL_MS
    if (before?.pages === after.pages && !isDue) return
    if (call.method === 'tools/list') this.#tools.clear()
    if (!this.#isOwn)
      this.#timer ??= world.setTimeout(() => background(this.#write(), this.#log), WRITE_DELAY_MS).unref()
  }

  /** The last answer to a call, with a mark. @throws SERVER_UNAVAILABLE if there is none */
  async answer(call: Call): Promise<Payload> {
    const kept = await this.#find(call)
    const page = kept?.pages.get(cursorOf(call))
    if (!kept || !page) throw nothingKnown()
    const mark = { [LAST_KNOWN_KEY]: isoTime(kept.at) }
    const { list } = method(call.method)
    if (list === undefined) return page.withMeta(mark)
    const marked = page.withItems(list, (entry) => entry.withMeta(mark))
    const { nextCursor } = page.fields
    const hasNext = typeof nextCursor === 'string' && kept.pages.has(nextCursor)
    return nextCursor === undefined || hasNext ? marked : marked.with({ nextCursor: undefined })
  }

  /** The tool that a call names, in the last list; undefined if it is not there, or nothing is known. */
  async tool(call: Call): Promise<ListedTool | undefined> {
    const key = this.#keyOf(call)
    const listed = async (params: Payload): Promise<Payload> => {
      const kept = await this.#find({ ...call, method: 'tools/list' })
      const { cursor = '' } = params.fields
      const page = kept?.pages.get(String(cursor))
      if (!page) throw nothingKnown()
      return page
    }
    const tools = this.#tools.get(key) ?? new ToolIndex(listed)
    this.#tools.set(key, tools)
    return tools.of(String(call.params.fields.name))
  }

  /** Whether anything was listed. */
  get isEmpty(): boolean {
    return this.#callers.size === 0
  }

  async close(): Promise<void> {
    if (this.#timer) await this.#write()
  }

  /** What was listed to such a caller, or else to another one, if all get the same. */
  async #find(call: Call): Promise<KeptList | undefined> {
    await this.load()
    const known = this.#known(call)
    if (known) return known
    await this.#read()
    return this.#known(call)
  }

  #known(call: Call): KeptList | undefined {
    const own = this.#callers.get(this.#keyOf(call))
    const others = this.#isOwn ? [] : [...this.#callers.values()]
    const found = [own, ...others].find((lists) => lists?.has(call.method))?.get(call.method)
    return found && world.now() - found.at <= LAST_LISTS_TTL_MS ? found : undefined
  }

  #keyOf({ principal, client }: Call): string {
    return canonical([this.#isOwn ? [principal.id, client.session ?? null] : null, client.capabilities])
  }

  /** Reads the record, unless that was done a moment ago. */
  async load(): Promise<void> {
    if (world.monotonic() - this.#readAt >= READ_INTERVAL_MS) await this.#read()
  }

  #read(): Promise<void> {
    if (this.#isOwn) return Promise.resolve()
    this.#readAt = world.monotonic()
    this.#reading ??= this.#attempt(() => this.#merge())
      .then(() => undefined)
      .finally(() => (this.#reading = undefined))
    return this.#reading
  }

  /** Takes from the record what is newer than what is known: other gateways write it too. Resolves with its text. */
  async #merge(): Promise<string | undefined> {
    const text = await this.#store.get(this.#key)
    const record = text === undefined ? undefined : readJson(text)
    if (!isObject(record) || record.version !== VERSION) return text
    for (const [caller, lists] of asList(record.callers).filter(isPair)) {
      const known: CallerLists = this.#callers.get(String(caller)) ?? new Map()
      for (const [name, kept] of asList(lists).filter(isPair)) {
        const list = readList(kept)
        if (!list || list.at <= (known.get(String(name))?.at ?? 0)) continue
        known.set(String(name), list)
        this.#tools.clear()
      }
      if (known.size > 0) this.#callers.set(String(caller), known)
    }
    return text
  }

  async #write(): Promise<void> {
    world.clearTimeout(this.#timer)
    this.#timer = undefined
    this.#writtenAt = world.now()
    await this.#attempt(async () => {
      for (let attempts = 0; attempts < MAX_WRITES; attempts++) if (await this.#tryWrite()) return
    })
  }

  /** Adds what is known to the record; false if another gateway changed it meanwhile. */
  async #tryWrite(): Promise<boolean> {
    const before = await this.#merge()
    const callers = [...this.#callers.entries()]
      .toReversed()
      .map(([caller, lists]) => [
        caller,
        [...lists].map(([name, { at, pages }]) => [
          name,
          { at, pages: [...pages].map(([cursor, page]) => [cursor, page.text]) },
        ]),
      ])
    const text = JSON.stringify({ version: VERSION, callers })
    if (text.length > MAX_RECORD_LENGTH) {
      this.#log.debug('upstream.lists_not_kept', { length: text.length })
      return true
    }
    return before === undefined
      ? (await this.#store.setIfAbsent(this.#key, text, LAST_LISTS_TTL_MS)) === undefined
      : this.#store.compareAndSwap(this.#key, before, text, LAST_LISTS_TTL_MS)
  }

  /** A store that cannot be used costs the lists after a restart, not the server. */
  #attempt<Value>(act: () => Promise<Value>): Promise<Value | undefined> {
    const acting = act().catch((error: unknown) => {
      this.#log.debug('upstream.lists_not_kept', { reason: asGatewayError(error).message })
      return undefined
    })
    return within<Value | undefined>(acting, STORE_TIMEOUT_MS, undefined)
  }
}

/** A list with another page; `pages` is the same object if nothing changed. Undefined if there is no list that it continues. */
function withPage(before: KeptList | undefined, cursor: string, page: Payload): KeptList | undefined {
  const isFirst = cursor === ''
  if (!before && !isFirst) return undefined
  const at = isFirst || !before ? world.now() : before.at
  if (before?.pages.get(cursor)?.text === page.text) return { at, pages: before.pages }
  const first = before?.pages.get('')
  // With other cursors, the pages are those of another list.
  const isSameWalk = !isFirst || first?.fields.nextCursor === page.fields.nextCursor
  const pages = new Map(isSameWalk ? before?.pages : [])
  pages.set(cursor, page)
  const length = [...pages.values()].reduce((sum, { text }) => sum + text.length, 0)
  return pages.size > MAX_PAGES || length > MAX_LIST_LENGTH ? undefined : { at, pages }
}

function cursorOf({ params }: Call): string {
  const { cursor } = params.fields
  return typeof cursor === 'string' ? cursor : ''
}

function isPair(value: unknown): value is readonly [unknown, unknown] {
  return Array.isArray(value) && value.length === 2
}

function readList(value: unknown): KeptList | undefined {
  if (!isObject(value) || typeof value.at !== 'number') return undefined
  const pages = asList(value.pages)
    .filter(isPair)
    .flatMap(([cursor, text]) => {
      const page = typeof text === 'string' ? readJson(text) : undefined
      return isObject(page) ? [[String(cursor), Payload.text(String(text), page)] as const] : []
    })
  return pages.length > 0 ? { at: value.at, pages: new Map(pages) } : undefined
}

function nothingKnown(): GatewayError {
  return new GatewayError(
    'SERVER_UNAVAILABLE',
    'The server cannot be reached, and what it lists is not known.',
    { isUnsent: true },
  )
}
