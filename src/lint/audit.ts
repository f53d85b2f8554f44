/** Runs all assertions of the corporate profile on a server, and reports what only its owner can provide. */
import type { About } from '../core/descriptor.ts'
import { type ToolWords, settingOf } from '../core/settings.ts'
import {
  type Assertion,
  type Level,
  type Status,
  type RuleResult,
  repaired,
  type Subject,
} from './subject.ts'
import { agent, contract, described, duties, guarded } from './duties.ts'
import { prompts, resources } from './resources.ts'
import { server } from './server.ts'
import { schemas, tools } from './tools.ts'

/** The result of one rule for a server. */
export interface Audited {
  readonly id: string
  readonly level: Level
  readonly status: Status
  readonly text: string
  readonly evidence: readonly string[]
  readonly fix?: string
}

/** The results of all rules for a server, with a summary. */
export interface AuditReport {
  readonly upstream: string
  readonly revision: string
  readonly assertions: readonly Audited[]
  /** Facts that only the owner can provide. */
  readonly owner: readonly OwnerFact[]
  readonly summary: {
    readonly pass: number
    readonly repaired: number
    readonly fail: number
    readonly notApplicable: number
    /** The broken rules of level `must` or `forbidden`. */
    readonly serious: readonly string[]
    /** The rules that only the owner of the server can judge. */
    readonly owner: readonly string[]
  }
}

/** All rules, by number. */
export const assertions: readonly Assertion[] = [
  ...server,
  ...tools,
  ...schemas,
  ...prompts,
  ...resources,
  ...duties,
  ...guarded,
  ...agent,
  ...described,
  ...contract,
].toSorted((one, other) => one.id.localeCompare(other.id))

/** Checks a server against every rule; `exposed` is the same server as clients see it through the gateway. */
export function audit(subject: Subject, exposed: Subject): AuditReport {
  const checked = assertions.map((each) => ({ ...each, ...judge(each, subject, exposed) }))
  const count = (status: Status): number => checked.filter((each) => each.status === status).length
  const serious = checked.filter(({ status, level }) => status === 'fail' && isSerious(level))
  return {
    upstream: subject.upstream,
    revision: subject.revision,
    assertions: checked.map(({ id, level, status, text, evidence, fix }) => {
      return { id, level, status, text, evidence, ...(status === 'fail' && fix !== undefined && { fix }) }
    }),
    owner: ownerFacts(subject),
    summary: {
      pass: count('pass'),
      repaired: count('repaired'),
      fail: count('fail'),
      notApplicable: count('not applicable'),
      serious: serious.map(({ id }) => id),
      owner: checked.flatMap(({ id, isOwnerOnly }) => (isOwnerOnly ? [id] : [])),
    },
  }
}

/** A rule that the server breaks but that passes as seen by clients is repaired. */
function judge({ check }: Assertion, subject: Subject, exposed: Subject): RuleResult {
  const found = check(subject)
  if (found.status !== 'fail' || check(exposed).status !== 'pass') return found
  return repaired('repaired for clients', ...found.evidence)
}

function isSerious(level: Level): boolean {
  return level === 'must' || level === 'forbidden'
}

/** A fact that documents omit or guess from names unless the owner of the server provides it. */
interface OwnerFact {
  /** The key under `upstreams.<name>`. */
  readonly key: string
  readonly text: string
  /** For how many it is set: the server, or some of its tools. */
  readonly said: number
  readonly of: number
}

/** The facts that only the owner of a server knows, and how many are configured. */
function ownerFacts({ settings, tools }: Pick<Subject, 'settings' | 'tools'>): OwnerFact[] {
  const ofServer = serverKeys.map(([key, name, text]): OwnerFact => {
    return { key, text, said: settings.about[name] === undefined ? 0 : 1, of: 1 }
  })
  const ofTools = toolKeys.map(([key, text]): OwnerFact => {
    const configured = tools.filter(({ name }) => settingOf(settings.tools, name, key) !== undefined)
    return { key: `tools.*.${key}`, text, said: configured.length, of: tools.length }
  })
  return [...ofServer, ...ofTools.filter((each) => each.of > 0)]
}

const serverKeys: readonly (readonly [key: string, name: keyof About, text: string])[] = [
  ['about', 'about', 'its purpose, in one sentence'],
  ['use_when', 'useWhen', 'requests of users for which it is the right server'],
  ['not_for', 'notFor', 'what it is not suitable for'],
  ['cli', 'cli', 'an equivalent command line tool'],
  ['api', 'api', 'an equivalent API'],
  ['web', 'web', 'an equivalent web page'],
  ['install', 'install', 'how it is installed, if its command does not show it'],
  ['homepage', 'homepage', 'its home page'],
  ['repository', 'repository', 'its source repository'],
]

const toolKeys: readonly (readonly [key: keyof ToolWords | 'cost', text: string])[] = [
  ['cost', 'what a call costs'],
  ['cli', 'an equivalent command line'],
  ['api', 'an equivalent HTTP request'],
  ['examples', 'example calls with results'],
  ['effects', 'side effects'],
]
