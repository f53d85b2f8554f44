/** The features that a logged call passed, or would have passed, and why each let it pass or ended it. */
import { featureSchemas } from '../features/settings.ts'
import type { LoggedCall } from '../core/logged-call.ts'
import { isObject } from '../core/json/json.ts'
import type { Gate } from '../downstream/pages/call-story.ts'
import type { Inspected } from './inspect.ts'

/** What features note of a call, by feature: the fields of its log line. */
const noted: Readonly<Record<string, readonly string[]>> = {
  progress: ['operation'],
  contract: ['alias_of'],
  stream: ['pages'],
  rate_limit: ['limited_by'],
  state: ['remembered'],
  references: ['references_used', 'references'],
  permissions: ['rule'],
  intent: ['intent', 'suggested'],
  validate: ['validated'],
  idempotency: ['replayed'],
  transactions: ['transaction', 'step'],
  cost: ['budget'],
  confirm: ['approval', 'approved_by', 'unasked', 'declined', 'declined_by', 'edited_as', 'edited_from'],
  result_limit: ['truncated'],
  structured_text: ['text_added'],
  mask: ['masked'],
  retry: ['retries'],
}

/** The gates of a call: `chain` is the features of its target, outermost first. What is not recorded is from the present configuration. */
export function gatesOf(
  call: LoggedCall,
  chain: readonly { readonly feature: string }[],
  inspected: Inspected | undefined,
): readonly Gate[] {
  const end = call.layer === undefined ? lastReached(call, chain.length) : indexOf(call.layer, chain)
  return chain.map(({ feature }, index) => {
    const outcome =
      index < end ? 'passed' : index === end && call.layer !== undefined ? 'ended' : 'not_reached'
    const reasons = outcome === 'not_reached' ? [] : reasonsOf(call, feature, inspected)
    return {
      feature,
      about: aboutOf(feature),
      outcome,
      reasons: outcome === 'ended' && call.reason !== undefined ? [call.reason, ...reasons] : reasons,
    }
  })
}

/** Without a feature that ended it, a call passed all of them, or it was refused before the first one. */
function lastReached({ end, spans }: LoggedCall, count: number): number {
  const isServed = Array.isArray(spans) || end === 'ok' || end === 'task' || end === 'dry_run'
  return isServed ? count : 0
}

/** The configuration may have changed since: then it is not known which features the call passed. */
function indexOf(layer: string, chain: readonly { readonly feature: string }[]): number {
  return chain.findIndex(({ feature }) => feature === layer)
}

function reasonsOf(call: LoggedCall, feature: string, inspected: Inspected | undefined): readonly string[] {
  const facts = isObject(call.facts) ? call.facts : {}
  const found = (noted[feature] ?? []).flatMap((name) =>
    facts[name] === undefined ? [] : [`${name}: ${textOf(facts[name])}`],
  )
  return [...found, ...(inspected ? configured(feature, inspected) : [])]
}

/** Why the configuration lets a feature decide as it does. */
function configured(feature: string, { scopes, confirmation, undoing }: Inspected): readonly string[] {
  if (feature === 'permissions')
    return scopes.length === 0 ? [] : [`needs ${scopes.map((group) => group.join(' or ')).join(', and ')}`]
  if (feature === 'confirm')
    return [
      `${confirmation.when === 'never' ? 'asks nobody' : `asks ${confirmation.when.replaceAll('_', ' ')}`}: ${confirmation.why.join('; ')}`,
    ]
  if (feature === 'undo') return [`undo is ${undoing.how}`, ...undoing.why]
  return []
}

function aboutOf(feature: string): string {
  const { description } = featureSchemas.find(({ name }) => name === feature)?.schema ?? {}
  if (typeof description !== 'string') return ''
  const [sentence = description] = /^.*?\.(?= |$)/s.exec(description) ?? []
  return sentence.replaceAll('`', '')
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
