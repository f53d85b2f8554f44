/**
 * Approvals in the store: requested, decided, used once. A decision and its use are compare-and-swaps, so that
 * two members never both use one.
 */
import { hash, timingSafeEqual } from 'node:crypto'
import { world } from '../core/world.ts'
import { type AuthSettings, isProtected } from '../core/auth-settings.ts'
import type { Risk } from '../core/descriptor.ts'
import { GatewayError } from '../core/error.ts'
import type { ApprovalStep } from '../core/events.ts'
import { canonical, isObject, readJson } from '../core/json/json.ts'
import type { Remember, StopAsking } from '../core/remember.ts'
import type { UsedReference } from '../core/used-reference.ts'
import type { Store } from '../store/store.ts'
import { callerHash } from './principal.ts'

/** A call that waits for approval. Stored under `approval/…` as JSON; times are milliseconds since 1970. */
export interface Approval {
  /** 128 random bits; whoever knows the id may open the approval page. */
  readonly id: string
  /** `page`: approved by the caller in a browser. `out_of_band`: approved by other people. */
  readonly kind: 'page' | 'out_of_band'
  /** `Principal.id` of the caller. */
  readonly caller: string
  /** Set if callers cannot be told apart. */
  readonly isEverybody?: true
  readonly upstream: string
  readonly tool: string
  readonly arguments: Readonly<Record<string, unknown>>
  /** The text of the arguments, if it carries more than the parsed values: long numbers, or duplicate keys. */
  readonly sent?: string
  /** What the references in the arguments stand for. */
  readonly data?: readonly ReferencedData[]
  /** Identifies a call with references as its caller wrote it, whatever they stand for. */
  readonly written?: string
  /** Identifies the call: a hash of the caller, the tool, the arguments, and the hashes of `data`. */
  readonly digest: string
  readonly risk: Risk
  /** The configuration names a compensation for the tool. */
  readonly isUndoable?: true
  /** The question to the person. */
  readonly message: string
  /** The text that the person has to type to approve, if any. */
  readonly typed?: string
  /** What the person may choose: that the decision also applies to later calls of the tool by this caller in this session. */
  readonly offer?: Pick<Remember, 'for' | 'max'>
  /** The configuration that stops these confirmations, if the gateway's own risk classification requires them. */
  readonly stop?: StopAsking
  readonly createdAt: number
  readonly expiresAt: number
  /** How many people have to approve, and who may; anyone but the caller if none is named. */
  readonly needed: number
  readonly approvers: readonly string[]
  readonly decisions: readonly Decision[]
  /** `void`: the data that it was requested for is not the data any more that the same call refers to. */
  readonly status: 'pending' | 'approved' | 'denied' | 'used' | 'void'
}

/** Data that an argument refers to. */
export type ReferencedData = Pick<
  UsedReference,
  'path' | 'written' | 'isOutside' | 'server' | 'tool' | 'name' | 'type' | 'size' | 'sha256'
>

/** The decision of one person. */
export interface Decision {
  readonly by: string
  /** How the person was authenticated. */
  readonly via: 'sign_in' | 'password' | 'code' | 'token' | 'command_line'
  readonly verdict: 'approved' | 'denied'
  readonly at: number
  readonly reason?: string
  /** The person chose what `offer` allows. */
  readonly remember?: true
}

/** A request for an approval; `ttl` is how long people have to decide, in milliseconds. */
export interface ApprovalRequest extends Omit<
  Approval,
  'id' | 'createdAt' | 'expiresAt' | 'decisions' | 'status'
> {
  readonly ttl: number
}

/** A requested approval, and the token with which the caller's host can confirm it instead. */
export interface Requested {
  readonly approval: Approval
  readonly token: string
  /** The approval did not exist before. */
  readonly isNew?: true
}

/** How many calls of one caller may wait for approval; the shared anonymous caller may have more. */
const MAX_PENDING_PER_CALLER = 100
const MAX_PENDING_SHARED = 400
/** The maximum length of an approval as JSON text, in characters. */
const MAX_APPROVAL_LENGTH = 1024 * 1024
/** How long an expired approval is still known, in milliseconds. */
const RETENTION_MS = 3_600_000
/** How often a change is attempted that loses against concurrent ones. */
const MAX_ATTEMPTS = 50

