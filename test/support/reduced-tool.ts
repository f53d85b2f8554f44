/**
 * A tool without its server's texts: names, annotations, types and enums stay; of descriptions and titles only the
 * words that occur in the judge's own source stay, and all others become `x`.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { isObject } from '../../src/core/json/json.ts'

const source = new URL('../../src/core/judgement/', import.meta.url)
const known = new Set(
  readdirSync(source).flatMap((file) =>
    readFileSync(new URL(file, source), 'utf8')
      .toLowerCase()
      .replaceAll(/\\[a-z]/g, ' ')
      .split(/[^a-z]+/)
      .filter((word) => word.length > 1),
  ),
)

/** An entry of `tools/list` with its texts reduced. */
export function reducedTool(definition: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { name, title, description, annotations, inputSchema, outputSchema } = definition
  const hints = isObject(annotations) ? annotations : undefined
  return {
    name,
    ...(typeof title === 'string' && { title: reducedText(title) }),
    ...(typeof description === 'string' && { description: reducedText(description) }),
    ...(hints && {
      annotations: { ...hints, ...(typeof hints.title === 'string' && { title: reducedText(hints.title) }) },
    }),
    ...(isObject(inputSchema) && { inputSchema: reducedSchema(inputSchema) }),
    ...(isObject(outputSchema) && { outputSchema: reducedSchema(outputSchema) }),
  }
}

/** A schema with what the judge reads of it, at every depth. */
function reducedSchema(schema: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const kept = Object.entries(schema).flatMap(([key, value]): [string, unknown][] => {
    if (['type', 'required', 'enum', 'const', '$ref', 'default'].includes(key)) return [[key, value]]
    if (key === 'items' && isObject(value)) return [[key, reducedSchema(value)]]
    if (['anyOf', 'oneOf', 'allOf'].includes(key) && Array.isArray(value))
      return [[key, value.map((each: unknown) => (isObject(each) ? reducedSchema(each) : {}))]]
    if (key === 'description' && typeof value === 'string') return [[key, reducedText(value)]]
    const isMap = key === 'properties' || key === '$defs' || key === 'definitions'
    return isMap && isObject(value) ? [[key, reducedMembers(value)]] : []
  })
  return Object.fromEntries(kept)
}

function reducedMembers(members: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(members).map(([name, each]) => [name, isObject(each) ? reducedSchema(each) : {}]),
  )
}

/** Keeps known words, quotes, line ends and the marks of sentences and clauses. */
function reducedText(text: string): string {
  return text.replaceAll(/[\p{L}\p{N}_'’-]+/gu, (word) => (isKnown(word) ? word : 'x'))
}

function isKnown(word: string): boolean {
  const parts = word
    .toLowerCase()
    .split(/[^a-z]+/)
    .filter((part) => part !== '')
  return parts.length > 0 && parts.every((part) => part.length === 1 || known.has(part) || isInflected(part))
}

/** Patterns of the judge name words by their stems. */
function isInflected(word: string): boolean {
  return [1, 2, 3, 4, 5].some((length) => word.length - length > 2 && known.has(word.slice(0, -length)))
}
