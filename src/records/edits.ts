/**
 * Arguments that a person changes when approving a call: which ones may be changed, as what text they are shown, and what a
 * typed text means. Only the changed ones are recorded, as JSON text, so that the others reach the server exactly as the caller
 * sent them, those included that the person does not see in full.
 */
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { duplicateKey, parseJson } from '../core/json/read.ts'
import { UnusableSchema, validator } from '../core/schema/schema.ts'
import { splitHidden } from '../core/text/escape.ts'

/** The changed arguments by name, as JSON text. */
export type Edits = Readonly<Record<string, string>>

type Arguments = Readonly<Record<string, unknown>>

/** How long the text of an argument, and of all together, may be to be changed on the page, in characters. */
const MAX_EDITABLE_LENGTH = { each: 4000, all: 6000 }

/** The arguments that can be changed: what is masked, long, or has invisible characters is not. */
export function editableArguments(given: Arguments, masked: Arguments): readonly string[] {
  let length = 0
  return Object.keys(given).filter((name) => {
    const text = editableText(given[name])
    const isShown = JSON.stringify(given[name]) === JSON.stringify(masked[name])
    const isFit = text.length <= MAX_EDITABLE_LENGTH.each && length + text.length <= MAX_EDITABLE_LENGTH.all
    if (!isShown || !isFit || hasHidden(name) || hasHidden(text)) return false
    length += text.length
    return true
  })
}

/** A text area would change or hide these characters. */
function hasHidden(text: string): boolean {
  return !text.isWellFormed() || splitHidden(text.replaceAll('\t', '')).some(({ isHidden }) => isHidden)
}

/** An argument as the text that a person edits: a string as it is, another value as JSON. */
export function editableText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2)
}

/** Whether a text differs from that of a value. */
export function isEdit(typed: string, value: unknown): boolean {
  return asFilled(typed) !== editableText(value)
}

/** Forms have other line ends than what they were filled with. */
function asFilled(typed: string): string {
  return typed.replaceAll('\r\n', '\n')
}

/** What a person typed in place of a value, as JSON text; undefined if it is the same. @throws INVALID_INPUT */
export function readEdit(typed: string, value: unknown): string | undefined {
  if (!isEdit(typed, value)) return undefined
  const text = asFilled(typed)
  if (typeof value === 'string') return JSON.stringify(text)
  try {
    const parsed = parseJson(text)
    const twice = duplicateKey(text, parsed)
    if (twice === undefined) return text.trim()
    throw new GatewayError('INVALID_INPUT', `The key ${JSON.stringify(twice)} is there twice.`)
  } catch (cause) {
    if (cause instanceof GatewayError) throw cause
    throw new GatewayError('INVALID_INPUT', 'This is not valid JSON.', { cause })
  }
}

/** The values of changed arguments. */
export function valuesOf(edits: Edits): Arguments {
  return Object.fromEntries(Object.entries(edits).map(([name, text]) => [name, parseJson(text)]))
}

/** Why changed arguments do not fit the schema of their tool, by name. */
export function editProblems(
  schema: unknown,
  given: Arguments,
  edits: Edits,
): Readonly<Record<string, string>> {
  if (!isObject(schema)) return {}
  try {
    const found = validator(schema)({ ...given, ...valuesOf(edits) })
    const own = found.flatMap(({ path: [name = '', ...inner], message }) =>
      Object.hasOwn(edits, name)
        ? [[name, inner.length === 0 ? message : `${inner.join('.')} ${message}`] as const]
        : [],
    )
    return Object.fromEntries(own.toReversed())
  } catch (error) {
    if (error instanceof UnusableSchema) return {}
    throw error
  }
}
