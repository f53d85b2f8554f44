/**
 * Approvals in the store: requested, decided, used once. A decision and its use are compare-and-swaps, so that
 * two members never both use one.
 */
import { hash, timingSafeEqual } from 'node:crypto'
import { world } from '../core/world.ts'
import { type AuthSettings, isProtected } from '../core/auth-settings.ts'
import type { Risk } from '../core/descriptor.ts'
import { GatewayError } from '../core/error.ts'
import type { ApprovalStep } from '../core/audit-step.ts'
import { canonical, readJson } from '../core/json/json.ts'
import type { Remember, StopAsking } from '../core/remember.ts'
import { isoTime } from '../core/time/waiting.ts'
import type { UsedReference } from '../core/used-reference.ts'
import { asJson, Collection, type RecordKind } from '../durable/collection.ts'
import type { Store } from '../store/store.ts'
import type { Edits } from './edits.ts'
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
  /** The name and version of the caller's client, by its own account; earlier versions did not record it. */
  readonly client?: string
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
  /** What the call would change, as it was when the person was asked; the approval is for the arguments alone. */
  readonly change?: ShownChange
  /** The text that the person has to type to approve, if any. */
  readonly typed?: string
  /** What the person may choose: that the decision also applies to later calls of the tool by this caller in this session. */
  readonly offer?: Pick<Remember, 'for' | 'max'>
  /** The arguments that the person may change; absent if none may be changed. */
  readonly editable?: readonly string[]
  /** The configuration that stops these confirmations, if the gateway's own risk classification requires them. */
  readonly stop?: StopAsking
  /** No call waits for the decision any more: after an approval, the client has to make it again. */
  readonly mustRepeat?: true
  /** Only the client's host confirms it, with the token: no one else is asked. */
  readonly isByHost?: true
  readonly createdAt: number
  readonly expiresAt: number
  /** How many people have to approve, and who may; anyone but the caller if none is named. */
  readonly needed: number
  readonly approvers: readonly string[]
  readonly decisions: readonly Decision[]
  /** `void`: the data that it was requested for is not the data any more that the same call refers to. */
  readonly status: 'pending' | 'approved' | 'denied' | 'used' | 'void'
}

/** What a call would change, for people. */
export interface ShownChange {
  /**
   * The lines that differ; those of what is there now, or would be lost, or created; or what the server itself says that the
   * call would change.
   */
  readonly kind: 'difference' | 'current' | 'lost' | 'created' | 'reported'
  /** Bounded, and without secrets and invisible characters. */
  readonly lines: readonly string[]
  /** Why the call could not be undone; absent if it could be, or if that is not known. */
  readonly notUndone?: string
  /** When that was read, in milliseconds since 1970. */
  readonly at: number
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
  readonly via: 'sign_in' | 'password' | 'code' | 'token' | 'command_line' | 'operator_mcp'
  readonly verdict: 'approved' | 'denied'
  readonly at: number
  readonly reason?: string
  /** The person chose what `offer` allows. */
  readonly remember?: true
  /** What the person changed of the arguments. */
  readonly edited?: Edits
}

/** A request for an approval; `ttl` is how long people have to decide, in milliseconds. */
export interface ApprovalRequest extends Omit<
  Approval,
  'id' | 'createdAt' | 'expiresAt' | 'decisions' | 'status' | 'mustRepeat'
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

/** How many calls may wait for approval if callers are not distinguished; of one caller, a quarter. */
const MAX_PENDING = 400
/** The maximum length of an approval as JSON text, in characters. */
const MAX_APPROVAL_LENGTH = 1024 * 1024
/** How long an expired approval is still known, in milliseconds. */
const RETENTION_MS = 3_600_000
/** The approvals in a store that gateways and commands share; `now` returns milliseconds since 1970. */
export class Approvals {
  readonly #approvals: Collection<Approval>
  /** The open approval of each call. */
  readonly #open: Collection<OpenReference>
  readonly #now: () => number

  constructor(store: Store, now: () => number) {
    this.#approvals = new Collection(store, approvalKind, now)
    this.#open = new Collection(store, openKind, now)
    this.#now = now
  }

