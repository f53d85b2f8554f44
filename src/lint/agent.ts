/** Assertions about documents for agents, and about versions. */
import { readDeprecation } from '../core/contract.ts'
import { settingOf } from '../core/settings.ts'
import { byFeature } from './duties.ts'
import {
  type Assertion,
  type Level,
  type RuleResult,
  fail,
  ownerOnly,
  pass,
  repaired,
  unless,
  type Subject,
  type AuditedTool,
} from './subject.ts'

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
