/**
 * A form from a JSON Schema, for the arguments of a tool and for the questions of a confirmation. What is typed becomes JSON text
 * field by field, so that numbers keep all their digits. A schema that no form fits is one text area of JSON.
 */
import { asObject, isObject } from '../../core/json/json.ts'
import { duplicateKey, parseJson } from '../../core/json/read.ts'
import { escapeHidden, shortened } from '../../core/text/escape.ts'
import { displayWord, html, type Html, plainText } from './html.ts'

/** A field of a form. */
export interface SchemaField {
  readonly name: string
  readonly title: string
  readonly description?: string
  readonly kind: 'text' | 'number' | 'boolean' | 'choice' | 'json'
  readonly isRequired: boolean
  /** The values that it can have, as JSON. */
  readonly choices?: readonly string[]
  /** What it is filled with. */
  readonly initial: string
}

/** What was typed, by the names of fields. */
export type Typed = Readonly<Record<string, string>>

/** The most fields of a form, and the most choices of one. */
const MAX_FIELDS = 60
const MAX_CHOICES = 200
/** How much of a description is shown, in characters. */
const MAX_DESCRIPTION_LENGTH = 600

/** The fields for an object of a schema; undefined if they would not be all that the schema says. */
export function schemaFields(schema: unknown): readonly SchemaField[] | undefined {
  if (!isObject(schema) || (schema.type !== undefined && schema.type !== 'object')) return undefined
  if (['$ref', 'anyOf', 'oneOf', 'allOf', 'not', 'if', 'patternProperties'].some((key) => key in schema))
    return undefined
  const { properties, required, additionalProperties } = schema
  if (properties === undefined) return additionalProperties === false ? [] : undefined
  if (!isObject(properties)) return undefined
  const entries = Object.entries(properties)
  if (entries.length > MAX_FIELDS || (entries.length === 0 && additionalProperties !== false))
    return undefined
  const names: readonly unknown[] = Array.isArray(required) ? required : []
  // Required members that are not described have no field.
  if (names.some((name) => typeof name !== 'string' || !Object.hasOwn(properties, name))) return undefined
  // An attribute of the page would not have the name as it is.
  if (entries.some(([name]) => escapeHidden(name) !== name)) return undefined
  return entries.map(([name, property]) => fieldOf(name, property, names.includes(name)))
}

function fieldOf(name: string, schema: unknown, isRequired: boolean): SchemaField {
  const own = isObject(schema) ? schema : {}
  const { title, description } = own
  const kind = kindOf(own)
  const choices = kind === 'choice' ? choicesOf(own) : undefined
  return {
    name,
    title: typeof title === 'string' && title !== '' ? title : name,
    ...(typeof description === 'string' && { description: shortened(description, MAX_DESCRIPTION_LENGTH) }),
    kind,
    isRequired,
    ...(choices && { choices }),
    initial: initialOf(own.default, kind),
  }
}

function kindOf(schema: Readonly<Record<string, unknown>>): SchemaField['kind'] {
  if (choicesOf(schema)) return 'choice'
  if (['$ref', 'anyOf', 'oneOf', 'allOf'].some((key) => key in schema)) return 'json'
  const types = [schema.type].flat().filter((type) => type !== 'null')
  if (types.length !== 1) return 'json'
  if (types[0] === 'string') return 'text'
  if (types[0] === 'boolean') return 'boolean'
  return types[0] === 'number' || types[0] === 'integer' ? 'number' : 'json'
}

/** The values of an enumeration as JSON, if they can be listed. */
function choicesOf(schema: Readonly<Record<string, unknown>>): readonly string[] | undefined {
  const { enum: values, const: only } = schema
  const all: unknown = only === undefined ? values : [only]
  if (!Array.isArray(all) || all.length === 0 || all.length > MAX_CHOICES) return undefined
  return all.map((value) => escapeHidden(JSON.stringify(value) ?? 'null'))
}

function initialOf(value: unknown, kind: SchemaField['kind']): string {
  if (value === undefined) return ''
  return kind === 'text' && typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
}

/** An object as JSON text; or what is wrong with what was typed, by field. */
export type ReadForm = { readonly text: string } | { readonly problems: Readonly<Record<string, string>> }

/** Reads what was typed into the fields. A field without text that is not required is left out. */
export function readForm(fields: readonly SchemaField[], typed: Typed): ReadForm {
  const problems: [string, string][] = []
  const members: string[] = []
  for (const field of fields) {
    const given = Object.hasOwn(typed, field.name) ? (typed[field.name] ?? '') : ''
    const read = readField(field, given.replaceAll('\r\n', '\n'))
    if (read !== undefined && 'problem' in read) problems.push([field.name, read.problem])
    else if (read !== undefined) members.push(`${JSON.stringify(field.name)}:${read.text}`)
  }
  return problems.length > 0 ? { problems: Object.fromEntries(problems) } : { text: `{${members.join(',')}}` }
}

/** A number of JSON (RFC 8259 section 6). */
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

