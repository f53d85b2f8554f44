/**
 * Keeps large parts of tool results, and leaves references in their place. A part is the structured content or a content
 * block. Many servers send both with the same data: it is kept once. Long strings of a result arrive before the rest of it,
 * and are in the store already (`records/spool.ts`). A string that cannot be kept is put back into the result; one that is
 * too long for that is left out.
 *
 * Invariants: what is left of structured content still matches the output schema; nothing is left out that is not kept; and
 * after the server has answered nothing fails, so a result that cannot be kept is passed on.
 */
import { NS } from '../../core/identity.ts'
import type { Call, Middleware } from '../../core/call.ts'
import { keepsResultSlot } from '../../core/used-reference.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { isObject, isSame, readJson } from '../../core/json/json.ts'
import { isLongerThan, sizeOf } from '../../core/json/shorten.ts'
import { Payload } from '../../core/payload.ts'
import type { Principal } from '../../core/principal.ts'
import { type JsonSchema, matchesSchema, shortenedFor } from '../../core/schema/schema.ts'
import { MAX_MESSAGE_BYTES, isPageSlot, spoolSlot } from '../../core/spool.ts'
import { world } from '../../core/world.ts'
import { NOT_KEPT_KEY, withoutFlag } from '../../protocol/meta-keys.ts'
import { type KeptBlob, type NewReference, type Reference, References } from '../../records/references.ts'
import { type Spooled, StoreSpool } from '../../records/spool.ts'
import { type Bytes, collected } from '../../store/blobs/blobs.ts'
import type { Feature, Services, SettingsOf } from '../feature.ts'
import {
  type BlockData,
  blocksOf,
  dataOf,
  dataReference,
  type DescribedReference,
  factsOf,
  loggedReference,
  metaOf,
  PREVIEWED_BYTES,
  referenceUri,
} from './kept-data.ts'
import { mayRead } from './read.ts'
import { once } from './selection.ts'
import { gatewayWide, type ReferenceSettings, referencesSchema } from '../settings/authorize.ts'
import { DataUrls } from './transfer/urls.ts'

/** How long a string of a result is that is kept while it arrives, in bytes. */
const SPOOLED_BYTES = 1024 * 1024

/** Keeps large results. */
export const largeResults: Feature<ReferenceSettings | false> = {
  ...referencesSchema,
  create: (settings, deps) => {
    const limits = gatewayWide(settings())
    const keepingOf = keeper(settings, {
      references: new References(deps.store, limits),
      urls: new DataUrls(deps),
    })
    const { capacity = Number.POSITIVE_INFINITY } = deps.store.blobs
    const spool = StoreSpool.of(deps.store.blobs, {
      over: SPOOLED_BYTES,
      total: Math.min(limits.total, capacity),
      restored: MAX_MESSAGE_BYTES,
    })
    return {
      calls: {
        middleware: ({ method, upstream, isBuiltin }) => {
          if (method !== 'tools/call' || isBuiltin || upstream === undefined) return undefined
          const options = keepingOf(upstream)
          return options && keepingMiddleware({ ...options, spool }, upstream, deps)
        },
        dryRun: 'absent',
      },
    }
  },
}

function keepingMiddleware(
  options: Keeping & { readonly spool: StoreSpool },
  upstream: string,
  deps: Pick<Services, 'invoker' | 'servers' | 'log' | 'metrics'>,
): Middleware {
  const { references: kept, spool, over } = options
  return (next) => async (call) => {
    if (isPageSlot.of(call) || call.internal)
      return next(spoolSlot.of(call) ? spoolSlot.set(call, undefined) : call)
    const isRequested = call.meta[AS_REFERENCE] === true
    const id = call.meta[REFERENCE_ID]
    if (typeof id === 'string') await kept.mustBeFree(call.principal, id)
    const outcome = await next(
      spoolSlot.set(withoutFlag(withoutFlag(call, AS_REFERENCE), REFERENCE_ID), spool),
    )
    if (outcome.kind !== 'result') return outcome
    const { text } = outcome.result
    if (!spool.isIn(text) && !isRequested && !isLongerThan(text, over)) return outcome
    if (!(await mayRead({ server: upstream, id: '' }, call, deps)))
      return { ...outcome, result: await wholeAgain(outcome.result, spool) }
    const chosen = typeof id === 'string' ? { ...options, id } : options
    const parts = await keepParts(outcome.result, call, { ...chosen, isRequested })
    if (parts.kept.length > 0) deps.metrics.referenced('kept', parts.kept.length)
    const result = withFacts(parts, call)
    if (!parts.problem) return { kind: 'result', result }
    const tool = { upstream, name: call.target.name }
    return { kind: 'result', result: withReason(result, parts.problem, tool, deps) }
  }
}

