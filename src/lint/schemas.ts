import { isObject } from '../core/json.ts'
import { UnusableSchema, validator } from '../core/schema.ts'
import type { Assertion, Verdict } from './assertion.ts'
import type { AuditedTool, Json, Subject } from './subject.ts'
import { each } from './verdict.ts'

/** What the input schemas of the tools are like. */
export const schemas: readonly Assertion[] = [
  {
    id: 'C121',
    level: 'must',
    text: 'Each tool has an input schema that is valid JSON Schema.',
    fix: 'Correct the inputSchema.',
    check: (subject) =>
      eachTool(subject, ({ name, definition: { inputSchema } }) => {
        if (inputSchema === undefined) return [`${name}: has none`]
        const problem = isObject(inputSchema) ? problemOf(inputSchema) : undefined
        return problem === undefined ? [] : [`${name}: ${problem}`]
      }),
  },
  {
    id: 'C126',
    level: 'must',
    text: 'A schema that is not of 2020-12 says so with $schema.',
    fix: 'Write it in the words of 2020-12, or name draft-07 in $schema.',
    check: (subject) => eachSchema(subject, ({ name }, schema) => dialectProblems(name, schema)),
  },
  {
    id: 'C127',
    level: 'must',
    text: 'An input schema is an object.',
    fix: 'Use {"type": "object", "additionalProperties": false} where there are no arguments.',
    check: (subject) =>
      eachTool(subject, ({ name, definition: { inputSchema } }) =>
        isObject(inputSchema) ? [] : [`${name}: is ${JSON.stringify(inputSchema) ?? 'absent'}`],
      ),
  },
  {
    id: 'C128',
    level: 'should',
    text: 'An input schema says type: object.',
    fix: 'Add "type": "object".',
    check: (subject) =>
      eachSchema(subject, ({ name }, { type }) =>
        type === 'object' ? [] : [`${name}: type is ${JSON.stringify(type) ?? 'absent'}`],
      ),
  },
  {
    id: 'C129',
    level: 'should',
    text: 'An input schema lists its properties, even where there are none.',
    fix: 'Add "properties".',
    check: (subject) =>
      eachSchema(subject, ({ name }, { properties }) => (isObject(properties) ? [] : [name])),
  },
  {
    id: 'C130',
    level: 'should',
    text: 'An input schema lists what is required, even where nothing is.',
    fix: 'Add "required".',
    check: (subject) =>
      eachSchema(subject, ({ name }, { required }) => (Array.isArray(required) ? [] : [name])),
  },
  {
    id: 'C131',
    level: 'should',
    text: 'An input schema refuses arguments it does not know.',
    fix: 'Add "additionalProperties": false.',
    check: (subject) =>
      eachSchema(subject, ({ name }, { additionalProperties, unevaluatedProperties }) =>
        additionalProperties === false || unevaluatedProperties === false ? [] : [name],
      ),
  },
  {
    id: 'C132',
    level: 'should',
    text: 'Each argument is described.',
    fix: 'Add a description to the property.',
    check: (subject) =>
      eachSchema(subject, ({ name }, { properties }) =>
        Object.entries(isObject(properties) ? properties : {})
          .filter(([, field]) => !isDescribed(field))
          .map(([key]) => `${name}: ${key}`),
      ),
  },
]

/** Why a schema can not be used; nothing where it can. */
function problemOf(schema: Json): string | undefined {
  try {
    validator(schema)({})
    return undefined
  } catch (error) {
    if (!(error instanceof UnusableSchema)) throw error
    return error.message.slice(0, 200)
  }
}

function eachTool({ tools }: Subject, problemsOf: (tool: AuditedTool) => readonly string[]): Verdict {
  return each(tools, 'it has no tools', problemsOf)
}

function eachSchema(
  { tools }: Subject,
  problemsOf: (tool: AuditedTool, schema: Json) => readonly string[],
): Verdict {
  const usable = tools.filter(({ definition }) => isObject(definition.inputSchema))
  return each(usable, 'no tool has an input schema', (tool) => {
    const { inputSchema } = tool.definition
    return isObject(inputSchema) ? problemsOf(tool, inputSchema) : []
  })
}

const DRAFT_07 = 'http://json-schema.org/draft-07/schema#'
const LATEST = 'https://json-schema.org/draft/2020-12/schema'

function dialectProblems(name: string, schema: Json): string[] {
  const { $schema } = schema
  if ($schema !== undefined) {
    const isKnown = typeof $schema === 'string' && /draft-07|draft\/2020-12/.test($schema)
    return isKnown ? [] : [`${name}: $schema is ${JSON.stringify($schema)}`]
  }
  const found = oldWords(schema)
  if (found.length > 0)
    return [`${name}: says nothing of its dialect and uses ${found.join(', ')} of draft-07`]
  const isOnlyOld =
    problemOf({ ...schema, $schema: LATEST }) !== undefined &&
    problemOf({ ...schema, $schema: DRAFT_07 }) === undefined
  return isOnlyOld ? [`${name}: says nothing of its dialect and is valid under draft-07 only`] : []
}

/** Keywords that 2020-12 does not have or reads differently. */
function oldWords(schema: Json): string[] {
  const found = new Set<string>()
  look(schema, 0, found)
  return [...found]
}

/** Deeper than this nobody writes a schema by hand. */
const MAX_DEPTH = 32

function look(schema: unknown, depth: number, found: Set<string>): void {
  if (!isObject(schema) || depth > MAX_DEPTH) return
  for (const word of ['definitions', 'dependencies', 'additionalItems']) {
    if (schema[word] !== undefined) found.add(word)
  }
  if (Array.isArray(schema.items)) found.add('a list of items')
  const { properties, items, allOf, anyOf, oneOf, not, additionalProperties } = schema
  const inner = [properties, schema.$defs].flatMap((map) => (isObject(map) ? Object.values(map) : []))
  const several = [allOf, anyOf, oneOf, items].flatMap((list): unknown[] =>
    Array.isArray(list) ? list : [list],
  )
  for (const each of [...inner, ...several, not, additionalProperties]) look(each, depth + 1, found)
}

function isDescribed(field: unknown): boolean {
  if (!isObject(field)) return false
  if (typeof field.description === 'string' && field.description.trim() !== '') return true
  return typeof field.$ref === 'string'
}
