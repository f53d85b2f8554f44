/** The contract versions of servers, and their changes. */
import {
  type ContractHistory,
  type ContractVersion,
  type KeptChange,
  type Contract,
  type ContractChange,
  contractChanges,
  isContract,
  levelOf,
  raised,
} from '../core/contract.ts'
import { readJson } from '../core/json/json.ts'
import { Collection, hasMembers, type RecordKind } from '../durable/collection.ts'
import { FOREVER, type Store } from '../store/store.ts'

/** The result of recording a contract. */
interface RecordedContract {
  readonly version: string
  /** Absent if nothing changed, or if this is the first version. */
  readonly changed?: { readonly before: string; readonly changes: readonly KeptChange[] }
}

/** How many versions are kept, and how many changes of each. */
const MAX_VERSIONS = 100
const MAX_CHANGES_PER_VERSION = 200
/** A removal must be announced at least this long, and this many versions, in advance. */
const NOTICE_PERIOD_MS = 90 * 86_400_000
const MIN_NOTICE_VERSIONS = 2

/** The contracts of servers and their history, in a store that gateways and commands share. */
export class Contracts {
  readonly #histories: Collection<ContractHistory>

  constructor(store: Store) {
    this.#histories = new Collection(store, contractKind)
  }

  /** The history of one server. */
  find(upstream: string): Promise<ContractHistory | undefined> {
    return this.#histories.get(upstream)
  }

  /** The histories of all servers, sorted by name. */
  async list(): Promise<readonly ContractHistory[]> {
    const all = await this.#histories.all()
    return all.toSorted((one, other) => one.upstream.localeCompare(other.upstream))
  }

  /** Records the current contract of a server; its version is raised according to the changes. */
  record(upstream: string, contract: Contract, now: number): Promise<RecordedContract> {
    return this.#histories.change(upstream, (before) => {
      const { history, recorded } = nextHistory(upstream, contract, now, before)
      return [history ?? 'keep', recorded]
    })
  }
}

const contractKind: RecordKind<ContractHistory> = {
  name: 'contract',
  prefix: 'contract/',
  encode: (history) => JSON.stringify(history),
  // A history in the format of another release counts as unknown.
  decode: (text) => {
    const value = readJson(text)
    return isHistory(value) ? value : undefined
  },
  ttlOf: () => FOREVER,
}

/** The history to store, if it changed, and the result. */
function nextHistory(
  upstream: string,
  contract: Contract,
  now: number,
  before: ContractHistory | undefined,
): { readonly history?: ContractHistory; readonly recorded: RecordedContract } {
  const [last] = before?.versions ?? []
  if (!before || !last) {
    const first = { version: '1.0.0', at: now, changes: [] }
    return { history: { upstream, contract, versions: [first] }, recorded: { version: first.version } }
  }
  const found = contractChanges(before.contract, contract)
  const level = levelOf(found)
  if (!level) return { recorded: { version: last.version } }
  const changes = found.map((each): KeptChange => {
    return each.kind === 'removed' && each.level === 'major' && !wasAnnounced(each, before.versions, now)
      ? { ...each, isEarly: true }
      : each
  })
  const kept = changes.slice(0, MAX_CHANGES_PER_VERSION)
  const version: ContractVersion = {
    version: raised(last.version, level),
    at: now,
    changes: kept,
    ...(changes.length > kept.length && { more: changes.length - kept.length }),
  }
  return {
    history: { upstream, contract, versions: [version, ...before.versions].slice(0, MAX_VERSIONS) },
    recorded: { version: version.version, changed: { before: last.version, changes } },
  }
}

/** Whether a removal was announced long enough in advance. */
function wasAnnounced(
  { subject }: ContractChange,
  versions: readonly ContractVersion[],
  now: number,
): boolean {
  const at = versions.findIndex(({ changes }) =>
    changes.some((each) => each.kind === 'deprecated' && each.subject === subject),
  )
  const announced = versions[at]
  if (!announced) return false
  const additions = versions.slice(0, at).filter(({ changes }) => levelOf(changes) !== 'patch')
  return now - announced.at >= NOTICE_PERIOD_MS && additions.length >= MIN_NOTICE_VERSIONS
}

const hasHistory = hasMembers<ContractHistory>({ string: ['upstream'], list: ['versions'] })
const isVersion = hasMembers<ContractVersion>({ string: ['version'], number: ['at'], list: ['changes'] })
const isChange = hasMembers<KeptChange>({ string: ['subject'] })

function isHistory(value: unknown): value is ContractHistory {
  if (!hasHistory(value) || !isContract(value.contract)) return false
  return value.versions.every((version) => isVersion(version) && version.changes.every(isChange))
}
