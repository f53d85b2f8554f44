/**
 * Approvals in the store: requested, decided, used once. A decision and its use are compare-and-swaps, so that
 * two members never both use one.
 */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { type AuthSettings, isProtected } from '../core/auth-settings.ts'
import type { Risk } from '../core/descriptor.ts'
import { GatewayError } from '../core/error.ts'
import type { ApprovalStep } from '../core/events.ts'
import { canonical, isObject, readJson } from '../core/json/json.ts'
import type { Remember, StopAsking } from '../core/remember.ts'
import type { Store } from '../store/store.ts'
import { callerHash } from './principal.ts'

/** A call that waits for people to approve it. Kept under `approval/…` as JSON; times are milliseconds since 1970. */
export interface Approval {
  /** 128 random bits; whoever knows it may look at the page. */
  readonly id: string
  /** By the caller itself in a browser, or by others. */
  readonly kind: 'page' | 'out_of_band'
  /** `Principal.id` of who makes the call. */
  readonly caller: string
  /** Set where callers are not told apart. */
  readonly isEverybody?: true
  readonly upstream: string
  readonly tool: string
  readonly arguments: Readonly<Record<string, unknown>>
  /** The text of the arguments, where it says more than their values: digits that get lost, or a name twice. */
  readonly sent?: string
  /** What the call is known by: the caller, the tool and the arguments. */
  readonly digest: string
  readonly risk: Risk
  /** The configuration says how the tool is undone. */
  readonly isUndoable?: true
  /** What the person is asked. */
  readonly message: string
  /** What the person has to type, where it takes that. */
  readonly typed?: string
  /** What the person may choose: that the answer holds for more calls of the tool, of this caller in its session. */
  readonly offer?: Pick<Remember, 'for' | 'max'>
  /** What to write to be asked about the tool no more, where it is the gateway's own judgement that asks. */
  readonly stop?: StopAsking
  readonly createdAt: number
  readonly expiresAt: number
  /** How many have to approve, and who may; any person but the caller where none is named. */
  readonly needed: number
  readonly approvers: readonly string[]
  readonly decisions: readonly Decision[]
  readonly status: 'pending' | 'approved' | 'denied' | 'used'
}

/** What one person decided. */
export interface Decision {
  readonly by: string
  /** How the person was known: by a sign-in at the issuer, name and password, the code of a terminal, a token, at the command line. */
  readonly via: 'sign_in' | 'password' | 'code' | 'token' | 'command_line'
  readonly verdict: 'approved' | 'denied'
  readonly at: number
  readonly reason?: string
  /** The person chose what was offered. */
  readonly remember?: true
}

/** An approval that is asked for; `ttl` is how long people have, in milliseconds. */
export interface ApprovalRequest extends Omit<
  Approval,
  'id' | 'createdAt' | 'expiresAt' | 'decisions' | 'status'
> {
  readonly ttl: number
}

/** An approval that was asked for, and the token with which the caller's host can confirm in its stead. */
export interface Requested {
  readonly approval: Approval
  readonly token: string
  /** It was not asked for before. */
  readonly isNew?: true
}

/** What people are asked to approve, in a store that gateways and commands share. */
export interface Approvals {
  /** Asks for an approval, or finds the one that is open for the same call. @throws QUOTA_EXHAUSTED */
  request(draft: ApprovalRequest): Promise<Requested>
  find(id: string): Promise<Approval | undefined>
  /** Whether there was one of which the time is over, not long ago. */
  isExpired(id: string): Promise<boolean>
  /** All whose time is not over, the oldest first. */
  list(): Promise<readonly Approval[]>
  /** Those of them that are not decided yet, the oldest first. */
  pending(): Promise<readonly Approval[]>
  /**
   * Writes down what a person decided; the approval as it then is. @throws RESOURCE_NOT_FOUND where there is none or
   * its time is over, PERMISSION_DENIED where that person may not decide, CONFLICT where it is decided already,
   * INVALID_INPUT where it is to hold for more calls and that is not offered
   */
  decide(id: string, decision: Omit<Decision, 'at'>): Promise<Approval>
  /**
   * What became of the approval of a call: the pending one; or the approved or denied one, told once, to one caller
   * of all. Nothing where none is open.
   */
  use(draft: ApprovalRequest): Promise<Approval | undefined>
  /** Uses up the approval of a call that is not denied, with its token; nothing where the token is not that one. */
  consume(draft: ApprovalRequest, token: string): Promise<Approval | undefined>
}

