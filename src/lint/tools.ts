/** Assertions about tools and their schemas, and how to fix their entries. */
import { isDeepStrictEqual } from 'node:util'
import { verbOf } from '../core/judgement/classify.ts'
import { asObject, isObject, pointerSegment } from '../core/json/json.ts'
import { type Fields, Payload } from '../core/payload.ts'
import { uncheckedPatterns, UnusableSchema, validator } from '../core/schema/schema.ts'
import { isPlainName } from '../core/text/alias.ts'
import { common, dialects } from '../protocol/dialects.ts'
import { toolsFor } from '../protocol/schema-repair.ts'
import { checkedPage } from '../protocol/server-shapes.ts'
import {
  type Assertion,
  each,
  notApplicable,
  ownerOnly,
  pass,
  type RuleResult,
  type AuditedTool,
  type Subject,
} from './subject.ts'

const NONE = 'it has no tools'

/** Assertions about the definitions of tools, except schemas. */
export const tools: readonly Assertion[] = [
  {
    id: 'C119',
    level: 'must',
    text: 'Tool names are snake_case with at most 64 characters.',
    fix: 'Rename the tool, such as get-sum to get_sum.',
    check: ({ tools: all }) =>
      each(all, NONE, ({ name, definition }) => {
        if (typeof definition.name !== 'string') return ['a tool without a name']
        return isPlainName(name) ? [] : [name]
      }),
  },
  {
    id: 'C120',
    level: 'must',
    text: 'Each tool has a description of its purpose and risk.',
    fix: 'Describe what it does and when to use it, and warn if it is destructive.',
    check: ({ tools: all }) => each(all, NONE, descriptionProblems),
  },
  {
    id: 'C122',
    level: 'should',
    text: 'Each tool has a title.',
    fix: 'Add a title.',
    check: ({ tools: all }) => each(all, NONE, ({ name, definition }) => (titleOf(definition) ? [] : [name])),
  },
  {
    id: 'C123',
    level: 'should',
    text: 'A tool with structured content has an output schema.',
    fix: 'Add an outputSchema.',
    check: ({ tools: all }) =>
      outputs(all, `${all.length} checked`, 'whether these return structured content'),
  },
  {
    id: 'C124',
    level: 'may',
    text: 'Annotations, icons and execution have the format of the protocol.',
    fix: 'Make hints booleans, icons a list of objects with src, and taskSupport one of its three values.',
    check: ({ tools: all }) => {
      const using = all.filter(({ definition: { annotations, icons, execution } }) =>
        [annotations, icons, execution].some((found) => found !== undefined),
      )
      return each(using, 'no tool uses them', formProblems)
    },
  },
  {
    id: 'C133',
    level: 'must',
    text: 'A tool that changes something documents that, and does not claim to be read-only.',
    fix: 'Describe the effect, and correct readOnlyHint.',
    check: (subject) => {
      const changing = subject.tools.filter((tool) => isChanging(tool, subject))
      return each(changing, 'no tool changes anything', (tool) => effectProblems(tool, subject))
    },
  },
  {
    id: 'C143',
    level: 'should',
    text: 'A read-only tool has readOnlyHint: true.',
    fix: 'Set annotations.readOnlyHint to true.',
    check: (subject) => {
      const reading = subject.tools.filter(
        ({ name, classification: { op } }) => (verbOf(name, subject.upstream)?.op ?? op) === 'read',
      )
      return each(reading, 'no tool is read-only', ({ name, definition }) => {
        const { readOnlyHint } = hintsOf(definition)
        return readOnlyHint === true
          ? []
          : [`${name}: readOnlyHint is ${JSON.stringify(readOnlyHint) ?? 'absent'}`]
      })
    },
  },
  {
    id: 'C174',
    level: 'must',
    text: 'The format of the results of each tool is documented and stable.',
    fix: 'Add an outputSchema, or describe the format of the text.',
    check: ({ tools: all }) =>
      outputs(all, 'each tool has an outputSchema', 'the format of the results of these'),
  },
]

const TASK_SUPPORT_VALUES: ReadonlySet<unknown> = new Set(['forbidden', 'optional', 'required'])
/** The minimum length of a useful description, in characters. */
const MIN_DESCRIPTION_LENGTH = 20
const WARNING =
  /delet|remov|destr|drop|eras|wip|purg|overwrit|replac|truncat|permanent|irrevers|undone|undo|danger|caution|warning|risk|reset|revok|terminat/i
const STEMS =
  'creat|add|append|writ|sav|stor|send|post|publish|insert|upload|updat|chang|edit|sett?|modif|patch|renam|mov|copi?|assign|delet|remov|destroy|dropp?|eras|overwrit|replac|merg|toggl|enabl|disabl|start|stopp?|trigger|runn?|execut|register|grant|revok|restor|archiv|lock|invit|comment|subscrib|transfer|reset|simulat|terminat'
