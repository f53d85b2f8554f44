/** JSON pointers (RFC 6901), also as fragments of references in schemas. */
import { isObject } from '../json/json.ts'

/** The unescaped segments of a JSON pointer. */
export function pointerSegments(pointer: string): string[] {
  if (pointer === '') return []
  return pointer
    .slice(1)
    .split('/')
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** The value at a reference such as `#/$defs/item` within its root; undefined if there is none. */
export function referredTo(reference: string, root: unknown): unknown {
  if (!reference.startsWith('#')) return undefined
  let at = root
  for (const segment of pointerSegments(decoded(reference.slice(1)))) {
    if (isObject(at)) at = Object.hasOwn(at, segment) ? at[segment] : undefined
    else at = Array.isArray(at) ? at[Number(segment)] : undefined
  }
  return at
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