/** Keeps what arrived before the result, then other large parts of it. Never throws because of limits. */
async function keepParts(given: Payload, call: Call, options: KeepingSpooled): Promise<Unspooled> {
  const first = await withoutSpooled(given, call, options)
  const { result, kept, problem } = first
  const isRequested = options.isRequested && kept.length === 0
  const isDone = !isRequested && !isLongerThan(result.text, options.over)
  if (problem || isDone || result.member('isError') === true) return first
  try {
    const id = kept.length === 0 ? options.id : undefined
    const most = MAX_PARTS - kept.length
    const rest = await withReferences(result, call, { ...options, id, isRequested, most })
    return { result: rest.result, kept: [...kept, ...rest.kept] }
  } catch (error) {
    return { ...first, problem: asGatewayError(error) }
  }
}

/** How many parts of a result are kept. */
const MAX_PARTS = 10
/** How large structured content may be that stays beside its reference, in bytes. */
const MAX_SHORTENED_BYTES = 2048
/** How much structured content may say besides a text that a block repeats, in bytes. */
const MAX_REST_BYTES = 1024

interface Part {
  readonly bytes: Buffer
  readonly type: string
  readonly name: string
  /** The place of the block; absent for structured content. */
  readonly index?: number
}

/** Something that was kept, and the blocks that show it. */
type Kept = DescribedReference & { readonly blocks: readonly unknown[] }

/** How large results of a server are kept: from which size in bytes, and how long in milliseconds. */
export interface Keeping {
  readonly references: References
  readonly over: number
  readonly ttl: number
  /** The URL at which the caller can read the data, where there is one. */
  urlOf?(principal: Principal, reference: Reference): string | undefined
}

/** How one result is kept. */
interface KeepingResult extends Keeping {
  /** Set if at least one part is kept, however small. */
  readonly isRequested: boolean
  /** How many parts are kept at most. */
  readonly most?: number
  /** The id that the caller chose for the first reference. */
  readonly id?: string | undefined
}

/** A result with references in place of parts of it, and what they stand for. */
interface WithReferences {
  readonly result: Payload
  readonly kept: readonly DescribedReference[]
}

/** The same with the facts of all of its references in `_meta`, and in the log of the call. */
export function withFacts({ result, kept }: WithReferences, { logFields }: Call): Payload {
  if (kept.length === 0) return result
  logFields.set(
    'references',
    kept.map(({ reference }) => loggedReference(reference)),
  )
  return result.withMeta(metaOf(kept))
}

/** A result of a tool of which something could not be kept, with the reason, which is counted and logged. */
export function withReason(
  result: Payload,
  { code, message }: GatewayError,
  { upstream, name }: { readonly upstream: string; readonly name: string | undefined },
  { log, metrics }: Pick<Services, 'log' | 'metrics'>,
): Payload {
  metrics.referenced('not_kept')
  log.warn('references.not_kept', { upstream, tool: name, reason: message })
  return result.withMeta({ [NOT_KEPT_KEY]: { code, message } })
}

/** A result with references in place of its large parts. @throws QUOTA_EXHAUSTED, CONFLICT, SERVER_UNAVAILABLE */
export async function withReferences(
  result: Payload,
  call: Call,
  options: KeepingResult,
): Promise<WithReferences> {
  const parts = new Parts(result, schemaOf(call))
  const kept = new Map<Part, Kept>()
  for (const part of parts.large(options)) {
    const id = kept.size === 0 ? options.id : undefined
    const facts = newReference(part, call, { ...options, id })
    const reference = await options.references.add(call.principal, facts, once(part.bytes))
    kept.set(part, shown(describedFor(call, reference, options), part.bytes, jsonOfPart(part)))
  }
  return { result: kept.size === 0 ? result : parts.without(kept), kept: [...kept.values()] }
}

/** Kept data with its description for the caller. */
export function describedFor(
  { principal }: Call,
  reference: Reference,
  { urlOf }: Pick<Keeping, 'urlOf'>,
): DescribedReference {
  return { reference, data: dataReference(reference, urlOf?.(principal, reference)) }
}

