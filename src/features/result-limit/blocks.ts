import { isObject } from '../../core/json.ts'
import { cut, sizeOf } from './shorten.ts'

/** Below this many bytes what is left of a block says nothing. */
const MIN_BLOCK_BYTES = 64

/**
 * The blocks of a tool's result, or the contents of a resource, that fit into so many bytes: texts end early, and
 * what is binary gives way to a word about it.
 */
export function fitBlocks(blocks: readonly unknown[], budget: number): unknown[] {
  let left = budget - 2
  const kept: unknown[] = []
  for (const block of blocks) {
    const fitting = sizeOf(block) < left ? block : smaller(block, left - 1)
    if (fitting === undefined) continue
    kept.push(fitting)
    left -= sizeOf(fitting) + 1
  }
  return kept
}

function smaller(block: unknown, budget: number): unknown {
  if (!isObject(block) || budget < MIN_BLOCK_BYTES) return undefined
  if (typeof block.text === 'string') return withText(block, block.text, budget)
  if (isObject(block.resource)) {
    const resource = smaller(block.resource, budget - sizeOf({ ...block, resource: null }))
    return resource === undefined ? undefined : { ...block, resource }
  }
  const { data, blob, ...rest } = block
  const binary = [data, blob].find((each) => typeof each === 'string')
  if (binary === undefined) return undefined
  const type = typeof rest.mimeType === 'string' ? rest.mimeType.slice(0, 100) : 'binary data'
  const word = `[${type}, ${Buffer.byteLength(binary, 'base64')} bytes, left out by the gateway: too large]`
  const text =
    blob === undefined ? { type: 'text', text: word } : { uri: rest.uri, mimeType: 'text/plain', text: word }
  return sizeOf(text) <= budget ? text : undefined
}

function withText(block: Record<string, unknown>, text: string, budget: number): unknown {
  const room = budget - sizeOf({ ...block, text: '' }) + 2
  const start = room < MIN_BLOCK_BYTES ? undefined : cut(text, room)
  return start === undefined ? undefined : { ...block, text: start }
}
