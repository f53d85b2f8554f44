/**
 * What a server says of a tool in its list, in the words of the MCP extension proposals (service-manifest.schema.json,
 * ToolDefinition): cost, latency, risk, confirmation, scopes, media. Every document and question takes them from here.
 */
import { type Cost, type Risk, riskRanks } from './descriptor.ts'
import { toDouble } from './json/exact-number.ts'
import { isObject } from './json/json.ts'
import { oneLine } from './text/escape.ts'

/** The words of a server about one tool; what it does not say, or not in the form of the proposals, is absent. */
export interface StatedTool {
  readonly cost?: Cost
  readonly latency?: 'instant' | 'seconds' | 'minutes'
  readonly idempotent?: boolean
  readonly risk?: Risk
  /** A person has to approve each call: it says so, or a call costs something that needs approval. */
  readonly needsConfirmation: boolean
  /** The question for that person. */
  readonly question?: string
  readonly scopes?: readonly string[]
  /** Media types. */
  readonly accepts?: readonly string[]
  readonly returns?: readonly string[]
  /** In bytes. */
  readonly maxInput?: number
}

type Definition = Readonly<Record<string, unknown>>

const latencies = ['instant', 'seconds', 'minutes'] as const
const categories = ['free', 'metered', 'requires_approval'] as const
const risks = ['safe', 'reversible', 'destructive'] as const

/** How many scopes or media types of one tool are read. */
const MAX_ITEMS = 100
/** The longest scope, media type or unit, in characters. */
const MAX_WORD = 200

/** Reads the entry of a tool. */
export function statedTool(definition: Definition): StatedTool {
  const { idempotent, risk_level: risk } = definition
  const { confirmation_message: question, latency, max_input_size_bytes: maxInput } = definition
  const cost = costIn(definition.cost)
  const scopes = textsIn(definition.required_scopes)
  const [accepts, returns] = [textsIn(definition.input_types), textsIn(definition.output_types)]
  const bytes = toDouble(maxInput)
  return {
    ...(cost && { cost }),
    ...(isOneOf(latencies, latency) && { latency }),
    ...(typeof idempotent === 'boolean' && { idempotent }),
    ...(isOneOf(risks, risk) && { risk }),
    needsConfirmation: statesConfirmation(definition),
    ...(typeof question === 'string' && question.trim() !== '' && { question }),
    ...(scopes && { scopes }),
    ...(accepts && { accepts }),
    ...(returns && { returns }),
    ...(bytes !== undefined && bytes >= 0 && Number.isSafeInteger(bytes) && { maxInput: bytes }),
  }
}

/** Whether a server says that a person has to approve each call of a tool. Cheap: each call asks it. */
export function statesConfirmation({ requires_confirmation: isRequired, cost }: Definition): boolean {
  return isRequired === true || (isObject(cost) && cost.category === 'requires_approval')
}

/** The risk of a tool for its readers: a server that is believed says it, others can only raise it. */
export function reportedRisk(stated: Risk | undefined, judged: Risk, isBelieved: boolean): Risk {
  if (stated === undefined) return judged
  return isBelieved || riskRanks[stated] > riskRanks[judged] ? stated : judged
}

function costIn(value: unknown): Cost | undefined {
  if (!isObject(value) || !isOneOf(categories, value.category)) return undefined
  const { category, estimated_units: estimated, unit_label: label } = value
  const units = toDouble(estimated)
  return {
    category,
    ...(units !== undefined && Number.isFinite(units) && { units }),
    ...(isWord(label) && { label }),
  }
}

function textsIn(value: unknown): readonly string[] | undefined {
  if (!Array.isArray(value)) return undefined
  const items: readonly unknown[] = value.slice(0, MAX_ITEMS)
  return items.filter(isWord)
}

/** Names have no hidden characters, and an end. */
function isWord(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_WORD && oneLine(value) === value
}

function isOneOf<Word extends string>(words: readonly Word[], value: unknown): value is Word {
  return words.some((word) => word === value)
}