  /** Requests an approval, or returns the open one for the same call. @throws QUOTA_EXHAUSTED */
  async request(draft: ApprovalRequest): Promise<Requested> {
    const call = openIdOf(draft)
    const open = await this.#open.get(call)
    const found = open && (await this.find(open.id))
    if (open && found?.status === 'pending') return { approval: found, token: open.token }
    if ((await this.#open.capacity(call, draft)).count <= 0) throw tooMany()
    const approval = newApproval(draft, this.#now())
    if (JSON.stringify(approval).length > MAX_APPROVAL_LENGTH) throw tooLarge()
    const token = randomId()
    await this.#approvals.put(approval.id, approval)
    let isOpened = false
    try {
      isOpened = await this.#replace(open, { id: approval.id, token }, draft)
    } finally {
      if (!isOpened) await this.#approvals.remove(approval.id)
    }
    // Otherwise another member was faster: its approval is the open one.
    return isOpened ? { approval, token, isNew: true } : this.request(draft)
  }

  /** Opens an approval in place of one that is over, if there was one; false if there is another. @throws QUOTA_EXHAUSTED */
  async #replace(
    previous: OpenReference | undefined,
    next: OpenReference,
    draft: ApprovalRequest,
  ): Promise<boolean> {
    const call = openIdOf(draft)
    if (!previous) {
      const existing = await this.#open.insert(call, next, draft, draft.ttl)
      if (!existing || existing.record) return !existing
    }
    return this.#open.change(
      call,
      (before) => (before?.id === previous?.id ? [next, true] : ['keep', false]),
      draft.ttl,
    )
  }

  async find(id: string): Promise<Approval | undefined> {
    const found = await this.#find(id)
    return found && this.#isCurrent(found) ? found : undefined
  }

  /** Whether an approval existed and expired recently. */
  async isExpired(id: string): Promise<boolean> {
    const found = await this.#find(id)
    return found !== undefined && !this.#isCurrent(found)
  }

  /** All approvals that have not expired, the oldest first. */
  async list(): Promise<readonly Approval[]> {
    const found = await this.#approvals.all()
    return found
      .filter((approval) => this.#isCurrent(approval))
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
  async decide(id: string, decision: Omit<Decision, 'at'>): Promise<Approval> {
    if (!ID_PATTERN.test(id)) throw unknownApproval()
    const approval = await this.#approvals.change(id, (before) => {
      if (!before || !this.#isCurrent(before)) throw unknownApproval()
      const after = { ...before, ...checkDecision(before, { ...decision, at: this.#now() }) }
      return [after, after]
    })
    // The reference to an open approval has to last as long as the approval does.
    const extended = (open: OpenReference | undefined): OpenReference | 'keep' =>
      open?.id === id ? open : 'keep'
    await this.#open.update(openIdOf(approval), extended, Math.max(1, approval.expiresAt - this.#now()))
    return approval
  }

  /** Notes whether a call waits for the decision, unless it is made already. */
  async noteWaiting(id: string, isWaiting: boolean): Promise<void> {
    await this.#approvals.update(id, (before) => {
      if (before?.status !== 'pending' || (before.mustRepeat === true) !== isWaiting) return 'keep'
      const { mustRepeat: _, ...rest } = before
      return isWaiting ? rest : { ...rest, mustRepeat: true }
    })
  }

  /**
   * The state of a call's approval: pending, or approved or denied. A decision is returned once, to a single caller of
   * all members. Undefined if there is no open approval.
   */
  async use(draft: ApprovalRequest): Promise<Approval | undefined> {
    const open = await this.peek(draft)
    if (!open || open.approval.status === 'pending') return open?.approval
    if (open.approval.status === 'approved') return this.#markUsed(draft, open)
    return (await this.#close(draft, open)) ? open.approval : this.use(draft)
  }

  /** The open approval of a call and its token, which stay as they are; undefined if there is none. */
  async peek(draft: ApprovalRequest): Promise<Requested | undefined> {
    const open = await this.#open.get(openIdOf(draft))
    const approval = open && (await this.find(open.id))
    if (!approval || approval.status === 'used' || approval.status === 'void') return undefined
    return { approval, token: open.token }
  }

  /** Uses up the approval of a call unless it is denied; undefined if the token does not match. */
  async consume(draft: ApprovalRequest, token: string): Promise<Approval | undefined> {
    const open = await this.peek(draft)
    return open && isSameToken(open.token, token) ? this.#markUsed(draft, open) : undefined
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
      isUsable(approval) &&
      this.#isCurrent(approval)
    const stale = (await this.list()).filter(isStale)
    const madeVoid = (before: Approval | undefined): Approval | 'keep' =>
      before && isStale(before) ? { ...before, status: 'void' } : 'keep'
    for (const { id } of stale) await this.#approvals.update(id, madeVoid)
    return stale.length > 0
  }

  async #find(id: string): Promise<Approval | undefined> {
    return ID_PATTERN.test(id) ? this.#approvals.get(id) : undefined
  }

  #isCurrent({ expiresAt }: Approval): boolean {
    return expiresAt > this.#now()
  }

  /** Uses up an open approval; undefined if it was used up, denied or made void meanwhile. */
  async #markUsed(draft: ApprovalRequest, open: Requested): Promise<Approval | undefined> {
    const used = await this.#approvals.change(open.approval.id, (before) =>
      before && isUsable(before) && this.#isCurrent(before)
        ? [{ ...before, status: 'used' }, before]
        : ['keep', undefined],
    )
    if (used) await this.#close(draft, open)
    return used
  }

