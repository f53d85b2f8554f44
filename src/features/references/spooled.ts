/**
 * Puts references in place of the long strings of a result that arrived before the rest of it, and are in the store
 * already. A string that cannot be kept is put back into the result; one that is too long for that is left out.
 */
import type { Call } from '../../core/call.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { isObject, readJson } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { matchesSchema } from '../../core/schema/shortened.ts'
import { MAX_MESSAGE_BYTES } from '../../core/spool.ts'
import type { Principal } from '../../core/principal.ts'
import type { KeptBlob, Reference, References } from '../../records/references.ts'
import type { Spooled, StoreSpool } from '../../records/spool.ts'
import { type Bytes, collected } from '../../store/blobs/blobs.ts'
import { type BlockData, dataOf, factsOf } from './blocks.ts'
import { describedFor, MAX_PARTS, newReference, schemaOf, type WithReferences } from './keep.ts'
import { blocksOf, type Described, PREVIEWED_BYTES, uriOf } from './preview.ts'

/** How long a string may be that is read to find out whether it is JSON, in bytes. */
const MAX_JSON_BYTES = 16 * 1024 * 1024

interface Options {
  readonly spool: StoreSpool
  readonly references: References
  readonly ttl: number
  /** The id that the caller chose for the first reference. */
  readonly id?: string | undefined
  urlOf?(principal: Principal, reference: Reference): string | undefined
}

/** A result without strings in a spool, and why some of them could not be kept. */
export interface Unspooled extends WithReferences {
  readonly problem?: GatewayError
}

/** Something that was kept, and the blocks that show it. */
interface Kept extends Described {
  readonly blocks: readonly unknown[]
  /** The string was base64 of the data. */
  readonly isBase64: boolean
}

/** Never throws for want of room: the server has done its work. */
export async function withoutSpooled(result: Payload, call: Call, options: Options): Promise<Unspooled> {
  const byPlaceholder = new Map<string, Kept>()
  const problem = await keepAll(result, call, { ...options, byPlaceholder })
  const kept = distinct(byPlaceholder)
  const replaced = await withUris(withLinks(result, byPlaceholder), call, { ...options, byPlaceholder })
  return { result: await wholeAgain(replaced, options.spool), kept, ...(problem && { problem }) }
}

/** A result with what is left of its strings in it again, as far as they are not too long. */
export async function wholeAgain(result: Payload, spool: StoreSpool): Promise<Payload> {
  if (!spool.isIn(result.text)) return result
  return Payload.text(await spool.restoredInPart(result.text))
}

interface Keeping extends Options {
  readonly byPlaceholder: Map<string, Kept>
}

/** Resolves with why a string could not be kept, if one could not. */
async function keepAll(result: Payload, call: Call, options: Keeping): Promise<GatewayError | undefined> {
  const { spool, byPlaceholder } = options
  const blocks = new Map(blocksIn(result).map((block) => [block.string, block]))
  const bySum = new Map<string, Kept>()
  const all = spool.placeholders(result.text)
  // What a block has is named after the block, also where structured content has it too.
  const ordered = all.toSorted((one, other) => Number(blocks.has(other)) - Number(blocks.has(one)))
  let problem: GatewayError | undefined
  for (const placeholder of ordered) {
    try {
      const spooled = await spool.find(placeholder)
      const same = bySum.get(spooled.sha256)
      if (same) spool.discard(placeholder)
      else if (bySum.size === MAX_PARTS) throw tooMany()
      const id = byPlaceholder.size === 0 ? options.id : undefined
      const block = blocks.get(placeholder)
      const kept = same ?? (await keep(placeholder, spooled, call, { ...options, id, block }))
      bySum.set(spooled.sha256, kept)
      byPlaceholder.set(placeholder, kept)
    } catch (error) {
      problem ??= asGatewayError(error)
    }
  }
  return problem
}

function tooMany(): GatewayError {
  return new GatewayError('QUOTA_EXHAUSTED', `At most ${MAX_PARTS} parts of a result are kept.`, {
    data: { limit: 'parts' },
  })
}

interface KeepingOne extends Options {
  readonly block: BlockData | undefined
}

