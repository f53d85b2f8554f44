import type { Outcome } from '../../core/call.ts'
import { isObject } from '../../core/json.ts'

/** The schema of a tool that takes no arguments. */
const nothing = { type: 'object', additionalProperties: false } as const

/** A list of tools in which each has an input schema: clients refuse the whole list over one that has none. */
export function repaired(outcome: Outcome): Outcome {
  if (outcome.kind !== 'result') return outcome
  const { tools } = outcome.result.fields
  if (!Array.isArray(tools) || !tools.some(isBare)) return outcome
  const sound = tools.map((tool: unknown) => (isBare(tool) ? { ...tool, inputSchema: nothing } : tool))
  return { kind: 'result', result: outcome.result.with({ tools: sound }) }
}

/** The input schema of a tool as it is listed. */
export function listedSchema({ inputSchema }: Readonly<Record<string, unknown>>): unknown {
  return inputSchema ?? nothing
}

function isBare(tool: unknown): tool is Record<string, unknown> {
  return isObject(tool) && (tool.inputSchema === undefined || tool.inputSchema === null)
}