  /** Ends that an approval is the open one of its call; resolves with whether it still was. */
  #close(draft: ApprovalRequest, { approval }: Requested): Promise<boolean> {
    return this.#open.change(openIdOf(draft), (before) =>
      before?.id === approval.id ? ['remove', true] : ['keep', false],
    )
  }
}

function isUsable({ status }: Approval): boolean {
  return status === 'pending' || status === 'approved'
}

const approvalKind: RecordKind<Approval> = {
  name: 'approval',
  prefix: 'approval/',
  ...asJson<Approval>({
    string: ['id', 'caller', 'upstream', 'tool', 'message', 'digest'],
    number: ['createdAt', 'expiresAt', 'needed'],
    object: ['arguments'],
    list: ['approvers', 'decisions'],
  }),
  ttlOf: ({ expiresAt }, now) => Math.max(1, expiresAt - now) + RETENTION_MS,
}

/** The stored reference from a call to its open approval. */
interface OpenReference {
  readonly id: string
  readonly token: string
}

const openKind: RecordKind<OpenReference> = {
  name: 'open approval',
  prefix: 'approval:of:',
  ...asJson<OpenReference>({ string: ['id', 'token'] }),
  bounds: [{ count: MAX_PENDING, refuse: tooMany }],
}

const ID_PATTERN = /^[\w-]{1,64}$/

/** The id of the reference to a call's open approval. An approval with other approvers or counts is a different one. */
function openIdOf(draft: Pick<Approval, 'caller' | 'digest' | 'kind' | 'needed' | 'approvers'>): string {
  const { caller, digest, kind, needed, approvers } = draft
  return `${callerHash(caller)}/${hash('sha256', canonical([digest, kind, needed, approvers]))}`
}

function newApproval({ ttl, ...draft }: ApprovalRequest, createdAt: number): Approval {
  return { ...draft, id: randomId(), createdAt, expiresAt: createdAt + ttl, decisions: [], status: 'pending' }
}

function randomId(): string {
  return world.randomBytes(16).toString('hex')
}

export function isSameToken(one: string, other: string): boolean {
  return timingSafeEqual(Buffer.from(hash('sha256', one)), Buffer.from(hash('sha256', other)))
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
    { field: 'remember' },
  )
}

