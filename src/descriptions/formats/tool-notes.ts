/** Notes on listed tools in `_meta`: cost, latency, media. */
import { NS } from '../../protocol/meta-keys.ts'
import { costData, latencyOf, outputTypesOf } from '../model/facts.ts'
import type { ToolDescription } from '../model/description.ts'

type Json = Readonly<Record<string, unknown>>

/** What stands in `_meta` of a listed tool besides its object: what it costs, how long it takes, which media it is for. */
export function toolNotes(tool: ToolDescription): Json {
  const { cost } = tool.facts
  const latency = latencyOf(tool)
  const media = mediaOf(tool)
  return {
    ...(cost && { [`${NS}/cost`]: costData(cost) }),
    ...(latency && { [`${NS}/latency`]: latency }),
    ...(media && { [`${NS}/multimodal`]: media }),
  }
}

/** Of how many tools it is said what is left: each is asked for by itself, of a store that may be far away. */
const MAX_COUNTED_TOOLS = 100

/** The tools whose calls are counted for themselves, as they have a rate or cost units of a budget; the first ones. */
export function countedOf<Tool extends Pick<ToolDescription, 'facts'>>(
  tools: readonly Tool[],
): ReadonlySet<Tool> {
  return new Set(tools.filter(isCounted).slice(0, MAX_COUNTED_TOOLS))
}

function isCounted({ facts: { rates, cost } }: Pick<ToolDescription, 'facts'>): boolean {
  return rates !== undefined || (cost?.units ?? 0) > 0
}

/** The media a tool takes and gives, where it is about more than texts and JSON. */
function mediaOf(tool: ToolDescription): Json | undefined {
  const { inputTypes, maxInput } = tool.facts
  const outputTypes = outputTypesOf(tool)
  const isRich = outputTypes.some((type) => type !== 'text/plain' && type !== 'application/json')
  if (!inputTypes && !isRich) return undefined
  return {
    ...(inputTypes && { input_types: inputTypes }),
    ...(outputTypes.length > 0 && { output_types: outputTypes }),
    ...(inputTypes && maxInput !== undefined && { max_input_size_bytes: maxInput }),
  }
}
