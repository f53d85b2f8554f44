/**
 * A tool without its server's texts: names, annotations, types and enums stay; of descriptions and titles only the
 * words that occur in the judge's own source stay, and all others become `x`.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { isObject } from '../../src/core/json.ts'

const source = new URL('../../src/core/judgement/', import.meta.url)
const known = new Set(
  readdirSync(source).flatMap((file) =>
    readFileSync(new URL(file, source), 'utf8')
      .toLowerCase()
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

function reducedSchema({
  type,
  properties,
  required,
}: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const own = Object.entries(isObject(properties) ? properties : {})
  return {
    ...(type !== undefined && { type }),
    properties: Object.fromEntries(
      own.map(([name, each]) => [name, isObject(each) ? reducedProperty(each) : {}]),
    ),
    ...(Array.isArray(required) && { required }),
  }
}

function reducedProperty(property: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { type, enum: values, const: value, description } = property
  return {
    ...(type !== undefined && { type }),
    ...(values !== undefined && { enum: values }),
    ...(value !== undefined && { const: value }),
    ...(typeof description === 'string' && { description: reducedText(description) }),
  }
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
  return [1, 2, 3].some((length) => word.length - length > 2 && known.has(word.slice(0, -length)))
}
