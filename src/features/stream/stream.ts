/**
 * The feature `stream`: collects the pages of tools that return their results in pages. Only tools that read, with an
 * argument that selects a page, are collected, and only on request or where the configuration says so.
 */
import { countText } from '../../core/text/words.ts'
import { deadlineSlot, detachedSlot, acceptsTaskSlot } from '../../core/slot.ts'
import type { Call, Handler, Outcome, Notification } from '../../core/call.ts'
import { isPageSlot } from '../../core/spool.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { GatewayError, asGatewayError } from '../../core/error.ts'
import { asObject, isObject, exactly } from '../../core/json/json.ts'
import { asCalled } from '../../core/judgement/call.ts'
import {
  type PageArgument,
  pageArguments,
  itemsAt,
  type NextPage,
  type PageReading,
  readLaterPage,
  readPage,
} from '../../core/judgement/pages.ts'
import {
  STREAM_KEY,
  withoutFlag,
  CHUNK_KEY,
  TRUNCATED_KEY,
  withoutExtension,
  CAMEL_KEY,
  IDEMPOTENCY_KEY,
} from '../../protocol/meta-keys.ts'
import type { Feature, Services } from '../feature.ts'
import { toolFacts, explained } from '../offers.ts'
import { MAX_PAGES, type StreamSettings, streamSchema } from '../settings/admit.ts'
import { world } from '../../core/world.ts'
import { operationSlot } from '../../records/operations.ts'
import { isAnswer } from '../../core/failure.ts'
import { Payload } from '../../core/payload.ts'
import { matchesSchema } from '../../core/schema/schema.ts'
import { MAX_TIMER_MS, pause, untilAborted } from '../../core/time/waiting.ts'
import { PROGRESS } from '../../protocol/methods.ts'
import { documentsOf, mergePages, type Page } from './merge.ts'
import { toDouble } from '../../core/json/exact-number.ts'
import type { Seal, SealUse } from '../../core/seal.ts'
import { argumentsHash } from '../../records/receipts.ts'

/** Collects all pages of a result, each sent as it comes, and can go on where it ended. */
export const stream: Feature<StreamSettings> = {
  ...streamSchema,
  create: (settings, deps) => {
    const inputsOf = cachedArguments()
    return {
      calls: {
        middleware: ({ upstream, method, name, isBuiltin }) => {
          if (method !== 'tools/call' || isBuiltin || upstream === undefined || name === undefined)
            return undefined
          const own = settings(upstream)
          return (next) => (call) => {
            if (call.internal || (call.meta[STREAM_KEY] === undefined && !own.collect)) return next(call)
            return collect(call, next, { settings: own, inputsOf, deps })
          }
        },
        // There are no pages.
        dryRun: () => (next) => (call) => next(withoutFlag(call, STREAM_KEY)),
      },
      builtins: {
        extensions: (upstream) => ({ [STREAM_KEY]: { maxPages: settings(upstream).max_pages } }),
      },
      offers: [
        toolFacts.offer((entry) =>
          entry.classification.op === 'read' && inputsOf(entry).length > 0 ? { isCollectable: true } : {},
        ),
      ],
    }
  },
}

interface Context {
  readonly settings: StreamSettings
  readonly deps: Deps
  inputsOf(entry: Descriptor): readonly PageArgument[]
}

/** @throws INVALID_INPUT, RESOURCE_NOT_FOUND, what the first page fails with */
async function collect(given: Call, next: Handler, { settings, inputsOf, deps }: Context): Promise<Outcome> {
  const { isWanted, maxPages, token } = requestOf(given, settings)
  const isRequested = given.meta[STREAM_KEY] !== undefined
  const call = withoutFlag(given, STREAM_KEY)
  if (!isWanted) return next(call)
  const inputs = call.tool && isRead(call.tool, call) ? inputsOf(call.tool) : []
  if (inputs.length === 0) {
    if (token !== undefined) throw unknownCheckpoint()
    const outcome = await next(call)
    return isRequested ? notCollected(outcome) : outcome
  }
  const from = token === undefined ? undefined : openCheckpoint(token, call, deps.identity.seal)
  return new Collector(isPageSlot.set(call, true), { next, inputs, maxPages, from, isRequested, deps }).run()
}

/** Whether this call of a tool only reads. */
function isRead(tool: Descriptor, call: Call): boolean {
  return asCalled(tool, call).classification.op === 'read'
}

