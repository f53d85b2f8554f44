import { isObject } from '../../core/json.ts'
import { Payload } from '../../core/payload.ts'
import { type Check, type JsonSchema, type SchemaProblem, validator } from '../../core/schema.ts'
import { editJson } from './edits.ts'
import type { Place } from './masking.ts'

/** How often something else is tried where the schema forbids what stands in place of a value. */
const MAX_ROUNDS = 16

/**
 * Structured content with its places masked so that it fits the schema as before: by a text, by `null`, or by
 * leaving the member out. Nothing where no way fits.
 */
export function maskToFit(
  content: Payload,
  places: readonly Place[],
  schema: JsonSchema | undefined,
): Payload | undefined {
  const check = schema && usable(schema)
  const known = new Set(check?.(content.value).map(nameOf))
  const groups = grouped(places)
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const edits = groups.flatMap(({ places: alike, tried }) =>
      alike.map(({ path, instead }) => ({ path, to: instead[tried] })),
    )
    const text = editJson(content.text, edits)
    if (text === undefined) return undefined
    const masked = Payload.text(text)
    const problems = check?.(masked.value).filter((problem) => !known.has(nameOf(problem))) ?? []
    if (problems.length === 0) return masked
    const blamed = new Set(problems.flatMap((problem) => blamedFor(problem, places)))
    const failing = groups.filter((group) => group.places.some((place) => blamed.has(place)))
    if (failing.length === 0) return undefined
    for (const group of failing) {
      group.tried += 1
      if (group.tried >= group.ways) return undefined
    }
  }
  return undefined
}

/** Places that are masked alike: the elements of an array, and the members of one name in them. */
interface Group {
  readonly places: Place[]
  /** How many ways each of them has. */
  readonly ways: number
  tried: number
}

function grouped(places: readonly Place[]): Group[] {
  const groups = new Map<string, Group>()
  for (const place of places) {
    const kind = JSON.stringify([place.path.map(stepOf), place.instead.length])
    const group = groups.get(kind) ?? { places: [], ways: place.instead.length, tried: 0 }
    group.places.push(place)
    groups.set(kind, group)
  }
  return [...groups.values()]
}

function stepOf(step: string | number): string | null {
  return typeof step === 'number' ? null : step
}

/** The check of a schema; nothing where nobody can be held to it. */
function usable(schema: JsonSchema): Check | undefined {
  const check = validator(schema)
  return (value) => {
    try {
      return check(value)
    } catch {
      return []
    }
  }
}

function nameOf({ path, schemaPath, params }: SchemaProblem): string {
  return JSON.stringify([path, schemaPath, params.missingProperty])
}

/** The places a problem comes from: those at it or around it, else those below it. */
function blamedFor({ path, params }: SchemaProblem, places: readonly Place[]): readonly Place[] {
  const { missingProperty: missing } = params
  const at = typeof missing === 'string' ? [...path, missing] : path
  const near = places.filter((place) => isWithin(at, place.path))
  return near.length > 0 ? near : places.filter((place) => isWithin(place.path, path))
}

/** Whether one path is the other, or leads on from it. */
function isWithin(path: Place['path'], start: Place['path']): boolean {
  return start.length <= path.length && start.every((step, index) => String(step) === String(path[index]))
}

/** The output schema of a tool, where it has one. */
export function schemaOf(definition: Readonly<Record<string, unknown>> | undefined): JsonSchema | undefined {
  return isObject(definition?.outputSchema) ? definition.outputSchema : undefined
}
