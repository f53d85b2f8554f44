import { isObject } from '../core/json.ts'
import { NS } from '../wire/extensions.ts'
import { latencyOf } from './observed.ts'
import type { ToolPortrait } from './portrait.ts'

type Json = Readonly<Record<string, unknown>>

/** What stands in `_meta` of a listed tool besides its object: what it costs, how long it takes, which media it is for. */
export function toolNotes(tool: ToolPortrait): Json {
  const { cost } = tool.facts
  const latency = latencyOf(tool)
  const media = mediaOf(tool)
  return {
    ...(cost && {
      [`${NS}/cost`]: {
        category: cost.category,
        ...(cost.units !== undefined && { estimated_units: cost.units }),
        ...(cost.label !== undefined && { unit_label: cost.label }),
      },
    }),
    ...(latency && { [`${NS}/latency`]: latency }),
    ...(media && { [`${NS}/multimodal`]: media }),
  }
}

/** The media a tool takes and gives, where it is about more than texts and JSON. */
function mediaOf({ facts, seen, definition }: ToolPortrait): Json | undefined {
  const { inputTypes, maxInput } = facts
  const outputTypes = facts.outputTypes ?? [
    ...new Set([
      ...(isObject(definition.outputSchema) ? ['application/json'] : []),
      ...(seen?.types ?? []).toSorted(),
    ]),
  ]
  const isRich = outputTypes.some((type) => type !== 'text/plain' && type !== 'application/json')
  if (!inputTypes && !isRich) return undefined
  return {
    ...(inputTypes && { input_types: inputTypes }),
    ...(outputTypes.length > 0 && { output_types: outputTypes }),
    ...(inputTypes && maxInput !== undefined && { max_input_size_bytes: maxInput }),
  }
}