async function keep(placeholder: string, spooled: Spooled, call: Call, options: KeepingOne): Promise<Kept> {
  const { spool, references, block } = options
  if (block?.isBase64) {
    const facts = newReference(factsOf(block, false), call, options)
    const reference = await references.add(call.principal, facts, decoded(await references.open(spooled)))
    spool.discard(placeholder)
    return { ...shown(describedFor(call, reference, options), Buffer.alloc(0)), isBase64: true }
  }
  const beginning = await read(references, spooled, PREVIEWED_BYTES)
  const value = await jsonOf(references, spooled, beginning)
  const named = block ?? { type: undefined, name: undefined }
  const facts = newReference(factsOf(named, value !== undefined), call, options)
  const reference = await references.adopt(call.principal, facts, spooled)
  spool.take(placeholder)
  return shown(describedFor(call, reference, options), beginning, value)
}

function blocksIn(result: Payload): readonly BlockData[] {
  const content = result.member('content')
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  return blocks.flatMap((block) => (isObject(block) ? (dataOf(block) ?? []) : []))
}

/** The result with links in place of the blocks of kept data. */
function withLinks(result: Payload, byPlaceholder: ReadonlyMap<string, Kept>): Payload {
  const items = result.at('content')?.items ?? []
  if (items.length === 0) return result
  const content = items.flatMap((item) => {
    const data = isObject(item.value) ? dataOf(item.value) : undefined
    const kept = data && byPlaceholder.get(data.string)
    return kept ? kept.blocks : [item]
  })
  return result.with({ content })
}

/**
 * The result with the URIs of kept data in place of its strings elsewhere, such as in structured content. Where the schema
 * of the tool does not take them, the strings are put back.
 */
async function withUris(result: Payload, call: Call, options: Keeping): Promise<Payload> {
  const { byPlaceholder } = options
  const withAll = (text: string): string => {
    let left = text
    for (const [placeholder, { reference }] of byPlaceholder)
      left = left.replaceAll(placeholder, uriOf(reference))
    return left
  }
  const content = result.at('structuredContent')
  const schema = schemaOf(call)
  if (!content || !schema || !byPlaceholder.size) return Payload.text(withAll(result.text))
  const isTaken = (value: unknown): boolean => matchesSchema(value, schema)
  if (isTaken(Payload.text(withAll(content.text)).value)) return Payload.text(withAll(result.text))
  const whole = await withStrings(content.text, options).catch(() => undefined)
  const structuredContent = whole && isTaken(whole.value) ? whole : content
  return Payload.text(withAll(result.with({ structuredContent }).text))
}

/** JSON with kept strings in it again. */
async function withStrings(text: string, { references, byPlaceholder }: Keeping): Promise<Payload> {
  let whole = text
  for (const [placeholder, { reference, isBase64 }] of byPlaceholder) {
    const size = isBase64 ? Math.ceil(reference.size / 3) * 4 : reference.size
    if (!whole.includes(placeholder) || whole.length + size > MAX_MESSAGE_BYTES) continue
    const string = JSON.stringify(
      (await read(references, reference, reference.size)).toString(isBase64 ? 'base64' : 'utf8'),
    )
    whole = whole.replaceAll(placeholder, () => string.slice(1, -1))
  }
  return Payload.text(whole)
}

function shown(described: Described, beginning: Buffer, value?: unknown): Kept {
  return { ...described, blocks: blocksOf(described, beginning, value), isBase64: false }
}

function distinct(byPlaceholder: ReadonlyMap<string, Kept>): readonly Described[] {
  return [...new Set(byPlaceholder.values())].map(({ reference, data }) => ({ reference, data }))
}

async function jsonOf(references: References, spooled: Spooled, beginning: Buffer): Promise<unknown> {
  if (spooled.size > MAX_JSON_BYTES || !/^\s*[[{]/.test(beginning.toString())) return undefined
  return readJson((await read(references, spooled, spooled.size)).toString())
}

async function read(references: References, spooled: KeptBlob, size: number): Promise<Buffer> {
  return collected(await references.open(spooled, { start: 0, end: size }))
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
