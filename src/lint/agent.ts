import type { Assertion, Level, Verdict } from './assertion.ts'
import type { Subject } from './subject.ts'
import { fail, ownersToSay, pass, repaired } from './verdict.ts'

const FEATURE = 'agent_profile'
const fix = 'Set features.agent_profile for this upstream, or let the server publish it.'

/** What agents and people are told beside tools: briefings, and documents under reserved schemes. */
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