function shown(described: DescribedReference, beginning: Buffer, value?: unknown): Kept {
  return { ...described, blocks: blocksOf(described, beginning, value) }
}

/** What a call that returned data says of it. */
function newReference(
  { type, name }: Pick<Part, 'type' | 'name'>,
  call: Call,
  { id, ttl }: Pick<KeepingResult, 'id' | 'ttl'>,
): NewReference {
  const { requestId, target } = call
  const { upstream: server = '', name: tool } = target
  const facts = { server, ...(tool !== undefined && { tool }), requestId, name, type }
  return { ...facts, id, ttl: Math.max(ttl, (keepsResultSlot.of(call) ?? 0) - world.now()) }
}

/** The output schema of the tool that a call names. */
function schemaOf({ tool }: Call): JsonSchema | undefined {
  const schema = tool?.definition.outputSchema
  return isObject(schema) ? schema : undefined
}

/** The parts of one result. */
class Parts {
  readonly #result: Payload
  /** The structured content as it may be shortened; undefined if nothing short matches its schema. */
  readonly #short: unknown
  readonly #structured: Part | undefined
  readonly #blocks: readonly Part[]
  /** The blocks with the same JSON as the structured content, and those that are a member of it. */
  readonly #copies: ReadonlySet<Part>
  readonly #members: ReadonlySet<Part>

  constructor(result: Payload, schema: JsonSchema | undefined) {
    this.#result = result
    this.#blocks = dataIn(result).map(partOf)
    const content = result.at('structuredContent')
    const bytes = Buffer.from(content?.text ?? '')
    const near = this.#blocks.filter((block) => block.bytes.byteLength * 2 >= bytes.byteLength)
    const { value } = content ?? {}
    this.#members = new Set(near.filter((block) => isMember(block, value)))
    this.#copies = new Set(
      near.filter((block) => (isObject(value) || Array.isArray(value)) && isSame(jsonOfPart(block), value)),
    )
    this.#short = content && shortenedFor(value, schema, MAX_SHORTENED_BYTES)
    const canBeKept = content && this.#members.size === 0 && (!schema || this.#short !== undefined)
    if (canBeKept) this.#structured = { bytes, type: 'application/json', name: 'result.json' }
    // Without a schema, a reference stands for all of it.
    if (!schema && this.#members.size === 0) this.#short = undefined
  }

