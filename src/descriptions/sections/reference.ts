/** The reference of tools, in full and as a short list. */
import { riskLevels } from '../model/completed.ts'
import type { ToolDescription, ServerDescription } from '../model/description.ts'
import { costOf, latencyOf, outputTypesOf, possibleErrors } from '../model/facts.ts'
import { examplesOf, type Parameter, parametersOf } from '../model/parameters.ts'
import {
  bullets,
  code,
  inlineText,
  jsonCode,
  listed,
  oneLine,
  quotation,
  sentence,
  toolCode,
  upper,
} from '../model/text.ts'

/** The note about lines that `toolReference` quotes. */
export const QUOTATION_NOTICE = 'Lines that begin with `>` are quoted from the server of the tool.'

/** The reference of one tool in Markdown. */
export function toolReference(tool: ToolDescription): string {
  const { definition } = tool
  const parameters = parametersOf(definition.inputSchema)
  const given = parameters.length > 0 ? `Parameters:\n\n${parameterLines(parameters)}` : 'Parameters: none'
  const returned = returns(tool)
  const [example] = examplesOf(tool)
  const exampleText = example ? jsonCode(example.input, 600) : ''
  return [
    `### ${inlineText(tool.of === undefined ? tool.name : `${tool.name} of ${tool.of}`)}`,
    quotation(tool.description),
    given,
    returned === '' ? '' : `Returns: ${returned}`,
    exampleText === '' || exampleText === '`{}`' ? '' : `Example: ${exampleText}`,
    ownErrors(tool),
    bullets(notes(tool)),
  ]
    .filter((part) => part !== '')
    .join('\n\n')
}

/** A tool on one line: name, parameters and summary. */
export function toolSignature(tool: ToolDescription): string {
  const parameters = parametersOf(tool.definition.inputSchema, 0)
  const names = parameters.slice(0, 12).map(({ name, isRequired }) => (isRequired ? name : `${name}?`))
  const more = parameters.length > names.length ? [...names, '…'] : names
  return `${toolCode({ ...tool, name: `${tool.name}(${more.join(', ')})` })}: ${inlineText(tool.summary)}`
}

/** The reference of one tool as data. */
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
    ...(tool.event !== undefined && { event: tool.event }),
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
  const details = [
    sentence(inlineText(description)),
    choices ? `One of ${choices.map((each) => jsonCode(each)).join(', ')}.` : '',
    parameter.default === undefined ? '' : `Default ${jsonCode(parameter.default) || 'see the schema'}.`,
    limits.length > 0 ? `Limits: ${limits.map(inlineText).join('; ')}.` : '',
  ].filter((part) => part !== '')
  const head = `${code(name)} (${isRequired ? 'required' : 'optional'}, ${inlineText(type)})`
  return details.length > 0 ? `${head}: ${details.join(' ')}` : head
}

function returns(tool: ToolDescription): string {
  const fields = parametersOf(tool.definition.outputSchema, 0)
  if (fields.length > 0) {
    return `${fields.map(({ name, type }) => `${code(name)} (${inlineText(type)})`).join(', ')}.`
  }
  const types = outputTypesOf(tool)
  return types.length > 0 ? `${types.map(inlineText).join(', ')}.` : ''
}

/** The configured errors; those of the gateway have their own section. */
function ownErrors({ words }: ToolDescription): string {
  if (!words.errors) return ''
  const lines = words.errors.map(({ code: name, description, resolution = '' }) => {
    return [`${code(name)}: ${sentence(inlineText(description))}`, sentence(inlineText(resolution))]
      .join(' ')
      .trim()
  })
  return `Errors:\n\n${bullets(lines)}`
}

/** Facts of the gateway about calls of the tool. */
function notes(tool: ToolDescription): string[] {
  const { classification, facts, words, effects } = tool
  const scopes = tool.scopes.map(code)
  const latency = latencyOf(tool)
  const cost = costOf(tool)
  const price = [cost?.units, cost?.label].filter((each) => each !== undefined).join(' ')
  return [
    words.deprecated === undefined ? '' : `Deprecated: ${sentence(inlineText(words.deprecated))}`,
    classification.op === 'read'
      ? 'Read-only.'
      : `Side effects: ${effects.map(inlineText).join('; ') || 'none known'}. Risk: ${riskWords[classification.risk]}.`,
    confirmationOf(tool),
    undoOf(tool),
    repetitionOf(tool),
    tool.event === undefined ? '' : `Event: a success is ${code(tool.event)}.`,
    scopes.length > 0 ? `Scopes: ${listed(scopes)}.` : '',
    facts.rates && facts.rates.length > 0 ? `Limit: ${listed(facts.rates.map(inlineText))}.` : '',
    cost ? `Cost: ${price === '' ? cost.category.replace('_', ' ') : inlineText(price)}.` : '',
    latency ? `Takes: ${latencyWords[latency]}.${taskOf(facts)}` : '',
    words.cli === undefined ? '' : `CLI equivalent: ${code(words.cli)}`,
    words.api === undefined ? '' : `API equivalent: ${code(words.api)}`,
  ].filter((line) => line !== '')
}

