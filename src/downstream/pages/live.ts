/**
 * Pages that follow what happens: `/console/live` is a stream of server-sent events, each with the name of a topic that has
 * changed. The script of the page then reads the page again, and replaces the elements that follow it. Whether a topic has
 * changed is found by its version, which one timer reads for all streams, so that other gateways of the store count as well.
 */
import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Hono } from 'hono'
import type { ServerResponse } from 'node:http'
import { GatewayError } from '../../core/error.ts'
import { ifAnswered } from '../../core/time/waiting.ts'
import { type Timer, world } from '../../core/world.ts'
import type { PageEntry } from './page-entry.ts'
import { requireRole } from './page-users.ts'

/** What pages can follow. */
export interface LiveOptions {
  /** The version of each topic: a text that differs once something has changed. */
  readonly topics: Readonly<Record<string, () => string | Promise<string>>>
  /** Aborted when the listener closes. */
  readonly closing: AbortSignal
}

/** How often versions are read, in milliseconds, and how long that may take. */
const POLL_INTERVAL_MS = 1000
const VERSION_TIMEOUT_MS = 2000
/** How often a stream gets a comment, so that proxies keep it open, in milliseconds. */
const HEARTBEAT_INTERVAL_MS = 15_000
/** How long a stream lasts, in milliseconds: the next one is authenticated again. */
const STREAM_LIFETIME_MS = 300_000
/** How many streams may be open, and of one page user. */
const MAX_STREAMS = 200
const MAX_STREAMS_OF_USER = 20
/** A stream whose reader takes nothing is ended at this many bytes. */
const MAX_UNREAD_BYTES = 64 * 1024

/** Adds `/console/live`. */
export function addLiveStream(
  app: Hono<{ Bindings: HttpBindings }>,
  entry: PageEntry,
  options: LiveOptions,
): void {
  const streams = new LiveStreams(options)
  app.get(
    '/console/live',
    entry.guarded({ name: 'console', titles: {} }, (context) =>
      entry.withUser(context, async (user) => {
        requireRole(user, 'viewer', 'approver')
        streams.open(context.env.outgoing, {
          of: `${user.via} ${user.by}`,
          topics: (context.req.query('topics') ?? '').split(' '),
        })
        return RESPONSE_ALREADY_SENT
      }),
    ),
  )
}

interface Follower {
  /** Who reads it. */
  readonly of: string
  readonly topics: readonly string[]
}

interface Stream extends Follower {
  readonly outgoing: ServerResponse
  /** In milliseconds, by the monotonic clock. */
  readonly until: number
  writtenAt: number
}

/** The open streams of a listener, under one timer. */
class LiveStreams {
  readonly #options: LiveOptions
  readonly #streams = new Set<Stream>()
  readonly #versions = new Map<string, string>()
  #timer: Timer | undefined
  #isPolling = false

