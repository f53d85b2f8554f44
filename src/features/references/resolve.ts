/**
 * Resolves references in the arguments of a call: a value that is exactly `ref://<id>`, or `{"$ref_id": "<id>"}`, becomes
 * the data in the form that the schema takes there. References inside of texts are left alone.
 */
import type { Call } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { pointerSegments } from '../../core/schema/schema.ts'
import { type Reference, type References, unknownReference } from '../../records/references.ts'
import {
  isJson,
  jsonIn,
  parseReference,
  SCHEME,
  select,
  type Selected,
  textOf,
  type Written,
} from './selection.ts'

/** How many references the arguments of a call may have, and how deep they are looked for. */
const MAX_REFERENCES_PER_CALL = 20
const MAX_DEPTH = 32

interface Options {
  readonly references: References
  /** The largest data in the arguments of a call, in bytes. */
  readonly max: number
  /** Whether the caller may still read what came from a server. */
  mayRead(reference: Reference, call: Call): Promise<boolean>
}

/** Something that the arguments refer to. */
interface Used extends Pick<Reference, 'id' | 'server' | 'name' | 'type' | 'size' | 'sha256'> {
  /** Where it is in the arguments. */
  readonly path: string
}

/** A call with the data in place of the references, and what they were; undefined if there are none. */
export interface Resolved {
  readonly call: Call
  readonly used: readonly Used[]
}

/** @throws RESOURCE_NOT_FOUND, INVALID_INPUT, PAYLOAD_TOO_LARGE */
export async function resolveReferences(call: Call, options: Options): Promise<Resolved | undefined> {
  const given = call.params.at('arguments')
  if (!given || !mayRefer(given.text)) return undefined
  const resolution = new Resolution(call, options)
  const schema = call.tool?.definition.inputSchema
  const root = { path: '', schemas: new Schemas(schema).root, depth: 0 }
  const resolved = await resolution.resolve(given, root)
  if (resolution.used.length === 0) return undefined
  return { call: { ...call, params: call.params.with({ arguments: resolved }) }, used: resolution.used }
}

/** Nearly no call has one. */
function mayRefer(text: string): boolean {
  return text.includes('ref:') || text.includes('$ref_id') || text.includes('\\u')
}

interface Place {
  readonly path: string
  readonly schemas: SchemaPlace
  readonly depth: number
}

class Resolution {
  readonly used: Used[] = []
  readonly #call: Call
  readonly #options: Options
  #size = 0

  constructor(call: Call, options: Options) {
    this.#call = call
    this.#options = options
  }

  /** The same payload if there is no reference in it, so that what is not replaced keeps its text. */
  async resolve(given: Payload, place: Place): Promise<Payload> {
    const { value } = given
    const written = writtenAt(value)
    if (written) return this.#data(written, place)
    if (place.depth >= MAX_DEPTH) return given
    if (Array.isArray(value)) return this.#resolveItems(given, place)
    return isObject(value) ? this.#resolveMembers(given, place) : given
  }

