/** What needs a person, from the store and from the servers: for `/console/needs` and the number beside its name. */
import { LRUCache } from 'lru-cache'
import { GatewayError } from '../../core/error.ts'
import { levelOf, type ContractHistory } from '../../core/contract.ts'
import { ifAnswered } from '../../core/time/waiting.ts'
import { world } from '../../core/world.ts'
import type { Doubt, Needs, NeedsSource, ServerNeeds } from '../../downstream/pages/needs-page.ts'
import { hasRole, type PageUser } from '../../downstream/pages/page-users.ts'
import { Actions } from '../../records/actions.ts'
import { type Approval, mayDecide } from '../../records/approvals.ts'
import { callCollection, decodeCall } from '../../records/calls.ts'
import { Contracts } from '../../records/contracts.ts'
import { Operations } from '../../records/operations.ts'
import { needsAttention, type StoredTransaction, transactionsIn } from '../../records/transactions.ts'
import type { Store } from '../../store/store.ts'
import type { Upstream } from '../../upstream/upstream.ts'
import type { Owner } from '../owner.ts'
import type { Runtime } from '../runtime.ts'

/** What the console needs of the gateway. */
export interface ConsoleGateway {
  runtime(): Runtime
  store(): Store
  readonly owner: Owner
  /** The calls that wait for approval; undefined if the store does not respond. */
  pendingApprovals(): Promise<readonly Approval[] | undefined>
  /** The input schema of a tool, if its server lists it in time. */
  inputSchema(upstream: string, tool: string): Promise<unknown>
}

/** How long the store has to answer, and a server to say whether a person has to sign in, in milliseconds. */
const ANSWER_TIMEOUT_MS = 1500
/** How long what was read is used for other pages, in milliseconds: doubts are found among all actions. */
const TRANSACTIONS_TTL_MS = 2000
const DOUBTS_TTL_MS = 15_000
const CONTRACTS_TTL_MS = 10_000
const SIGN_IN_TTL_MS = 5000
const MAX_KNOWN_SIGN_INS = 1000
/** How long a change that may break clients is mentioned, in milliseconds. */
const BROKEN_MS = 7 * 86_400_000
/** The most callers whose keyed calls are looked at. */
const MAX_CALLERS = 200

/** Finds what needs a person. */
export class ConsoleNeeds implements NeedsSource {
  readonly #gateway: ConsoleGateway
  readonly #transactions = new Recent(TRANSACTIONS_TTL_MS, () => this.#readTransactions())
  readonly #doubts = new Recent(DOUBTS_TTL_MS, () => this.#readDoubts())
  readonly #contracts = new Recent(CONTRACTS_TTL_MS, () => new Contracts(this.#gateway.store()).list())
  /** Whether a person has to sign in to a server, by both. */
  readonly #signIns = new LRUCache<string, Promise<boolean>>({ max: MAX_KNOWN_SIGN_INS, ttl: SIGN_IN_TTL_MS })

  constructor(gateway: ConsoleGateway) {
    this.#gateway = gateway
  }

  readonly approvals: NeedsSource['approvals'] = () => this.#gateway.owner.approvals()

  readonly decide: NeedsSource['decide'] = (...decision) => this.#gateway.owner.decide(...decision)

  readonly pauseFor: NeedsSource['pauseFor'] = (server) => this.#gateway.owner.pauseFor(server)

  readonly inputSchema: NeedsSource['inputSchema'] = (...names) => this.#gateway.inputSchema(...names)

