import { GatewayError } from '../../core/error.ts'
import { elements, isObject, members } from '../../core/json.ts'
import type { Payload } from '../../core/payload.ts'
import { fold } from './spellings.ts'

/** The params that say what a call is for, and the members of a reference that do. */
const deciding = new Set(['name', 'arguments', 'uri', 'ref'])
const referring = new Set(['type', 'name', 'uri'])
const MAX_DEPTH = 64

/** Refuses params that another parser could read as a different call. @throws INVALID_INPUT */
export function refuseDuplicateKeys(params: Payload): void {
  const keys = Object.keys(params.fields)
  if (members(params.text).length !== keys.length || hasVariant(keys, deciding)) throw ambiguous()
}

/** Refuses a reference that another parser, or another reading, could take for another one. @throws INVALID_INPUT */
export function refuseDuplicateReferences(reference: Payload | undefined): void {
  refuseDuplicateKeysWithin(reference)
  const keys = Object.keys(reference?.fields ?? {})
  if ((keys.includes('name') && keys.includes('uri')) || hasVariant(keys, referring)) throw ambiguous()
}

/** Some parsers do not tell upper from lower case, nor `ſ` from `s`. */
function hasVariant(keys: readonly string[], names: ReadonlySet<string>): boolean {
  return keys.some((key) => !names.has(key) && names.has(fold(key)))
}

/** Refuses arguments in which a key stands twice. @throws INVALID_INPUT */
export function refuseDuplicateKeysWithin(args: Payload | undefined): void {
  const left: [text: string, value: unknown, depth: number][] = args ? [[args.text, args.value, 0]] : []
  for (let next = left.pop(); next; next = left.pop()) {
    const [text, value, depth] = next
    if (depth > MAX_DEPTH) throw ambiguous()
    if (Array.isArray(value)) {
      elements(text).forEach((part, index) => left.push([part, value[index], depth + 1]))
    } else if (isObject(value)) {
      const found = members(text)
      if (found.length !== Object.keys(value).length) throw ambiguous()
      for (const each of found) left.push([text.slice(each.valueStart, each.end), value[each.key], depth + 1])
    }
  }
}

function ambiguous(): GatewayError {
  return new GatewayError('INVALID_INPUT', 'Invalid params: a key stands twice, or its values lie too deep.')
}