  constructor(options: LiveOptions) {
    this.#options = options
    options.closing.addEventListener('abort', () => {
      for (const stream of this.#streams) this.#end(stream)
    })
  }

  /** Opens a stream. @throws OVERLOADED */
  open(outgoing: ServerResponse, { of, topics }: Follower): void {
    const own = [...this.#streams].filter((each) => each.of === of).length
    if (this.#streams.size >= MAX_STREAMS || own >= MAX_STREAMS_OF_USER || this.#options.closing.aborted)
      throw new GatewayError('OVERLOADED', 'Too many pages of the console are open.')
    const now = world.monotonic()
    const known = topics.filter((topic) => Object.hasOwn(this.#options.topics, topic))
    const stream = { of, topics: known, outgoing, until: now + STREAM_LIFETIME_MS, writtenAt: now }
    outgoing.writeHead(200, {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      'x-content-type-options': 'nosniff',
    })
    if (outgoing.req.method === 'HEAD') return void outgoing.end()
    outgoing.write('retry: 2000\n\n')
    this.#streams.add(stream)
    outgoing.once('close', () => this.#left(stream))
    void this.#poll()
    this.#timer ??= world.setInterval(() => void this.#poll(), POLL_INTERVAL_MS).unref()
  }

  /** Nothing is written after the end, even while a reader that takes nothing keeps the response open. */
  #end(stream: Stream): void {
    this.#left(stream)
    if (stream.outgoing.writableLength > MAX_UNREAD_BYTES) stream.outgoing.destroy()
    else stream.outgoing.end()
  }

  #left(stream: Stream): void {
    this.#streams.delete(stream)
    if (this.#streams.size > 0) return
    world.clearInterval(this.#timer)
    this.#timer = undefined
    this.#versions.clear()
  }

  async #poll(): Promise<void> {
    if (this.#isPolling) return
    this.#isPolling = true
    const followed = new Set([...this.#streams].flatMap(({ topics }) => topics))
    const changed = await Promise.all([...followed].map((topic) => this.#hasChanged(topic)))
    const names = new Set([...followed].filter((_, index) => changed[index]))
    const now = world.monotonic()
    for (const stream of this.#streams) this.#tell(stream, names, now)
    this.#isPolling = false
  }

  async #hasChanged(topic: string): Promise<boolean> {
    const read = async (): Promise<string | undefined> => this.#options.topics[topic]?.()
    const version = await ifAnswered(read(), VERSION_TIMEOUT_MS)
    if (version === undefined) return false
    const before = this.#versions.get(topic)
    this.#versions.set(topic, version)
    return before !== undefined && before !== version
  }

  #tell(stream: Stream, changed: ReadonlySet<string>, now: number): void {
    const { outgoing, topics, until, writtenAt } = stream
    const news = topics.filter((topic) => changed.has(topic))
    if (now >= until || outgoing.writableLength > MAX_UNREAD_BYTES) return this.#end(stream)
    if (news.length > 0) outgoing.write(news.map((topic) => `data: ${topic}\n\n`).join(''))
    else if (now - writtenAt < HEARTBEAT_INTERVAL_MS) return
    else outgoing.write(': \n\n')
    stream.writtenAt = now
  }
}

/**
 * Reads the page again when something has changed, at most once a second, and replaces the elements that have `data-live`,
 * unless the person is in one of them: typing, or with text selected.
 */
export const liveScript = `
{
  const box = document.querySelector('[data-topics]')
  const topics = box?.dataset.topics.split(' ') ?? []
  let timer
  const isTyped = ({ value, defaultValue, checked, defaultChecked }) =>
    (defaultValue !== undefined && value !== defaultValue) || checked !== defaultChecked
  const isUsed = (element) => {
    const active = document.activeElement
    const fields = [...element.querySelectorAll('input:not([type=hidden]), textarea, select')]
    if (fields.some((each) => each === active || isTyped(each))) return true
    const selection = getSelection()
    return !selection.isCollapsed && element.contains(selection.anchorNode)
  }
  const refresh = async (names) => {
    timer = undefined
    const follows = (element) => element.dataset.live.split(' ').some((name) => names.has(name))
    if (![...document.querySelectorAll('[data-live]')].some(follows)) return
    const response = await fetch(location.href, { headers: { accept: 'text/html' } })
    if (!response.ok) return
    const page = new DOMParser().parseFromString(await response.text(), 'text/html')
    for (const element of document.querySelectorAll('[data-live]')) {
      const fresh = element.id === '' ? null : page.getElementById(element.id)
      if (!fresh || isUsed(element) || !follows(element)) continue
      if (fresh.innerHTML === element.dataset.seen) continue
      const focused = element.contains(document.activeElement) ? document.activeElement.id : ''
      const open = [...element.querySelectorAll('details[open][id]')].map(({ id }) => id)
      element.dataset.seen = fresh.innerHTML
      element.replaceChildren(...fresh.childNodes)
      for (const id of open) document.getElementById(id)?.setAttribute('open', '')
      if (focused !== '') document.getElementById(focused)?.focus()
    }
    document.dispatchEvent(new Event('gatehouse:shown'))
  }
  if (box && window.EventSource) {
    for (const element of document.querySelectorAll('[data-live]')) element.dataset.seen = element.innerHTML
    const waiting = new Set()
    const follow = (topic) => {
      waiting.add(topic)
      timer ??= setTimeout(() => {
        const names = new Set(waiting)
        waiting.clear()
        refresh(names).catch(() => undefined)
      }, 300)
    }
    let source
    // A browser has few connections for all its tabs: hidden ones take none.
    const connect = () => {
      source?.close()
      if (document.hidden) return
      source = new EventSource(box.dataset.liveUrl + '?topics=' + encodeURIComponent(topics.join(' ')))
      // What happened since the page was made, or while there was no stream.
      source.onopen = () => topics.forEach(follow)
      source.onmessage = ({ data }) => follow(data)
    }
    connect()
    document.addEventListener('visibilitychange', connect)
  }
}
`
