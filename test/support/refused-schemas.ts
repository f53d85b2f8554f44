/** Input schemas that providers of models refuse, as servers send them, and what providers refuse. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import { isObject, type Json } from './server/json.ts'

/** A schema, and the JSON pointer of what is wrong; `leftOut` if nothing makes it usable. */
export interface RefusedSchema {
  readonly schema: unknown
  readonly at: string
  readonly leftOut?: true
}

const text = { type: 'string' }
const properties = (more: Json): Json => ({ type: 'object', properties: more })
const deep = (levels: number): Json => (levels === 0 ? text : properties({ a: deep(levels - 1) }))

/** By what is wrong. */
export const refusedSchemas: Readonly<Record<string, RefusedSchema>> = {
  'anyOf of required arguments': {
    schema: { ...properties({ a: text, b: text }), anyOf: [{ required: ['a'] }, { required: ['b'] }] },
    at: '/inputSchema/anyOf',
  },
  'anyOf of objects': {
    schema: { type: 'object', anyOf: [properties({ a: text }), properties({ b: text })] },
    at: '/inputSchema/anyOf',
  },
  'oneOf with a constant': {
    schema: { type: 'object', oneOf: [properties({ k: { const: 1 } }), properties({ k: { const: 2 } })] },
    at: '/inputSchema/oneOf',
  },
  'oneOf of which one accepts no object': {
    schema: { type: 'object', oneOf: [text, properties({ a: text })] },
    at: '/inputSchema/oneOf',
  },
  'allOf of parts': {
    schema: { type: 'object', allOf: [properties({ a: text }), { required: ['a'] }] },
    at: '/inputSchema/allOf',
  },
  'allOf within anyOf': {
    schema: { type: 'object', anyOf: [{ allOf: [properties({ a: text })] }, {}] },
    at: '/inputSchema/anyOf',
  },
  'not at the root': { schema: { type: 'object', not: { required: ['a', 'b'] } }, at: '/inputSchema/not' },
  'enum at the root': { schema: { type: 'object', enum: [{ a: 1 }] }, at: '/inputSchema/enum' },
  'const at the root': { schema: { type: 'object', const: {} }, at: '/inputSchema/const' },
  'a reference as the root': {
    schema: { type: 'object', $ref: '#/definitions/A', definitions: { A: properties({ a: text }) } },
    at: '/inputSchema/$ref',
  },
  'an array without items': { schema: properties({ a: { type: 'array' } }), at: '/inputSchema/properties/a' },
  'an array or null without items': {
    schema: properties({ a: { type: ['array', 'null'] } }),
    at: '/inputSchema/properties/a',
  },
  'arrays in arrays without items': {
    schema: properties({ a: { type: 'array', items: { type: 'array' } } }),
    at: '/inputSchema/properties/a/items',
  },
  'items that are a list': {
    schema: properties({ a: { type: 'array', items: [text] } }),
    at: '/inputSchema/properties/a/items',
  },
  'items that are null': {
    schema: properties({ a: { type: 'array', items: null } }),
    at: '/inputSchema/properties/a/items',
  },
  'a required argument that is not there': {
    schema: { ...properties({ a: text }), required: ['a', 'b'] },
    at: '/inputSchema/required',
  },
  'a required member that is not there': {
    schema: properties({ a: { ...properties({}), required: ['b'] } }),
    at: '/inputSchema/properties/a/required',
  },
  'required: true as in draft 3': {
    schema: properties({ a: { ...text, required: true } }),
    at: '/inputSchema/properties/a/required',
  },
  'required that is null': {
    schema: properties({ a: { ...properties({}), required: null } }),
    at: '/inputSchema/properties/a/required',
  },
  'a local reference': {
    schema: { ...properties({ a: { $ref: '#/$defs/A' } }), $defs: { A: text } },
    at: '/inputSchema/properties/a/$ref',
  },
  'a schema that contains itself': {
    schema: {
      ...properties({ a: { $ref: '#/$defs/A' } }),
      $defs: { A: properties({ a: { $ref: '#/$defs/A' } }) },
    },
    at: '/inputSchema/properties/a/$ref',
  },
  'a reference to an anchor': {
    schema: { ...properties({ a: { $ref: '#A' } }), $defs: { A: { ...text, $anchor: 'A' } } },
    at: '/inputSchema/properties/a/$ref',
  },
  'a foreign reference': {
    schema: properties({ a: { $ref: 'https://example.com/a.json' } }),
    at: '/inputSchema/properties/a/$ref',
  },
  'a reference to nothing': {
    schema: properties({ a: { $ref: '#/$defs/gone' } }),
    at: '/inputSchema/properties/a/$ref',
  },
  'references in a circle': {
    schema: {
      ...properties({ a: { $ref: '#/$defs/A' } }),
      $defs: { A: { $ref: '#/$defs/B' }, B: { $ref: '#/$defs/A' } },
    },
    at: '/inputSchema/properties/a/$ref',
  },
  'exclusiveMinimum: true': {
    schema: properties({ a: { type: 'integer', minimum: 0, exclusiveMinimum: true } }),
    at: '/inputSchema/properties/a/exclusiveMinimum',
  },
  'exclusiveMaximum: false': {
    schema: properties({ a: { type: 'number', maximum: 9, exclusiveMaximum: false } }),
    at: '/inputSchema/properties/a/exclusiveMaximum',
  },
  'a type in capitals': {
    schema: properties({ a: { type: 'STRING' } }),
    at: '/inputSchema/properties/a/type',
  },
  'a type of Python': { schema: properties({ a: { type: 'dict' } }), at: '/inputSchema/properties/a/type' },
  'a type that is none': { schema: properties({ a: { type: 'any' } }), at: '/inputSchema/properties/a/type' },
  'null in a list of types': {
    schema: properties({ a: { type: ['string', null] } }),
    at: '/inputSchema/properties/a/type',
  },
  'an empty list of types': { schema: properties({ a: { type: [] } }), at: '/inputSchema/properties/a/type' },
  'null in place of a schema': {
    schema: properties({ a: properties({ b: null }) }),
    at: '/inputSchema/properties/a/properties/b',
  },
  'null in place of properties': {
    schema: properties({ a: { type: 'object', properties: null } }),
    at: '/inputSchema/properties/a/properties',
  },
  'an empty list in place of properties': {
    schema: properties({ a: { type: 'object', properties: [] } }),
    at: '/inputSchema/properties/a/properties',
  },
  'an empty enum': { schema: properties({ a: { ...text, enum: [] } }), at: '/inputSchema/properties/a/enum' },
  'a description that is null': {
    schema: properties({ a: { ...text, description: null } }),
    at: '/inputSchema/properties/a/description',
  },
  'a length that is text': {
    schema: properties({ a: { ...text, maxLength: '9' } }),
    at: '/inputSchema/properties/a/maxLength',
  },
  'a pattern of another dialect': {
    schema: properties({ a: { ...text, pattern: '(?P<n>a)' } }),
    at: '/inputSchema/properties/a/pattern',
  },
  'a format that is a list': {
    schema: properties({ a: { ...text, format: ['date'] } }),
    at: '/inputSchema/properties/a/format',
  },
  'an argument with brackets': {
    schema: properties({ 'filter[id]': text }),
    at: '/inputSchema/properties/filter[id]',
  },
  'an argument with a long name': {
    schema: properties({ ['a'.repeat(65)]: text }),
    at: `/inputSchema/properties/${'a'.repeat(65)}`,
  },
  'schemas in schemas in schemas': { schema: deep(30), at: `/inputSchema${'/properties/a'.repeat(21)}` },
  'a description of a book': {
    schema: properties({ a: { ...text, description: 'word '.repeat(10_000) } }),
    at: '/inputSchema/properties/a/description',
  },
  'alternatives that accept no object': {
    schema: { type: 'object', oneOf: [text, { type: 'null' }] },
    at: '/inputSchema/oneOf',
    leftOut: true,
  },
  'a part that accepts no object': {
    schema: { type: 'object', allOf: [{}, text] },
    at: '/inputSchema/allOf/1',
    leftOut: true,
  },
  'text as the root': { schema: text, at: '/inputSchema/type', leftOut: true },
  'no schema': { schema: 'none', at: '/inputSchema', leftOut: true },
  'a type of the root that is none': { schema: { type: 'any' }, at: '/inputSchema/type', leftOut: true },
}