function readField(
  { kind, isRequired, choices = [] }: SchemaField,
  given: string,
): { readonly text: string } | { readonly problem: string } | undefined {
  if (given === '') return isRequired ? { problem: 'is required.' } : undefined
  const text = given.trim()
  switch (kind) {
    case 'text':
      return { text: JSON.stringify(given) }
    case 'number':
      return NUMBER.test(text) ? { text } : { problem: 'must be a number, such as 12 or -0.5.' }
    case 'boolean':
      return text === 'true' || text === 'false' ? { text } : { problem: 'must be true or false.' }
    case 'choice':
      return choices.includes(text) ? { text } : { problem: 'must be one of the choices.' }
    case 'json':
      return readJsonText(given)
  }
}

/** JSON as it was typed. */
function readJsonText(given: string): { readonly text: string } | { readonly problem: string } {
  try {
    const key = duplicateKey(given, parseJson(given))
    return key === undefined
      ? { text: given.trim() }
      : { problem: `has ${JSON.stringify(shortened(key, 100))} twice.` }
  } catch {
    return { problem: 'must be JSON, such as ["a", "b"] or {"a": 1}.' }
  }
}

/** What fields would have been filled with for an object as JSON text; undefined if they cannot say all of it. */
export function typedFor(fields: readonly SchemaField[], text: string): Typed | undefined {
  const value = asObject(parseJson(text))
  const known = new Map(fields.map((field) => [field.name, field]))
  const typed = Object.entries(value).map(([name, member]) => {
    const kind = known.get(name)?.kind
    if (kind === 'text') return [name, typeof member === 'string' ? member : undefined] as const
    return [name, kind === undefined ? undefined : escapeHidden(JSON.stringify(member))] as const
  })
  const given = typed.flatMap(([name, each]) =>
    each === undefined || each === '' ? [] : [[name, each] as const],
  )
  return given.length === typed.length ? Object.fromEntries(given) : undefined
}

/** Reads one text area with all of an object. */
export function readWhole(given: string): { readonly text: string } | { readonly problem: string } {
  const read = readJsonText(given.trim() === '' ? '{}' : given)
  if ('problem' in read) return { problem: `The JSON ${read.problem}` }
  return isObject(parseJson(read.text))
    ? read
    : { problem: 'It must be a JSON object, such as {"path": "a.txt"}.' }
}

/** How fields are rendered. */
interface FieldOptions {
  /** What the names of the inputs begin with. */
  readonly prefix: string
  readonly typed?: Typed | undefined
  readonly problems?: Readonly<Record<string, string>> | undefined
}

/** The fields as HTML. */
export function fieldsHtml(fields: readonly SchemaField[], options: FieldOptions): Html {
  return html`${fields.map((field, index) => fieldHtml(field, index, options))}`
}

function fieldHtml(field: SchemaField, index: number, { prefix, typed, problems = {} }: FieldOptions): Html {
  const { name, title, description, isRequired, initial } = field
  const id = `${prefix.replaceAll('.', '-')}${index}`
  const value = typed === undefined ? initial : Object.hasOwn(typed, name) ? (typed[name] ?? '') : ''
  const problem = Object.hasOwn(problems, name) ? problems[name] : undefined
  const about = [
    ...(description === undefined ? [] : [`${id}-about`]),
    ...(problem === undefined ? [] : [`${id}-problem`]),
  ]
  const common = html`id="${id}" name="${prefix + name}"${isRequired && html` required`}${
    about.length > 0 && html` aria-describedby="${about.join(' ')}"`
  }${problem !== undefined && html` aria-invalid="true"`}`
  return html`<div class="field"><label for="${id}">${displayWord(title)}${title !== name && html` <code>${displayWord(name)}</code>`}${!isRequired && html` <span class="also">optional</span>`}</label>
${description !== undefined && html`<p class="size" id="${id}-about">${description}</p>`}
${problem !== undefined && html`<p class="notice" id="${id}-problem">${problem}</p>`}
${inputHtml(field, value, common)}</div>`
}

function inputHtml(
  { kind, isRequired, choices = ['true', 'false'] }: SchemaField,
  value: string,
  common: Html,
): Html {
  if (kind === 'number')
    return html`<input ${common} inputmode="decimal" autocomplete="off" value="${value}">`
  if (kind === 'boolean' || kind === 'choice') {
    const none = html`<option value="">${isRequired ? 'Choose…' : 'Not given'}</option>`
    const options = choices.map(
      (choice) =>
        html`<option value="${choice}"${choice === value && html` selected`}>${plainText(choiceLabel(choice))}</option>`,
    )
    return html`<select ${common}>${none}${options}</select>`
  }
  const rows = Math.min(12, value.split('\n').length + (kind === 'json' ? 2 : 0))
  // The first line break in a text area is not part of its text.
  return html`<textarea ${common} rows="${rows}" spellcheck="false" autocapitalize="none"${kind === 'json' && html` placeholder="JSON"`}>
${plainText(value)}</textarea>`
}

/** A text without its quotes; another value as JSON. */
function choiceLabel(choice: string): string {
  const value = parseJson(choice)
  return typeof value === 'string' && value !== '' ? value : choice
}
