/** Runs all assertions of the corporate profile on a server, and what only its owner can say. */
import type { About } from '../core/descriptor.ts'
import { type ToolWords, settingOf } from '../core/settings.ts'
import { agent, contract } from './agent.ts'
import { type Assertion, type Level, type Status, type Verdict, repaired } from './subject.ts'
import { described, duties, guarded } from './duties.ts'
import { prompts, resources } from './resources.ts'
import { server } from './server.ts'
import type { Subject } from './subject.ts'
import { schemas, tools } from './tools.ts'

/** How a server stands to one rule. */
export interface Audited {
  readonly id: string
  readonly level: Level
  readonly status: Status
  readonly text: string
  readonly evidence: readonly string[]
  readonly fix?: string
}

/** How a server stands to every rule, and how often which way. */
export interface AuditReport {
  readonly upstream: string
  readonly revision: string
  readonly assertions: readonly Audited[]
  /** What documents cannot say unless its owner does. */
  readonly owner: readonly OwnersWord[]
  readonly summary: {
    readonly pass: number
    readonly repaired: number
    readonly fail: number
    readonly notApplicable: number
    /** The broken rules that say must or forbid. */
    readonly serious: readonly string[]
    /** The rules only the owner of the server can say something about. */
    readonly owner: readonly string[]
  }
}

/** Every rule, by its number. */
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

/** Holds every rule against a server as it is; `shown` is what clients see of it through the gateway. */
export function audit(subject: Subject, shown: Subject): AuditReport {
  const checked = assertions.map((each) => ({ ...each, ...judge(each, subject, shown) }))
  const count = (status: Status): number => checked.filter((each) => each.status === status).length
  const serious = checked.filter(({ status, level }) => status === 'fail' && isSerious(level))
  return {
    upstream: subject.upstream,
    revision: subject.revision,
    assertions: checked.map(({ id, level, status, text, evidence, fix }) => {
      return { id, level, status, text, evidence, ...(status === 'fail' && fix !== undefined && { fix }) }
    }),
    owner: ownersWords(subject),
    summary: {
      pass: count('pass'),
      repaired: count('repaired'),
      fail: count('fail'),
      notApplicable: count('not applicable'),
      serious: serious.map(({ id }) => id),
      owner: checked.flatMap(({ id, isOwners }) => (isOwners ? [id] : [])),
    },
  }
}

/** What is broken at the server, but not any more where clients see it, is repaired. */
function judge({ check }: Assertion, subject: Subject, shown: Subject): Verdict {
  const found = check(subject)
  if (found.status !== 'fail' || check(shown).status !== 'pass') return found
  return repaired('clients see it mended', ...found.evidence)
}

function isSerious(level: Level): boolean {
  return level === 'must' || level === 'forbidden'
}

/** Something documents leave out, or can only guess from names, unless the owner of the server says it. */
interface OwnersWord {
  /** The key under `upstreams.<name>` where it is said. */
  readonly key: string
  readonly text: string
  /** Of how much it is said: of the server, or of so many of its tools. */
  readonly said: number
  readonly of: number
}

/** What only the owner of a server knows, and how much of it the configuration says. */
function ownersWords({ settings, tools }: Pick<Subject, 'settings' | 'tools'>): OwnersWord[] {
  const ofServer = serverKeys.map(([key, name, text]): OwnersWord => {
    return { key, text, said: settings.about[name] === undefined ? 0 : 1, of: 1 }
  })
  const ofTools = toolKeys.map(([key, text]): OwnersWord => {
    const said = tools.filter(({ name }) => settingOf(settings.tools, name, key) !== undefined)
    return { key: `tools.*.${key}`, text, said: said.length, of: tools.length }
  })
  return [...ofServer, ...ofTools.filter((each) => each.of > 0)]
}

const serverKeys: readonly (readonly [key: string, name: keyof About, text: string])[] = [
  ['about', 'about', 'what it is for, in a sentence'],
  ['use_when', 'useWhen', 'what users ask for when it is the right one'],
  ['not_for', 'notFor', 'what it is not for'],
  ['cli', 'cli', 'a command line tool for the same'],
  ['api', 'api', 'an API for the same'],
  ['web', 'web', 'a web page for the same'],
  ['install', 'install', 'how it is installed, where its command does not say'],
  ['homepage', 'homepage', 'its home page'],
  ['repository', 'repository', 'where its source is'],
]

const toolKeys: readonly (readonly [key: keyof ToolWords | 'cost', text: string])[] = [
  ['cost', 'what a call costs'],
  ['cli', 'the same on a command line'],
  ['api', 'the same as a request'],
  ['examples', 'calls with what comes back'],
  ['effects', 'what it changes besides'],
]
