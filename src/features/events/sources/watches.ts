/**
 * Changes that the tools of servers show: the events of watches, which the configuration declares. A watch calls a tool that
 * reads, at intervals, and makes events of what changed between two results. It runs while a client retains its events, in
 * one gateway of those that share a store.
 *
 * Invariants: the first result is a baseline without events; a failed poll changes nothing, so that the next one finds
 * what changed meanwhile. The state after a poll is in the store, so that a gateway that starts, or takes over, finds what
 * changed since the last poll of any gateway; the events of a change are in the log before it. If the process ends in
 * between, the next poll finds the change again, and its events have the same ids. Only the first result of a call is read,
 * no further pages.
 */
import type { Finding } from '../../../core/findings.ts'
import { hash } from 'node:crypto'
import { asGatewayError, GatewayError } from '../../../core/error.ts'
import { internalCall } from '../../own-calls.ts'
import { isNumber, toDouble } from '../../../core/json/exact-number.ts'
import { canonical, exactly, isObject, readJson } from '../../../core/json/json.ts'
import { find, follow, parseSteps, type Path, printPath, type Step } from '../../../core/json/path.ts'
import { asCalled } from '../../../core/judgement/call.ts'
import type { Payload } from '../../../core/payload.ts'
import type { Principal } from '../../../core/principal.ts'
import type { WatchedEvent } from '../../../core/settings.ts'
import { delayBefore } from '../../../core/time/backoff.ts'
import { pause } from '../../../core/time/waiting.ts'
import {
  evaluate,
  type Expression,
  parseExpression,
  parsePath,
  resultValue,
  serverTool,
} from '../../../core/undo/expression.ts'
import { writtenMismatches } from '../../../core/undo/judge-undo.ts'
import { world } from '../../../core/world.ts'
import type { Lease } from '../../../durable/lease.ts'
import { toolsToCheck } from '../../tool-lists.ts'
import type { Services } from '../../feature.ts'
import type { EventTrial } from '../../offers.ts'
import type { ServerEvents } from '../server-events.ts'
import { type EventSource, type EventType, hasFields, mayCall, type SourceContext } from '../types.ts'
import { contentOf, contentSchema, declaredFilters, hasScope, omittedSchema } from './declared.ts'
import { type Job, LeasedJobs } from './leased-jobs.ts'
import { hasPersonalCredentials } from './notifications.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'identity' | 'gateway'>

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

/** How many ids a trial reports. */
const TRIAL_IDS = 3
/** How long a trial may take, in milliseconds. */
const TRIAL_TIMEOUT_MS = 30_000

/** The events of watches. A type exists for those who may call its tool with its arguments. */
export function watchedEvents({ deps, events, upstreams }: SourceContext): EventSource {
  const jobs = new LeasedJobs<Watch>(deps)
  // They remember when they are due.
  const watches = new Map<string, Watch>()
  const watchOf = (target: WatchTarget): Watch => {
    const key = JSON.stringify([target.upstream ?? null, target.name])
    const watch = watches.get(key) ?? new Watch(target, deps, events(target.upstream))
    watches.set(key, watch)
    return watch
  }
  const typeOf = (target: WatchTarget): EventType => watchType(target, watchOf(target), jobs, deps)
  const all = (): readonly WatchTarget[] =>
    [undefined, ...upstreams()].flatMap((upstream) => declaredWatches(upstream, deps))
  return {
    name: 'watches',
    types: (upstream) => targetsOf(upstream, deps).map(typeOf),
    // Those that need no scope: descriptions are for all callers.
    described: (upstream) =>
      targetsOf(upstream, deps)
        .filter(({ settings }) => settings.scope === undefined)
        .map(typeOf),
    problems: () => watchProblems(all(), deps),
    trials: () => Promise.all(all().map((target) => tryWatch(target, deps))),
    close: () => jobs.close(),
  }
}

function watchType(target: WatchTarget, watch: Watch, jobs: LeasedJobs<Watch>, deps: Deps): EventType {
  const { upstream, name, settings, server, arguments: given } = target
  const { tool } = target.call
  return {
    upstream,
    name,
    description: settings.description ?? `An item in the result of ${settings.watch} was added or changed.`,
    inputSchema: declaredFilters(['change', 'id'], settings),
    payloadSchema: payloadSchema(settings),
    isRequested: (filter, { data }) =>
      hasFields({ id: data.id, change: data.change, ...(isObject(data.item) && data.item) }, filter),
    isGap: (_filter, entry) => entry.name === WATCHING_BEGAN && entry.data.type === name,
    mayReceive: async (_event, caller) => {
      if (!hasScope(caller.principal, settings)) return false
      const called = { upstream: server, method: 'tools/call', name: tool }
      return mayCall(caller, called, { name: tool, arguments: given }, deps)
    },
    retain: () => jobs.keep(JSON.stringify(['watch', upstream ?? null, name, settings]), () => watch),
  }
}

