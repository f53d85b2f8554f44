import type { Assertion } from './assertion.ts'
import type { AuditedTool, Subject } from './subject.ts'
import { isObject } from '../core/json.ts'
import { each, ownersToSay, repaired } from './verdict.ts'

const NONE = 'no tool changes anything'
const risk = /\brisk(?: level)?\W{1,3}(?:low|medium|high)\b/i

/** What the description of a tool that changes something says beside what it does. */
export const described: readonly Assertion[] = [
  said('C134', 'A tool that changes something says how risky it is: low, medium or high.', risk),
  {
    id: 'C136',
    level: 'may',
    text: 'The risk stands in the annotations too.',
    fix: 'Set features.complete for this upstream, or annotations.destructiveHint of the tool.',
    check: ({ tools }) =>
      each(changing(tools), NONE, ({ name, definition: { annotations } }) =>
        isObject(annotations) && typeof annotations.destructiveHint === 'boolean'
          ? []
          : [`${name}: destructiveHint is not given`],
      ),
  },
  said('C137', 'The risk can be read in the description.', risk),
  said('C138', 'How a call can be repeated safely is documented.', /idempoten|same key|repeated? safely/i),
  said('C139', 'When to try again is documented.', /\bretr(?:y|ies|ied)\b|try again/i),
  said(
    'C140',
    'What happens to a call that takes too long is documented.',
    /\btime[ds -]?outs?\b|takes? too long/i,
  ),
  said('C141', 'What is recorded of a call is documented.', /\baudit|\brecorded\b|\bis logged\b/i),
  said('C142', 'Whether a call needs approval is documented.', /\bapprov|\bconfirm/i),
  {
    id: 'C176',
    level: 'must',
    text: 'Personal data in results is handled by a policy.',
    check: (subject) => masked(subject, 'which of its results hold personal data'),
  },
  {
    id: 'C231',
    level: 'forbidden',
    text: 'No answer holds more personal data than the policy allows.',
    check: (subject) => masked(subject, 'what the policy is'),
  },
]

function said(id: string, text: string, words: RegExp): Assertion {
  return {
    id,
    level: 'must',
    text,
    fix: 'Set features.complete for this upstream, or let the description of the tool say it.',
    check: ({ tools }) =>
      each(changing(tools), NONE, ({ name, definition: { description } }) =>
        typeof description === 'string' && words.test(description) ? [] : [`${name}: does not say it`],
      ),
  }
}

function changing(tools: readonly AuditedTool[]): AuditedTool[] {
  return tools.filter(({ classification }) => classification.op !== 'read')
}

function masked({ guards }: Subject, asks: string) {
  return guards.has('mask') ? repaired('the gateway: mask of the upstream') : ownersToSay(asks)
}