const modern = new Ajv2020({ strict: false, logger: false })
const TYPES = new Set(['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'])

const ARGUMENT_NAME = /^[a-zA-Z0-9_.-]{1,64}$/

/** What OpenAI, Anthropic and Gemini refuse in an input schema, in any form of JSON Schema. */
export function refusalsOf(schema: unknown, argumentName = ARGUMENT_NAME): readonly string[] {
  if (!isObject(schema)) return ['no schema']
  const found: string[] = []
  if (schema['type'] !== 'object') found.push('the root is no object')
  for (const key of ['anyOf', 'oneOf', 'allOf', 'enum', 'const', 'not'])
    if (key in schema) found.push(`root ${key}`)
  const { $schema: _draft, ...rules } = schema
  if (modern.validateSchema(rules) !== true) found.push(modern.errorsText())
  for (const name of Object.keys(Object(schema['properties'])))
    if (!argumentName.test(name)) found.push(`the name ${name}`)
  const visit = (value: unknown, depth: number): void => {
    if (depth > 60) found.push('too deep')
    if (Array.isArray(value)) value.forEach((each) => visit(each, depth))
    if (!isObject(value)) return
    if ('$ref' in value) found.push('$ref')
    const types = [value['type']].flat().filter((each) => typeof each === 'string')
    if (types.some((each) => !TYPES.has(each))) found.push('type')
    if (types.includes('array') && !('items' in value)) found.push('no items')
    for (const name of Array.isArray(value['required']) ? value['required'] : [])
      if (!Object.hasOwn(Object(value['properties']), String(name))) found.push(`required ${name}`)
    if (String(value['description'] ?? '').length > 32_768) found.push('description')
    for (const each of Object.values(value)) visit(each, depth + 1)
  }
  visit(schema, 0)
  return found
}