// Targets

/** A watch as its configuration says, without values that depend on the server. */
interface WatchTarget {
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
function watchTarget(upstream: string | undefined, name: string, settings: WatchedEvent): WatchTarget {
  const written = parseExpression(settings.watch)
  const given = evaluate(written, { args: {} })
  if (upstream !== undefined)
    return { upstream, name, settings, server: upstream, call: written, arguments: given }
  const { server = '', tool } = serverTool(written.tool)
  return { upstream, name, settings, server, call: { ...written, tool }, arguments: given }
}

/** The watches of a server, or those of none. The gateway itself has no credentials for servers with personal ones. */
function targetsOf(
  upstream: string | undefined,
  deps: Pick<Deps, 'servers' | 'gateway'>,
): readonly WatchTarget[] {
  return declaredWatches(upstream, deps).filter(({ server }) => !hasPersonalCredentials(server, deps))
}

function declaredWatches(
  upstream: string | undefined,
  { gateway }: Pick<Deps, 'gateway'>,
): readonly WatchTarget[] {
  const events = [...(gateway.settings.events.get(upstream) ?? [])]
  return events.flatMap(([name, event]) =>
    event.kind === 'watch' ? [watchTarget(upstream, name, event)] : [],
  )
}

function payloadSchema(settings: WatchedEvent) {
  return {
    type: 'object',
    properties: {
      id: { type: 'string', description: `What identifies the item: its ${settings.id}.` },
      change: { enum: settings.removed ? ['added', 'changed', 'removed'] : ['added', 'changed'] },
      item: contentSchema(settings, 'The item after the change.'),
      omitted: omittedSchema,
    },
    required: ['id', 'change'],
  }
}

// Polling

/** A watch that can be polled. */
class Watch implements Job {
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

  /** Polls when it is due, until it is aborted. Never rejects. */
  async run({ signal }: AbortController, onReady: () => void, lease: Lease): Promise<void> {
    while (!signal.aborted) {
      const wait = this.#dueAt - world.now()
      if (wait <= 0) await this.#poll(signal, lease)
      onReady()
      const rest = this.#dueAt - world.now()
      if (rest > 0) await pause(rest, signal).catch(() => undefined)
    }
  }

  async #poll(signal: AbortSignal, lease: Lease): Promise<void> {
    const { every } = this.target.settings
    let delay = every
    let least = 0
    try {
      await this.#record(await itemsFor(this.target, this.#deps, signal), lease)
      if (this.#failure) this.#deps.log.info('events.poll_recovered', this.#fields)
      this.#failure = undefined
      this.#failures = 0
    } catch (thrown) {
      if (signal.aborted) return
      const error = asGatewayError(thrown)
      // Once for each outage.
      if (!this.#failure)
        this.#deps.log.warn('events.poll_failed', {
          ...this.#fields,
          code: error.code,
          reason: reasonOf(error),
        })
      this.#failure = error
      this.#failures++
      delay = delayBefore(this.#failures - 1, { firstMs: every, maxMs: Math.max(every, MAX_BACKOFF_MS) })
      least = (error.extra.retryAfterSeconds ?? 0) * 1000
    }
    this.#dueAt = world.now() + Math.max(least, delay * (1 - JITTER + 2 * JITTER * world.random()))
  }