/** The approvals in a store that gateways and commands share; `now` returns milliseconds since 1970. */
export class Approvals {
  readonly #store: Store
  readonly #now: () => number

  constructor(store: Store, now: () => number) {
    this.#store = store
    this.#now = now
  }

  /** Requests an approval, or returns the open one for the same call. @throws QUOTA_EXHAUSTED */
  request(draft: ApprovalRequest): Promise<Requested> {
    return retryConflicts(async () => {
      const open = await this.#findOpen(draft)
      if (open?.approval.status === 'pending') return { approval: open.approval, token: open.token }
      await this.#checkQuota(draft)
      const approval = newApproval(draft, this.#now())
      const text = JSON.stringify(approval)
      if (text.length > MAX_APPROVAL_LENGTH) throw tooLarge()
      const token = randomId()
      await this.#store.put(keyOf(approval.id), text, draft.ttl + RETENTION_MS)
      if (await this.#setOpen(draft, { id: approval.id, token })) return { approval, token, isNew: true }
      await this.#store.delete(keyOf(approval.id))
      return undefined
    })
  }

  async find(id: string): Promise<Approval | undefined> {
    return (await this.#read(id))?.approval
  }

  /** Whether an approval existed and expired recently. */
  async isExpired(id: string): Promise<boolean> {
    const text = ID_PATTERN.test(id) ? await this.#store.get(keyOf(id)) : undefined
    return text !== undefined && (parse(text)?.expiresAt ?? Infinity) <= this.#now()
  }

  /** All approvals that have not expired, the oldest first. */
  async list(): Promise<readonly Approval[]> {
    const found = await this.#store.scan(COLLECTION)
    return [...found.values()]
      .flatMap((text) => parse(text) ?? [])
      .filter(({ expiresAt }) => expiresAt > this.#now())
      .toSorted((one, other) => one.createdAt - other.createdAt)
  }

  /** Those that are not decided yet, the oldest first. */
  async pending(): Promise<readonly Approval[]> {
    return (await this.list()).filter(({ status }) => status === 'pending')
  }

  /**
   * Records a person's decision and returns the updated approval. @throws RESOURCE_NOT_FOUND if it does not exist or
   * has expired, PERMISSION_DENIED if that person may not decide, CONFLICT if it is already decided, INVALID_INPUT if
   * the decision is to be remembered and that is not offered
   */
  decide(id: string, decision: Omit<Decision, 'at'>): Promise<Approval> {
    return retryConflicts(async () => {
      const stored = await this.#read(id)
      if (!stored) throw unknownApproval()
      const changes = checkDecision(stored.approval, { ...decision, at: this.#now() })
      if (!(await this.#write(stored, changes))) return undefined
      const approval = { ...stored.approval, ...changes }
      await this.#extendOpen(approval)
      return approval
    })
  }

  /**
   * The state of a call's approval: pending, or approved or denied. A decision is returned once, to a single caller of
   * all members. Undefined if there is no open approval.
   */
  use(draft: ApprovalRequest): Promise<Approval | undefined> {
    return retryConflicts(async () => {
      const open = await this.#findOpen(draft)
      if (!open) return absent
      const { approval } = open
      if (approval.status === 'pending') return approval
      if (approval.status === 'approved') return (await this.#markUsed(draft, open)) ? approval : undefined
      const isDeleted = await this.#store.compareAndDelete(openKeyOf(draft), open.openText)
      return isDeleted ? approval : undefined
    }).then(withoutAbsent)
  }

  /** The open approval of a call and its token, which stay as they are; undefined if there is none. */
  peek(draft: ApprovalRequest): Promise<Requested | undefined> {
    return this.#findOpen(draft)
  }

  /** Uses up the approval of a call unless it is denied; undefined if the token does not match. */
  consume(draft: ApprovalRequest, token: string): Promise<Approval | undefined> {
    return retryConflicts(async () => {
      const open = await this.#findOpen(draft)
      if (!open || open.approval.status === 'denied' || !isSameToken(open.token, token)) return absent
      return (await this.#markUsed(draft, open)) ? open.approval : undefined
    }).then(withoutAbsent)
  }

  /**
   * Makes the open approvals of a call void that were requested when its references stood for other data. Resolves with
   * whether there were any.
   */
  async voidOthers({
    caller,
    written,
    digest,
  }: Pick<ApprovalRequest, 'caller' | 'written' | 'digest'>): Promise<boolean> {
    if (written === undefined) return false
    const isStale = (approval: Approval): boolean =>
      approval.caller === caller &&
      approval.written === written &&
      approval.digest !== digest &&
      (approval.status === 'pending' || approval.status === 'approved')
    const stale = (await this.list()).filter(isStale)
    for (const { id } of stale) {
      const stored = await this.#read(id)
      // A decision that is made meanwhile applies to the earlier data only.
      if (stored && isStale(stored.approval)) await this.#write(stored, { status: 'void' })
    }
    return stale.length > 0
  }

  async #read(id: string): Promise<StoredApproval | undefined> {
    if (!ID_PATTERN.test(id)) return undefined
    const text = await this.#store.get(keyOf(id))
    const approval = text === undefined ? undefined : parse(text)
    return text !== undefined && approval && approval.expiresAt > this.#now() ? { text, approval } : undefined
  }

  #write({ text, approval }: StoredApproval, changes: Partial<Approval>): Promise<boolean> {
    const changed = { ...approval, ...changes }
    const ttl = this.#remaining(changed) + RETENTION_MS
    return this.#store.compareAndSwap(keyOf(approval.id), text, JSON.stringify(changed), ttl)
  }

  #remaining({ expiresAt }: Approval): number {
    return Math.max(1, expiresAt - this.#now())
  }

  /** @throws QUOTA_EXHAUSTED */
  async #checkQuota(draft: ApprovalRequest): Promise<void> {
    const open = await this.#store.scan(collectionOf(draft))
    if (open.size >= (draft.isEverybody ? MAX_PENDING_SHARED : MAX_PENDING_PER_CALLER)) throw tooMany()
  }

  async #findOpen(draft: ApprovalRequest): Promise<OpenApproval | undefined> {
    const openText = await this.#store.get(openKeyOf(draft))
    const reference = openText === undefined ? undefined : parseOpen(openText)
    const stored = reference && (await this.#read(reference.id))
    if (openText === undefined || !reference || !stored) return undefined
    const { status } = stored.approval
    return status === 'used' || status === 'void'
      ? undefined
      : { ...stored, openText, token: reference.token }
  }

  /**
   * Makes an approval the open one of its call. A reference to an approval that is no longer pending is replaced; where another member
   * was faster, the next attempt finds that member's approval.
   */
  async #setOpen(draft: ApprovalRequest, reference: OpenReference): Promise<boolean> {
    const key = openKeyOf(draft)
    const text = JSON.stringify(reference)
    const before = await this.#store.setIfAbsent(key, text, draft.ttl)
    if (before === undefined) return true
    return (await this.#isNotPending(before)) && this.#store.compareAndSwap(key, before, text, draft.ttl)
  }

  /** The reference to an open approval has to last as long as the approval does. */
  async #extendOpen(approval: Approval): Promise<void> {
    const key = openKeyOf(approval)
    const text = await this.#store.get(key)
    if (text !== undefined && parseOpen(text)?.id === approval.id)
      await this.#store.compareAndSwap(key, text, text, this.#remaining(approval))
  }

  async #isNotPending(openText: string): Promise<boolean> {
    const reference = parseOpen(openText)
    const stored = reference && (await this.#read(reference.id))
    return stored?.approval.status !== 'pending'
  }

  async #markUsed(draft: ApprovalRequest, open: OpenApproval): Promise<boolean> {
    if (!(await this.#write(open, { status: 'used' }))) return false
    await this.#store.compareAndDelete(openKeyOf(draft), open.openText)
    return true
  }
}

interface StoredApproval {
  readonly text: string
  readonly approval: Approval
}

/** The stored reference from a call to its open approval. */
interface OpenReference {
  readonly id: string
  readonly token: string
}

/** An approval that is open, and the text of the reference to it. */
interface OpenApproval extends StoredApproval, Pick<OpenReference, 'token'> {
  readonly openText: string
}

/** There is no such approval, and another attempt would not change that. */
const absent = Symbol('absent')
const COLLECTION = 'approval'
const ID_PATTERN = /^[\w-]{1,64}$/

function keyOf(id: string): string {
  return `${COLLECTION}/${id}`
}

function collectionOf({ caller }: Pick<Approval, 'caller'>): string {
  return `approval:of:${callerHash(caller)}`
}

/** The key of the reference to a call's open approval. An approval with other approvers or counts is a different one. */
function openKeyOf(draft: Pick<Approval, 'caller' | 'digest' | 'kind' | 'needed' | 'approvers'>): string {
  const { digest, kind, needed, approvers } = draft
  return `${collectionOf(draft)}/${hash('sha256', canonical([digest, kind, needed, approvers]))}`
}

function newApproval({ ttl, ...draft }: ApprovalRequest, createdAt: number): Approval {
  return { ...draft, id: randomId(), createdAt, expiresAt: createdAt + ttl, decisions: [], status: 'pending' }
}

/** Repeats a change that lost against a concurrent one. */
async function retryConflicts<Value>(change: () => Promise<Value | undefined>): Promise<Value> {
  for (let tries = 0; tries < MAX_ATTEMPTS; tries++) {
    const result = await change()
    if (result !== undefined) return result
  }
  throw new GatewayError('OVERLOADED', 'Too many changes of one approval at a time.')
}

function withoutAbsent(found: Approval | typeof absent): Approval | undefined {
  return found === absent ? undefined : found
}

function randomId(): string {
  return world.randomBytes(16).toString('hex')
}

export function isSameToken(one: string, other: string): boolean {
  return timingSafeEqual(Buffer.from(hash('sha256', one)), Buffer.from(hash('sha256', other)))
}

function parse(text: string): Approval | undefined {
  const value = readJson(text)
  return isApproval(value) ? value : undefined
}

/** Whether a value is an approval as this version writes it; another version may have written the store. */
function isApproval(value: unknown): value is Approval {
  if (!isObject(value)) return false
  const { id, caller, upstream, tool, message, digest, createdAt, expiresAt, needed, ...rest } = value
  const isNamed = [id, caller, upstream, tool, message, digest].every((field) => typeof field === 'string')
  const isCounted = [createdAt, expiresAt, needed].every((field) => typeof field === 'number')
  const isListed = Array.isArray(rest.approvers) && Array.isArray(rest.decisions)
  return isNamed && isCounted && isListed && isObject(rest.arguments)
}

function parseOpen(text: string): OpenReference | undefined {
  const value = readJson(text)
  if (!isObject(value)) return undefined
  const { id, token } = value
  return typeof id === 'string' && typeof token === 'string' ? { id, token } : undefined
}

/** The reason of a refusal that waiting cannot change: no one can be asked. */
export const NO_APPROVER_REASON = 'nobody_to_ask'

function unknownApproval(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'There is no such approval, or it has expired.', {
    suggestion: 'Repeat the call to request a new approval.',
  })
}

function notAllowedToDecide({ kind }: Approval, { via }: Omit<Decision, 'at'>): GatewayError {
  const message =
    kind === 'out_of_band'
      ? 'You may not decide on this call: another person has to decide.'
      : `You may not decide on this call${via === 'token' ? ' with a token' : ''}: only the person who makes it can decide.`
  return new GatewayError('PERMISSION_DENIED', message)
}

function conflict(message: string): GatewayError {
  return new GatewayError('CONFLICT', message)
}

function notOffered(): GatewayError {
  return new GatewayError(
    'INVALID_INPUT',
    'This approval applies to one call only and cannot be remembered.',
    {
      field: 'remember',
    },
  )
}

function tooMany(): GatewayError {
  return new GatewayError('QUOTA_EXHAUSTED', 'Too many calls of this caller wait for approval.', {
    suggestion: 'Have the waiting calls approved or denied, or wait until they expire.',
    retryAfterSeconds: 60,
    isResult: true,
  })
}

function tooLarge(): GatewayError {
  return new GatewayError('PAYLOAD_TOO_LARGE', 'The arguments are too large for a person to approve.', {
    isResult: true,
  })
}

/** How many people have approved. */
export function approvedCount({ decisions }: Pick<Approval, 'decisions'>): number {
  return decisions.filter(({ verdict }) => verdict === 'approved').length
}

/** Whether a person may decide. A token that makes calls cannot approve them: `page` approvals never accept one. */
export function mayDecide(
  { kind, caller, isEverybody, approvers }: Pick<Approval, 'kind' | 'caller' | 'isEverybody' | 'approvers'>,
  { by, via }: Pick<Decision, 'by' | 'via'>,
): boolean {
  const isOperator = via === 'code' || via === 'command_line'
  if (kind === 'out_of_band') return by !== caller && (approvers.length === 0 || approvers.includes(by))
  if (via === 'token') return false
  return isOperator || isEverybody === true || by === caller || approvers.includes(by)
}

/** The prefix of the ids of people who sign in at the issuer. */
const PERSON_PREFIX = 'user:'

/**
 * Who can decide on an approval's page: a person in a browser, otherwise a program that sends a bearer token; undefined
 * if neither can. A link is only useful for a person.
 */
export function whoDecidesOnPage(
  approval: Pick<Approval, 'kind' | 'caller' | 'isEverybody' | 'approvers'>,
  auth: Pick<AuthSettings, 'jwt' | 'introspect' | 'tokens' | 'users'>,
): 'person' | 'program' | undefined {
  const { kind, caller, approvers } = approval
  const { users, jwt } = auth
  // The page asks for the code that the terminal shows.
  if (!isProtected(auth) && users.length === 0) return 'person'
  const isUser = ({ approvesAs }: AuthSettings['users'][number]): boolean =>
    approvesAs !== undefined && mayDecide(approval, { by: approvesAs, via: 'password' })
  if (users.some(isUser)) return 'person'
  const names = kind === 'page' ? [caller] : approvers
  const isAnybody = kind === 'out_of_band' && approvers.length === 0
  if (jwt?.client && (isAnybody || names.some((name) => name.startsWith(PERSON_PREFIX)))) return 'person'
  return kind === 'out_of_band' && isProtected(auth) ? 'program' : undefined
}

/** Whether a person approves without typing the required text. */
export function isMistyped(
  { typed }: Pick<Approval, 'typed'>,
  { verdict, entered }: { readonly verdict: Decision['verdict']; readonly entered: string | undefined },
): boolean {
  return verdict === 'approved' && typed !== undefined && entered !== typed
}

/** The audit record of a decision. */
export function stepOf(
  { id, caller, upstream, tool, arguments: given }: Approval,
  { by, via, verdict }: Pick<Decision, 'by' | 'via' | 'verdict'>,
): ApprovalStep {
  return { approval: id, by, via, verdict, caller, upstream, tool, given }
}

/** How long an approved call can still be made after the last approval, at least, in milliseconds. */
const MIN_TIME_TO_USE_MS = 300_000

/**
 * The effect of one more decision, without making it. A single denial is final, even by a person who approved before.
 * @throws PERMISSION_DENIED, CONFLICT, INVALID_INPUT as `Approvals.decide`
 */
export function checkDecision(approval: Approval, decision: Decision): Partial<Approval> {
  if (!mayDecide(approval, decision)) throw notAllowedToDecide(approval, decision)
  const { status, decisions, needed, offer } = approval
  if (status !== 'pending') throw conflict(`The approval is already ${status}.`)
  if (decision.remember && !offer) throw notOffered()
  const all = [...decisions, decision]
  if (decision.verdict === 'denied') return { decisions: all, status: 'denied' }
  const people = new Set(decisions.map(personOf))
  if (people.has(personOf(decision)))
    throw conflict('You have already approved this call; another person has to approve it too.')
  if (all.length < needed) return { decisions: all }
  const expiresAt = Math.max(approval.expiresAt, decision.at + MIN_TIME_TO_USE_MS)
  return { decisions: all, status: 'approved', expiresAt }
}

/** Everyone who acts at the machine counts as one person, however that was proven. */
function personOf({ by, via }: Decision): string {
  return via === 'code' || via === 'command_line' ? 'the operator' : `id ${by}`
}
