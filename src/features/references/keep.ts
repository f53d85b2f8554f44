/**
 * Keeps large parts of tool results, and leaves references in their place. A part is the structured content or a content
 * block. Many servers send both with the same data: it is kept once.
 *
 * Invariant: what is left of structured content still matches the output schema, and nothing is left out that is not
 * kept.
 */
import { world } from '../../core/world.ts'
import type { Call } from '../../core/call.ts'
import type { GatewayError } from '../../core/error.ts'
import { isObject, isSame, readJson } from '../../core/json/json.ts'
import { sizeOf } from '../../core/json/shorten.ts'
import type { Payload } from '../../core/payload.ts'
import type { Principal } from '../../core/principal.ts'
import type { JsonSchema } from '../../core/schema/schema.ts'
import { shortenedFor } from '../../core/schema/shortened.ts'
import { NOT_KEPT_KEY, NS } from '../../protocol/meta-keys.ts'
import type { NewReference, Reference, ReferenceLimits, References } from '../../records/references.ts'
import type { Services, SettingsOf } from '../feature.ts'
import { dataOf, factsOf } from './blocks.ts'
import { loggedReference } from './logged.ts'
import { blocksOf, dataReference, type Described, metaOf } from './preview.ts'
import { once } from './selection.ts'
import type { ReferenceSettings } from './settings.ts'
import type { DataUrls } from './urls.ts'

/** How many parts of a result are kept. */
export const MAX_PARTS = 10
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

interface Kept extends Described {
  readonly part: Part
}

interface Options {
  readonly references: References
  readonly over: number
  readonly ttl: number
  /** Set if at least one part is kept, however small. */
  readonly isRequested: boolean
  /** How many parts are kept at most. */
  readonly most?: number
  /** The id that the caller chose for the first reference. */
  readonly id?: string | undefined
  /** The URL at which the caller can read the data, where there is one. */
  urlOf?(principal: Principal, reference: Reference): string | undefined
}

/** How large results are kept. */
export type Keeping = Omit<Options, 'isRequested' | 'id'>