  async #resolveItems(given: Payload, { path, schemas, depth }: Place): Promise<Payload> {
    const { items } = given
    const resolved: Payload[] = []
    for (const [index, item] of items.entries()) {
      const place = { path: `${path}[${index}]`, schemas: schemas.item(index), depth: depth + 1 }
      resolved.push(await this.resolve(item, place))
    }
    if (resolved.every((each, index) => each === items[index])) return given
    return Payload.text(`[${resolved.map(({ text }) => text).join(',')}]`)
  }

  async #resolveMembers(given: Payload, { path, schemas, depth }: Place): Promise<Payload> {
    const changed: (readonly [string, Payload])[] = []
    for (const [name, value] of Object.entries(given.fields)) {
      // Finding the text of a member takes as long as the object is.
      const member = holdsReference(value, depth) ? given.at(name) : undefined
      if (!member) continue
      const at = path === '' ? name : `${path}.${name}`
      const resolved = await this.resolve(member, {
        path: at,
        schemas: schemas.member(name),
        depth: depth + 1,
      })
      if (resolved !== member) changed.push([name, resolved])
    }
    return changed.length === 0 ? given : given.with(Object.fromEntries(changed))
  }

  async #data({ id, part, text }: WrittenReference, { path, schemas }: Place): Promise<Payload> {
    if (this.used.length >= MAX_REFERENCES_PER_CALL) throw tooMany(path)
    const { references, max, mayRead } = this.#options
    const reference = await references.find(this.#call.principal, id)
    if (!reference || !(await mayRead(reference, this.#call))) throw unknownReference().with({ field: path })
    const limits = { max: Math.max(0, max - this.#size), written: text }
    const selected = await select(references, reference, part, limits)
    this.#size += sizeOfSelected(selected)
    const { server, name, type, size, sha256 } = reference
    this.used.push({ path, id, server, name, type, size, sha256 })
    return inForm(selected, reference, schemas.takes(), path)
  }
}

/** Whether a value is a reference, or has one in it. */
function holdsReference(value: unknown, depth: number): boolean {
  if (typeof value === 'string') return value.startsWith(SCHEME)
  if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return false
  return (
    textOfObject(value) !== undefined || Object.values(value).some((each) => holdsReference(each, depth + 1))
  )
}

function sizeOfSelected(selected: Selected): number {
  if (selected.kind === 'bytes') return selected.bytes.byteLength
  return Buffer.byteLength(selected.kind === 'text' ? selected.text : selected.json.text)
}

type WrittenReference = Written & { readonly text: string }

function writtenAt(value: unknown): WrittenReference | undefined {
  const text = typeof value === 'string' ? value : textOfObject(value)
  if (text === undefined || !text.startsWith(SCHEME)) return undefined
  const written = parseReference(text)
  return written && { ...written, text }
}

/** `{"$ref_id": "<id>"}`, where the id may have the scheme and a part. */
function textOfObject(value: unknown): string | undefined {
  if (!isObject(value)) return undefined
  const { $ref_id: id, ...rest } = value
  if (typeof id !== 'string' || Object.keys(rest).length > 0) return undefined
  return id.startsWith(SCHEME) ? id : `${SCHEME}${id}`
}

/** The data as the schema takes it. @throws INVALID_INPUT */
function inForm(selected: Selected, reference: Reference, form: Form, path: string): Payload {
  if (selected.kind === 'json') {
    const { json } = selected
    const isTaken = form === 'json' || form === 'any' || typeof json.value === 'string'
    return isTaken ? json : Payload.of(json.text)
  }
  const bytes = selected.kind === 'text' ? Buffer.from(selected.text) : selected.bytes
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

function unfit(path: string, problem: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${path} ${problem}.`, {
    field: path,
    reason: 'reference',
    isResult: true,
  })
}

function tooMany(path: string): GatewayError {
  return new GatewayError(
    'INVALID_INPUT',
    `Invalid params: there are more than ${MAX_REFERENCES_PER_CALL} references.`,
    {
      field: path,
      reason: 'reference',
      isResult: true,
    },
  )
}

/** The forms of data in arguments. */
type Form = 'text' | 'json' | 'base64' | 'data_uri' | 'any'

type Schema = Readonly<Record<string, unknown>>

/** The schemas that apply to one value. */
interface SchemaPlace {
  member(name: string): SchemaPlace
  item(index: number): SchemaPlace
  takes(): Form
}

/** Finds the subschemas for parts of a value: local `$ref`s are followed, and alternatives are all considered. */
class Schemas {
  readonly root: SchemaPlace
  readonly #document: unknown

  constructor(document: unknown) {
    this.#document = document
    this.root = this.#place([document])
  }

  #place(given: readonly unknown[]): SchemaPlace {
    const schemas = this.#expanded(given)
    return {
      member: (name) => this.#place(schemas.map((schema) => memberSchema(schema, name))),
      item: (index) => this.#place(schemas.map((schema) => itemSchema(schema, index))),
      takes: () => formOf(schemas),
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
