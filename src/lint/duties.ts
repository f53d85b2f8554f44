/**
 * Assertions that the gateway itself satisfies for a server, and those about its descriptions, about documents for agents, and about
 * versions.
 */
import { isObject } from '../core/json/json.ts'
import {
  type Assertion,
  type Level,
  fail,
  notApplicable,
  ownerOnly,
  repaired,
  each,
  type AuditedTool,
  type Subject,
  type RuleResult,
  pass,
  unless,
} from './subject.ts'
import { readDeprecation } from '../core/contract.ts'
import { settingOf } from '../core/settings.ts'

/** Rules that the gateway satisfies for every server, independent of the configuration. */
export const duties: readonly Assertion[] = [
  {
    id: 'C027',
    level: 'must',
    text: 'A call returns the same result over each transport.',
    check: ({ settings: { reach } }) =>
      repaired(
        `connected over ${reach.kind === 'command' ? 'stdio' : 'HTTP'}, served over stdio, HTTP and SSE`,
      ),
  },
  {
    id: 'C028',
    level: 'must',
    text: 'On stdio, only messages are sent to the client.',
    check: ({ settings: { reach } }) =>
      reach.kind === 'command'
        ? repaired('other output of its process is logged')
        : notApplicable('it uses HTTP'),
  },
  {
    id: 'C045',
    level: 'must',
    text: 'An error is a JSON-RPC response, never a web page.',
    check: ({ settings: { reach } }) =>
      reach.kind === 'url'
        ? repaired('other HTTP responses become JSON-RPC errors')
        : notApplicable('it is a child process'),
  },
  always(
    'C091',
    'must',
    'Clients receive only requests for which they declared the capability.',
    'the gateway rejects server requests for which the client did not declare the capability',
  ),
  always('C106', 'should', 'An in-flight call can be cancelled.', 'the client does not wait for the server'),
  {
    id: 'C107',
    level: 'should',
    text: 'Cancellation reaches the server.',
    check: ({ settings: { reach } }) =>
      repaired(
        `the server is notified${reach.kind === 'url' ? ', or its stream is closed' : ''}; whether it stops is up to the server`,
      ),
  },
  always(
    'C112',
    'must',
    'Progress is sent only for in-flight calls, and only if requested.',
    'other progress is dropped',
  ),
  always('C113', 'must', 'Progress increases.', 'a value that does not increase is dropped'),
  always('C115', 'must', 'No progress is sent after the response.', 'late progress is dropped'),
  always(
    'C116',
    'must',
    'Progress does not flood the client.',
    'progress is dropped while the client is slow',
  ),
  always('C188', 'must', 'Requests have a maximum size.', 'the gateway rejects larger ones (limits.body)'),
  always(
    'C198',
    'should',
    'The trace context of the client reaches the server.',
    'traceparent and tracestate are forwarded',
  ),
  always('C200', 'must', 'Each call has an id in the log.', 'each call is assigned one'),
  always(
    'C201',
    'must',
    'Each tool call is logged: name, id, duration and outcome.',
    'one line for each call',
  ),
]

/** A rule that the gateway satisfies for every server, with how. */
function always(id: string, level: Level, text: string, how: string): Assertion {
  return { id, level, text, check: () => repaired(how) }
}

/** The configuration key of each feature. */
const places: Readonly<Record<string, string>> = {
  limits: 'limits.timeout',
  rate_limit: 'limits.rate',
  concurrency: 'limits.concurrency',
  result_limit: 'limits.result',
}

