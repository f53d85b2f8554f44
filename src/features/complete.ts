/** Completes what servers list: titles, annotations, descriptions with risk, limits and undo. */
import type { Outcome } from '../core/call.ts'
import { canonical } from '../core/json/json.ts'
import type { EntryDefinition } from '../core/descriptor.ts'
import { Payload } from '../core/payload.ts'
import {
  completedAnnotations,
  completedDescription,
  type Incomplete,
  titleOf,
} from '../descriptions/model/completed.ts'
import type { ServerDescription } from '../descriptions/model/description.ts'
import type { Feature } from './feature.ts'
import type { Services } from './feature.ts'

type Deps = Pick<Services, 'servers' | 'descriptions'>

/** Completes the descriptions of tools: what they change, how risky that is, how a call is repeated, who is asked. */
export const complete: Feature<Record<never, never>> = {
  name: 'complete',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    default: 'off',
    description:
      'Whether tools that servers list get a title, the hints they lack, and at the end of their description their risk, effects, limits and rules. By default `off`, and `on` in the corporate profile.',
    properties: {},
  },
  create: (_settings, deps) => ({
    middleware: ({ upstream, method }) => {
      if (upstream === undefined || method !== 'tools/list') return undefined
      const completed = createCompleted(deps, upstream)
      return (next) => async (call) => {
        const outcome = await next(call)
        const description = await deps.descriptions.of(upstream)
        return completed(outcome, description)
      }
    },
  }),
}

/** How many lists are kept: servers cut theirs into pages, and may show callers different ones. */
const MAX_CACHED_LISTS = 8

interface Kept {
  readonly description: ServerDescription
  readonly text: string
  readonly result: Payload
}

/** Completes the lists of a server; a list that comes again is not completed again. */
function createCompleted(
  deps: Deps,
  upstream: string,
): (outcome: Outcome, description: ServerDescription) => Outcome {
  let kept: readonly Kept[] = []
  return (outcome, description) => {
    if (outcome.kind === 'input_required') return outcome
    const { result } = outcome
    const known = kept.find((each) => each.description === description && each.text === result.text)
    if (known) return { kind: 'result', result: known.result }
    const made = completedList(result, toolCompleter(deps, upstream, description))
    const others = kept.filter((each) => each.description === description).slice(0, MAX_CACHED_LISTS - 1)
    kept = [{ description, text: result.text, result: made }, ...others]
    return { kind: 'result', result: made }
  }
}

function completedList(
  result: Payload,
  complete: (definition: EntryDefinition) => EntryDefinition | undefined,
): Payload {
  const list = result.at('tools')
  if (!list || !Array.isArray(list.value)) return result
  const texts = list.items.map((entry) => {
    const made = complete(entry.fields)
    return made ? entry.with(made).text : entry.text
  })
  return result.with({ tools: Payload.text(`[${texts.join(',')}]`) })
}

/** What is set in the entry of a tool. */
function toolCompleter(deps: Deps, upstream: string, description: ServerDescription) {
  const { isRecorded } = description.front
  const made = deps.descriptions.document(description, 'completed', ({ tools }) =>
    tools.map((tool) => [String(tool.definition.name), completion({ ...tool, isRecorded })] as const),
  )
  const ready = new Map(made)
  const tools = new Map(description.tools.map((tool) => [tool.definition.name, tool]))
  return (definition: EntryDefinition): EntryDefinition | undefined => {
    const tool = tools.get(definition.name)
    const own = ready.get(String(definition.name))
    if (tool && own && isSame(tool.definition, definition)) return own
    // What the description does not know yet, as the list of a signed-in user.
    const entry = deps.servers.describe(upstream, definition)
    if (!entry) return undefined
    const { facts = {}, effects = [] } = tool ?? {}
    return completion({ definition, classification: entry.classification, facts, effects, isRecorded })
  }
}

function completion(tool: Incomplete): EntryDefinition {
  return {
    title: titleOf(tool.definition),
    description: completedDescription(tool),
    annotations: completedAnnotations(tool),
  }
}

function isSame(one: EntryDefinition, other: EntryDefinition): boolean {
  const said = ({ title, description, annotations }: EntryDefinition): string =>
    canonical([title, description, annotations])
  return said(one) === said(other)
}