function notEditable(argument: string): GatewayError {
  return new GatewayError('INVALID_INPUT', 'This argument of the call cannot be changed.', {
    field: argument,
  })
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

/**
 * Whether a person may decide. A token that makes calls cannot approve them: `page` approvals never accept one, but that of an
 * owner at the endpoint for owners, who never decides on calls of its own.
 */
export function mayDecide(
  { kind, caller, isEverybody, approvers }: Pick<Approval, 'kind' | 'caller' | 'isEverybody' | 'approvers'>,
  { by, via }: Pick<Decision, 'by' | 'via'>,
): boolean {
  const isOperator = via === 'code' || via === 'command_line'
  const isAnother = by !== caller && (approvers.length === 0 || approvers.includes(by))
  if (kind === 'out_of_band') return isAnother
  if (via === 'operator_mcp') return isAnother && isEverybody !== true
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
  { by, via, verdict, edited }: Pick<Decision, 'by' | 'via' | 'verdict' | 'edited'>,
): ApprovalStep {
  const changed = edited && Object.keys(edited)
  return { approval: id, by, via, verdict, caller, upstream, tool, given, ...(changed && { changed }) }
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
  const changed = Object.keys(decision.edited ?? {}).find((name) => !approval.editable?.includes(name))
  if (changed !== undefined) throw notEditable(changed)
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

/** What the lines of a change are, for people. */
export function changeTitle(change: ShownChange): string {
  return `${changeWords(change)}, as read at ${isoTime(change.at)}`
}

/** The same without when they were read. */
export function changeWords({ kind, lines }: Pick<ShownChange, 'kind' | 'lines'>): string {
  return kind === 'difference' && lines.length === 0 ? 'It would change nothing' : changeTitles[kind]
}

const changeTitles: Readonly<Record<ShownChange['kind'], string>> = {
  difference: 'What would change',
  current: 'What is there now',
  lost: 'What would be lost',
  created: 'Nothing is there. What would be created',
  reported: 'What its server says that would change',
}

/** That a call cannot be undone, for people; nothing if it can be, or if that is not known. */
export function undoNotes({ notUndone }: ShownChange): readonly string[] {
  return notUndone === undefined ? [] : [`This call cannot be undone: ${notUndone}.`]
}

/** The text of the arguments, for people, where it has other digits or more keys than the values that they see. */
export function sentText({ sent, arguments: given }: Approval): string | undefined {
  if (sent === undefined) return undefined
  const shown = JSON.stringify(given)
  const isShown = JSON.stringify(readJson(sent)) === shown && withoutStrings(sent) === withoutStrings(shown)
  return isShown ? undefined : sent
}

/** JSON with empty strings and without white space. */
function withoutStrings(json: string): string {
  return json.replaceAll(/"[^"\\]*(?:\\.[^"\\]*)*"/g, '""').replaceAll(/\s+/g, '')
}

/** An approval as JSON for programs. */
export function approvalView(approval: Approval): Readonly<Record<string, unknown>> {
  const { id, status, kind, message, upstream, tool, risk, caller, digest } = approval
  const { sent, change, typed, offer, stop, needed, approvers, createdAt, expiresAt, decisions } = approval
  return {
    id,
    status,
    kind,
    message,
    server: upstream,
    tool,
    arguments: approval.arguments,
    ...(sent !== undefined && { arguments_text: sent }),
    ...(approval.data && { references: approval.data.map(dataView) }),
    ...changeView(change),
    digest,
    risk,
    caller,
    ...clientView(approval),
    created_at: isoTime(createdAt),
    expires_at: isoTime(expiresAt),
    needed,
    ...(approvers.length > 0 && { approvers }),
    ...(typed !== undefined && { typed }),
    ...(offer && { may_remember: { calls: offer.max, seconds: offer.for / 1000 } }),
    ...(approval.editable && { may_change: approval.editable }),
    ...(isToRepeat(approval) && { must_repeat: true }),
    ...(stop && { to_be_asked_no_more: stop }),
    decisions: decisions.map(({ at, ...decision }) => ({ ...decision, at: isoTime(at) })),
  }
}

/** Whether an approval alone does not run the call, because no client waits for it: the client has to make it again. */
export function isToRepeat({ status, mustRepeat }: Pick<Approval, 'status' | 'mustRepeat'>): boolean {
  return mustRepeat === true && (status === 'pending' || status === 'approved')
}

/** When an approved call runs, or one that no client waits for any more, for people; undefined for others. */
export function runText(approval: Pick<Approval, 'status' | 'mustRepeat'>): string | undefined {
  const isApproved = approval.status === 'approved'
  if (isToRepeat(approval))
    return isApproved
      ? 'No client waits for it: it runs once, when the client makes the same call again.'
      : TO_REPEAT
  return isApproved
    ? 'The call runs once: now if it waits for this, otherwise when it is repeated.'
    : undefined
}

const TO_REPEAT =
  'No client waits for this call any more, so approving it does not run it: the client has to make the same call again, which then runs once.'

/** What a call would change, as a member for programs. */
export function changeView(change: ShownChange | undefined): Readonly<Record<string, unknown>> {
  if (!change) return {}
  const { kind, at, lines, notUndone } = change
  const undoing = notUndone !== undefined && { cannot_be_undone: notUndone }
  return { change: { kind, read_at: isoTime(at), lines, ...undoing } }
}

function clientView(approval: Approval): Readonly<Record<string, unknown>> {
  const client = clientText(approval)
  return client === undefined ? {} : { client }
}

/** The name of the client that made a call, as it states it itself; undefined if it is not known. */
export function clientText({ client }: Pick<Approval, 'client'>): string | undefined {
  return typeof client === 'string' && client !== '' ? client : undefined
}

function dataView({ isOutside, ...facts }: ReferencedData): Readonly<Record<string, unknown>> {
  return { ...facts, ...(isOutside && { is_outside: true }) }
}

// Arguments as people read them: indented JSON, in which a text of several lines is shown by its lines.

/** A string at the end of a line of indented JSON, after its key if it is a member. */
const TEXT = /^( *)((?:"[^"\\]*(?:\\.[^"\\]*)*": )?)("[^"\\]*(?:\\.[^"\\]*)*")(,?)$/gm

/**
 * A value as text. Each line of a text begins with a bar and is indented further than its key, so that no line of it can be taken
 * for another member.
 */
export function valueText(value: unknown): string {
  const json = JSON.stringify(value, null, 2) ?? 'null'
  return json.replaceAll(TEXT, (all, ...[margin, key, quoted, comma]: string[]) => {
    const text = quoted?.includes('\\n') ? readJson(quoted) : undefined
    if (typeof text !== 'string' || !text.includes('\n')) return all
    const lines = text.split('\n')
    const shown = lines.map((line) => `\n${margin}  | ${line}`).join('')
    return `${margin}${key}${lines.length} lines${comma}${shown}`
  })
}
