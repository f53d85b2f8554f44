/**
 * What the store has of a person: the one place that says, for the keys of each prefix, which values are of somebody, how that is
 * found out, and what becomes of them when the person is forgotten (`records/forgetting.ts`). Every prefix is in the table, so a new
 * kind of records has to say it as well.
 *
 * What is of the person alone is removed. What others need, such as an approval that the person decided for somebody else, stays
 * with a placeholder. What is in use stays as it is, and nothing is erased before it has ended.
 */
import { asList, asObject, isObject, readJson } from '../core/json/json.ts'
import { world } from '../core/world.ts'
import { isSegmentKey, withChangedEntries } from '../durable/log.ts'
import { type KeyPrefix, keyPrefixes } from '../store/store.ts'
import { callerHash } from './principal.ts'
import { hasEnded, needsAttention, readTransaction, transactionOwner } from './transactions.ts'

/** A person whose records are looked for. */
export interface Person {
  /** The id of the principal, as logs have it. */
  readonly id: string
  /** The keys of grants that the person may have at servers of the configuration. */
  readonly grants?: ReadonlySet<string>
  /** Opens what the vault of grants sealed under a key; undefined if it cannot. */
  unsealed?(key: string, text: string): unknown
}

/** What becomes of a value. */
export interface Fate {
  /** What it is, for people, and how many of it the value has; nothing is counted that belongs to something else. */
  readonly counts: Readonly<Record<string, number>>
  /** What takes its place; absent if it is removed. */
  readonly text?: string
  /** Keys that are removed with it. */
  readonly also?: readonly string[]
  /** The blob that is deleted after it. */
  readonly blob?: string
  /** Why nothing may be erased now; with `by`, only while that gateway (`Membership.id`) is alive. */
  readonly running?: { readonly what: string; readonly by?: string }
}

interface Entry {
  readonly key: string
  readonly text: string
}

/** What becomes of the value of a key; undefined if it is not of this person. */
type Rule = (entry: Entry, person: Person) => Fate | undefined

/** What stands for a person in records that others need. */
const FORGOTTEN = '(forgotten)'

/** How long a call that changes something counts as running, without a gateway that says so, in milliseconds. */
const RUNNING_MS = 600_000

/** What is of a person, by the prefix of its key. */
export const personRules: { readonly [Prefix in KeyPrefix]: Rule | 'nobody' } = {
  'alive:': 'nobody',
  'approval/': approvalFate,
  'approval:code:': 'nobody',
  'page-code:': 'nobody',
  'approval:of:': owned(),
  'approval:kept:': rememberedFate,
  'approval:nonce:': 'nobody',
  'audit:': 'nobody',
  // Bytes are deleted with the records that name them.
  'blob/': 'nobody',
  'blob-chunk:': 'nobody',
  'blob-swept:': 'nobody',
  'budget:': owned('budgets'),
  'call:': callFate,
  'circuit:': 'nobody',
  'circuit-probe:': 'nobody',
  'client-session/': owned('sessions of clients'),
  'conformance:': 'nobody',
  'context/': (entry, person) => ifOwner(valueOf(entry).owner, person, 'contexts on servers'),
  'contract/': 'nobody',
  'dead-letter/': deadLetterFate,
  'deed/': actionFate,
  // Of servers and of what is subscribed to, whoever does.
  'event-callback:': 'nobody',
  'event-interest:': 'nobody',
  'event-once:': 'nobody',
  'event-owner:': 'nobody',
  'event-position:': 'nobody',
  'event-refusal:': 'nobody',
  'event-reachable:': 'nobody',
  // The person is a hash there, which those who read the order need.
  'forget/': 'nobody',
  'hook:': 'nobody',
  'key:': 'nobody',
  'last-lists:': 'nobody',
  'lease:': 'nobody',
  'lease-alive:': 'nobody',
  'log:': logFate,
  'member/': 'nobody',
  'member-drain:': 'nobody',
  // They name approvals and channels.
  'notice/': 'nobody',
  'notice-owner:': 'nobody',
  'oauth:': grantFate,
  'operation:': operationFate,
  'operations/': owned(),
  'pause:': pauseFate,
  'permits:': owned(),
  'probe:': 'nobody',
  // They are no values: `Store.windows`.
  'rate:': 'nobody',
  'rate:ticket:': 'nobody',
  'redelivery/': owned(),
  'reference/': referenceFate,
  'reference-url:': 'nobody',
  'rewind:': rewindFate,
  'rewind-due/': 'nobody',
  'server-test:': 'nobody',
  'session:': scopedSessionFate,
  'state:': owned('session states'),
  'states/': owned(),
  'subscription/': owned('subscriptions to events'),
  'transaction/': transactionFate,
  'transaction-steps:': (entry, { id }) => (isUnder(entry.key, transactionOwner(id)) ? removed() : undefined),
  'turn:': 'nobody',
  'upload/': owned('uploads'),
  'verified:': owned('verified receivers of webhooks'),
  'watch:': 'nobody',
}