/** A result with references in place of parts of it, and what they stand for. */
export interface WithReferences {
  readonly result: Payload
  readonly kept: readonly Described[]
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
export async function withReferences(result: Payload, call: Call, options: Options): Promise<WithReferences> {
  const parts = new Parts(result, schemaOf(call))
  const kept: Kept[] = []
  for (const part of parts.large(options)) {
    const id = kept.length === 0 ? options.id : undefined
    const reference = await keep(part, call, { ...options, id })
    kept.push({ part, ...describedFor(call, reference, options) })
  }
  return { result: kept.length === 0 ? result : parts.without(kept), kept }
}

/** Kept data with its description for the caller. */
export function describedFor(
  { principal }: Call,
  reference: Reference,
  { urlOf }: Pick<Options, 'urlOf'>,
): Described {
  return { reference, data: dataReference(reference, urlOf?.(principal, reference)) }
}

function keep(part: Part, call: Call, options: Options): Promise<Reference> {
  return options.references.add(call.principal, newReference(part, call, options), once(part.bytes))
}

/** What a call that returned data says of it. */
export function newReference(
  { type, name }: Pick<Part, 'type' | 'name'>,
  { requestId, target, keepsResultUntil = 0 }: Call,
  { id, ttl }: Pick<Options, 'id' | 'ttl'>,
): NewReference {
  const { upstream: server = '', name: tool } = target
  const facts = { server, ...(tool !== undefined && { tool }), requestId, name, type }
  return { ...facts, id, ttl: Math.max(ttl, keepsResultUntil - world.now()) }
}

/** The output schema of the tool that a call names. */
export function schemaOf({ tool }: Call): JsonSchema | undefined {
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
    this.#blocks = blockParts(result)
    const content = result.at('structuredContent')
    const bytes = Buffer.from(content?.text ?? '')
    const near = this.#blocks.filter((block) => block.bytes.byteLength * 2 >= bytes.byteLength)
    const { value } = content ?? {}
    this.#members = new Set(near.filter((block) => isMember(block, value)))
    this.#copies = new Set(near.filter((block) => isObjectOrList(value) && isSame(jsonOf(block), value)))
    this.#short = content && shortenedFor(value, schema, MAX_SHORTENED_BYTES)
    const canBeKept = content && this.#members.size === 0 && (!schema || this.#short !== undefined)
    if (canBeKept) this.#structured = { bytes, type: 'application/json', name: 'result.json' }
    // Without a schema, a reference stands for all of it.
    if (!schema && this.#members.size === 0) this.#short = undefined
  }

  /** The parts to keep: the largest ones, until what is left is not large. */
  large({ over, isRequested, most = MAX_PARTS }: Options): readonly Part[] {
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
  without(kept: readonly Kept[]): Payload {
    const byPart = new Map(kept.map((each) => [each.part, each]))
    const structured = this.#structured && byPart.get(this.#structured)
    const byIndex = new Map(this.#blocks.map((part) => [part.index, part]))
    const items = this.#result.at('content')?.items ?? []
    const content = items.flatMap((block, index): readonly unknown[] => {
      const part = byIndex.get(index)
      const own = part && byPart.get(part)
      if (own) return shown(own)
      return structured && part && this.#copies.has(part) ? [] : [block.value]
    })
    const isShort = structured !== undefined || kept.some(({ part }) => this.#members.has(part))
    const before = this.#result.at('structuredContent')?.value
    return this.#result.with({
      content: structured ? [...shown(structured), ...content] : content,
      ...(isShort && { structuredContent: this.#short ?? (structured ? undefined : before) }),
    })
  }
}

function shown({ part, ...kept }: Kept): readonly unknown[] {
  return blocksOf(kept, part.bytes, jsonOf(part))
}

/** The JSON of a part; undefined if it is none. */
function jsonOf({ bytes, type }: Part): unknown {
  return type === 'application/json' ? readJson(bytes.toString()) : undefined
}

function isObjectOrList(value: unknown): boolean {
  return isObject(value) || Array.isArray(value)
}

/** Whether a text is a member of structured content that says little besides. */
function isMember({ bytes, type }: Part, structured: unknown): boolean {
  if (!isObject(structured) || !/^text\/|json/.test(type)) return false
  const text = bytes.toString()
  return Object.values(structured).includes(text) && sizeOf(structured) - sizeOf(text) <= MAX_REST_BYTES
}

function blockParts(result: Payload): readonly Part[] {
  const content = result.member('content')
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  return blocks.flatMap((block, index) => {
    const part = isObject(block) ? partOfBlock(block) : undefined
    return part ? [{ ...part, index }] : []
  })
}

function partOfBlock(block: Readonly<Record<string, unknown>>): Part | undefined {
  const data = dataOf(block)
  if (!data) return undefined
  const { string, isBase64 } = data
  const isJson = !isBase64 && /^\s*[[{]/.test(string) && readJson(string) !== undefined
  return { bytes: Buffer.from(string, isBase64 ? 'base64' : 'utf8'), ...factsOf(data, isJson) }
}

// Where references are on for single servers only.
const DEFAULT_TOTAL_BYTES = 4 * 1024 * 1024 * 1024
export const DEFAULT_UPLOAD_BYTES = 100 * 1024 * 1024
export const DEFAULT_TTL_MS = 900_000
/** The `_meta` key of a request whose result is kept whatever its size, and of the id that it gets. */
export const AS_REFERENCE = `${NS}/as_reference`
export const REFERENCE_ID = `${NS}/ref_id`

/** What makes a URL for each reference, if that is on. */
export function urlsOf(
  urls: DataUrls,
  settings: ReferenceSettings | false,
): { urlOf?(principal: Principal, reference: Reference): string | undefined } {
  if (!settings || !settings.urls) return {}
  return { urlOf: (principal, reference) => urls.of(principal, reference, { ttl: settings.url_ttl }) }
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

/** The limits on kept data. */
export function limitsOf(settings: Pick<ReferenceSettings, 'total'> | false): ReferenceLimits {
  return { total: settings ? settings.total : DEFAULT_TOTAL_BYTES }
}