interface StreamRequest {
  readonly isWanted: boolean
  readonly maxPages: number
  readonly token?: string
}

/** What the caller requests, within the settings. @throws INVALID_INPUT */
function requestOf({ meta }: Call, settings: StreamSettings): StreamRequest {
  const requested = meta[STREAM_KEY]
  if (requested === undefined || typeof requested === 'boolean')
    return { isWanted: requested ?? settings.collect, maxPages: settings.max_pages }
  if (!isObject(requested)) throw invalid('must be true, false, or an object')
  const { max_pages: pages = settings.max_pages, checkpoint_token: token, ...others } = requested
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) throw invalid(`has an unknown member ${JSON.stringify(unknown.slice(0, 100))}`)
  if (typeof pages !== 'number' || !Number.isInteger(pages) || pages < 1 || pages > MAX_PAGES)
    throw invalid(`max_pages must be a whole number from 1 to ${MAX_PAGES}`)
  if (token !== undefined && typeof token !== 'string') throw invalid('checkpoint_token must be a string')
  const maxPages = Math.min(pages, settings.max_pages)
  return { isWanted: true, maxPages, ...(token !== undefined && { token }) }
}

function invalid(why: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: _meta["${STREAM_KEY}"] ${why}.`, {
    field: STREAM_KEY,
    suggestion: 'Send true, or an object with max_pages or checkpoint_token.',
  })
}

/** The arguments of tools that select a page, found once for each definition. */
function cachedArguments(): Context['inputsOf'] {
  const known = new WeakMap<object, readonly PageArgument[]>()
  return ({ definition }) => {
    const found = known.get(definition) ?? pageArguments(definition)
    known.set(definition, found)
    return found
  }
}

// Collects the pages of one tool call: asks the layers below for one page after the other, sends each to a caller that
// wants progress, and ends with one result of all of them.
//
//     first page ──▶ chunk ──▶ client has read it ──▶ next page ──▶ … ──▶ result
//                      │                                 │
//                      └── no next page, or a limit ──▶ result ◀── the page failed
//
// Invariants: a page is requested only after its predecessor was read; what was collected is never lost to a later
// failure; a result that is not complete says so, and says where it continues.

type Deps = Pick<Services, 'servers' | 'identity' | 'features'>

interface Options {
  readonly next: Handler
  readonly inputs: readonly PageArgument[]
  readonly maxPages: number
  /** Where an earlier call ended. */
  readonly from: Checkpoint | undefined
  /** Whether the caller requested the collection; it is then notified of a result without pages. */
  readonly isRequested: boolean
  readonly deps: Deps
}

/** How much is collected at most, whatever the limit of results, in bytes. */
const MAX_COLLECTED_BYTES = 100 * 1024 * 1024
/** What is left of the limit of results for the notice and `_meta`, in bytes; a token may hold a cursor. */
const RESERVED_BYTES = 4096
/** The longest cursor that is followed, in characters: it is repeated in every token. */
const MAX_CURSOR_LENGTH = 16_384
/** How long before a deadline a collection ends, to return what it has, in milliseconds. */
const MAX_MARGIN_MS = 1000

/** The collection of one call. */
class Collector {
  /** As the caller made it: tokens belong to its arguments. */
  readonly #call: Call
  readonly #options: Options
  readonly #pages: Page[] = []
  readonly #seen = new Set<string>()
  readonly #token: Payload | undefined
  #startedAt = world.now()
  #bytes = 0
  #sequence: number
  /** The largest value of progress so far. */
  #progress = 0

  constructor(call: Call, options: Options) {
    this.#call = call
    this.#options = options
    this.#sequence = options.from?.sequence ?? 0
    this.#token = call.params.at('_meta')?.at('progressToken')
  }

  /** The result of all pages; the outcome of the first one if it has no pages. @throws what the first page fails with */
  async run(): Promise<Outcome> {
    const { from, next } = this.#options
    const first = from ? withPage(this.#call, from.next) : this.#call
    this.#recordSelected(asObject(first.params.fields.arguments))
    const outcome = await next(this.#observed(first))
    if (outcome.kind !== 'result' || !isAnswer(outcome.result)) return outcome
    const page = this.#read(outcome.result, asObject(first.params.fields.arguments))
    if (!page) return this.#options.isRequested ? notCollected(outcome) : outcome
    this.#add(page)
    return { kind: 'result', result: await this.#collect(page) }
  }

  /** Requests the following pages, until the last one or a limit. */
  async #collect(first: Page): Promise<Payload> {
    let page = first
    for (;;) {
      const { next } = page.reading
      const stop = this.#stopAfter(page)
      this.#send({ page, isFinal: stop !== undefined || !next, next: stop ? stop.next : next })
      if (stop || !next) return this.#result(stop)
      const late = (await this.#isRead()) ? undefined : ({ by: 'slow_client', next } as const)
      const following = late ?? (await this.#fetch(next))
      if ('by' in following) {
        this.#send({ isFinal: true, next: following.next })
        return this.#result(following)
      }
      page = following
      this.#add(page)
    }
  }

  #add(page: Page): void {
    this.#pages.push(page)
    this.#bytes += sizeOf(page.result)
    this.#count(this.#pages.length)
  }

  /** For the log, and for what the call costs. */
  #count(pages: number): void {
    this.#call.logFields.set('pages', pages)
  }

  /** Why the page is the last one that is collected, although there are more. */
  #stopAfter({ document, reading: { path, next, isOpen } }: Page): Stop | undefined {
    if (!next) return isOpen ? { by: 'no_cursor' } : undefined
    const text = exactly(next.value)
    if (text.length > MAX_CURSOR_LENGTH) return { by: 'no_cursor' }
    if (this.#seen.has(keyOf(next))) return { by: 'repeated_cursor' }
    if (itemsAt(document.json.value, path).length === 0) return { by: 'empty_page', next }
    if (this.#pages.length >= this.#options.maxPages) return { by: 'max_pages', next }
    if (this.#bytes >= this.#limit()) return { by: 'result_limit', next }
    if (!this.#isWithinSchema(path)) return { by: 'output_schema', next }
    return this.#timeLeft() <= 0 ? { by: 'deadline', next } : undefined
  }

  /** The next page, or why it is not there. @throws the reason of the caller's signal */
  async #fetch(next: NextPage): Promise<Page | Stop> {
    const { signal } = this.#call
    signal.throwIfAborted()
    deadlineSlot.of(this.#call)?.renew()
    const given = asObject(withPage(this.#call, next).params.fields.arguments)
    this.#seen.add(keyOf(next))
    const failed = (failure: Payload | GatewayError): Stop => {
      const isLate = failure instanceof GatewayError && failure === this.#deadlineError
      if (isLate) return { by: 'deadline', next }
      return { by: 'page_failed', next, error: this.#errorOf(failure) }
    }
    try {
      const outcome = await this.#request(next)
      signal.throwIfAborted()
      if (outcome.kind !== 'result') return failed(inputRequired())
      const { result } = outcome
      if (!isAnswer(result)) return failed(result)
      const isTooMuch =
        this.#bytes + sizeOf(result) > this.#limit() || result.meta(TRUNCATED_KEY) !== undefined
      if (isTooMuch) {
        this.#count(this.#pages.length + 1)
        return { by: 'result_limit', next }
      }
      return this.#read(result, given) ?? failed(withoutItems())
    } catch (error) {
      signal.throwIfAborted()
      return failed(asGatewayError(error))
    }
  }

  /** The reason of an abort at the deadline of the whole call. */
  readonly #deadlineError = new GatewayError('OPERATION_TIMEOUT', 'The time of the call is over.')

  /**
   * Makes the call of a page. It ends before the deadline of the whole call does, so that what was collected can be
   * returned.
   */
  async #request(next: NextPage): Promise<Outcome> {
    const { signal } = this.#call
    const controller = new AbortController()
    const silence = this.#silence()
    const silent = world
      .setTimeout(() => {
        if (detachedSlot.of(this.#call)?.() === true) silent.refresh()
        else controller.abort(serverTimeout(silence))
      }, silence)
      .unref()
    const over = world
      .setTimeout(() => controller.abort(this.#deadlineError), Math.max(this.#timeLeft(), 1))
      .unref()
    try {
      const call = pageCall(withPage(this.#call, next), {
        signal: AbortSignal.any([signal, controller.signal]),
        abort: (reason) => controller.abort(reason),
        emit: (note) => {
          silent.refresh()
          this.#relay(note)
        },
      })
      return await untilAborted(this.#options.next(call), call.signal)
    } finally {
      world.clearTimeout(silent)
      world.clearTimeout(over)
    }
  }

  /** A page of the result; undefined if the result is none. */
  #read(result: Payload, given: Readonly<Record<string, unknown>>): Page | undefined {
    const [first] = this.#pages
    const { inputs, from } = this.#options
    for (const document of documentsOf(result)) {
      const { value } = document.json
      const reading: PageReading | undefined = first
        ? readLaterPage(value, first.reading.path, given, inputs)
        : readPage(value, given, inputs, from !== undefined)
      const isAlike = !first || first.document.isStructured === document.isStructured
      if (reading && isAlike) return { result, document, reading }
    }
    return undefined
  }

  /** The call with its notifications observed; its time starts again after a person was asked. */
  #observed(call: Call): Call {
    const observed = { ...call, emit: (note: Notification) => this.#relay(note) }
    const deadline = deadlineSlot.of(call)
    if (!deadline) return observed
    const pause = (): (() => void) => {
      const resume = deadline.pause()
      return () => {
        resume()
        this.#startedAt = world.now()
      }
    }
    return deadlineSlot.set(observed, { ...deadline, pause })
  }

  /** Passes on the notifications of a page; its progress only if it is larger than what was sent. */
  #relay(note: Notification): void {
    const value = note.method === PROGRESS ? toDouble(note.params?.fields.progress) : undefined
    if (value !== undefined) {
      if (value <= this.#progress && this.#pages.length > 0) return deadlineSlot.of(this.#call)?.renew()
      this.#progress = Math.max(value, this.#progress)
    }
    this.#call.emit(note)
  }

  /** Sends a page, or only the end, to a caller that wants progress. */
  #send(chunk: {
    readonly page?: Page
    readonly isFinal: boolean
    readonly next: NextPage | undefined
  }): void {
    if (!this.#token) return
    const { page, isFinal, next } = chunk
    const sequence = this.#sequence++
    const token = next && this.#seal(next)
    const data = Payload.of({ type: 'stream_chunk', sequence, is_final: isFinal }).with({
      ...(page && { data: page.document.json }),
      ...(token !== undefined && { checkpoint_token: token }),
    })
    this.#progress = Math.max(this.#pages.length, Math.floor(this.#progress) + 1)
    const params = Payload.of({ progress: this.#progress, message: amountText(this.#amount()) }).with({
      progressToken: this.#token,
      _meta: Payload.of({}).with({ [CHUNK_KEY]: data }),
    })
    this.#call.emit({ method: PROGRESS, params, mustArrive: true })
  }

  /** Waits until the caller has read what was sent, at most as long as a server may be silent. */
  async #isRead(): Promise<boolean> {
    const { drained, signal } = this.#call
    if (!this.#token || !drained) return true
    deadlineSlot.of(this.#call)?.renew()
    const done = new AbortController()
    const timeoutMs = Math.min(this.#silence(), Math.max(this.#timeLeft(), 1))
    const tooLate = pause(timeoutMs, AbortSignal.any([done.signal, signal])).then(
      () => false,
      () => true,
    )
    const isRead = await Promise.race([drained().then(() => true), tooLate])
    done.abort()
    signal.throwIfAborted()
    return isRead
  }

  #result(stop: Stop | undefined): Payload {
    const [first, ...others] = this.#pages
    if (!first) throw new TypeError('a collection has a first page')
    const merged = others.length === 0 ? first.result : mergePages([first, ...others])
    if (others.length > 0 && !matchesOutput(merged, this.#call)) return this.#onlyFirst(first)
    return this.#described(merged, stop)
  }

  /** All pages together are no result of this tool: the first one is. */
  #onlyFirst(first: Page): Payload {
    const { next } = first.reading
    this.#pages.length = 1
    this.#sequence = (this.#options.from?.sequence ?? 0) + 1
    return this.#described(first.result, { by: 'output_schema', next })
  }

  #described(result: Payload, stop: Stop | undefined): Payload {
    const token = stop?.next && this.#seal(stop.next)
    const about = {
      ...this.#amount(),
      complete: stop === undefined,
      ...(stop && { stopped_by: stop.by }),
      ...(stop?.error && { failed_page: this.#pages.length + 1, error: stop.error }),
      ...(token !== undefined && { checkpoint_token: token }),
    }
    const described = result.withMeta({ [STREAM_KEY]: about })
    return stop
      ? described.withItem('content', { type: 'text', text: stopNotice(stop, this.#amount()) })
      : described
  }

  #seal(next: NextPage): string {
    return sealCheckpoint({ next, sequence: this.#sequence }, this.#call, this.#options.deps.identity.seal)
  }

  /** The error as callers see errors: explained, and without texts of the server that are not relayed. */
  #errorOf(failure: Payload | GatewayError): Readonly<Record<string, unknown>> {
    const explanation = explained(this.#options.deps, failure, this.#call)
    if (explanation) return explanation
    return failure instanceof GatewayError
      ? failure.data
      : { code: 'UPSTREAM_ERROR', message: 'The tool reported an error' }
  }

  #amount(): { readonly pages: number; readonly items: number } {
    return { pages: this.#pages.length, items: this.#items() }
  }

  #items(): number {
    return this.#pages.reduce(
      (sum, { document, reading: { path } }) => sum + itemsAt(document.json.value, path).length,
      0,
    )
  }

  /** Records which page the call itself selects. */
  #recordSelected(given: Readonly<Record<string, unknown>>): void {
    for (const { name } of this.#options.inputs) {
      if (given[name] !== undefined) this.#seen.add(keyOf({ argument: name, value: given[name] }))
    }
  }

  #limit(): number {
    const { upstream = '' } = this.#call.target
    const limit = this.#options.deps.servers.resultLimit(upstream)
    return Math.min(limit, MAX_COLLECTED_BYTES) - RESERVED_BYTES
  }

  #silence(): number {
    return Math.min(withMargin(this.#bounds().silence), MAX_TIMER_MS)
  }

  /** The time until the call has to end, in milliseconds. */
  #timeLeft(): number {
    return Math.min(withMargin(this.#bounds().total) - (world.now() - this.#startedAt), MAX_TIMER_MS)
  }

  #bounds(): { readonly silence: number; readonly total: number } {
    const { upstream = '', name = '' } = this.#call.target
    return this.#options.deps.servers.callBounds(upstream, name)
  }

  /** Whether the tool may return more items than there are. */
  #isWithinSchema(path: readonly string[]): boolean {
    let schema: unknown = this.#call.tool?.definition.outputSchema
    for (const name of path) {
      const properties = isObject(schema) ? schema.properties : undefined
      schema = isObject(properties) ? properties[name] : undefined
    }
    const most = isObject(schema) ? schema.maxItems : undefined
    return typeof most !== 'number' || this.#items() < most
  }
}

const NOT_PAGED = { pages: 1, complete: false, stopped_by: 'not_collectable' }

/** A result for a caller that requested the pages of what has none. */
function notCollected(outcome: Outcome): Outcome {
  if (outcome.kind !== 'result') return outcome
  return { kind: 'result', result: outcome.result.withMeta({ [STREAM_KEY]: NOT_PAGED }) }
}

function withMargin(ms: number): number {
  return ms - Math.min(MAX_MARGIN_MS, ms / 10)
}

function sizeOf({ text }: Payload): number {
  return Buffer.byteLength(text)
}

function keyOf({ argument, value }: NextPage): string {
  return exactly([argument, value])
}

/** The call for another page. */
function withPage(call: Call, { argument, value }: NextPage): Call {
  const given = call.params.at('arguments') ?? Payload.of({})
  return { ...call, params: call.params.with({ arguments: given.with({ [argument]: value }) }) }
}

/**
 * The call of a page after the first. It requests no input, and waits for a task of its server. The idempotency key and
 * the step id belong to the arguments of the first page, so it has neither.
 */
function pageCall(call: Call, own: Pick<Call, 'signal' | 'abort' | 'emit'>): Call {
  const { inputResponses: _responses, ...rest } = withoutExtension(
    call,
    'step_id',
    IDEMPOTENCY_KEY,
    CAMEL_KEY,
  )
  const slots = acceptsTaskSlot.put(undefined, operationSlot.put(undefined, rest.slots))
  return { ...rest, ...own, requestState: {}, client: { ...call.client, nonInteractive: true }, slots }
}

function matchesOutput(result: Payload, { tool }: Call): boolean {
  const schema = tool?.definition.outputSchema
  const structured = result.member('structuredContent')
  return !isObject(schema) || structured === undefined || matchesSchema(structured, schema)
}

function serverTimeout(ms: number): GatewayError {
  return new GatewayError(
    'OPERATION_TIMEOUT',
    `The server did not respond within ${Math.round(ms / 1000)} s.`,
  )
}

function inputRequired(): GatewayError {
  return new GatewayError('CONFIRMATION_REQUIRED', 'The page needs an answer of a person.')
}

function withoutItems(): GatewayError {
  return new GatewayError('UPSTREAM_ERROR', 'The page has no items where the first page has them.')
}

const words = {
  max_pages: 'the limit of pages is reached',
  result_limit: 'page {page} would exceed the limit of results',
  deadline: 'the time of the call was nearly over before page {page}',
  page_failed: 'page {page} failed',
  repeated_cursor: 'the server named the same page again',
  empty_page: 'the last page is empty, although the server says that there are more',
  no_cursor: 'the server says that there are more pages, but not how to request them',
  slow_client: 'the client did not read the earlier pages in time',
  output_schema: 'more items would not match the output schema of the tool',
} as const

/** The end of a collection that is not complete. */
interface Stop {
  readonly by: keyof typeof words
  /** Where the rest begins; absent if it cannot be requested. */
  readonly next?: NextPage | undefined
  /** The error of the page that failed. */
  readonly error?: Readonly<Record<string, unknown>> | undefined
}

/** How much was collected. */
interface Amount {
  readonly pages: number
  readonly items: number
}

/** An amount in words. */
function amountText({ pages, items }: Amount): string {
  return `${countText(pages, 'page')}, ${countText(items, 'item')}`
}

/** What a model reads of a collection that is not complete. */
function stopNotice({ by, next, error }: Stop, { pages, items }: Amount): string {
  const collected = `${countText(pages, 'page')} with ${countText(items, 'item')}`
  const why = words[by].replace('{page}', String(pages + 1))
  const message = typeof error?.message === 'string' ? `: ${error.message.replace(/[.\s]+$/, '')}` : ''
  const rest = next ? ` The rest begins with ${next.argument}=${shortened(next.value)}.` : ''
  return `[Collected by the gateway: ${collected}. This is not all: ${why}${message}.${rest}]`
}

/** How long a cursor may be in a text, in characters. */
const MAX_SHOWN_LENGTH = 500

function shortened(value: unknown): string {
  const text = JSON.stringify(value) ?? 'null'
  return text.length <= MAX_SHOWN_LENGTH ? text : `${text.slice(0, MAX_SHOWN_LENGTH - 1)}…`
}

/*
 * Checkpoint tokens: where a collection continues, sealed, so that the caller cannot read or change it.
 *
 * Invariant: a token is valid only for its caller, server, tool and arguments. All others are refused with the same error.
 */

/** Where a collection continues. */
interface Checkpoint {
  readonly next: NextPage
  /** How many chunks were sent before. */
  readonly sequence: number
}

/** How long a token is valid, in milliseconds. */
const CHECKPOINT_TTL_MS = 3_600_000
/** How long a token may be, in characters. */
const MAX_TOKEN_LENGTH = 65_536

/** A token for the rest of the pages of a call. */
function sealCheckpoint({ next, sequence }: Checkpoint, call: Call, seal: Seal): string {
  const value = {
    tool: call.target.name,
    arguments: argumentsHash(call.params.fields.arguments),
    argument: next.argument,
    cursor: next.value,
    sequence,
  }
  return seal.close(value, useOf(call), world.now() + CHECKPOINT_TTL_MS)
}

/** The content of a token of the caller. @throws RESOURCE_NOT_FOUND */
function openCheckpoint(token: string, call: Call, seal: Seal): Checkpoint {
  const opened = token.length > MAX_TOKEN_LENGTH ? undefined : seal.open(token, useOf(call))
  if (opened?.kind === 'expired') throw expired()
  const value = asObject(opened?.kind === 'valid' ? opened.value : undefined)
  const { tool, arguments: hash, argument, cursor, sequence } = value
  const isOwn = tool === call.target.name && hash === argumentsHash(call.params.fields.arguments)
  if (!isOwn || typeof argument !== 'string' || typeof sequence !== 'number') throw unknownCheckpoint()
  return { next: { argument, value: cursor }, sequence }
}

function useOf({ principal, target }: Call): SealUse {
  return { purpose: 'checkpoint', binding: JSON.stringify([principal.id, target.upstream]) }
}

/** The error for every token that is not valid for the call. */
function unknownCheckpoint(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'Checkpoint not found.', {
    field: 'checkpoint_token',
    reason: 'unknown',
    suggestion: 'Send a checkpoint_token with the tool and the arguments that it was given for.',
  })
}

function expired(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'Checkpoint not found.', {
    field: 'checkpoint_token',
    reason: 'expired',
    suggestion: 'The checkpoint_token has expired: make the call again without it, from the first page on.',
  })
}
