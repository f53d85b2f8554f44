/**
 * One watch: calls a tool that reads, at intervals, and makes events of what changed between two results. It goes on
 * while a client wants its events, in one gateway of those that share a store.
 *
 * Invariants: the first result is a baseline without events; a failed poll changes nothing, so that the next one finds
 * what changed meanwhile. Only the first result of a call is read, no further pages.
 */
import { hash } from 'node:crypto'
import { world } from '../../../core/world.ts'
import { asGatewayError, GatewayError } from '../../../core/error.ts'
import { exactly } from '../../../core/json/json.ts'
import { parseSteps } from '../../../core/json/path.ts'
import { asCalled } from '../../../core/judgement/call.ts'
import type { Principal } from '../../../core/principal.ts'
import type { WatchedEvent } from '../../../core/settings.ts'
import { pause } from '../../../core/time/waiting.ts'
import {
  evaluate,
  type Expression,
  parseExpression,
  parsePath,
  serverTool,
} from '../../../core/undo/expression.ts'
import type { Services } from '../../feature.ts'
import type { ServerEvents } from '../server-events.ts'
import { contentOf } from './declared.ts'
import type { Job } from './leased-jobs.ts'
import {
  type Change,
  compare,
  type Item,
  type ItemPaths,
  itemsOf,
  printState,
  readState,
  UnreadableItems,
} from './watch-state.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker'>

/**
 * The name under which the log says that a watch began without knowing the items before: their changes are missing. It is
 * no type of events.
 */
export const WATCHING_BEGAN = 'watching_began'

/** How long a state is kept after the last poll, give or take a day, in milliseconds. */
const STATE_TTL_MS = 30 * 86_400_000
/** How often an unchanged state is written again, in milliseconds. */
const STATE_REFRESH_MS = 86_400_000
/** The longest pause after failed polls, unless the interval is longer, in milliseconds. */
const MAX_BACKOFF_MS = 300_000
/** How much an interval varies, so that watches do not call together. */
const JITTER = 0.1

/** The caller of the polls. It may make any call that reads: the watch makes no other. */
const poller: Principal = { id: 'gatehouse:events' }

/** A watch as its configuration says, without values that depend on the server. */
export interface WatchTarget {
  /** The server whose events they are; undefined if they belong to none. */
  readonly upstream: string | undefined
  /** The name of the events in their log. */
  readonly name: string
  readonly settings: WatchedEvent
  /** The server that is called. */
  readonly server: string
  readonly call: Expression
  readonly arguments: Readonly<Record<string, unknown>>
}

/** Reads a configured watch. */
export function watchTarget(upstream: string | undefined, name: string, settings: WatchedEvent): WatchTarget {
  const written = parseExpression(settings.watch)
  const given = evaluate(written, { args: {} })
  if (upstream !== undefined)
    return { upstream, name, settings, server: upstream, call: written, arguments: given }
  const { server = '', tool } = serverTool(written.tool)
  return { upstream, name, settings, server, call: { ...written, tool }, arguments: given }
}

/** A watch that can be polled. */
export class Watch implements Job {
  readonly target: WatchTarget
  readonly #deps: Deps
  readonly #events: ServerEvents
  readonly #stateKey: string
  #dueAt = 0
  #savedAt = 0
  #failures = 0
  #failure: GatewayError | undefined

  constructor(target: WatchTarget, deps: Deps, events: ServerEvents) {
    this.target = target
    this.#deps = deps
    this.#events = events
    this.#stateKey = stateKey(target)
  }

  /** Why the last poll of this process failed, if it did. */
  get failure(): GatewayError | undefined {
    return this.#failure
  }

  /** Polls when it is due, until it is aborted. Never rejects. */
  async run({ signal }: AbortController, onReady: () => void): Promise<void> {
    while (!signal.aborted) {
      const wait = this.#dueAt - world.now()
      if (wait <= 0) await this.#poll(signal)
      onReady()
      const rest = this.#dueAt - world.now()
      if (rest > 0) await pause(rest, signal).catch(() => undefined)
    }
  }

