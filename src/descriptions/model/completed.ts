/** Descriptions, titles and annotations of tools, completed with facts of the gateway. */
import type { Classification, EntryDefinition, ToolFacts } from '../../core/descriptor.ts'
import { asObject, isObject } from '../../core/json/json.ts'
import { spaced } from '../../core/text/words.ts'
import { clean, inlineText, oneLine, sentence, upper } from './text.ts'

/** A tool to complete. */
export interface Incomplete {
  readonly definition: EntryDefinition
  readonly classification: Classification
  readonly facts: ToolFacts
  /** Its side effects. */
  readonly effects: readonly string[]
  /** Whether every call is recorded in the audit log. */
  readonly isRecorded: boolean
}

/** The description of a tool with facts of the gateway added, in a fixed format. */
export function completedDescription(tool: Incomplete): string {
  const own = clean(tool.definition.description).trimEnd()
  const start = own === '' ? `${sentence(titleOf(tool.definition))}` : own
  return `${start}\n\n${added(tool).join('\n')}`
}

/** The title of a tool; derived from its name if it has none. */
export function titleOf(definition: EntryDefinition): string {
  const title = ownTitle(definition)
  if (title !== '') return title
  return upper(spaced(oneLine(definition.name)).replaceAll(/[\s_./:-]+/g, ' '))
}

/** The title in the definition of a tool; empty if it has none. */
export function ownTitle({ title, annotations }: EntryDefinition): string {
  return oneLine(title) || oneLine(isObject(annotations) ? annotations.title : undefined)
}

/** The annotations of a tool with missing hints added; its warnings are never removed. */
export function completedAnnotations({ definition, classification }: Incomplete): Record<string, unknown> {
  const own = asObject(definition.annotations)
  const isRead = classification.op === 'read'
  return {
    ...own,
    ...(own.readOnlyHint === undefined && { readOnlyHint: isRead }),
    ...(!isRead && own.readOnlyHint === true && { readOnlyHint: false }),
    ...(!isRead &&
      own.destructiveHint === undefined && { destructiveHint: classification.risk === 'destructive' }),
    ...(classification.risk === 'destructive' && { destructiveHint: true }),
    ...(own.idempotentHint === undefined && { idempotentHint: classification.idempotent }),
  }
}

/** How high each risk is. */
export const riskLevels = { safe: 'low', reversible: 'medium', destructive: 'high' } as const

function added({ classification, facts, effects, isRecorded }: Incomplete): string[] {
  const risk = riskLevels[classification.risk]
  if (classification.op === 'read') {
    return [`Risk: ${risk}. It only reads.${timeout(facts, true)}${limits(facts)}`]
  }
  const danger = classification.risk === 'destructive' ? ', it can destroy or overwrite what is there' : ''
  return [
    `Risk: ${risk}${danger}. Side effects: ${effects.map(inlineText).join('; ') || 'it may change data'}.${undo(facts)}`,
    `Idempotency: ${idempotency(classification, facts)}`,
    'Retry: only after errors of the category transient or rate_limited, after retry_after_seconds.' +
      timeout(facts, classification.idempotent) +
      limits(facts),
    `Recorded: ${isRecorded ? 'each call is a line of the audit log (event call).' : 'calls are not recorded in an audit log.'} ${approval(facts)}`,
  ]
}

function idempotency({ idempotent }: Classification, { isIdempotentWithKey }: ToolFacts): string {
  if (idempotent) return 'repeating the call has no further effect; no key is needed.'
  if (isIdempotentWithKey === true)
    return 'a retry with the same idempotency key has no second effect; without a key it acts again.'
  return 'none; each call acts again, and keys are not supported.'
}

function timeout({ timeout: most }: ToolFacts, isSafe: boolean): string {
  const after = isSafe ? '' : '; it may still take effect, so check before calling again'
  if (most === undefined)
    return isSafe ? '' : ' Timeout: a call that takes too long ends with OPERATION_TIMEOUT' + after + '.'
  return ` Timeout: ${seconds(most)} without a response or progress end it with OPERATION_TIMEOUT${after}.`
}

function seconds(milliseconds: number): string {
  return milliseconds % 1000 === 0 ? `${milliseconds / 1000} s` : `${milliseconds} ms`
}

function limits({ rates = [] }: ToolFacts): string {
  return rates.length > 0 ? ` Limit: ${rates.map(inlineText).join(', ')}.` : ''
}

function undo({ undo: known }: ToolFacts): string {
  if (!known) return ''
  const how = oneLine(known.description) || (known.tool === undefined ? '' : `with ${known.tool}`)
  return how === '' ? ' It can be undone.' : ` Undo: ${sentence(inlineText(how))}`
}

function approval({ confirmation }: ToolFacts): string {
  if (!confirmation) return 'Approval: not required.'
  if (confirmation.isSkippedIfUndoable) return 'Approval: only required if it cannot be undone exactly.'
  return confirmation.isOutOfBand
    ? 'Approval: other people must approve before it runs.'
    : 'Approval: confirmation is required before it runs.'
}
