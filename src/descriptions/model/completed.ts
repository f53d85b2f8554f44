/** Descriptions, titles and annotations of tools, completed with what the gateway knows. */
import type { Classification, EntryDefinition, ToolFacts } from '../../core/descriptor.ts'
import { isObject } from '../../core/json/json.ts'
import { spaced } from '../../core/text/words.ts'
import { clean, inlineText, oneLine, sentence, upper } from './text.ts'

/** A tool whose entry is to be completed. */
export interface Incomplete {
  readonly definition: EntryDefinition
  readonly classification: Classification
  readonly facts: ToolFacts
  /** What it changes, each in a few words. */
  readonly effects: readonly string[]
  /** Every call is written to the audit log. */
  readonly isRecorded: boolean
}

/** The description of a tool with what the gateway knows added, in a form that is always the same. */
export function completedDescription(tool: Incomplete): string {
  const own = clean(tool.definition.description).trimEnd()
  const start = own === '' ? `${sentence(titleOf(tool.definition))}` : own
  return `${start}\n\n${added(tool).join('\n')}`
}

/** The title of a tool, made of its name where it has none. */
export function titleOf(definition: EntryDefinition): string {
  const title = ownTitle(definition)
  if (title !== '') return title
  return upper(spaced(oneLine(definition.name)).replaceAll(/[\s_./:-]+/g, ' '))
}

/** The title a tool has itself; empty where it has none. */
export function ownTitle({ title, annotations }: EntryDefinition): string {
  return oneLine(title) || oneLine(isObject(annotations) ? annotations.title : undefined)
}

/** The annotations of a tool with the hints it lacks; what it warns of is never taken back. */
export function completedAnnotations({ definition, classification }: Incomplete): Record<string, unknown> {
  const own = isObject(definition.annotations) ? definition.annotations : {}
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
    `Recorded: ${isRecorded ? 'each call is a line of the audit log (event call).' : 'no audit log is kept of calls.'} ${approval(facts)}`,
  ]
}

function idempotency({ idempotent }: Classification, { isIdempotentWithKey }: ToolFacts): string {
  if (idempotent) return 'the same call again changes nothing more; no key is needed.'
  if (isIdempotentWithKey === true)
    return 'a retry with the same idempotency key does nothing twice; without a key it acts again.'
  return 'none; it acts again each time, and takes no key.'
}

function timeout({ timeout: most }: ToolFacts, isSafe: boolean): string {
  const after = isSafe ? '' : '; it may still take effect then, so look before calling again'
  if (most === undefined)
    return isSafe ? '' : ' Timeout: a call that takes too long ends with OPERATION_TIMEOUT' + after + '.'
  return ` Timeout: ${seconds(most)} without a sign of life end it with OPERATION_TIMEOUT${after}.`
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
  if (!confirmation) return 'Approval: none is asked for.'
  return confirmation.isOutOfBand
    ? 'Approval: other people have to agree before it runs.'
    : 'Approval: a person is asked before it runs.'
}
