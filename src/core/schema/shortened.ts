/** Shortens values that have to match a schema. */
import { shorten } from '../json/shorten.ts'
import { type JsonSchema, validator } from './schema.ts'

/** Structured content with arrays shortened or, if that is not enough, texts too, so that it still matches its schema. */
export function shortenedFor(value: unknown, schema: JsonSchema | undefined, budget: number): unknown {
  for (const strings of [false, true]) {
    const short = shorten(value, budget, strings)
    if (short !== undefined && (!schema || matchesSchema(short, schema))) return short
  }
  return undefined
}

/** Whether a value matches a schema, as far as that can be checked. */
export function matchesSchema(value: unknown, schema: JsonSchema): boolean {
  try {
    return validator(schema)(value).length === 0
  } catch {
    // An unusable schema cannot be enforced.
    return true
  }
}