  async needs(user: PageUser, isFresh = false): Promise<Needs> {
    if (isFresh) for (const each of [this.#transactions, this.#doubts]) each.forget()
    const isViewer = hasRole(user, 'viewer')
    const [pending, common] = await Promise.all([
      hasRole(user, 'approver') ? this.#gateway.pendingApprovals() : [],
      isViewer ? this.common() : { transactions: [], doubts: [], servers: [] },
    ])
    const servers = common.servers.map(async (server) => ({
      ...server,
      needsSignIn: await this.#needsSignIn(server.name, user),
    }))
    return {
      ...common,
      approvals: pending?.filter((approval) => mayDecide(approval, user)),
      servers: await Promise.all(servers),
    }
  }

  /** What is the same for all viewers. */
  async common(): Promise<Omit<Needs, 'approvals'>> {
    const [transactions, doubts, contracts] = await Promise.all([
      ifAnswered(this.#transactions.get(), ANSWER_TIMEOUT_MS),
      ifAnswered(this.#doubts.get(), ANSWER_TIMEOUT_MS),
      ifAnswered(this.#contracts.get(), ANSWER_TIMEOUT_MS),
    ])
    const runtime = this.#gateway.runtime()
    const histories = new Map(contracts?.map((history) => [history.upstream, history]))
    const servers = [...runtime.upstreams.values()].map((upstream) =>
      needsOf(upstream, runtime, histories.get(upstream.name)),
    )
    return { transactions, doubts, servers }
  }

  async changeTransaction(...[key, transition]: Parameters<NeedsSource['changeTransaction']>) {
    const { settings } = this.#gateway.runtime()
    const after = await transactionsIn(this.#gateway.store(), settings).change(key, transition)
    this.#transactions.forget()
    return after
  }

  async acknowledge(key: string, by: string): Promise<void> {
    const actions = new Actions(this.#gateway.store())
    if (!(await actions.acknowledge(key, by, world.now())))
      throw new GatewayError('RESOURCE_NOT_FOUND', 'There is no such action any more.')
    this.#doubts.forget()
  }

  async beginSignIn(server: string, { principal }: PageUser): Promise<string> {
    const { signIns } = this.#gateway.runtime().upstreams.get(server) ?? {}
    if (!signIns) throw new GatewayError('RESOURCE_NOT_FOUND', 'There is no such server to sign in to.')
    return signIns.begin(principal)
  }

  #needsSignIn(server: string, { principal }: PageUser): Promise<boolean> {
    const { signIns } = this.#gateway.runtime().upstreams.get(server) ?? {}
    if (!signIns) return Promise.resolve(false)
    const key = JSON.stringify([server, principal.id])
    const known = this.#signIns.get(key)
    if (known) return known
    const asked = ifAnswered(signIns.isNeeded(principal), ANSWER_TIMEOUT_MS).then((needed) => needed === true)
    this.#signIns.set(key, asked)
    return asked
  }

  async #readTransactions(): Promise<readonly StoredTransaction[]> {
    const all = await transactionsIn(this.#gateway.store(), this.#gateway.runtime().settings).list()
    return all
      .filter(({ transaction }) => needsAttention(transaction))
      .toSorted((one, other) => other.transaction.startedAt - one.transaction.startedAt)
  }

  async #readDoubts(): Promise<readonly Doubt[]> {
    const store = this.#gateway.store()
    const actions = await new Actions(store).inDoubt(world.now())
    const operations = await new Operations(store, world.now).all()
    const found: Doubt[] = actions.map((action) => {
      const { principal, upstream, tool, startedAt } = action
      return { caller: principal.id, upstream, tool, at: startedAt, action }
    })
    for (const { record } of operations) {
      const { principal, upstream, tool, startedAt, state } = record
      if (state === 'unknown') add(found, { caller: principal.id, upstream, tool, at: startedAt })
    }
    const callers = new Set([
      ...found.map(({ caller }) => caller),
      ...operations.map(({ record }) => record.principal.id),
    ])
    for (const caller of [...callers].slice(0, MAX_CALLERS)) {
      for (const [key, text] of await store.scan(callCollection(caller))) {
        const { record } = decodeCall(text) ?? {}
        if (record?.state !== 'unknown') continue
        // The key is `call:<caller>/<server>:<key>`.
        const upstream = key.slice(key.indexOf('/') + 1).split(':', 1)[0] ?? ''
        add(found, { caller, upstream, tool: record.tool, at: record.startedAt, isKeyed: true })
      }
    }
    return found.toSorted((one, other) => other.at - one.at)
  }
}

/** How far apart the records of one call can begin, in milliseconds. */
const SAME_CALL_MS = 3000

/** Adds a call in doubt, unless another record of the same call is there. */
function add(found: Doubt[], doubt: Doubt): void {
  const { caller, upstream, tool, at } = doubt
  const same = found.findIndex(
    (each) =>
      each.caller === caller &&
      each.upstream === upstream &&
      each.tool === tool &&
      Math.abs(each.at - at) < SAME_CALL_MS,
  )
  const known = found[same]
  if (!known) found.push(doubt)
  else if (doubt.isKeyed) found[same] = { ...known, isKeyed: true }
}

function needsOf(upstream: Upstream, runtime: Runtime, history: ContractHistory | undefined): ServerNeeds {
  const { name, status, details, isDrained } = upstream
  const pinned = runtime.pinnings.of(name)
  const now = world.now()
  const [broken] = (history?.versions ?? []).filter(
    ({ at, changes }) => now - at < BROKEN_MS && levelOf(changes) === 'major',
  )
  const breaking = broken?.changes.filter(({ level }) => level === 'major') ?? []
  return {
    name,
    ...(status.problem !== undefined && { problem: status.problem, since: details.since }),
    needsSignIn: false,
    isDrained,
    unaccepted: [...(pinned?.unaccepted ?? [])],
    isHolding: pinned?.isHolding === true,
    ...(broken && {
      broken: {
        version: broken.version,
        at: broken.at,
        changes: breaking.map(({ subject, text }) => `${subject} ${text}`),
      },
    }),
    findings: runtime.findings(name),
  }
}

/** A value that is read once for all who want it in some time. A failure is not kept. */
class Recent<Value> {
  readonly #ttlMs: number
  readonly #read: () => Promise<Value>
  #value: Promise<Value> | undefined
  #readAt = Number.NEGATIVE_INFINITY

  constructor(ttlMs: number, read: () => Promise<Value>) {
    this.#ttlMs = ttlMs
    this.#read = read
  }

  get(): Promise<Value> {
    const now = world.monotonic()
    if (this.#value && now - this.#readAt < this.#ttlMs) return this.#value
    this.#readAt = now
    const value = this.#read()
    this.#value = value
    value.catch(() => {
      if (this.#value === value) this.forget()
    })
    return value
  }

  forget(): void {
    this.#value = undefined
  }
}