const EFFECT = new RegExp(
  `\\b(?:${STEMS})(?:e|es|y|ies|ied|s|ed|d|ing|ion|ions|ation|al|ten)?\\b|side effect`,
  'i',
)

function descriptionProblems({ name, definition: { description }, classification }: AuditedTool): string[] {
  if (typeof description !== 'string' || description.trim() === '') return [`${name}: no description`]
  if (description.trim().length < MIN_DESCRIPTION_LENGTH)
    return [`${name}: the description is only "${description.trim()}"`]
  if (classification.risk === 'destructive' && !WARNING.test(description)) {
    return [`${name}: is destructive (${classification.evidence[0] ?? ''}) and does not warn about it`]
  }
  return []
}

/** Whether a tool changes something, by its name or else because it does not claim to be read-only. */
function isChanging(
  { name, definition, classification: { op } }: AuditedTool,
  { upstream }: Subject,
): boolean {
  const verb = verbOf(name, upstream)
  if (verb) return verb.op !== 'read'
  return op !== 'read' && hintsOf(definition).readOnlyHint !== true
}

function effectProblems({ name, definition }: AuditedTool, { upstream }: Subject): string[] {
  const { readOnlyHint } = hintsOf(definition)
  const verb = verbOf(name, upstream)
  const text = typeof definition.description === 'string' ? definition.description : ''
  const mentionsEffect = EFFECT.test(text)
  if (readOnlyHint !== true)
    return mentionsEffect ? [] : [`${name}: its description does not mention an effect`]
  // A tool that opens or links something may be read-only.
  const isDenied = verb !== undefined && (verb.op !== 'write' || mentionsEffect)
  return isDenied ? [`${name}: claims readOnlyHint: true, but its name begins with "${verb.verb}"`] : []
}

function formProblems({ name, definition: { annotations, icons, execution } }: AuditedTool): string[] {
  const problems: string[] = []
  if (annotations !== undefined && !isObject(annotations))
    problems.push(`${name}: annotations is not an object`)
  for (const [key, value] of Object.entries(asObject(annotations))) {
    if (key.endsWith('Hint') && typeof value !== 'boolean') problems.push(`${name}: ${key} is not a boolean`)
  }
  const isIcons =
    Array.isArray(icons) && icons.every((icon) => isObject(icon) && typeof icon.src === 'string')
  if (icons !== undefined && !isIcons) problems.push(`${name}: icons is not a list of objects with src`)
  const support = isObject(execution) ? execution.taskSupport : undefined
  if (support !== undefined && !TASK_SUPPORT_VALUES.has(support)) {
    problems.push(`${name}: taskSupport is ${JSON.stringify(support)}`)
  }
  return problems
}

function titleOf(definition: Fields): string | undefined {
  const found = definition.title ?? hintsOf(definition).title
  return typeof found === 'string' && found.trim() !== '' ? found : undefined
}

function hintsOf({ annotations }: Fields): Fields {
  return asObject(annotations)
}

/** A rule that a server with an output schema for each tool satisfies; of the other tools, only its owner knows. */
function outputs(all: readonly AuditedTool[], otherwise: string, question: string): RuleResult {
  if (all.length === 0) return notApplicable(NONE)
  const without = all.filter(({ definition }) => !isObject(definition.outputSchema))
  return without.length === 0
    ? pass(otherwise)
    : ownerOnly(`${question}: ${without.map(({ name }) => name).join(', ')}`)
}

/** Assertions about the input schemas of tools. */
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
    text: 'A schema of another dialect than 2020-12 declares it with $schema.',
    fix: 'Convert it to 2020-12, or declare draft-07 in $schema.',
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
    text: 'An input schema has type: object.',
    fix: 'Add "type": "object".',
    check: (subject) =>
      eachSchema(subject, ({ name }, { type }) =>
        type === 'object' ? [] : [`${name}: type is ${JSON.stringify(type) ?? 'absent'}`],
      ),
  },
  {
    id: 'C129',
    level: 'should',
    text: 'An input schema has properties, even if empty.',
    fix: 'Add "properties".',
    check: (subject) =>
      eachSchema(subject, ({ name }, { properties }) => (isObject(properties) ? [] : [name])),
  },
  {
    id: 'C130',
    level: 'should',
    text: 'An input schema has required, even if empty.',
    fix: 'Add "required".',
    check: (subject) =>
      eachSchema(subject, ({ name }, { required }) => (Array.isArray(required) ? [] : [name])),
  },
  {
    id: 'C131',
    level: 'should',
    text: 'An input schema rejects unknown arguments.',
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
        Object.entries(asObject(properties))
          .filter(([, field]) => !isDescribed(field))
          .map(([key]) => `${name}: ${key}`),
      ),
  },
]

