/**
 * The forms of data in arguments: which one a schema takes at a place, and the data in that form. A schema is read
 * leniently: it says what a server would accept, and `validate` checks the result.
 */
import { GatewayError } from '../../core/error.ts'
import { isObject, pointerSegments } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import type { Reference } from '../../records/references.ts'
import { type FormName, isJson, jsonIn, type Selected, textOf } from './selection.ts'

/** The forms that a schema takes; `any` leaves the choice to the data. */
type Form = InlineForm | 'any'

/** The forms of data that are in the arguments themselves. */
export type InlineForm = Exclude<FormName, 'path' | 'url'>

/** The data in the form that the caller chose. @throws INVALID_INPUT */
export function inChosenForm(
  selected: Selected,
  reference: Reference,
  form: InlineForm,
  path: string,
): Payload {
  if (selected.kind !== 'json' || form === 'text' || form === 'json')
    return inForm(selected, reference, form, path)
  const { value, text } = selected.json
  const [content, type] = typeof value === 'string' ? [value, 'text/plain'] : [text, 'application/json']
  return inForm({ kind: 'bytes', bytes: Buffer.from(content) }, { ...reference, type }, form, path)
}

/** The data as the schema takes it. @throws INVALID_INPUT */
export function inForm(selected: Selected, reference: Reference, form: Form, path: string): Payload {
  if (selected.kind === 'json') {
    const { json } = selected
    const isTaken = form === 'json' || form === 'any' || typeof json.value === 'string'
    return isTaken ? json : Payload.of(json.text)
  }
  const { bytes } = selected
  if (form === 'base64') return Payload.of(bytes.toString('base64'))
  if (form === 'data_uri') return Payload.of(`data:${reference.type};base64,${bytes.toString('base64')}`)
  const text = textOf(bytes)
  if (form === 'json' || (form === 'any' && isJson(reference))) return parsed(text, path)
  if (text === undefined) throw unfit(path, `takes text, and the data is ${reference.type}`)
  return Payload.of(text)
}

function parsed(text = '', path: string): Payload {
  const json = jsonIn(text)
  if (!json) throw unfit(path, 'takes JSON, and the data is not JSON')
  return json
}

/** The error for data that cannot be sent at a place of the arguments. */
export function unfit(path: string, problem: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${path} ${problem}.`, {
    field: path,
    reason: 'reference',
    isResult: true,
  })
}

type Schema = Readonly<Record<string, unknown>>

/** The schemas that apply to one value. */
export interface SchemaPlace {
  member(name: string): SchemaPlace
  item(index: number): SchemaPlace
  takes(): Form
  /** Whether the value is a URI, by its format. */
  isUri(): boolean
  /** What the schemas say of the value in few words: the descriptions, and those of the list that it is in. */
  descriptions(): readonly string[]
}

/** Finds the subschemas for parts of a value: local `$ref`s are followed, and alternatives are all considered. */
export class Schemas {
  readonly root: SchemaPlace
  readonly #document: unknown

  constructor(document: unknown) {
    this.#document = document
    this.root = this.#place([document])
  }

  #place(given: readonly unknown[], ofList: readonly string[] = []): SchemaPlace {
    const schemas = this.#expanded(given)
    const descriptions = (): readonly string[] => [...ofList, ...schemas.flatMap(descriptionOf)]
    return {
      member: (name) => this.#place(schemas.map((schema) => memberSchema(schema, name))),
      item: (index) =>
        this.#place(
          schemas.map((schema) => itemSchema(schema, index)),
          descriptions(),
        ),
      takes: () => formOf(schemas),
      isUri: () => schemas.some(({ format }) => format === 'uri' || format === 'url'),
      descriptions,
    }
  }

  /** The schemas and those that they consist of, each of them once: schemas can contain themselves. */
  #expanded(given: readonly unknown[]): readonly Schema[] {
    const found = new Set<Schema>()
    const waiting = [...given]
    while (waiting.length > 0) {
      const schema = waiting.pop()
      if (!isObject(schema) || found.has(schema)) continue
      found.add(schema)
      const { $ref, anyOf, oneOf, allOf } = schema
      if ($ref !== undefined) waiting.push(this.#target($ref))
      for (const each of [anyOf, oneOf, allOf]) if (Array.isArray(each)) waiting.push(...(each as unknown[]))
    }
    return [...found]
  }

  #target(ref: unknown): unknown {
    if (typeof ref !== 'string' || !ref.startsWith('#')) return undefined
    let at: unknown = this.#document
    for (const name of pointerSegments(ref.slice(1)))
      at = isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined
    return at
  }
}

function memberSchema({ properties, additionalProperties }: Schema, name: string): unknown {
  return isObject(properties) && Object.hasOwn(properties, name) ? properties[name] : additionalProperties
}

function itemSchema({ items, prefixItems }: Schema, index: number): unknown {
  return Array.isArray(prefixItems) && index < prefixItems.length ? prefixItems[index] : items
}

/** Servers write descriptions; longer ones say too much to say what a value is. */
const MAX_DESCRIPTION_LENGTH = 1000

function descriptionOf({ description }: Schema): readonly string[] {
  const isShort = typeof description === 'string' && description.length < MAX_DESCRIPTION_LENGTH
  return isShort ? [description] : []
}

function formOf(schemas: readonly Schema[]): Form {
  const types = new Set(
    schemas.flatMap(({ type }) => [type].flat()).filter((type) => typeof type === 'string'),
  )
  if (types.size > 0 && !types.has('string')) return 'json'
  const encodings = schemas.map(({ contentEncoding, format, description, 'x-mcp-file': file }) => {
    // A file that is sent inline (SEP-2631).
    if (isObject(file)) return 'data_uri'
    if (contentEncoding === 'base64' || format === 'byte' || format === 'binary') return 'base64'
    const text = typeof description === 'string' ? description : ''
    if (/\bdata:|\bdata[- ]ur[il]\b/i.test(text)) return 'data_uri'
    return /\bbase-?64\b/i.test(text) ? 'base64' : undefined
  })
  const encoding = encodings.find((each) => each !== undefined)
  if (encoding) return encoding
  const mayBeText = types.has('string') && !types.has('object') && !types.has('array')
  return mayBeText ? 'text' : 'any'
}