/** Rules that features of the gateway satisfy for a server. */
export const guarded: readonly Assertion[] = [
  {
    id: 'C082',
    level: 'must',
    text: 'Calls are authorized before the server is called.',
    fix: 'Configure auth, or rules: scopes, allow and deny of the upstream.',
    check: (subject) => access(subject),
  },
  {
    id: 'C083',
    level: 'should',
    text: 'Authorization is per tool and resource.',
    fix: 'Give the upstream scopes, or allow and deny.',
    check: (subject) => access(subject),
  },
  {
    id: 'C135',
    level: 'should',
    text: 'An error that the model can correct is a result with isError.',
    check: () => ownerOnly('whether its tools do so; refusals of the gateway do'),
  },
  byFeature('C145', 'must', 'A call of an unknown tool is rejected before the server is called.', 'validate'),
  byFeature(
    'C146',
    'should',
    'Invalid arguments are rejected with a message that a model can act on.',
    'validate',
  ),
  byFeature('C147', 'must', 'Internal errors reveal no internals.', 'errors'),
  byFeature('C148', 'must', 'A successful call has content.', 'validate'),
  byFeature(
    'C149',
    'must',
    'Arguments are validated against the input schema before the server receives them.',
    'validate',
  ),
  {
    id: 'C150',
    level: 'must',
    text: 'Results of tools with an output schema match the schema.',
    fix: 'Set features.validate.output to strict to reject other results.',
    check: ({ tools, guards }) => {
      const promising = withOutput(tools)
      const settings = guards.get('validate')
      if (promising.length === 0) return notApplicable(NO_OUTPUT)
      if (!isObject(settings) || settings.output === 'off') return fail('features.validate does not check it')
      if (settings.output === 'strict') return repaired('other results are rejected')
      return ownerOnly(`whether ${promising.length} tools match theirs; the gateway logs warnings`)
    },
  },
  {
    id: 'C151',
    level: 'should',
    text: 'Structured content is also in a text block.',
    check: ({ tools }) =>
      withOutput(tools).length === 0
        ? notApplicable(NO_OUTPUT)
        : ownerOnly(
            'whether its tools do so; for clients that only read text, the gateway adds a missing block',
          ),
  },
  byFeature('C175', 'must', 'A truncated result is marked as such.', 'result_limit'),
  byFeature('C178', 'must', 'Protocol errors and tool errors are distinguished.', 'errors'),
  byFeature('C179', 'must', 'Errors have codes and names from one table.', 'errors'),
  byFeature('C181', 'forbidden', 'No stack trace is exposed.', 'errors'),
  byFeature('C182', 'forbidden', 'No error contains a secret.', 'errors'),
  byFeature('C183', 'forbidden', 'No error contains a path that the caller did not send.', 'errors'),
  byFeature('C184', 'forbidden', 'No error contains a query with its values.', 'errors'),
  byFeature('C185', 'forbidden', 'No error contains an internal host or service.', 'errors'),
  byFeature('C186', 'forbidden', 'No error repeats what a user entered.', 'errors'),
  byFeature(
    'C187',
    'should',
    'An error contains the request id, the field, the reason and when to retry.',
    'errors',
  ),
  byFeature('C189', 'must', 'Results have a maximum size.', 'result_limit'),
  byFeature('C190', 'must', 'Calls have a timeout.', 'limits'),
  byFeature('C191', 'should', 'Each caller has a rate limit.', 'rate_limit'),
  byFeature('C192', 'should', 'Each caller has a concurrency limit.', 'concurrency'),
  byFeature('C194', 'must', 'A call that times out fails with -32004.', 'limits'),
]

/** A rule that a feature of the gateway satisfies if it is on. */
function byFeature(id: string, level: Level, text: string, feature: string): Assertion {
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
  if (isProtected) return repaired('callers authenticate (auth)', ...rules.map(([key]) => key))
  if (rules.length === 0)
    return fail('every caller may call everything: neither auth nor rules are configured')
  return repaired(...rules.map(([key]) => key))
}

const NO_OUTPUT = 'no tool has an output schema'

function withOutput(tools: readonly AuditedTool[]): readonly AuditedTool[] {
  return tools.filter(({ definition: { outputSchema } }) => isObject(outputSchema))
}

const NONE = 'no tool changes anything'
const risk = /\brisk(?: level)?\W{1,3}(?:low|medium|high)\b/i