/** Why a schema is invalid; undefined if it is valid. */
function problemOf(schema: Fields): string | undefined {
  try {
    validator(schema)({})
    const invalid = uncheckedPatterns(schema).find(({ reason }) => reason === 'syntax')
    return invalid && `${invalid.at} is not a regular expression of ECMA-262`.slice(0, 200)
  } catch (error) {
    if (!(error instanceof UnusableSchema)) throw error
    return error.message.slice(0, 200)
  }
}

function eachTool({ tools }: Subject, problemsOf: (tool: AuditedTool) => readonly string[]): RuleResult {
  return each(tools, 'it has no tools', problemsOf)
}

function eachSchema(
  { tools }: Subject,
  problemsOf: (tool: AuditedTool, schema: Fields) => readonly string[],
): RuleResult {
  const usable = tools.filter(({ definition }) => isObject(definition.inputSchema))
  return each(usable, 'no tool has an input schema', (tool) => {
    const { inputSchema } = tool.definition
    return isObject(inputSchema) ? problemsOf(tool, inputSchema) : []
  })
}

const DRAFT_07 = 'http://json-schema.org/draft-07/schema#'
const LATEST = 'https://json-schema.org/draft/2020-12/schema'

function dialectProblems(name: string, schema: Fields): string[] {
  const { $schema } = schema
  if ($schema !== undefined) {
    const isKnown = typeof $schema === 'string' && /draft-07|draft\/2020-12/.test($schema)
    return isKnown ? [] : [`${name}: $schema is ${JSON.stringify($schema)}`]
  }
  const found = oldWords(schema)
  if (found.length > 0) return [`${name}: declares no dialect and uses ${found.join(', ')} of draft-07`]
  const isOnlyOld =
    problemOf({ ...schema, $schema: LATEST }) !== undefined &&
    problemOf({ ...schema, $schema: DRAFT_07 }) === undefined
  return isOnlyOld ? [`${name}: declares no dialect and is valid only under draft-07`] : []
}

/** Keywords that 2020-12 removed or changed. */
function oldWords(schema: Fields): string[] {
  const found = new Set<string>()
  look(schema, 0, found)
  return [...found]
}

/** The maximum depth of the search: hand-written schemas are not deeper. */
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

// What the owner of a server should change in the entry of a tool, so that every client and every provider of models takes it:
// the problems, and a JSON Patch (RFC 6902) from the entry of the server to the one that is listed.

/** A change of a JSON document. */
interface PatchOperation {
  readonly op: 'add' | 'remove' | 'replace'
  readonly path: string
  readonly value?: unknown
}

/** What to change in the entry of a tool; without a patch, only its owner can say how it should be. */
interface ToolFix {
  /** The name of the tool, or the place of its entry. */
  readonly tool: string
  readonly problems: readonly string[]
  /** Where in the entry the reason is that it cannot be listed, as a JSON pointer. */
  readonly pointer?: string
  readonly patch?: readonly PatchOperation[]
}

/** The fix for an entry of `tools/list`, for a provider or for all; undefined if nothing is wrong. */
export function toolFix(
  entry: unknown,
  index: number,
  provider?: keyof typeof dialects,
): ToolFix | undefined {
  const dialect = provider === undefined ? common : dialects[provider]
  const page = Payload.of({ tools: [entry] })
  const { payload, found } = checkedPage(page, 'tools', { dialect })
  if (found.length === 0) return undefined
  const { name } = asObject(entry)
  const [kept] = payload.at('tools')?.items ?? []
  const pointer = found.find((each) => each.pointer !== undefined)?.pointer
  return {
    tool: typeof name === 'string' && name !== '' ? name : `entry ${index + 1}`,
    problems: found.map(({ problem }) => problem),
    ...(pointer !== undefined && { pointer }),
    ...(kept && { patch: patchFrom(entry, toolsFor([kept], dialect)[0]?.value) }),
  }
}

/** The operations that make one JSON value the other; a list that differs is replaced as a whole. */
function patchFrom(before: unknown, after: unknown, path = ''): readonly PatchOperation[] {
  if (isDeepStrictEqual(before, after)) return []
  if (!isObject(before) || !isObject(after)) return [{ op: 'replace', path, value: after }]
  const removed = Object.keys(before).filter((key) => !Object.hasOwn(after, key))
  return [
    ...removed.map((key) => ({ op: 'remove', path: `${path}/${pointerSegment(key)}` }) as const),
    ...Object.entries(after).flatMap(([key, value]): readonly PatchOperation[] => {
      const at = `${path}/${pointerSegment(key)}`
      return Object.hasOwn(before, key) ? patchFrom(before[key], value, at) : [{ op: 'add', path: at, value }]
    }),
  ]
}
