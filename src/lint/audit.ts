import type { Assertion, Level, Status, Verdict } from './assertion.ts'
import { agent } from './agent.ts'
import { contract } from './contract.ts'
import { described } from './described.ts'
import { duties, guarded } from './duties.ts'
import { type OwnersWord, ownersWords } from './owner.ts'
import { prompts } from './prompts.ts'
import { resources } from './resources.ts'
import { schemas } from './schemas.ts'
import { server } from './server.ts'
import type { Subject } from './subject.ts'
import { tools } from './tools.ts'
import { repaired } from './verdict.ts'

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
  /** What documents can not say unless its owner does. */
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
