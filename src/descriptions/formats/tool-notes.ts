/** Notes on listed tools in `_meta`: cost, latency, media. */
import { NS } from '../../protocol/meta-keys.ts'
import { costData, latencyOf, outputTypesOf } from '../model/facts.ts'
import type { ToolDescription } from '../model/description.ts'

type Json = Readonly<Record<string, unknown>>

/** Additional `_meta` of a listed tool: cost, latency, media types. */
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

/** For how many tools the remaining quota is included: each is a separate read of a store that may be remote. */
const MAX_COUNTED_TOOLS = 100

/** The first tools with a quota: a rate limit, or a cost in a budget. */
export function countedOf<Tool extends Pick<ToolDescription, 'facts'>>(
  tools: readonly Tool[],
): ReadonlySet<Tool> {
  return new Set(tools.filter(isCounted).slice(0, MAX_COUNTED_TOOLS))
}

function isCounted({ facts: { rates, cost } }: Pick<ToolDescription, 'facts'>): boolean {
  return rates !== undefined || (cost?.units ?? 0) > 0
}

/** The media types of a tool, if it handles more than text and JSON. */
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
