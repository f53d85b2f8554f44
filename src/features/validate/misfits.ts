import { GatewayError } from '../../core/error.ts'
import type { SchemaProblem } from '../../core/schema.ts'

/** One argument that does not fit, in words. */
interface Mismatch {
  /** Where: names and indexes with dots between them; empty for the arguments as a whole. */
  readonly field: string
  /** One word: the rule that is broken. */
  readonly reason: string
  readonly text: string
}

/** How many misfits are named, and how long a name or a list of allowed values may be, in characters. */
const most = { named: 5, listed: 20, field: 200, values: 200 }

/** The refusal of arguments that do not fit the schema of a tool. It repeats no value. */
export function mismatchError(problems: readonly SchemaProblem[]): GatewayError {
  const misfits = distinct(telling(problems).map(misfit))
  const named = misfits.slice(0, most.named).map(({ text }) => text)
  const others = misfits.length - named.length
  const more = others > 0 ? ` (and ${others} more)` : ''
  const [first] = misfits
  return new GatewayError('INVALID_INPUT', `Invalid arguments: ${named.join('; ')}${more}.`, {
    isResult: true,
    field: first?.field,
    reason: first?.reason,
    suggestion: 'Correct the arguments to fit the input schema of the tool and call again.',
    details: { problems: misfits.slice(0, most.listed).map(({ field, reason }) => ({ field, reason })) },
  })
}

const summaries = new Set(['anyOf', 'oneOf', 'allOf', 'if'])

/** Without those that only sum up others. */
function telling(problems: readonly SchemaProblem[]): readonly SchemaProblem[] {
  const found = problems.filter(({ keyword }) => !summaries.has(keyword))
  return found.length > 0 ? found : problems
}

function misfit({ path, keyword, message, params }: SchemaProblem): Mismatch {
  const inner = [params.missingProperty, params.additionalProperty, params.unevaluatedProperty].find(
    (each) => typeof each === 'string',
  )
  const field = [...path, ...(typeof inner === 'string' ? [inner] : [])].join('.').slice(0, most.field)
  return { field, reason: keyword, text: `${nameOf(field)} ${words(keyword, message, params)}` }
}

function nameOf(field: string): string {
  if (field === '') return 'the arguments'
  return /^[\w.$ -]{1,64}$/.test(field) ? `"${field}"` : 'an argument'
}

function words(keyword: string, message: string, params: Readonly<Record<string, unknown>>): string {
  switch (keyword) {
    case 'required':
      return 'is required'
    case 'additionalProperties':
    case 'unevaluatedProperties':
      return 'is not an argument of this tool'
    case 'enum':
      return `must be one of ${listed(params.allowedValues)}`
    case 'const':
      return `must be ${listed([params.allowedValue])}`
    default:
      return message
  }
}

function listed(values: unknown): string {
  const text = (Array.isArray(values) ? values : []).map((each) => JSON.stringify(each)).join(', ')
  return text.length > most.values ? `${text.slice(0, most.values)}…` : text
}

function distinct(misfits: readonly Mismatch[]): readonly Mismatch[] {
  return [...new Map(misfits.map((each) => [each.text, each])).values()]
}
