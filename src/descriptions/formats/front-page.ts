/** The content of the front page about servers and tools. */
import type { EntryDefinition } from '../../core/descriptor.ts'
import { wordsOf } from '../../core/text/words.ts'
import { costOf, latencyOf } from '../model/facts.ts'
import { parametersOf } from '../model/parameters.ts'
import {
  type DocumentLink,
  linksIn,
  type ServerDescription,
  type ToolDescription,
} from '../model/description.ts'
import { clean, clipped, listed, oneLine, sentence, upper } from '../model/text.ts'

/** One server on the front page. Texts are clean, but not HTML-escaped. */
export interface ServerPanel {
  /** Its title, if it differs from its name. */
  readonly title?: string
  readonly emoji?: string
  readonly purpose: string
  readonly version: string
  readonly tools: readonly ToolPanel[]
  /** The names of its prompts and resources. */
  readonly prompts: readonly string[]
  readonly resources: readonly string[]
  readonly links: readonly DocumentLink[]
}

/** One tool on the front page. */
export interface ToolPanel {
  readonly name: string
  readonly title?: string
  /** The first sentence, and the whole description if it is longer. */
  readonly summary: string
  readonly description?: string
  /** Labels, the most important first. */
  readonly marks: readonly Mark[]
  readonly parameters: readonly ParameterPanel[]
  /** Other facts, by label. */
  readonly facts: readonly (readonly [name: string, text: string])[]
}

/** A label of a tool. */
interface Mark {
  readonly kind: 'safe' | 'reversible' | 'destructive' | 'asked' | 'plain'
  readonly text: string
}

/** An argument of a tool. */
export interface ParameterPanel {
  readonly name: string
  readonly type: string
  readonly isRequired: boolean
  readonly description?: string
}

/** The maximum length of the description of a tool, in characters, and the maximum number of other entries. */
const MAX_DESCRIPTION_LENGTH = 3000
const MAX_NAMED_ENTRIES = 50

/** Creates the content of the front page for a server. */
export function serverPanel(description: ServerDescription): ServerPanel {
  const { name, title, emoji, purpose, wireVersion, version } = description
  return {
    ...(isOther(title, name) && { title }),
    ...(emoji !== undefined && { emoji: oneLine(emoji) }),
    purpose: oneLine(purpose),
    version: oneLine(wireVersion) || version,
    tools: description.tools.map(toolPanel),
    prompts: namesOf(description.prompts, 'name'),
    resources: [...namesOf(description.resources, 'uri'), ...namesOf(description.templates, 'uriTemplate')],
    links: linksIn(description.links, order),
  }
}

function toolPanel(tool: ToolDescription): ToolPanel {
  const { name, title, summary } = tool
  const description = clipped(clean(tool.description).trim(), MAX_DESCRIPTION_LENGTH)
  return {
    name: oneLine(name),
    ...(isOther(title, name) && { title }),
    summary,
    ...(oneLine(description) !== summary && { description }),
    marks: marksOf(tool),
    parameters: parametersOf(tool.definition.inputSchema, 0).map((each) => ({
      name: each.name,
      type: each.type,
      isRequired: each.isRequired,
      ...(each.description !== undefined && { description: each.description }),
    })),
    facts: factsOf(tool),
  }
}

/** Whether a title differs from the name. */
function isOther(title: string, name: string): boolean {
  return wordsOf(title).join(' ') !== wordsOf(name).join(' ')
}

const risks = { safe: 'Safe', reversible: 'Write', destructive: 'Destructive' } as const

function marksOf(tool: ToolDescription): Mark[] {
  const { classification, facts, scopes, isDeprecated } = tool
  const plain = [
    undoOf(tool),
    ...scopes.map((scope) => `Scope ${oneLine(scope)}`),
    priceOf(tool),
    latencies[latencyOf(tool) ?? 'unknown'],
    isDeprecated ? 'Deprecated' : '',
  ].filter((text) => text !== '')
  return [
    { kind: classification.risk, text: risks[classification.risk] },
    ...(facts.confirmation
      ? [{ kind: 'asked', text: facts.confirmation.isOutOfBand ? 'Needs approval' : 'Asks first' } as const]
      : []),
    ...plain.map((text) => ({ kind: 'plain', text }) as const),
  ]
}

const latencies = {
  instant: 'Less than a second',
  seconds: 'Takes seconds',
  minutes: 'Takes minutes',
  unknown: '',
} as const

function undoOf({ facts: { undo }, undoneBy }: ToolDescription): string {
  if (!undo) return ''
  const how = undoneBy === undefined ? 'Can be undone' : `Undone by ${oneLine(undoneBy)}`
  return undo.isExact ? how : `${how}, in part`
}

function priceOf(tool: ToolDescription): string {
  const cost = costOf(tool)
  if (!cost) return ''
  const price = [cost.units, oneLine(cost.label)]
    .filter((each) => each !== undefined && each !== '')
    .join(' ')
  if (cost.category === 'free') return 'Free'
  return price === '' ? categories[cost.category] : `Costs ${price}`
}

const categories = { metered: 'Metered', requires_approval: 'Costs need approval' } as const

function factsOf(tool: ToolDescription): (readonly [string, string])[] {
  const { classification, facts, words, effects } = tool
  const how = oneLine(facts.undo?.description)
  const rows: (readonly [string, string])[] = [
    ['Risk', `${risks[classification.risk]}: ${classification.evidence.map(oneLine).join('; ')}`],
    ['Effects', effects.join('; ')],
    ['Asks', oneLine(facts.confirmation?.message)],
    [
      'Undo',
      how === ''
        ? unknownUndo(tool)
        : `${sentence(how)}${facts.undo?.isExact === true ? '' : ' The previous state is not fully restored.'}`,
    ],
    ['Limit', listed((facts.rates ?? []).map(oneLine))],
    ['Deprecated', upper(oneLine(words.deprecated))],
    ['Command', oneLine(words.cli)],
    ['API', oneLine(words.api)],
  ]
  return rows.filter(([, text]) => text !== '')
}

function unknownUndo({ classification, facts }: ToolDescription): string {
  return facts.undo || classification.op === 'read' ? '' : 'None known.'
}

function namesOf(entries: readonly EntryDefinition[], key: string): string[] {
  return entries.slice(0, MAX_NAMED_ENTRIES).flatMap(({ [key]: name }) => oneLine(name) || [])
}

const order = ['homepage', 'documentation', 'repository', 'statusPage', 'web', 'cli', 'api'] as const