  async #poll(signal: AbortSignal): Promise<void> {
    const { every } = this.target.settings
    let delay = every
    let least = 0
    try {
      await this.#record(await itemsFor(this.target, this.#deps, signal))
      if (this.#failure) this.#deps.log.info('events.poll_recovered', this.#fields)
      this.#failure = undefined
      this.#failures = 0
    } catch (thrown) {
      if (signal.aborted) return
      const error = failureOf(thrown)
      // Once for each outage.
      if (!this.#failure)
        this.#deps.log.warn('events.poll_failed', {
          ...this.#fields,
          code: error.code,
          reason: reasonOf(error),
        })
      this.#failure = error
      this.#failures++
      delay = backoff(every, this.#failures)
      least = (error.extra.retryAfterSeconds ?? 0) * 1000
    }
    this.#dueAt = world.now() + Math.max(least, delay * (1 - JITTER + 2 * JITTER * world.random()))
  }

  /** Logs what changed since the state in the store, and then replaces it. @throws SERVER_UNAVAILABLE */
  async #record(items: readonly Item[]): Promise<void> {
    const { store } = this.#deps
    const text = await store.get(this.#stateKey)
    const before = readState(text)
    const { changes, state } = compare(before, items, this.target.settings.removed)
    const { name } = this.target
    if (!before) await this.#events.add({ name: WATCHING_BEGAN, data: { type: name } })
    await Promise.all(changes.map((change) => this.#add(change)))
    const next = printState(state)
    if (next === text && world.now() - this.#savedAt < STATE_REFRESH_MS) return
    this.#savedAt = world.now()
    // What another process wrote meanwhile is as new.
    if (text === undefined) await store.setIfAbsent(this.#stateKey, next, STATE_TTL_MS)
    else await store.compareAndSwap(this.#stateKey, text, next, STATE_TTL_MS)
  }

  #add({ kind, id, item, eventId }: Change): Promise<void> {
    const { name, settings } = this.target
    const found = item && contentOf(item.value, settings)
    const content = found && { item: found.content, ...(found.omitted && { omitted: found.omitted }) }
    return this.#events.add({ id: eventId, name, data: { id, change: kind, ...content } })
  }

  get #fields(): Readonly<Record<string, unknown>> {
    const { server: upstream, name: type, call } = this.target
    return { upstream, type, tool: call.tool }
  }
}

/** The items that one call finds. @throws GatewayError, UnreadableItems */
export async function itemsFor(
  target: WatchTarget,
  deps: Deps,
  signal: AbortSignal,
): Promise<readonly Item[]> {
  const { server: upstream, settings } = target
  const { tool } = target.call
  const made = deps.invoker.internal({
    purpose: 'read',
    principal: poller,
    upstream,
    tool,
    arguments: target.arguments,
  })
  const call = { ...made, signal: AbortSignal.any([made.signal, signal]) }
  const listed = await deps.servers.tool(call)
  if (!listed) throw new GatewayError('UNKNOWN_TOOL', `${upstream} lists no tool ${tool}.`)
  if (asCalled(listed, call).classification.op !== 'read')
    throw new GatewayError('PERMISSION_DENIED', `${tool} is not read-only. Set op: read for it if it is.`)
  const outcome = await deps.invoker.call(call)
  if (outcome.kind !== 'result')
    throw new GatewayError('UPSTREAM_ERROR', `${tool} requests input, which a watch cannot give.`)
  if (outcome.result.member('isError') === true)
    throw new GatewayError('UPSTREAM_ERROR', `${tool} returned an error.`)
  return itemsOf(outcome.result, pathsOf(settings))
}

function pathsOf({ items, id, changed }: WatchedEvent): ItemPaths {
  return {
    items: parsePath(items),
    id: parseSteps(id) ?? [],
    ...(changed !== undefined && { changed: parseSteps(changed) ?? [] }),
    written: { id, ...(changed !== undefined && { changed }) },
  }
}

/** The state belongs to what is called, and how its result is read. */
function stateKey({ upstream, name, server, call, arguments: given, settings }: WatchTarget): string {
  const { items, id, changed = null } = settings
  const parts = [upstream ?? null, name, server, call.tool, given, items, id, changed]
  return `watch:${hash('sha256', exactly(parts)).slice(0, 32)}`
}

function backoff(every: number, failures: number): number {
  return Math.min(every * 2 ** Math.min(failures - 1, 20), Math.max(every, MAX_BACKOFF_MS))
}

function failureOf(thrown: unknown): GatewayError {
  if (thrown instanceof UnreadableItems)
    return new GatewayError('UPSTREAM_ERROR', thrown.message, { cause: thrown })
  return asGatewayError(thrown)
}

/** The reason for the log, without what a server wrote. */
function reasonOf({ message, extra: { relayed } }: GatewayError): string {
  return relayed ? 'the server refused the call' : message
}
