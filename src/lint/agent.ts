/** Assertions about documents for agents and about versions. */
import { readDeprecation } from '../core/contract.ts'
import { settingOf } from '../core/settings.ts'
import {
  type Assertion,
  type Level,
  type Verdict,
  fail,
  ownersToSay,
  pass,
  repaired,
  unless,
} from './subject.ts'
import type { Subject, AuditedTool } from './subject.ts'

const FEATURE = 'agent_profile'
const fix = 'Set features.agent_profile for this upstream, or let the server publish it.'

/** What agents and people read beside tools: briefings, and documents under reserved schemes. */
export const agent: readonly Assertion[] = [
  resource('C011', 'must', 'It is documented which profile the server keeps.', 'use://auth'),
  resource('C022', 'should', 'project://version says the version.', 'project://version'),
  resource('C069', 'must', 'Unusual ways to prove who one is are documented.', 'use://http-headers'),
  resource('C084', 'must', 'The claims that are read are documented.', 'use://auth'),
  prompt('C153', 'There is a prompt agent_brief.', 'agent_brief'),
  prompt('C154', 'There is a prompt agent_prompt.', 'agent_prompt'),
  prompt('C155', 'The briefing says when to choose the server, and when not.', 'agent_brief', 'when that is'),
  prompt('C156', 'The briefing is short.', 'agent_brief', 'whether its own is'),
  prompt(
    'C157',
    'The instructions go through each tool, its limits and examples.',
    'agent_prompt',
    'whether its own do',
  ),
  {
    id: 'C165',
    level: 'should',
    text: 'The briefing and the instructions for agents are resources too.',
    fix,
    check: (subject) => {
      const uris = ['brief', 'prompt'].map((name) => `${subject.upstream}://agent/${name}`)
      return uris.every((uri) => has(subject, uri)) ? pass(...uris) : gateways(subject, uris.join(', '))
    },
  },
  resource('C166', 'must', 'Unusual headers are documented under use://http-headers.', 'use://http-headers'),
  resource('C167', 'should', 'use://auth says how to prove who one is.', 'use://auth'),
  resource('C168', 'should', 'project://version is there.', 'project://version'),
  resource('C169', 'may', 'doc://readme is there.', 'doc://readme'),
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

/** A rule about a prompt; what only people can judge of it is `asks`. */
function prompt(id: string, text: string, name: string, asks?: string): Assertion {
  return {
    id,
    level: 'should',
    text,
    fix,
    check: (subject) => {
      if (!subject.prompts.some((each) => each.name === name)) return gateways(subject, name)
      return asks === undefined || subject.guards.has(FEATURE) ? pass(name) : ownersToSay(asks)
    },
  }
}

function has({ resources }: Subject, uri: string): boolean {
  return resources.some((each) => each.uri === uri)
}

function gateways({ guards }: Subject, what: string): Verdict {
  return guards.has(FEATURE)
    ? repaired(`the gateway: features.${FEATURE}`)
    : fail(`${what} is not there, and features.${FEATURE} is off for this upstream`)
}

const CONTRACT_FEATURE = 'contract'
const ENDING = 'which of its tools will go, and when'

/** That what is offered has versions, and that what will go is announced. */
export const contract: readonly Assertion[] = [
  versioned('C016', 'must', 'What is offered has a version of its own.'),
  versioned('C017', 'must', 'A change that breaks callers raises the first number of the version.'),
  versioned('C018', 'must', 'An addition raises the second number of the version.'),
  versioned('C019', 'must', 'Without a change only the third number is raised.'),
  versioned('C212', 'must', 'It is known what callers rely on, and compared with what was.'),
  versioned('C213', 'must', 'Additions and longer texts are told apart from breaks.'),
  {
    id: 'C214',
    level: 'must',
    text: 'What will go says so, and until when it stays.',
    fix: 'Set deprecated of the tool, with a date: "use log_work, support ends 2027-03-31".',
    check: (subject) => {
      const ending = subject.tools.filter((tool) => isEnding(tool, subject))
      if (ending.length === 0) return ownersToSay(ENDING)
      return unless(ending.flatMap(endProblems), `${ending.length} looked at`)
    },
  },
  {
    id: 'C215',
    level: 'must',
    text: 'What will go is announced in the changelog.',
    fix: `Set features.${CONTRACT_FEATURE} for this upstream.`,
    check: (subject) => {
      if (subject.guards.has(CONTRACT_FEATURE))
        return repaired('gatehouse changelog, for tools with the setting deprecated')
      return subject.tools.some((tool) => isEnding(tool, subject))
        ? fail(`features.${CONTRACT_FEATURE} is off for this upstream`)
        : ownersToSay(ENDING)
    },
  },
  {
    id: 'C216',
    level: 'must',
    text: 'Nothing goes before its time.',
    fix: `Set features.${CONTRACT_FEATURE} for this upstream, and deprecated of the tool.`,
    check: (subject) => {
      const gone = goneEarly(subject)
      if (gone.length === 0) return ownersToSay('how long what it drops was announced')
      if (!subject.guards.has(CONTRACT_FEATURE))
        return fail(...gone.map((name) => `${name}: is gone before its time`))
      return repaired(
        ...gone.map((name) => `${name}: calls are answered by the gateway until its time is over`),
      )
    },
  },
  versioned('C217', 'must', 'Who uses something hears of its change.'),
  versioned('C218', 'must', 'Changes are written up in a changelog.'),
  {
    id: 'C219',
    level: 'must',
    text: 'The README says what is offered and within which limits.',
    check: () => ownersToSay('what its README says'),
  },
]

function versioned(id: string, level: Level, text: string): Assertion {
  return {
    id,
    level,
    text,
    fix: `Set features.${CONTRACT_FEATURE} for this upstream.`,
    check: ({ guards }) =>
      guards.has(CONTRACT_FEATURE)
        ? repaired(`the gateway: features.${CONTRACT_FEATURE}`)
        : fail(`features.${CONTRACT_FEATURE} is off for this upstream`),
  }
}

function isEnding({ name, definition }: AuditedTool, { settings }: Subject): boolean {
  const isConfigured = settingOf(settings.tools, name, 'deprecated') !== undefined
  return isConfigured || /\bdeprecated\b/i.test(String(definition.description))
}

function endProblems({ name, definition }: AuditedTool): string[] {
  const said = typeof definition.description === 'string' ? definition.description : ''
  return [
    ...(said.startsWith('[DEPRECATED]') ? [] : [`${name}: its description does not begin with [DEPRECATED]`]),
    ...(readDeprecation(said).until === undefined ? [`${name}: does not say until when it stays`] : []),
  ]
}

/** Tools by name that the configuration says will go, that are gone, and whose time is not over. */
function goneEarly({ settings, tools }: Subject): string[] {
  return Object.entries(settings.tools).flatMap(([name, { deprecated }]) => {
    if (deprecated === undefined || /[*?[\]{}]/.test(name)) return []
    const { until = Number.POSITIVE_INFINITY } = readDeprecation(deprecated)
    return tools.some((tool) => tool.name === name) || until < Date.now() ? [] : [name]
  })
}