const riskWords = { ...riskLevels, destructive: `${riskLevels.destructive}, it can destroy or overwrite` }

const latencyWords = { instant: 'less than a second', seconds: 'seconds', minutes: 'minutes' } as const

/** When a slow call becomes a task: only stated of tools whose calls do at once. */
function taskOf({ longCalls }: ToolDescription['facts']): string {
  return longCalls?.taskAfter === 0 ? ' A client that supports tasks gets a task at once.' : ''
}

function confirmationOf({ facts: { confirmation } }: ToolDescription): string {
  if (!confirmation) return ''
  const who = confirmation.isOutOfBand
    ? 'Approval by others is required, on a page'
    : `Confirmation is required${confirmation.isSkippedIfUndoable ? ' if it cannot be undone exactly' : ''}`
  return `${who}: "${inlineText(confirmation.message)}"`
}

function undoOf({ facts: { undo }, undoneBy, classification, denied }: ToolDescription): string {
  if (!undo && classification.op === 'read') return ''
  if (!undo) return denied.has('reversible') ? 'Undo: not possible.' : 'Undo: none known.'
  const how = oneLine(undo.description)
  const what = how === '' && undoneBy !== undefined ? code(undoneBy) : inlineText(how)
  return `Undo: ${sentence(what)}${undo.isExact ? '' : ' The previous state is not fully restored.'}`
}

function repetitionOf({ classification, facts }: ToolDescription): string {
  if (classification.op === 'read') return ''
  if (classification.idempotent) return 'Repeating: the same call has no further effect.'
  if (facts.isIdempotentWithKey === true)
    return 'Repeating: only with the same idempotency key; otherwise it acts twice.'
  return 'Repeating: each call acts again.'
}

/** A group of related tools. */
interface Group {
  readonly group: string
  readonly tools: readonly ToolDescription[]
}

/** How many tools are summarized, and how many others are named. */
const MAX_SUMMARIZED_TOOLS = 20
const MAX_NAMED_TOOLS = 300

/** Tools grouped by topic or, for several servers, by server. Single tools form one group. */
export function grouped({ tools, parts, name }: ServerDescription): Group[] {
  const key = (tool: ToolDescription): string => (parts.length > 0 ? tool.upstream : tool.category)
  const all = new Map<string, ToolDescription[]>()
  for (const tool of tools) all.set(key(tool), [...(all.get(key(tool)) ?? []), tool])
  const groups = [...all].map(([group, own]) => ({ group, tools: last(own) }))
  if (parts.length > 0) return groups
  const lone = groups.filter(({ tools: own }) => own.length === 1)
  if (lone.length < 2) return groups
  const others = groups.filter(({ tools: own }) => own.length > 1)
  const rest = {
    group: others.length > 0 ? 'other' : name,
    tools: last(lone.flatMap(({ tools: own }) => own)),
  }
  return [...others, rest]
}

/** A short list of all tools: the first twenty with a summary, the others by name. */
export function quickReference(description: ServerDescription): string {
  if (description.tools.length === 0) return 'This server has no tools.'
  const groups = grouped(description)
  const share =
    description.tools.length > MAX_SUMMARIZED_TOOLS
      ? Math.max(1, Math.floor(MAX_SUMMARIZED_TOOLS / groups.length))
      : MAX_SUMMARIZED_TOOLS
  let named = 0
  let left = 0
  const parts = groups.map(({ group, tools }) => {
    const rest = tools.slice(share).map(({ name }) => code(name))
    const listedNames = rest.slice(0, Math.max(0, MAX_NAMED_TOOLS - named))
    named += listedNames.length
    left += rest.length - listedNames.length
    const lines = bullets(tools.slice(0, share).map(toolLine))
    const also = listedNames.length > 0 ? `\n- also ${listedNames.join(', ')}` : ''
    return groups.length > 1 ? `**${inlineText(upper(group))}:**\n\n${lines}${also}` : `${lines}${also}`
  })
  const more = left > 0 ? [`${left} more tools are in tools/list.`] : []
  return [...parts, ...more].join('\n\n')
}

/** A tool on one line: summary and warnings. */
function toolLine({ name, summary, classification, facts, isDeprecated }: ToolDescription): string {
  const minds = [
    classification.risk === 'destructive' ? 'destructive' : '',
    facts.confirmation ? 'confirmation required' : '',
    isDeprecated ? 'deprecated' : '',
  ].filter((each) => each !== '')
  return `${code(name)}: ${sentence(inlineText(summary))}${minds.length > 0 ? ` (${minds.join(', ')})` : ''}`
}

/** Deprecated tools come last. */
function last(tools: readonly ToolDescription[]): ToolDescription[] {
  return tools.toSorted((one, other) => Number(one.isDeprecated) - Number(other.isDeprecated))
}
