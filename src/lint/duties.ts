/** Assertions that the gateway itself fulfils for a server, and those about its descriptions. */
import { isObject } from '../core/json/json.ts'
import { type Assertion, fail, notApplicable, ownersToSay, repaired, each } from './subject.ts'
import type { AuditedTool, Subject } from './subject.ts'

/** What the gateway does for every server, whatever is configured. */
export const duties: readonly Assertion[] = [
  {
    id: 'C027',
    level: 'must',
    text: 'A call gives the same result over each transport.',
    check: ({ settings: { reach } }) =>
      repaired(
        `reached over ${reach.kind === 'command' ? 'stdio' : 'HTTP'}, served over stdio, HTTP and SSE alike`,
      ),
  },
  {
    id: 'C028',
    level: 'must',
    text: 'On stdio, nothing but messages reaches the client.',
    check: ({ settings: { reach } }) =>
      reach.kind === 'command'
        ? repaired('what else its process prints goes to the log')
        : notApplicable('it is reached over HTTP'),
  },
  {
    id: 'C045',
    level: 'must',
    text: 'A failure is JSON-RPC, never a web page.',
    check: ({ settings: { reach } }) =>
      reach.kind === 'url'
        ? repaired('other answers of its address become JSON-RPC errors')
        : notApplicable('it is a child process'),
  },
  {
    id: 'C091',
    level: 'must',
    text: 'Nothing is asked of a client that did not say it can answer.',
    check: () => repaired('questions the client did not declare are refused for it'),
  },
  {
    id: 'C106',
    level: 'should',
    text: 'A call under way can be cancelled.',
    check: () => repaired('the client need not wait for the server'),
  },
  {
    id: 'C107',
    level: 'should',
    text: 'Cancelled work ends at the server too.',
    check: ({ settings: { reach } }) =>
      repaired(
        `the server is notified${reach.kind === 'url' ? ', or its stream is closed' : ''}; whether it stops is its own`,
      ),
  },
  {
    id: 'C112',
    level: 'must',
    text: 'Progress is sent for calls in flight only, and only where requested.',
    check: () => repaired('other progress is left out'),
  },
  {
    id: 'C113',
    level: 'must',
    text: 'Progress grows.',
    check: () => repaired('a value that does not grow is left out'),
  },
  {
    id: 'C115',
    level: 'must',
    text: 'No progress comes after the answer.',
    check: () => repaired('late progress is left out'),
  },
  {
    id: 'C116',
    level: 'must',
    text: 'Progress does not flood the client.',
    check: () => repaired('progress is left out while the client does not keep up'),
  },
  {
    id: 'C188',
    level: 'must',
    text: 'Requests have a largest size.',
    check: () => repaired('the gateway refuses larger ones (limits.body)'),
  },
  {
    id: 'C198',
    level: 'should',
    text: 'The trace context of the client reaches the server.',
    check: () => repaired('traceparent and tracestate are passed on'),
  },
  {
    id: 'C200',
    level: 'must',
    text: 'Each call has an id that the log names.',
    check: () => repaired('each call gets one'),
  },
  {
    id: 'C201',
    level: 'must',
    text: 'Each call of a tool leaves a line in the log: name, id, duration and outcome.',
    check: () => repaired('one line for each call'),
  },
]

/** Where the settings of each feature stand. */
const places: Readonly<Record<string, string>> = {
  limits: 'limits.timeout',
  rate_limit: 'limits.rate',
  concurrency: 'limits.concurrency',
  result_limit: 'limits.result',
}