/** Assertions about the descriptions of tools that change something. */
export const described: readonly Assertion[] = [
  documents('C134', 'A tool that changes something documents its risk: low, medium or high.', risk),
  {
    id: 'C136',
    level: 'may',
    text: 'The risk is also in the annotations.',
    fix: 'Set features.complete for this upstream, or annotations.destructiveHint of the tool.',
    check: ({ tools }) =>
      each(changing(tools), NONE, ({ name, definition: { annotations } }) =>
        isObject(annotations) && typeof annotations.destructiveHint === 'boolean'
          ? []
          : [`${name}: destructiveHint is missing`],
      ),
  },
  documents('C137', 'The risk is in the description.', risk),
  documents('C138', 'How to repeat a call safely is documented.', /idempoten|same key|repeated? safely/i),
  documents('C139', 'When to retry is documented.', /\bretr(?:y|ies|ied)\b|try again/i),
  documents('C140', 'The timeout behavior of a call is documented.', /\btime[ds -]?outs?\b|takes? too long/i),
  documents('C141', 'What is recorded of a call is documented.', /\baudit|\brecorded\b|\bis logged\b/i),
  documents('C142', 'Whether a call needs approval is documented.', /\bapprov|\bconfirm/i),
  {
    id: 'C176',
    level: 'must',
    text: 'Personal data in results is subject to a policy.',
    check: (subject) => masked(subject, 'which of its results contain personal data'),
  },
  {
    id: 'C231',
    level: 'forbidden',
    text: 'No result contains more personal data than the policy allows.',
    check: (subject) => masked(subject, 'what the policy is'),
  },
]

function documents(id: string, text: string, words: RegExp): Assertion {
  return {
    id,
    level: 'must',
    text,
    fix: 'Set features.complete for this upstream, or add it to the description of the tool.',
    check: ({ tools }) =>
      each(changing(tools), NONE, ({ name, definition: { description } }) =>
        typeof description === 'string' && words.test(description) ? [] : [`${name}: not documented`],
      ),
  }
}

function changing(tools: readonly AuditedTool[]): AuditedTool[] {
  return tools.filter(({ classification }) => classification.op !== 'read')
}

function masked({ guards }: Subject, ownerQuestion: string) {
  return guards.has('mask') ? repaired('the gateway: mask of the upstream') : ownerOnly(ownerQuestion)
}

const FEATURE = 'agent_profile'
const fix = 'Set features.agent_profile for this upstream, or let the server publish it.'

/** Assertions about briefings, and about documents under reserved schemes. */
export const agent: readonly Assertion[] = [
  resource('C011', 'must', 'The profile of the server is documented.', 'use://auth'),
  resource('C022', 'should', 'project://version contains the version.', 'project://version'),
  resource('C069', 'must', 'Non-standard authentication is documented.', 'use://http-headers'),
  resource('C084', 'must', 'The evaluated token claims are documented.', 'use://auth'),
  prompt('C153', 'There is a prompt agent_brief.', 'agent_brief'),
  prompt('C154', 'There is a prompt agent_prompt.', 'agent_prompt'),
  prompt(
    'C155',
    'The briefing states when to choose the server, and when not.',
    'agent_brief',
    'when to choose it',
  ),
  prompt('C156', 'The briefing is short.', 'agent_brief', 'whether its own briefing is short'),
  prompt(
    'C157',
    'The instructions cover each tool, its limits and examples.',
    'agent_prompt',
    'whether its own instructions do',
  ),
  {
    id: 'C165',
    level: 'should',
    text: 'The briefing and the instructions for agents are also resources.',
    fix,
    check: (subject) => {
      const uris = ['brief', 'prompt'].map((name) => `${subject.upstream}://agent/${name}`)
      return uris.every((uri) => has(subject, uri)) ? pass(...uris) : gateways(subject, uris.join(', '))
    },
  },
  resource(
    'C166',
    'must',
    'Non-standard headers are documented under use://http-headers.',
    'use://http-headers',
  ),
  resource('C167', 'should', 'use://auth documents how to authenticate.', 'use://auth'),
  resource('C168', 'should', 'project://version exists.', 'project://version'),
  resource('C169', 'may', 'doc://readme exists.', 'doc://readme'),
]

function resource(id: string, level: Level, text: string, uri: string): Assertion {
  return {
    id,
    level,
    text,
    fix,
    check: (subject) => (has(subject, uri) ? pass(uri) : gateways(subject, uri)),
  }
}

/** A rule about a prompt; `ownerQuestion` is what only people can judge. */
function prompt(id: string, text: string, name: string, ownerQuestion?: string): Assertion {
  return {
    id,
    level: 'should',
    text,
    fix,
    check: (subject) => {
      if (!subject.prompts.some((each) => each.name === name)) return gateways(subject, name)
      return ownerQuestion === undefined || subject.guards.has(FEATURE)
        ? pass(name)
        : ownerOnly(ownerQuestion)
    },
  }
}

function has({ resources }: Subject, uri: string): boolean {
  return resources.some((each) => each.uri === uri)
}

