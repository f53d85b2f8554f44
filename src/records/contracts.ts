/** The versions of what servers offer, with their changes. */
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
import { isObject, readJson } from '../core/json/json.ts'
import { FOREVER, type Store } from '../store/store.ts'
import { casUpdate, type CasUpdate } from './cas-update.ts'

/** What became of a contract. */
export interface Noted {
  readonly version: string
  /** Absent where nothing changed, or nothing was known before. */
  readonly changed?: { readonly before: string; readonly changes: readonly KeptChange[] }
}

/** How many versions are kept, and how many changes of each. */
const MAX_VERSIONS = 100
const MAX_CHANGES_PER_VERSION = 200
/** For how long what is dropped has to be announced before, and for how many additions: three months, two. */
const NOTICE_PERIOD_MS = 90 * 86_400_000
const MIN_NOTICE_VERSIONS = 2

/** The contracts of servers and their history, in a store that gateways and commands share. */
export class Contracts {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  /** What is known of one server. */
  async find(upstream: string): Promise<ContractHistory | undefined> {
    return parsed(await this.#store.get(place(upstream)))
  }

  /** What is known of all servers, by name. */
  async list(): Promise<readonly ContractHistory[]> {
    const found = [...(await this.#store.scan('contract')).values()].flatMap((text) => parsed(text) ?? [])
    return found.toSorted((one, other) => one.upstream.localeCompare(other.upstream))
  }

  /** Writes down the contract of a server as it is now; its version is raised by what changed. */
  note(upstream: string, contract: Contract, now: number): Promise<Noted> {
    const look = (text: string | undefined): CasUpdate<Noted> => {
      const { history, noted } = next({ upstream, contract, now }, parsed(text))
      return { result: noted, ...(history && { write: { text: JSON.stringify(history), ttl: FOREVER } }) }
    }
    return casUpdate(this.#store, place(upstream), look, () => {
      throw new Error(`the contract of ${upstream} is written by others again and again`)
    })
  }
}

interface Seen {
  readonly upstream: string
  readonly contract: Contract
  readonly now: number
}

/** What is to be kept, where that is something else, and what to tell. */
function next(
  { upstream, contract, now }: Seen,
  before: ContractHistory | undefined,
): { readonly history?: ContractHistory; readonly noted: Noted } {
  const [last] = before?.versions ?? []
  if (!before || !last) {
    const first = { version: '1.0.0', at: now, changes: [] }
    return { history: { upstream, contract, versions: [first] }, noted: { version: first.version } }
  }
  const found = contractChanges(before.contract, contract)
  const level = levelOf(found)
  if (!level) return { noted: { version: last.version } }
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
    noted: { version: version.version, changed: { before: last.version, changes } },
  }
}

/** Whether it was said long enough before that something would go. */
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

function place(upstream: string): string {
  return `contract/${upstream}`
}

/** What another release kept in another form is not known. */
function parsed(text: string | undefined): ContractHistory | undefined {
  const value = text === undefined ? undefined : readJson(text)
  return isHistory(value) ? value : undefined
}

function isHistory(value: unknown): value is ContractHistory {
  return (
    isObject(value) &&
    typeof value.upstream === 'string' &&
    isContract(value.contract) &&
    Array.isArray(value.versions) &&
    value.versions.every(isVersion)
  )
}

function isVersion(value: unknown): boolean {
  return (
    isObject(value) &&
    typeof value.version === 'string' &&
    typeof value.at === 'number' &&
    Array.isArray(value.changes) &&
    value.changes.every((each) => isObject(each) && typeof each.subject === 'string')
  )
}