/** What becomes of a value when a person is forgotten; undefined if it is not of this person. */
export function fateOf(entry: Entry, person: Person): Fate | undefined {
  const prefix = prefixOf(entry.key)
  const rule = prefix === undefined ? 'nobody' : personRules[prefix]
  return rule === 'nobody' ? undefined : rule(entry, person)
}

const prefixes = (Object.keys(keyPrefixes) as KeyPrefix[]).toSorted((one, other) => other.length - one.length)

/** The longest prefix of a key. */
function prefixOf(key: string): KeyPrefix | undefined {
  return prefixes.find((prefix) => key.startsWith(prefix))
}

/** Values whose keys begin with the hash of their owner, after the prefix; without a name they belong to others that are counted. */
function owned(what?: string): Rule {
  return ({ key }, { id }) => (isUnder(key, callerHash(id)) ? removed(what) : undefined)
}

/** Whether the part of a key after its prefix is an owner, or begins with it. */
function isUnder(key: string, owner: string): boolean {
  const rest = key.slice(prefixOf(key)?.length ?? 0)
  return rest.startsWith(owner) && /^(?:[:/]|$)/.test(rest.slice(owner.length))
}

function ifOwner(owner: unknown, { id }: Person, what: string): Fate | undefined {
  return owner === callerHash(id) ? removed(what) : undefined
}

function removed(what?: string): Fate {
  return { counts: what === undefined ? {} : { [what]: 1 } }
}

function valueOf({ text }: Entry): Record<string, unknown> {
  return asObject(readJson(text))
}

/** A person's own approvals are removed; in those of others the person is replaced, once they are over. */
function approvalFate(entry: Entry, { id }: Person): Fate | undefined {
  const value = valueOf(entry)
  if (value.caller === id) return removed('approvals')
  const decisions = asList(value.decisions)
  if (!decisions.some((each) => asObject(each).by === id)) return undefined
  const counts = { 'decisions for others': 1 }
  const isOpen =
    (value.status === 'pending' || value.status === 'approved') && Number(value.expiresAt) > world.now()
  if (isOpen)
    return { counts, running: { what: 'approvals of others that this person decided and that are not used' } }
  const replaced = decisions.map((each) =>
    asObject(each).by === id ? { ...asObject(each), by: FORGOTTEN } : each,
  )
  return { counts, text: JSON.stringify({ ...value, decisions: replaced }) }
}

function rememberedFate(entry: Entry, person: Person): Fate | undefined {
  const value = valueOf(entry)
  const grant = asObject(value.grant)
  const by = asList(grant.by)
  if (value.owner === callerHash(person.id)) return removed('remembered decisions')
  if (!by.includes(person.id)) return undefined
  const replaced = by.map((each) => (each === person.id ? FORGOTTEN : each))
  return {
    counts: { 'decisions for others': 1 },
    text: JSON.stringify({ ...value, grant: { ...grant, by: replaced } }),
  }
}