const ANNOTATIONS = ['title', 'description', 'default', 'x-mcp-header']
/** What a schema of each type may have in the subset of OpenAPI that Gemini takes. */
const SUBSET: Readonly<Record<string, readonly string[]>> = {
  string: ['enum', 'format', 'minLength', 'maxLength', 'pattern'],
  number: ['format', 'minimum', 'maximum'],
  integer: ['format', 'minimum', 'maximum'],
  boolean: [],
  array: ['items', 'minItems', 'maxItems'],
  object: ['properties', 'required', 'minProperties', 'maxProperties'],
}

/**
 * What Gemini refuses in a schema. For clients that use several providers, `null` is an alternative, which may have a
 * description beside it.
 */
export function subsetRefusals(schema: unknown, isForAny: boolean): readonly string[] {
  const found: string[] = []
  const visit = (value: unknown, at: string): void => {
    if (!isObject(value)) return void found.push(`${at} is no schema`)
    const { type, anyOf, enum: values, properties, items, nullable, ...rest } = value
    const keys = Object.keys(value).filter((key) => key !== 'anyOf')
    if (Array.isArray(anyOf)) {
      if (keys.some((key) => !isForAny || !ANNOTATIONS.includes(key))) found.push(`${at} has more than anyOf`)
      return anyOf.forEach((each, index) => visit(each, `${at}/anyOf/${index}`))
    }
    if (isForAny && type === 'null') return
    const known = typeof type === 'string' ? SUBSET[type] : []
    if (!known) found.push(`${at} has the type ${JSON.stringify(type)}`)
    for (const key of Object.keys({ ...rest, ...(properties !== undefined && { properties }) }))
      if (![...(known ?? []), ...ANNOTATIONS].includes(key)) found.push(`${at} has ${key}`)
    if (nullable !== undefined && (isForAny || nullable !== true || type === undefined))
      found.push(`${at} has nullable`)
    if (
      values !== undefined &&
      !(Array.isArray(values) && values.every((each) => typeof each === 'string' && each))
    )
      found.push(`${at} has an enum of other values`)
    if (type === 'array') visit(items, `${at}/items`)
    else if (items !== undefined) found.push(`${at} has items`)
    for (const [name, each] of Object.entries(Object(properties))) visit(each, `${at}/${name}`)
  }
  visit(schema, '')
  return found
}