/** How many calls of one caller may wait for approval; the shared anonymous caller may have more. */
const MAX_PENDING_PER_CALLER = 100
const MAX_PENDING_SHARED = 400
/** How large the arguments of one may be, in characters. */
const MAX_ARGUMENTS_LENGTH = 1024 * 1024
/** How long is known that there was one, after its time is over, in milliseconds. */
const RETENTION_MS = 3_600_000
/** How often a change is tried that others are quicker with. */
const MAX_ATTEMPTS = 50

/** Creates the approvals of a store; `now` returns milliseconds since 1970. */
export function createApprovals(store: Store, now: () => number): Approvals {
  return new StoredApprovals(store, now)
}

class StoredApprovals implements Approvals {
  readonly #store: Store
  readonly #now: () => number

  constructor(store: Store, now: () => number) {
    this.#store = store
    this.#now = now
  }

  request(draft: ApprovalRequest): Promise<Requested> {
    return retryConflicts(async () => {
      const open = await this.#findOpen(draft)
      if (open?.approval.status === 'pending') return { approval: open.approval, token: open.token }
      await this.#checkQuota(draft)
      const approval = newApproval(draft, this.#now())
      const text = JSON.stringify(approval)
      if (text.length > MAX_ARGUMENTS_LENGTH) throw tooLarge()
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

  async isExpired(id: string): Promise<boolean> {
    const text = ID_PATTERN.test(id) ? await this.#store.get(keyOf(id)) : undefined
    return text !== undefined && (parse(text)?.expiresAt ?? Infinity) <= this.#now()
  }

  async list(): Promise<readonly Approval[]> {
    const found = await this.#store.scan(COLLECTION)
    return [...found.values()]
      .flatMap((text) => parse(text) ?? [])
      .filter(({ expiresAt }) => expiresAt > this.#now())
      .toSorted((one, other) => one.createdAt - other.createdAt)
  }

  async pending(): Promise<readonly Approval[]> {
    return (await this.list()).filter(({ status }) => status === 'pending')
  }

  decide(id: string, decision: Omit<Decision, 'at'>): Promise<Approval> {
    return retryConflicts(async () => {
      const stored = await this.#read(id)
      if (!stored) throw unknownApproval()
      if (!mayDecide(stored.approval, decision)) throw notAllowedToDecide(stored.approval, decision)
      const changes = applyDecision(stored.approval, { ...decision, at: this.#now() })
      if (!(await this.#write(stored, changes))) return undefined
      const approval = { ...stored.approval, ...changes }
      await this.#extendOpen(approval)
      return approval
    })
  }

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

  consume(draft: ApprovalRequest, token: string): Promise<Approval | undefined> {
    return retryConflicts(async () => {
      const open = await this.#findOpen(draft)
      if (!open || open.approval.status === 'denied' || !isSameToken(open.token, token)) return absent
      return (await this.#markUsed(draft, open)) ? open.approval : undefined
    }).then(withoutAbsent)
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
    return stored.approval.status === 'used' ? undefined : { ...stored, openText, token: reference.token }
  }

  /**
   * Makes an approval the open one of its call. A reference to a finished approval is replaced; where another member
   * was faster, the next attempt finds that member's approval.
   */
  async #setOpen(draft: ApprovalRequest, reference: OpenReference): Promise<boolean> {
    const key = openKeyOf(draft)
    const text = JSON.stringify(reference)
    const before = await this.#store.setIfAbsent(key, text, draft.ttl)
    if (before === undefined) return true
    return (await this.#isFinished(before)) && this.#store.compareAndSwap(key, before, text, draft.ttl)
  }

  /** The reference to an open approval has to last as long as the approval does. */
  async #extendOpen(approval: Approval): Promise<void> {
    const key = openKeyOf(approval)
    const text = await this.#store.get(key)
    if (text !== undefined && parseOpen(text)?.id === approval.id)
      await this.#store.compareAndSwap(key, text, text, this.#remaining(approval))
  }

  async #isFinished(openText: string): Promise<boolean> {
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
interface OpenApproval extends StoredApproval {
  readonly openText: string
  readonly token: string
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

/** Where the open approval of a call is found. One that took fewer people, or others, is none of it. */
function openKeyOf(draft: Pick<Approval, 'caller' | 'digest' | 'kind' | 'needed' | 'approvers'>): string {
  const { digest, kind, needed, approvers } = draft
  return `${collectionOf(draft)}/${hash('sha256', canonical([digest, kind, needed, approvers]))}`
}

function newApproval({ ttl, ...draft }: ApprovalRequest, createdAt: number): Approval {
  return {
    ...draft,
    id: randomId(),
    createdAt,
    expiresAt: createdAt + ttl,
    decisions: [],
    status: 'pending',
  }
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
  return randomBytes(16).toString('hex')
}

function isSameToken(one: string, other: string): boolean {
  return timingSafeEqual(Buffer.from(hash('sha256', one)), Buffer.from(hash('sha256', other)))
}

function parse(text: string): Approval | undefined {
  const value = readJson(text)
  return isApproval(value) ? value : undefined
}

/** Whether it is one as this version writes them: another version may have written the store. */
function isApproval(value: unknown): value is Approval {
  if (!isObject(value)) return false
  const { id, caller, upstream, tool, message, digest, createdAt, expiresAt, needed, ...others } = value
  const isNamed = [id, caller, upstream, tool, message, digest].every((each) => typeof each === 'string')
  const isCounted = [createdAt, expiresAt, needed].every((each) => typeof each === 'number')
  const isListed = Array.isArray(others.approvers) && Array.isArray(others.decisions)
  return isNamed && isCounted && isListed && isObject(others.arguments)
}

function parseOpen(text: string): OpenReference | undefined {
  const value = readJson(text)
  if (!isObject(value)) return undefined
  const { id, token } = value
  return typeof id === 'string' && typeof token === 'string' ? { id, token } : undefined
}

/** The reason of a refusal that no waiting changes: there is no one to ask. */
export const NO_APPROVER_REASON = 'nobody_to_ask'

/** There is none to decide on. */
function unknownApproval(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'There is no such approval, or its time is over.', {
    suggestion: 'Let the call be made again: it then asks for another one.',
  })
}

/** Another person has to decide. */
function notAllowedToDecide({ kind }: Approval, { via }: Omit<Decision, 'at'>): GatewayError {
  const message =
    kind === 'out_of_band'
      ? 'You may not decide on this call: another person has to.'
      : `You may not decide on this call${via === 'token' ? ' with a token' : ''}: it takes the person who makes it.`
  return new GatewayError('PERMISSION_DENIED', message)
}

/** It is decided already. */
function conflict(message: string): GatewayError {
  return new GatewayError('CONFLICT', message)
}

/** The approval holds for one call. */
function notOffered(): GatewayError {
  return new GatewayError('INVALID_INPUT', 'This approval holds for one call: it cannot be remembered.', {
    field: 'remember',
  })
}

/** A caller has as many open as it may. */
function tooMany(): GatewayError {
  return new GatewayError('QUOTA_EXHAUSTED', 'Too many calls of this caller wait for approval.', {
    suggestion: 'Have those approved or denied that wait, or let their time end.',
    retryAfterSeconds: 60,
    isResult: true,
  })
}

/** What is to be approved is too long to be read. */
function tooLarge(): GatewayError {
  return new GatewayError('PAYLOAD_TOO_LARGE', 'The arguments are too large for a person to approve.', {
    isResult: true,
  })
}

/** An approval as JSON for programs. */
export function approvalView(approval: Approval): Readonly<Record<string, unknown>> {
  const { id, status, kind, message, upstream, tool, risk, caller, digest } = approval
  const { sent, typed, offer, stop, needed, approvers, createdAt, expiresAt, decisions } = approval
  return {
    id,
    status,
    kind,
    message,
    server: upstream,
    tool,
    arguments: approval.arguments,
    ...(sent !== undefined && { arguments_text: sent }),
    digest,
    risk,
    caller,
    created_at: timeText(createdAt),
    expires_at: timeText(expiresAt),
    needed,
    ...(approvers.length > 0 && { approvers }),
    ...(typed !== undefined && { typed }),
    ...(offer && { may_remember: { calls: offer.max, seconds: offer.for / 1000 } }),
    ...(stop && { to_be_asked_no_more: stop }),
    decisions: decisions.map(({ at, ...decision }) => ({ ...decision, at: timeText(at) })),
  }
}

/** How many people have approved. */
export function approvedCount({ decisions }: Pick<Approval, 'decisions'>): number {
  return decisions.filter(({ verdict }) => verdict === 'approved').length
}

function timeText(at: number): string {
  return new Date(at).toISOString()
}

/** Whether a person may decide. A token that calls never approves itself. */
export function mayDecide(
  { kind, caller, isEverybody, approvers }: Pick<Approval, 'kind' | 'caller' | 'isEverybody' | 'approvers'>,
  { by, via }: Pick<Decision, 'by' | 'via'>,
): boolean {
  const isOperator = via === 'code' || via === 'command_line'
  if (kind === 'out_of_band') {
    return by !== caller && (approvers.length === 0 || approvers.includes(by))
  }
  if (via === 'token') return false
  return isOperator || isEverybody === true || by === caller || approvers.includes(by)
}

/** How callers are named who are people of the issuer. */
const PERSON_PREFIX = 'user:'

/**
 * Who can decide on an approval's page: a person in a browser, else a program that sends a bearer token; undefined where neither can.
 * A link is for the first alone.
 */
export function whoDecidesOnPage(
  approval: Pick<Approval, 'kind' | 'caller' | 'isEverybody' | 'approvers'>,
  auth: Pick<AuthSettings, 'jwt' | 'introspect' | 'tokens' | 'users'>,
): 'person' | 'program' | undefined {
  const { kind, caller, approvers } = approval
  const { users, jwt } = auth
  // The code of the terminal is asked for.
  if (!isProtected(auth) && users.length === 0) return 'person'
  const isUser = ({ approvesAs }: AuthSettings['users'][number]): boolean =>
    approvesAs !== undefined && mayDecide(approval, { by: approvesAs, via: 'password' })
  if (users.some(isUser)) return 'person'
  const names = kind === 'page' ? [caller] : approvers
  const isAnybody = kind === 'out_of_band' && approvers.length === 0
  if (jwt?.client && (isAnybody || names.some((name) => name.startsWith(PERSON_PREFIX)))) return 'person'
  return kind === 'out_of_band' && isProtected(auth) ? 'program' : undefined
}

/** Whether a person would approve without having typed what has to be typed for it. */
export function isMistyped(
  { typed }: Pick<Approval, 'typed'>,
  { verdict, said }: { readonly verdict: Decision['verdict']; readonly said: string | undefined },
): boolean {
  return verdict === 'approved' && typed !== undefined && said !== typed
}

/** What is recorded of a decision. */
export function stepOf(
  { id, caller, upstream, tool, arguments: given }: Approval,
  { by, via, verdict }: Pick<Decision, 'by' | 'via' | 'verdict'>,
): ApprovalStep {
  return { approval: id, by, via, verdict, caller, upstream, tool, given }
}

/** How long an approved call can be made after the last person approved, at least, in milliseconds. */
const TIME_TO_REPEAT = 300_000

/** What one decision more makes of an approval: one person who denies it is enough, though it approved before. */
function applyDecision(approval: Approval, decision: Decision): Partial<Approval> {
  const { status, decisions, needed, offer } = approval
  if (status !== 'pending') throw conflict(`It is ${status} already.`)
  if (decision.remember && !offer) throw notOffered()
  const all = [...decisions, decision]
  if (decision.verdict === 'denied') return { decisions: all, status: 'denied' }
  const people = new Set(decisions.map(personOf))
  if (people.has(personOf(decision))) throw conflict('You have approved it already; it takes another person.')
  if (all.length < needed) return { decisions: all }
  const expiresAt = Math.max(approval.expiresAt, decision.at + TIME_TO_REPEAT)
  return { decisions: all, status: 'approved', expiresAt }
}

/** Whoever is at the machine is one person, however that was shown. */
function personOf({ by, via }: Decision): string {
  return via === 'code' || via === 'command_line' ? 'the operator' : `id ${by}`
}