function callFate(entry: Entry, { id }: Person): Fate | undefined {
  if (!isUnder(entry.key, callerHash(id))) return undefined
  const { state, owner } = valueOf(entry)
  const fate = removed('calls with an idempotency key')
  return state === 'executing' ? { ...fate, running: runBy('calls with an idempotency key', owner) } : fate
}

function operationFate(entry: Entry, { id }: Person): Fate | undefined {
  if (!isUnder(entry.key, callerHash(id))) return undefined
  const { state, owner } = valueOf(entry)
  const fate = removed('operations')
  const isRunning = state === 'working' || state === 'input_required'
  return isRunning ? { ...fate, running: runBy('operations, which gatehouse ops cancel ends', owner) } : fate
}

/** The gateway in the id of an owner, which may be a part of that gateway. */
function runBy(what: string, owner: unknown): NonNullable<Fate['running']> {
  return { what, by: String(owner).split(/[#/]/, 1)[0] ?? '' }
}

function actionFate(entry: Entry, { id }: Person): Fate | undefined {
  const value = valueOf(entry)
  const { principal, status, startedAt } = value
  if (asObject(principal).id !== id) return acknowledgedFate(value, id)
  const fate = removed('actions')
  const isRunning = status === 'pending' && Number(startedAt) > world.now() - RUNNING_MS
  return isRunning ? { ...fate, running: { what: 'calls that change something' } } : fate
}

/** What others did, and the person found out what became of. */
function acknowledgedFate(value: Readonly<Record<string, unknown>>, id: string): Fate | undefined {
  const acknowledged = asObject(value.acknowledged)
  if (acknowledged.by !== id) return undefined
  const text = JSON.stringify({ ...value, acknowledged: { ...acknowledged, by: FORGOTTEN } })
  return { counts: { 'decisions for others': 1 }, text }
}

/** Rollbacks, and people who decide about what could not be undone, need the whole record. */
function transactionFate({ key, text }: Entry, { id }: Person): Fate | undefined {
  const transaction = readTransaction(text)
  if (isUnder(key, transactionOwner(id))) {
    const fate = removed('transactions')
    if (!transaction) return fate
    if (!hasEnded(transaction))
      return {
        ...fate,
        running: { what: 'transactions that are open or rolled back, which gatehouse tx rollback ends' },
      }
    return needsAttention(transaction)
      ? { ...fate, running: { what: 'transactions that need attention, which gatehouse tx ack ends' } }
      : fate
  }
  if (!transaction) return undefined
  const { acknowledged } = transaction
  const reason = withoutOperator(transaction.reason, id)
  if (acknowledged?.by !== id && reason === undefined) return undefined
  const changed = {
    ...transaction,
    ...(acknowledged?.by === id && { acknowledged: { ...acknowledged, by: FORGOTTEN } }),
    ...(reason !== undefined && { reason }),
  }
  return { counts: { 'decisions for others': 1 }, text: JSON.stringify(changed) }
}

/** What the reason of a rollback that an operator ordered begins with, before the name; with a reason, a colon comes after it. */
const ORDERED_BY = /^(?:operator|rewind by|gatehouse undo by) /

/** The reason of a rollback with the placeholder for the operator; undefined if it was another one. */
function withoutOperator(reason = '', id: string): string | undefined {
  const before = ORDERED_BY.exec(reason)?.[0]
  if (before === undefined || !`${reason}: `.startsWith(`${before}${id}: `)) return undefined
  return `${before}${FORGOTTEN}${reason.slice(before.length + id.length)}`
}

/** A plan, and what became of it, are kept for a day at most: those with actions of the person are removed. */
function rewindFate(entry: Entry, { id }: Person): Fate | undefined {
  const value = valueOf(entry)
  const order = asObject(value.order)
  if (asList(value.plan).some((action) => asObject(asObject(action).principal).id === id)) {
    const fate = removed('rewinds')
    const isRunning = value.status === 'reading' || value.status === 'undoing'
    return isRunning ? { ...fate, running: { what: 'rewinds' } } : fate
  }
  if (order.by !== id) return undefined
  const text = JSON.stringify({ ...value, order: { ...order, by: FORGOTTEN } })
  return { counts: { 'decisions for others': 1 }, text }
}

/** A pause goes on, whoever began it. */
function pauseFate(entry: Entry, { id }: Person): Fate | undefined {
  const value = valueOf(entry)
  if (value.by !== id) return undefined
  return { counts: { 'pauses of writes': 1 }, text: JSON.stringify({ ...value, by: FORGOTTEN }) }
}

function referenceFate(entry: Entry, { id }: Person): Fate | undefined {
  if (!isUnder(entry.key, callerHash(id))) return undefined
  const { blob } = valueOf(entry)
  return { ...removed('kept data'), ...(typeof blob === 'string' && { blob }) }
}

/** A letter of a subscription of the person, or with an event that the person caused. */
function deadLetterFate(entry: Entry, person: Person): Fate | undefined {
  const what = 'dead letters'
  if (isUnder(entry.key, callerHash(person.id))) return removed(what)
  return ifOwner(asObject(valueOf(entry).event).by, person, what)
}

/** A session token: beside it is when it was used, and its token for another one. */
function scopedSessionFate(entry: Entry, { id }: Person): Fate | undefined {
  const { principal, refresh } = valueOf(entry)
  if (principal !== id) return undefined
  const { key } = entry
  return { ...removed('scoped sessions'), also: [`${key}:used`, `${key}:refresh:${String(refresh)}`] }
}

/** Grants at servers, sign-ins that are not complete, and sessions of the pages: all of them are sealed. */
function grantFate({ key, text }: Entry, { id, grants, unsealed }: Person): Fate | undefined {
  const [, kind = ''] = key.split(':')
  const what = { grant: 'grants at servers', state: 'sign-ins', session: 'sessions of the pages' }[kind]
  if (what === undefined && kind !== 'start') return undefined
  if (grants?.has(key)) return removed(what)
  const { principal, claims } = asObject(unsealed?.(key, text))
  const { sub, client_id: client } = asObject(claims)
  const named = typeof sub === 'string' ? `user:${sub}` : `client:${String(client)}`
  return principal === id || (claims !== undefined && named === id) ? removed(what) : undefined
}

/** The entries of logs: calls and what they sent and got, and events. */
function logFate({ key, text }: Entry, { id }: Person): Fate | undefined {
  const owner = callerHash(id)
  const written = JSON.stringify(id).slice(1, -1)
  // Most segments need not be parsed.
  if (!isSegmentKey(key) || !(text.includes(written) || text.includes(owner))) return undefined
  const counts: Record<string, number> = {}
  const counted = (what: string): void => void (counts[what] = (counts[what] ?? 0) + 1)
  const changed = withChangedEntries(text, (entry) => {
    if (!isObject(entry)) return entry
    if (entry.who === id) {
      counted(entry.end === undefined ? 'contents of calls' : 'calls in the log')
      return undefined
    }
    if (entry.by === owner) {
      counted('events')
      return undefined
    }
    const facts = asObject(entry.facts)
    const others = Object.entries(facts).filter(([name, value]) => isNamed(name, value, id))
    if (others.length === 0) return entry
    counted('decisions for others')
    const replaced = others.map(([name, value]) => [name, withoutName(String(value), id)] as const)
    return { ...entry, facts: { ...facts, ...Object.fromEntries(replaced) } }
  })
  return changed === undefined ? undefined : { counts, text: changed }
}

/** What the log line of a call says of the people who decided about it. */
const deciders: ReadonlySet<string> = new Set(['approved_by', 'declined_by'])

function isNamed(name: string, value: unknown, id: string): boolean {
  return deciders.has(name) && typeof value === 'string' && withoutName(value, id) !== value
}

/** A list of names, separated by commas, with the placeholder for one of them; a name may have commas itself. */
function withoutName(names: string, id: string): string {
  const within = `, ${names}, `.split(`, ${id}, `)
  return within.length === 1 ? names : within.join(`, ${FORGOTTEN}, `).slice(2, -2)
}