  /** The parts to keep: the largest ones, until what is left is not large. */
  large({ over, isRequested, most = MAX_PARTS }: KeepingResult): readonly Part[] {
    const structured = this.#structured
    const parts = [...(structured ? [structured] : []), ...this.#blocks].toSorted(
      (one, other) => other.bytes.byteLength - one.bytes.byteLength,
    )
    let left = Buffer.byteLength(this.#result.text)
    const large: Part[] = []
    for (const part of parts) {
      // The structured content stands for its copies.
      if (structured && this.#copies.has(part)) continue
      const isNeeded = left > over && part.bytes.byteLength > over
      if (large.length >= most || (!isNeeded && (!isRequested || large.length > 0))) break
      large.push(part)
      left -= part.bytes.byteLength
    }
    return large
  }

  /** The result with a link and a preview in place of each part that was kept. */
  without(kept: ReadonlyMap<Part, Kept>): Payload {
    const structured = this.#structured && kept.get(this.#structured)
    const byIndex = new Map(this.#blocks.map((part) => [part.index, part]))
    const items = this.#result.at('content')?.items ?? []
    const content = items.flatMap((block, index): readonly unknown[] => {
      const part = byIndex.get(index)
      const own = part && kept.get(part)
      if (own) return own.blocks
      return structured && part && this.#copies.has(part) ? [] : [block.value]
    })
    const isShort = structured !== undefined || [...this.#members].some((part) => kept.has(part))
    const before = this.#result.at('structuredContent')?.value
    return this.#result.with({
      content: structured ? [...structured.blocks, ...content] : content,
      ...(isShort && { structuredContent: this.#short ?? (structured ? undefined : before) }),
    })
  }
}

/** The JSON of a part; undefined if it is none. */
function jsonOfPart({ bytes, type }: Part): unknown {
  return type === 'application/json' ? readJson(bytes.toString()) : undefined
}

/** Whether a text is a member of structured content that says little besides. */
function isMember({ bytes, type }: Part, structured: unknown): boolean {
  if (!isObject(structured) || !/^text\/|json/.test(type)) return false
  const text = bytes.toString()
  return Object.values(structured).includes(text) && sizeOf(structured) - sizeOf(text) <= MAX_REST_BYTES
}

/** The data of the blocks of a result, each with the place of its block. */
function dataIn(result: Payload): readonly (BlockData & { readonly index: number })[] {
  const content = result.member('content')
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  return blocks.flatMap((block, index) => {
    const data = isObject(block) ? dataOf(block) : undefined
    return data ? [{ ...data, index }] : []
  })
}

function partOf({ index, ...data }: ReturnType<typeof dataIn>[number]): Part {
  const { string, isBase64 } = data
  const isJson = !isBase64 && /^\s*[[{]/.test(string) && readJson(string) !== undefined
  return { index, bytes: Buffer.from(string, isBase64 ? 'base64' : 'utf8'), ...factsOf(data, isJson) }
}

/** The `_meta` key of a request whose result is kept whatever its size, and of the id that it gets. */
export const AS_REFERENCE = `${NS}/as_reference`
export const REFERENCE_ID = `${NS}/ref_id`

/** What makes a URL for each reference, if that is on. */
export function urlsOf(
  urls: DataUrls,
  settings: ReferenceSettings | false,
): { urlOf?(principal: Principal, reference: Reference): string | undefined } {
  if (!settings || !settings.urls) return {}
  return { urlOf: (principal, reference) => urls.of(principal, reference, settings.url_ttl) }
}

/** How results of each server are kept; undefined for those whose results are not. */
export function keeper(
  settings: SettingsOf<ReferenceSettings | false>,
  { references: kept, urls }: { readonly references: References; readonly urls: DataUrls },
): (upstream: string) => Keeping | undefined {
  const withUrls = urlsOf(urls, settings())
  return (upstream) => {
    const own = settings(upstream)
    if (own === false) return undefined
    return { references: kept, over: own.over, ttl: own.ttl, ...withUrls }
  }
}

/** How long a string may be that is read to find out whether it is JSON, in bytes. */
const MAX_JSON_BYTES = 16 * 1024 * 1024

/** A result without strings in a spool, and why some of them could not be kept. */
type Unspooled = WithReferences & { readonly problem?: GatewayError | undefined }

/** A kept string; `isBase64` if it was base64 of the data. */
type KeptString = Kept & { readonly isBase64: boolean }

type KeepingSpooled = KeepingResult & { readonly spool: StoreSpool }

/** Never throws because of limits: the server has done its work. */
async function withoutSpooled(result: Payload, call: Call, options: KeepingSpooled): Promise<Unspooled> {
  if (!options.spool.isIn(result.text)) return { result, kept: [] }
  const strings = new SpooledStrings(call, options)
  await strings.keep(result)
  const replaced = await strings.withUris(strings.withLinks(result))
  return {
    result: await wholeAgain(replaced, options.spool),
    kept: strings.kept,
    ...(strings.problem && { problem: strings.problem }),
  }
}

/** A result with what is left of its strings in it again, as far as they are not too long. */
async function wholeAgain(result: Payload, spool: StoreSpool): Promise<Payload> {
  if (!spool.isIn(result.text)) return result
  return Payload.text(await spool.restoredInPart(result.text))
}

/** The strings of one result that arrived before the rest of it. */
class SpooledStrings {
  readonly #call: Call
  readonly #options: KeepingSpooled
  readonly #byPlaceholder = new Map<string, KeptString>()
  /** Why a string could not be kept, if one could not. */
  problem: GatewayError | undefined

  constructor(call: Call, options: KeepingSpooled) {
    this.#call = call
    this.#options = options
  }

  get kept(): readonly KeptString[] {
    return [...new Set(this.#byPlaceholder.values())]
  }

  async keep(result: Payload): Promise<void> {
    const { spool } = this.#options
    const blocks = new Map(dataIn(result).map((block) => [block.string, block]))
    const bySum = new Map<string, KeptString>()
    const all = spool.placeholders(result.text)
    // What a block has is named after the block, also where structured content has it too.
    const ordered = all.toSorted((one, other) => Number(blocks.has(other)) - Number(blocks.has(one)))
    for (const placeholder of ordered) {
      try {
        const spooled = await spool.find(placeholder)
        const same = bySum.get(spooled.sha256)
        if (same) spool.discard(placeholder)
        else if (bySum.size === MAX_PARTS) throw tooManyParts()
        const kept = same ?? (await this.#keepOne(placeholder, spooled, blocks.get(placeholder)))
        bySum.set(spooled.sha256, kept)
        this.#byPlaceholder.set(placeholder, kept)
      } catch (error) {
        this.problem ??= asGatewayError(error)
      }
    }
  }

  async #keepOne(placeholder: string, spooled: Spooled, block: BlockData | undefined): Promise<KeptString> {
    const { spool, references } = this.#options
    const options = { ...this.#options, id: this.#byPlaceholder.size === 0 ? this.#options.id : undefined }
    const call = this.#call
    if (block?.isBase64) {
      const facts = newReference(factsOf(block, false), call, options)
      const reference = await references.add(call.principal, facts, decoded(await references.open(spooled)))
      spool.discard(placeholder)
      return { ...shown(describedFor(call, reference, options), Buffer.alloc(0)), isBase64: true }
    }
    const beginning = await this.#read(spooled, PREVIEWED_BYTES)
    const mayBeJson = spooled.size <= MAX_JSON_BYTES && /^\s*[[{]/.test(beginning.toString())
    const value = mayBeJson ? readJson((await this.#read(spooled, spooled.size)).toString()) : undefined
    const named = block ?? { type: undefined, name: undefined }
    const facts = newReference(factsOf(named, value !== undefined), call, options)
    const reference = await references.adopt(call.principal, facts, spooled)
    spool.take(placeholder)
    return { ...shown(describedFor(call, reference, options), beginning, value), isBase64: false }
  }

  /** The result with links in place of the blocks of kept data. */
  withLinks(result: Payload): Payload {
    const items = result.at('content')?.items ?? []
    if (items.length === 0) return result
    const content = items.flatMap((item) => {
      const data = isObject(item.value) ? dataOf(item.value) : undefined
      return (data && this.#byPlaceholder.get(data.string))?.blocks ?? [item]
    })
    return result.with({ content })
  }

  /**
   * The result with the URIs of kept data in place of its strings elsewhere, such as in structured content. Where the schema
   * of the tool does not take them, the strings are put back.
   */
  async withUris(result: Payload): Promise<Payload> {
    const withAll = (text: string): string => {
      let left = text
      for (const [placeholder, { reference }] of this.#byPlaceholder)
        left = left.replaceAll(placeholder, referenceUri(reference))
      return left
    }
    const content = result.at('structuredContent')
    const schema = schemaOf(this.#call)
    if (!content || !schema || !this.#byPlaceholder.size) return Payload.text(withAll(result.text))
    const isTaken = (value: unknown): boolean => matchesSchema(value, schema)
    if (isTaken(Payload.text(withAll(content.text)).value)) return Payload.text(withAll(result.text))
    const whole = await this.#withStrings(content.text).catch(() => undefined)
    const structuredContent = whole && isTaken(whole.value) ? whole : content
    return Payload.text(withAll(result.with({ structuredContent }).text))
  }

  /** JSON with kept strings in it again. */
  async #withStrings(text: string): Promise<Payload> {
    let whole = text
    for (const [placeholder, { reference, isBase64 }] of this.#byPlaceholder) {
      const size = isBase64 ? Math.ceil(reference.size / 3) * 4 : reference.size
      if (!whole.includes(placeholder) || whole.length + size > MAX_MESSAGE_BYTES) continue
      const bytes = await this.#read(reference, reference.size)
      const string = JSON.stringify(bytes.toString(isBase64 ? 'base64' : 'utf8'))
      whole = whole.replaceAll(placeholder, () => string.slice(1, -1))
    }
    return Payload.text(whole)
  }

  async #read(blob: KeptBlob, size: number): Promise<Buffer> {
    return collected(await this.#options.references.open(blob, { start: 0, end: size }))
  }
}

function tooManyParts(): GatewayError {
  return new GatewayError('QUOTA_EXHAUSTED', `At most ${MAX_PARTS} parts of a result are kept.`, {
    data: { limit: 'parts' },
  })
}

/** Decodes base64 that arrives in pieces; line ends and other characters in it do not count. */
async function* decoded(bytes: Bytes): AsyncGenerator<Uint8Array> {
  let rest = ''
  for await (const chunk of bytes) {
    const text =
      rest +
      Buffer.from(chunk)
        .toString('latin1')
        .replaceAll(/[^\w+/-]/g, '')
    const whole = text.length - (text.length % 4)
    rest = text.slice(whole)
    yield Buffer.from(text.slice(0, whole), 'base64')
  }
  yield Buffer.from(rest, 'base64')
}