/** What features of the gateway do for a server where they are on. */
export const guarded: readonly Assertion[] = [
  {
    id: 'C082',
    level: 'must',
    text: 'Who may do what is decided before the server is called.',
    fix: 'Configure auth, or rules: scopes, allow and deny of the upstream.',
    check: (subject) => access(subject),
  },
  {
    id: 'C083',
    level: 'should',
    text: 'It is decided for each tool and resource.',
    fix: 'Give the upstream scopes, or allow and deny.',
    check: (subject) => access(subject),
  },
  {
    id: 'C135',
    level: 'should',
    text: 'A call the model can correct is answered with isError.',
    check: () => ownersToSay('whether its tools do so; refusals of the gateway say so'),
  },
  by('C145', 'must', 'A tool that does not exist is refused before the server is asked.', 'validate'),
  by('C146', 'should', 'Arguments that do not fit are refused with words a model can act on.', 'validate'),
  by('C147', 'must', 'An internal failure says nothing of the inside.', 'errors'),
  by('C148', 'must', 'A successful call has content.', 'validate'),
  by(
    'C149',
    'must',
    'Arguments are checked against the input schema before the server sees them.',
    'validate',
  ),
  {
    id: 'C150',
    level: 'must',
    text: 'What a tool with an output schema answers fits the schema.',
    fix: 'Set features.validate.output to strict to have other answers refused.',
    check: ({ tools, guards }) => {
      const promising = tools.filter(hasOutput)
      if (promising.length === 0) return notApplicable('no tool has an output schema')
      const settings = guards.get('validate')
      if (!isObject(settings) || settings.output === 'off')
        return fail('features.validate does not look at it')
      if (settings.output === 'strict') return repaired('other answers are refused')
      return ownersToSay(`whether ${promising.length} tools keep theirs; the gateway warns in its log`)
    },
  },
  {
    id: 'C151',
    level: 'should',
    text: 'Structured content stands in a text block too.',
    check: ({ tools }) => {
      const promising = tools.filter(hasOutput)
      if (promising.length === 0) return notApplicable('no tool has an output schema')
      return ownersToSay(
        'whether its tools do so; for clients that read text alone the gateway adds what is missing',
      )
    },
  },
  by('C175', 'must', 'A result that was shortened says so.', 'result_limit'),
  by('C178', 'must', 'Errors of the protocol and of tools are told apart.', 'errors'),
  by('C179', 'must', 'Errors have the codes and names of one table.', 'errors'),
  by('C181', 'forbidden', 'No stack trace leaves the house.', 'errors'),
  by('C182', 'forbidden', 'No error names a secret.', 'errors'),
  by('C183', 'forbidden', 'No error names a path the caller did not name.', 'errors'),
  by('C184', 'forbidden', 'No error shows a query with its values.', 'errors'),
  by('C185', 'forbidden', 'No error names an internal host or service.', 'errors'),
  by('C186', 'forbidden', 'No error repeats what a person entered.', 'errors'),
  by('C187', 'should', 'An error names the request, the field, the reason and when to try again.', 'errors'),
  by('C189', 'must', 'Results have a largest size.', 'result_limit'),
  by('C190', 'must', 'A call ends in time.', 'limits'),
  by('C191', 'should', 'Each caller may only make so many calls in a time.', 'rate_limit'),
  by('C192', 'should', 'Each caller may only have so many calls under way.', 'concurrency'),
  by('C194', 'must', 'A call that takes too long fails with -32004.', 'limits'),
]

/** A rule one feature of the gateway keeps, where it is on. */
function by(id: string, level: Assertion['level'], text: string, feature: string): Assertion {
  const place = places[feature] ?? `features.${feature}`
  return {
    id,
    level,
    text,
    fix: `Set ${place} for this upstream.`,
    check: ({ guards }) =>
      guards.has(feature) ? repaired(`the gateway: ${place}`) : fail(`${place} is off for this upstream`),
  }
}

function access({ settings, guards, isProtected }: Subject) {
  const { allow, deny, scopes } = settings
  if (!guards.has('permissions')) return fail('features.permissions is off for this upstream')
  const rules = Object.entries({ allow, deny, scopes }).filter(([, rule]) => Object.keys(rule).length > 0)
  if (isProtected) return repaired('callers prove who they are (auth)', ...rules.map(([key]) => key))
  if (rules.length === 0)
    return fail('every caller may call everything: neither auth nor rules are configured')
  return repaired(...rules.map(([key]) => key))
}

function hasOutput({ definition: { outputSchema } }: AuditedTool): boolean {
  return isObject(outputSchema)
}

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
