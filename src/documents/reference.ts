import { costOf } from './cost.ts'
import { examplesOf } from './example.ts'
import { possibleErrors } from './failures.ts'
import { latencyOf, outputTypesOf } from './observed.ts'
import { type Parameter, parametersOf } from './parameters.ts'
import type { ToolDescription } from './portrait.ts'
import { riskLevels } from './completed.ts'
import { bullets, code, inline, jsonCode, listed, oneLine, quotation, sentence, toolCode } from './text.ts'

/** What a document says of the lines that `toolReference` quotes. */
export const QUOTATION_NOTICE = 'Lines that begin with `>` are the words of the server of the tool.'

/** Everything about one tool, in markdown. */
export function toolReference(tool: ToolDescription): string {
  const { definition } = tool
  const parameters = parametersOf(definition.inputSchema)
  const given = parameters.length > 0 ? `Parameters:\n\n${parameterLines(parameters)}` : 'Parameters: none'
  const returned = returns(tool)
  const [example] = examplesOf(tool)
  const shown = example ? jsonCode(example.input, 600) : ''
  return [
    `### ${inline(tool.of === undefined ? tool.name : `${tool.name} of ${tool.of}`)}`,
    quotation(tool.description),
    given,
    returned === '' ? '' : `Returns: ${returned}`,
    shown === '' || shown === '`{}`' ? '' : `Example: ${shown}`,
    ownErrors(tool),
    bullets(notes(tool)),
  ]
    .filter((part) => part !== '')
    .join('\n\n')
}

/** A tool on one line: its name, its parameters and its summary. */
export function toolSignature(tool: ToolDescription): string {
  const parameters = parametersOf(tool.definition.inputSchema, 0)
  const names = parameters.slice(0, 12).map(({ name, isRequired }) => (isRequired ? name : `${name}?`))
  const more = parameters.length > names.length ? [...names, '…'] : names
  return `${toolCode({ ...tool, name: `${tool.name}(${more.join(', ')})` })}: ${inline(tool.summary)}`
}

/** Everything about one tool, as data. */
export function toolData(tool: ToolDescription): Record<string, unknown> {
  const { classification, facts, words, definition } = tool
  const { scopes } = tool
  const latency = latencyOf(tool)
  const returned = parametersOf(definition.outputSchema)
  const errors = possibleErrors(tool)
  return {
    name: tool.name,
    ...(tool.of !== undefined && { server: tool.of }),
    title: tool.title,
    description: tool.description,
    category: tool.category,
    operationType: classification.op,
    riskLevel: classification.risk,
    idempotent: classification.idempotent,
    parameters: parametersOf(definition.inputSchema).map(parameterData),
    ...(returned.length > 0 && { returns: returned.map(parameterData) }),
    sideEffects: tool.effects,
    ...(facts.confirmation && { confirmation: oneLine(facts.confirmation.message) }),
    ...(facts.undo && { undo: undoData(tool) }),
    ...(scopes.length > 0 && { scopes }),
    ...(latency && { latency }),
    ...(words.cli !== undefined && { cliEquivalent: words.cli }),
    ...(words.api !== undefined && { apiEquivalent: words.api }),
    examples: examplesOf(tool),
    ...(errors.length > 0 && { errors }),
    ...(tool.isDeprecated && { deprecated: words.deprecated ?? true }),
  }
}

function undoData({ facts: { undo }, undoneBy }: ToolDescription): Record<string, unknown> {
  return {
    ...(undoneBy !== undefined && { tool: undoneBy }),
    isExact: undo?.isExact === true,
    description: oneLine(undo?.description),
  }
}

function parameterData({ isRequired, fields, choices, ...rest }: Parameter): Record<string, unknown> {
  return {
    ...rest,
    required: isRequired,
    ...(choices && { enum: choices }),
    ...(fields && { fields: fields.map(parameterData) }),
  }
}

function parameterLines(parameters: readonly Parameter[], indent = ''): string {
  return parameters
    .map((each) => {
      const line = `${indent}- ${parameterLine(each)}`
      return each.fields ? `${line}\n${parameterLines(each.fields, `${indent}  `)}` : line
    })
    .join('\n')
}