  /**
   * Logs what changed since the state in the store, and then replaces it. The items are dropped if the lease was lost, as
   * another process may have found newer ones. @throws SERVER_UNAVAILABLE
   */
  async #record(items: readonly Item[], lease: Lease): Promise<void> {
    const text = await lease.get(this.#stateKey)
    const before = readWatchState(text)
    const { changes, state } = compare(before, items, this.target.settings.removed)
    const { name } = this.target
    if (!before) await this.#events.add({ name: WATCHING_BEGAN, data: { type: name } })
    await Promise.all(changes.map((change) => this.#add(change)))
    const next = printState(state)
    if (next === text && world.now() - this.#savedAt < STATE_REFRESH_MS) return
    this.#savedAt = world.now()
    await lease.update(this.#stateKey, () => ({ result: next, write: { text: next, ttl: STATE_TTL_MS } }))
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

/** The items that one call finds. @throws GatewayError */
async function itemsFor(target: WatchTarget, deps: Deps, signal: AbortSignal): Promise<readonly Item[]> {
  const { server: upstream, settings } = target
  const { tool } = target.call
  const made = internalCall({
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

/** The reason for the log, without what a server wrote. */
function reasonOf({ message, extra: { relayed } }: GatewayError): string {
  return relayed ? 'the server refused the call' : message
}

// What polls find

/** How many items one poll may find, and how many are remembered that are not found any more. */
const MAX_ITEMS = 5000
const MAX_ID_LENGTH = 400

/** What is known after a poll. Field names are persisted and do not change. */
interface WatchState {
  /** Distinguishes it from a state that was lost and begun again. */
  readonly epoch: string
  /** How many polls found changes. */
  readonly round: number
  /** What each item was like, by its id; those that were found last are at the end. */
  readonly items: ReadonlyMap<string, string>
  /** Ids and digests have all digits of numbers; without it, they are those of the nearest doubles. */
  readonly isExact: boolean
}

/** An item of a result. */
interface Item {
  readonly id: string
  /** The same as long as the item has not changed. */
  readonly digest: string
  readonly value: unknown
  /** Id and digest with doubles, if they are others: a state that is not exact has them. */
  readonly rounded?: { readonly id: string; readonly digest: string }
}

/** What happened to an item between two polls. */
interface Change {
  readonly kind: 'added' | 'changed' | 'removed'
  readonly id: string
  /** Absent if it was removed. */
  readonly item?: Item
  /** The id of its event: the same if the change is found again. */
  readonly eventId: string
}

/** Where the items of a result are, and what identifies them. */
interface ItemPaths {
  readonly items: Path
  readonly id: readonly Step[]
  readonly changed?: readonly Step[]
  /** As they are written, for problems. */
  readonly written: { readonly id: string; readonly changed?: string }
}

/** The reason of an error that names the setting which does not fit what a server returned. */
const UNREADABLE = 'unreadable_items'

function unreadable(setting: string, message: string): GatewayError {
  return new GatewayError('UPSTREAM_ERROR', message, { field: setting, reason: UNREADABLE })
}

/** The items of a result. @throws UPSTREAM_ERROR if they cannot be read */
export function itemsOf(result: Payload, { items: path, id, changed, written }: ItemPaths): readonly Item[] {
  const found = asList(find(path, { args: {}, result: resultValue(result) }))
  if (!found) throw unreadable('items', `there is no list at ${printPath(path)} of the result`)
  if (found.length > MAX_ITEMS)
    throw unreadable('items', `the result has ${found.length} items, and at most ${MAX_ITEMS} are compared`)
  const known = new Set<string>()
  return found.map((value) => {
    const identity = follow(value, id)
    const own = idOf(identity)
    if (own === undefined)
      throw unreadable(
        'id',
        `an item has no text or number at ${written.id}, or one of over ${MAX_ID_LENGTH} characters`,
      )
    if (known.has(own)) throw unreadable('id', `several items have the same value at ${written.id}`)
    known.add(own)
    const compared = changed ? follow(value, changed) : value
    if (compared === undefined) throw unreadable('changed', `an item has nothing at ${written.changed}`)
    const item = { id: own, digest: digestOf(exactly(compared)), value }
    const rounded = { id: String(toDouble(identity) ?? own), digest: digestOf(canonical(compared)) }
    const isOther = rounded.id !== own || rounded.digest !== item.digest
    return isOther ? { ...item, rounded } : item
  })
}

function digestOf(text: string): string {
  return hash('sha256', text, 'base64url').slice(0, 16)
}

/** A list; a text is JSON with a list, or a list of lines. */
function asList(value: unknown): readonly unknown[] | undefined {
  if (Array.isArray(value)) return value
  if (typeof value !== 'string') return undefined
  const read = readJson(value)
  if (Array.isArray(read)) return read
  return value.split('\n').flatMap((line) => (line.trim() === '' ? [] : [line.trim()]))
}

function idOf(value: unknown): string | undefined {
  if (typeof value !== 'string' && !isNumber(value)) return undefined
  const text = String(value)
  return text === '' || text.length > MAX_ID_LENGTH ? undefined : text
}

/** The changes between the state before a poll and its items, and the state after it; without one, they are the baseline. */
export function compare(
  state: WatchState | undefined,
  items: readonly Item[],
  removes: boolean,
): { readonly changes: readonly Change[]; readonly state: WatchState } {
  const before = state && withDigits(state, items)
  const found = new Map(items.map(({ id, digest }) => [id, digest]))
  if (!before) {
    const epoch = world.randomBytes(9).toString('base64url')
    return { changes: [], state: { epoch, round: 0, items: found, isExact: true } }
  }
  const { epoch, round } = before
  const missing = [...before.items].filter(([id]) => !found.has(id))
  const changes = [
    ...items
      .filter(({ id, digest }) => before.items.get(id) !== digest)
      .map((item) => ({
        kind: before.items.has(item.id) ? ('changed' as const) : ('added' as const),
        id: item.id,
        item,
      })),
    ...(removes ? missing : []).map(([id]) => ({ kind: 'removed' as const, id })),
  ].map((change) => {
    const { kind, id } = change
    const digest = found.get(id) ?? ''
    const eventId = `evt_${hash('sha256', JSON.stringify([epoch, round, kind, id, digest]), 'base64url').slice(0, 22)}`
    return { ...change, eventId }
  })
  // An item that is not on the first page any more is no new one when it comes back.
  const remembered = removes ? [] : missing.slice(Math.max(0, missing.length + found.size - MAX_ITEMS))
  const next = {
    epoch,
    round: changes.length > 0 ? round + 1 : round,
    items: new Map([...remembered, ...found]),
    isExact: true,
  }
  return { changes, state: next }
}

/** A state in which items that were stored with rounded numbers have their digits. */
function withDigits(state: WatchState, items: readonly Item[]): WatchState {
  if (state.isExact) return state
  const known = new Map(state.items)
  const ids = new Set(items.map(({ id }) => id))
  for (const { id, digest, rounded } of items) {
    const before = rounded && state.items.get(rounded.id)
    if (!rounded || before === undefined || (rounded.id !== id && ids.has(rounded.id))) continue
    known.delete(rounded.id)
    known.set(id, before === rounded.digest ? digest : before)
  }
  return { ...state, items: known, isExact: true }
}

/** A state as text. */
export function printState({ epoch, round, items, isExact }: WatchState): string {
  return JSON.stringify({ epoch, round, items: [...items], ...(isExact && { exact: true }) })
}

/** A state from its text; undefined if it is none. */
export function readWatchState(text: string | undefined): WatchState | undefined {
  const value = text === undefined ? undefined : readJson(text)
  if (!isObject(value)) return undefined
  const { epoch, round, items, exact } = value
  if (typeof epoch !== 'string' || typeof round !== 'number' || !Array.isArray(items)) return undefined
  const known = items.filter((entry): entry is [string, string] => Array.isArray(entry) && entry.length === 2)
  return { epoch, round, items: new Map(known), isExact: exact === true }
}

// Checks of the configured watches with what the servers list and return

/** The mismatches between watches and the tools of their servers. */
async function watchProblems(watches: readonly WatchTarget[], deps: Deps): Promise<readonly Finding[]> {
  const found = await Promise.all(
    [...new Set(watches.map(({ server }) => server))].map((server) =>
      serverProblems(
        server,
        watches.filter((each) => each.server === server),
        deps,
      ),
    ),
  )
  return found.flat()
}

async function serverProblems(
  server: string,
  watches: readonly WatchTarget[],
  deps: Deps,
): Promise<readonly Finding[]> {
  if (hasPersonalCredentials(server, deps)) {
    const message = `each user has credentials of ${server}, so the gateway itself cannot call it: remove the watch`
    return watches.map((target) => ({ path: [...pathOf(target), 'watch'], message }))
  }
  const tools = await toolsToCheck(server, deps, 'events.unchecked')
  if (!tools) return []
  return watches.flatMap((target) =>
    writtenMismatches({ expression: target.call, subjects: [], mustRead: true }, server, tools).map(
      (message) => ({ path: [...pathOf(target), 'watch'], message }),
    ),
  )
}

/** Makes the call of a watch once, and says what it found. */
async function tryWatch(target: WatchTarget, deps: Deps): Promise<EventTrial> {
  const about = { path: pathOf(target), server: target.server }
  try {
    const items = await itemsFor(target, deps, world.timeoutSignal(TRIAL_TIMEOUT_MS))
    return { ...about, found: { items: items.length, ids: items.slice(0, TRIAL_IDS).map(({ id }) => id) } }
  } catch (error) {
    const { reason, field } = error instanceof GatewayError ? error.extra : {}
    const key = reason === UNREADABLE && field !== undefined ? field : 'watch'
    return { ...about, found: { problem: error instanceof Error ? error.message : String(error), key } }
  }
}

function pathOf({ upstream, name }: WatchTarget): readonly string[] {
  return [...(upstream === undefined ? [] : ['upstreams', upstream]), 'events', name]
}
