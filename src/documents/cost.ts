import type { Cost } from '../core/record.ts'
import type { ToolDescription } from './portrait.ts'

/** What a call of a tool costs, as its owner says. */
export function costOf({ facts, words }: ToolDescription): Cost | undefined {
  return facts.cost ?? words.cost
}

/** A cost as programs read it. */
export function costData({ category, units, label }: Cost): Readonly<Record<string, unknown>> {
  return {
    category,
    ...(units !== undefined && { estimated_units: units }),
    ...(label !== undefined && { unit_label: label }),
  }
}