function parameterLine(parameter: Parameter): string {
  const { name, type, isRequired, description = '', choices, limits = [] } = parameter
  const told = [
    sentence(inline(description)),
    choices ? `One of ${choices.map((each) => jsonCode(each)).join(', ')}.` : '',
    parameter.default === undefined ? '' : `Default ${jsonCode(parameter.default) || 'see the schema'}.`,
    limits.length > 0 ? `Limits: ${limits.map(inline).join('; ')}.` : '',
  ].filter((part) => part !== '')
  const head = `${code(name)} (${isRequired ? 'required' : 'optional'}, ${inline(type)})`
  return told.length > 0 ? `${head}: ${told.join(' ')}` : head
}

function returns(tool: ToolDescription): string {
  const fields = parametersOf(tool.definition.outputSchema, 0)
  if (fields.length > 0) {
    return `${fields.map(({ name, type }) => `${code(name)} (${inline(type)})`).join(', ')}.`
  }
  const types = outputTypesOf(tool)
  return types.length > 0 ? `${types.map(inline).join(', ')}.` : ''
}

/** The errors only its owner knows of; those of the gateway stand together in one place. */
function ownErrors({ words }: ToolDescription): string {
  if (!words.errors) return ''
  const lines = words.errors.map(({ code: name, description, resolution = '' }) => {
    return [`${code(name)}: ${sentence(inline(description))}`, sentence(inline(resolution))].join(' ').trim()
  })
  return `Errors:\n\n${bullets(lines)}`
}

/** What the gateway knows about calling it. */
function notes(tool: ToolDescription): string[] {
  const { classification, facts, words, effects } = tool
  const scopes = tool.scopes.map(code)
  const latency = latencyOf(tool)
  const cost = costOf(tool)
  const price = [cost?.units, cost?.label].filter((each) => each !== undefined).join(' ')
  return [
    words.deprecated === undefined ? '' : `Deprecated: ${sentence(inline(words.deprecated))}`,
    classification.op === 'read'
      ? 'Reads only.'
      : `Side effects: ${effects.map(inline).join('; ') || 'none known'}. Risk: ${riskWords[classification.risk]}.`,
    confirmationOf(tool),
    undoOf(tool),
    repetitionOf(tool),
    scopes.length > 0 ? `Scopes: ${listed(scopes)}.` : '',
    facts.rates && facts.rates.length > 0 ? `Limit: ${listed(facts.rates.map(inline))}.` : '',
    cost ? `Cost: ${price === '' ? cost.category.replace('_', ' ') : inline(price)}.` : '',
    latency ? `Takes: ${latencyWords[latency]}.` : '',
    words.cli === undefined ? '' : `CLI equivalent: ${code(words.cli)}`,
    words.api === undefined ? '' : `API equivalent: ${code(words.api)}`,
  ].filter((line) => line !== '')
}

const riskWords = { ...riskLevels, destructive: `${riskLevels.destructive}, it can destroy or overwrite` }

const latencyWords = { instant: 'less than a second', seconds: 'seconds', minutes: 'minutes' } as const

function confirmationOf({ facts: { confirmation } }: ToolDescription): string {
  if (!confirmation) return ''
  const who = confirmation.isOutOfBand ? 'Others are asked first, on a page' : 'A person is asked first'
  return `${who}: "${inline(confirmation.message)}"`
}

function undoOf({ facts: { undo }, undoneBy, classification }: ToolDescription): string {
  if (!undo) return classification.op === 'read' ? '' : 'Undo: none known.'
  const how = oneLine(undo.description)
  const what = how === '' && undoneBy !== undefined ? code(undoneBy) : inline(how)
  return `Undo: ${sentence(what)}${undo.isExact ? '' : ' Not everything is as before then.'}`
}

function repetitionOf({ classification, facts }: ToolDescription): string {
  if (classification.op === 'read') return ''
  if (classification.idempotent) return 'Repeating: the same call again changes nothing more.'
  if (facts.isIdempotentWithKey === true)
    return 'Repeating: only with the same idempotency key, else it acts twice.'
  return 'Repeating: it acts again each time.'
}
