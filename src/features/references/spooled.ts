/**
 * Puts references in place of the long strings of a result that arrived before the rest of it, and are in the store
 * already. A string that cannot be kept is put back into the result; one that is too long for that is left out.
 */
import type { Call } from '../../core/call.ts'
import { asGatewayError, type GatewayError } from '../../core/error.ts'
import { isObject, readJson } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import type { Principal } from '../../core/principal.ts'
import type { Reference, References } from '../../records/references.ts'
import type { Spooled, StoreSpool } from '../../records/spool.ts'
import type { Bytes } from '../../store/blobs/blobs.ts'
import { type BlockData, dataOf, factsOf } from './blocks.ts'
import { describedFor, newReference, type WithReferences } from './keep.ts'
import { blocksOf, type Described, uriOf } from './preview.ts'

/** How long a string may be that is read to find out whether it is JSON, in bytes. */
const MAX_JSON_BYTES = 16 * 1024 * 1024
/** How much of other data a preview needs, in bytes. */
const BEGINNING_BYTES = 2048

/** Stands for a string that can neither be kept nor passed on. */
const LEFT_OUT = '[Left out by the gateway: too large to be passed on, and it could not be kept.]'

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
}

/** Never throws for want of room: the server has done its work. */
export async function withoutSpooled(result: Payload, call: Call, options: Options): Promise<Unspooled> {
  const { spool } = options
  const byPlaceholder = new Map<string, Kept>()
  try {
    await keepAll(result, call, { ...options, byPlaceholder })
    return { result: replaced(result, byPlaceholder), kept: distinct(byPlaceholder) }
  } catch (error) {
    const problem = asGatewayError(error)
    const rest = replaced(result, byPlaceholder)
    const whole = await spool.restored(rest.text).catch(() => spool.leftOut(rest.text, LEFT_OUT))
    return { result: Payload.text(whole), kept: distinct(byPlaceholder), problem }
  }
}

interface Keeping extends Options {
  readonly byPlaceholder: Map<string, Kept>
}

async function keepAll(result: Payload, call: Call, options: Keeping): Promise<void> {
  const { spool, byPlaceholder } = options
  const blocks = new Map(blocksIn(result).map((block) => [block.string, block]))
  const bySum = new Map<string, Kept>()
  const all = spool.placeholders(result.text)
  // What a block has is named after the block, also where structured content has it too.
  const ordered = all.toSorted((one, other) => Number(blocks.has(other)) - Number(blocks.has(one)))
  for (const placeholder of ordered) {
    const spooled = await spool.find(placeholder)
    const same = bySum.get(spooled.sha256)
    if (same) spool.discard(placeholder)
    const id = byPlaceholder.size === 0 ? options.id : undefined
    const kept =
      same ?? (await keep(placeholder, spooled, call, { ...options, id, block: blocks.get(placeholder) }))
    bySum.set(spooled.sha256, kept)
    byPlaceholder.set(placeholder, kept)
  }
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
    return shown(describedFor(call, reference, options), Buffer.alloc(0))
  }
  const beginning = await read(references, spooled, BEGINNING_BYTES)
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

/** Blocks of kept data become links; elsewhere its URI takes the place of a string. */
function replaced(result: Payload, byPlaceholder: ReadonlyMap<string, Kept>): Payload {
  const items = result.at('content')?.items ?? []
  const content = items.flatMap((item) => {
    const data = isObject(item.value) ? dataOf(item.value) : undefined
    const kept = data && byPlaceholder.get(data.string)
    return kept ? kept.blocks : [item]
  })
  let { text } = items.length === 0 ? result : result.with({ content })
  for (const [placeholder, { reference }] of byPlaceholder)
    text = text.replaceAll(placeholder, uriOf(reference))
  return Payload.text(text)
}

function shown(described: Described, beginning: Buffer, value?: unknown): Kept {
  return { ...described, blocks: blocksOf(described, beginning, value) }
}

function distinct(byPlaceholder: ReadonlyMap<string, Kept>): readonly Described[] {
  return [...new Set(byPlaceholder.values())].map(({ reference, data }) => ({ reference, data }))
}

async function jsonOf(references: References, spooled: Spooled, beginning: Buffer): Promise<unknown> {
  if (spooled.size > MAX_JSON_BYTES || !/^\s*[[{]/.test(beginning.toString())) return undefined
  return readJson((await read(references, spooled, spooled.size)).toString())
}

async function read(references: References, spooled: Spooled, size: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of await references.open(spooled, { start: 0, end: size })) chunks.push(chunk)
  return Buffer.concat(chunks)
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