function gateways({ guards }: Subject, what: string): RuleResult {
  return guards.has(FEATURE)
    ? repaired(`the gateway: features.${FEATURE}`)
    : fail(`${what} does not exist, and features.${FEATURE} is off for this upstream`)
}

const CONTRACT_FEATURE = 'contract'
const ENDING = 'which of its tools will be removed, and when'

/** Assertions about versions and deprecation. */
export const contract: readonly Assertion[] = [
  byFeature('C016', 'must', 'The contract of the server has its own version.', CONTRACT_FEATURE),
  byFeature('C017', 'must', 'A breaking change raises the major version.', CONTRACT_FEATURE),
  byFeature('C018', 'must', 'An addition raises the minor version.', CONTRACT_FEATURE),
  byFeature('C019', 'must', 'Other changes raise only the patch version.', CONTRACT_FEATURE),
  byFeature(
    'C212',
    'must',
    'The contract is recorded, and compared with the previous one.',
    CONTRACT_FEATURE,
  ),
  byFeature(
    'C213',
    'must',
    'Additions and changed texts are distinguished from breaking changes.',
    CONTRACT_FEATURE,
  ),
  {
    id: 'C214',
    level: 'must',
    text: 'Deprecated tools are marked as such, and state their end of support.',
    fix: 'Set deprecated of the tool, with a date: "use log_work, support ends 2027-03-31".',
    check: (subject) => {
      const ending = subject.tools.filter((tool) => isEnding(tool, subject))
      if (ending.length === 0) return ownerOnly(ENDING)
      return unless(ending.flatMap(endProblems), `${ending.length} checked`)
    },
  },
  {
    id: 'C215',
    level: 'must',
    text: 'Deprecations are announced in the changelog.',
    fix: `Set features.${CONTRACT_FEATURE} for this upstream.`,
    check: (subject) => {
      if (subject.guards.has(CONTRACT_FEATURE))
        return repaired('gatehouse changelog, for tools with the setting deprecated')
      return subject.tools.some((tool) => isEnding(tool, subject))
        ? fail(`features.${CONTRACT_FEATURE} is off for this upstream`)
        : ownerOnly(ENDING)
    },
  },
  {
    id: 'C216',
    level: 'must',
    text: 'Nothing is removed before its end of support.',
    fix: `Set features.${CONTRACT_FEATURE} for this upstream, and deprecated of the tool.`,
    check: (subject) => {
      const gone = goneEarly(subject)
      if (gone.length === 0) return ownerOnly('how long before a removal it was announced')
      if (!subject.guards.has(CONTRACT_FEATURE))
        return fail(...gone.map((name) => `${name}: was removed before its end of support`))
      return repaired(
        ...gone.map((name) => `${name}: calls are answered by the gateway until the end of support`),
      )
    },
  },
  byFeature('C217', 'must', 'Callers are notified of changes.', CONTRACT_FEATURE),
  byFeature('C218', 'must', 'Changes are recorded in a changelog.', CONTRACT_FEATURE),
  {
    id: 'C219',
    level: 'must',
    text: 'The README describes what is offered, and its limits.',
    check: () => ownerOnly('what its README describes'),
  },
]

function isEnding({ name, definition }: AuditedTool, { settings }: Subject): boolean {
  const isConfigured = settingOf(settings.tools, name, 'deprecated') !== undefined
  return isConfigured || /\bdeprecated\b/i.test(String(definition.description))
}

function endProblems({ name, definition }: AuditedTool): string[] {
  const text = typeof definition.description === 'string' ? definition.description : ''
  return [
    ...(text.startsWith('[DEPRECATED]') ? [] : [`${name}: its description does not begin with [DEPRECATED]`]),
    ...(readDeprecation(text).until === undefined ? [`${name}: does not state its end of support`] : []),
  ]
}

/** The names of tools that are deprecated in the configuration, and removed before their end of support. */
function goneEarly({ settings, tools }: Subject): string[] {
  return Object.entries(settings.tools).flatMap(([name, { deprecated }]) => {
    if (deprecated === undefined || /[*?[\]{}]/.test(name)) return []
    const { until = Number.POSITIVE_INFINITY } = readDeprecation(deprecated)
    return tools.some((tool) => tool.name === name) || until < Date.now() ? [] : [name]
  })
}
