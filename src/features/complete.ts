/** Completes tool lists of servers: titles, annotations, and descriptions with risk, limits and undo. */
import type { Outcome } from '../core/call.ts'
import { canonical } from '../core/json/json.ts'
import type { EntryDefinition } from '../core/descriptor.ts'
import type { Payload } from '../core/payload.ts'
import {
  completedAnnotations,
  completedDescription,
  type Incomplete,
  titleOf,
} from '../descriptions/model/completed.ts'
import type { ServerDescription } from '../descriptions/model/description.ts'
import type { Feature, Services } from './feature.ts'
import { completeSchema } from './settings/upstream.ts'

type Deps = Pick<Services, 'servers' | 'descriptions'>

/** Completes the descriptions of tools: effects, risk, how a call is repeated, who confirms it. */
export const complete: Feature<Record<never, never>> = {
  ...completeSchema,
  create: (_settings, deps) => ({
    calls: {
      middleware: ({ upstream, method }) => {
        if (upstream === undefined || method !== 'tools/list') return undefined
        const completed = createCompleted(deps, upstream)
        return (next) => async (call) => {
          const outcome = await next(call)
          const description = await deps.descriptions.of(upstream)
          return completed(outcome, description)
        }
      },
      dryRun: 'absent',
    },
  }),
}

/** How many lists are cached: servers paginate, and callers may see different lists. */
const MAX_CACHED_LISTS = 8

interface CachedList {
  readonly description: ServerDescription
  readonly text: string
  readonly result: Payload
}

/** Completes the lists of a server; a cached list is not completed again. */
function createCompleted(
  deps: Deps,
  upstream: string,
): (outcome: Outcome, description: ServerDescription) => Outcome {
  let cache: readonly CachedList[] = []
  return (outcome, description) => {
    if (outcome.kind !== 'result') return outcome
    const { result } = outcome
    const known = cache.find((each) => each.description === description && each.text === result.text)
    if (known) return { kind: 'result', result: known.result }
    const completed = completedList(result, toolCompleter(deps, upstream, description))
    const rest = cache.filter((each) => each.description === description).slice(0, MAX_CACHED_LISTS - 1)
    cache = [{ description, text: result.text, result: completed }, ...rest]
    return { kind: 'result', result: completed }
  }
}

function completedList(
  result: Payload,
  complete: (definition: EntryDefinition) => EntryDefinition | undefined,
): Payload {
  return result.withItems('tools', (entry) => {
    const added = complete(entry.fields)
    return added ? entry.with(added) : entry
  })
}

/** The completion of a tool's entry. */
function toolCompleter(deps: Deps, upstream: string, description: ServerDescription) {
  const { isRecorded } = description.front
  const completions = deps.descriptions.document(description, 'completed', ({ tools }) =>
    tools.map((tool) => [String(tool.definition.name), completion({ ...tool, isRecorded })] as const),
  )
  const ready = new Map(completions)
  const tools = new Map(description.tools.map((tool) => [tool.definition.name, tool]))
  return (definition: EntryDefinition): EntryDefinition | undefined => {
    const tool = tools.get(definition.name)
    const completed = ready.get(String(definition.name))
    if (tool && completed && isSame(tool.definition, definition)) return completed
    // Not in the description yet, for example a tool from the list of a signed-in user.
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
  const comparable = ({ title, description, annotations }: EntryDefinition): string =>
    canonical([title, description, annotations])
  return comparable(one) === comparable(other)
}
