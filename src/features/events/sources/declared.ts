/** What the events that the configuration declares have in common: their fields, filters, size and receivers. */
import { parseSteps, follow } from '../../../core/json/path.ts'
import { isObject } from '../../../core/json/json.ts'
import type { Principal } from '../../../core/principal.ts'
import type { DeclaredEvent } from '../../../core/settings.ts'
import { cleanedValue, withoutSecrets } from '../../../core/text/redact.ts'
import { type Fields, filterSchema } from '../types.ts'

/** The largest content of an event, in characters of JSON. */
const MAX_CONTENT_LENGTH = 64_000

/**
 * What happened, as clients receive it, without secrets: the declared fields, and the names of those that are too long.
 * Undefined content: it is no object, and too long.
 */
export function contentOf(
  value: unknown,
  { fields }: Pick<DeclaredEvent, 'fields'>,
): { readonly content: unknown; readonly omitted?: readonly string[] } {
  const clean = cleanedValue(value, withoutSecrets)
  if (!isObject(clean))
    return JSON.stringify(clean).length > MAX_CONTENT_LENGTH ? { content: undefined } : { content: clean }
  const limits = { each: MAX_CONTENT_LENGTH, all: MAX_CONTENT_LENGTH }
  const { kept, omitted } = withinLimits(fields ? pickedFields(clean, fields) : clean, limits)
  return { content: kept, ...(omitted.length > 0 && { omitted }) }
}

function pickedFields(value: Fields, fields: readonly string[]): Fields {
  const found = fields.map((field) => [field, fieldAt(value, field)] as const)
  return Object.fromEntries(found.filter(([, each]) => each !== undefined))
}

/** A field by its name; a dot leads into one. */
function fieldAt(value: Fields, field: string): unknown {
  if (Object.hasOwn(value, field)) return value[field]
  return follow(value, parseSteps(`$.${field}`) ?? [field])
}

/** The schema of arguments that narrow events: by the given members of their data, and by their fields. */
export function declaredFilters(
  members: readonly string[],
  { fields }: Pick<DeclaredEvent, 'fields'>,
): Fields {
  const schema = filterSchema([...members, ...(fields ?? [])])
  // Without declared fields, what an item has is not known.
  return fields ? schema : { ...schema, additionalProperties: true }
}

/** The schema of what clients receive of something that another party wrote. */
export function contentSchema({ fields }: Pick<DeclaredEvent, 'fields'>, description: string): Fields {
  return {
    description,
    ...(fields && { type: 'object', properties: Object.fromEntries(fields.map((field) => [field, {}])) }),
  }
}

/** The schema of the list of fields that were left out. */
export const omittedSchema: Fields = {
  type: 'array',
  items: { type: 'string' },
  description: 'The fields that are too long.',
}

/** Whether a caller has the scope that receivers need. */
export function hasScope({ scopes }: Principal, { scope }: Pick<DeclaredEvent, 'scope'>): boolean {
  return scope === undefined || scopes === undefined || scopes.has(scope)
}

/** How many omitted members are named, and how much of each name. */
const MAX_OMITTED = 100
const MAX_NAME_LENGTH = 100

/**
 * The members that fit, in order, and the names of those that were left out. `each` is the longest member, `all` are all of
 * them together, in characters of JSON.
 */
export function withinLimits(given: Fields, { each, all }: { readonly each: number; readonly all: number }) {
  let left = all
  const kept: (readonly [string, unknown])[] = []
  const omitted: string[] = []
  for (const [name, value] of Object.entries(given)) {
    const length = (JSON.stringify(value) ?? '').length + name.length
    if (length > Math.min(left, each)) {
      omitted.push(name.slice(0, MAX_NAME_LENGTH))
      continue
    }
    left -= length
    kept.push([name, value])
  }
  return { kept: Object.fromEntries(kept), omitted: omitted.slice(0, MAX_OMITTED) }
}
