/**
 * A granted confirmation: the call runs, with the signed decision in its result. The grant travels in the request state.
 */
import { isoTime } from '../../core/time/waiting.ts'
import { NS } from '../../core/identity.ts'
import { hash } from 'node:crypto'
import { world } from '../../core/world.ts'
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { type Descriptor, type Risk, riskRanks } from '../../core/descriptor.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject, canonical, readJson } from '../../core/json/json.ts'
import type { Approval, ApprovalRequest } from '../../records/approvals.ts'
import type { Edits } from '../../records/edits.ts'
import { callerHash } from '../../records/principal.ts'
import { Collection, type RecordKind } from '../../durable/collection.ts'
import type { Store } from '../../store/store.ts'
import type { Services } from '../feature.ts'
import { type ConfirmationRequest, STATE_KEY, stateOf } from './request.ts'
import type { Rule } from './rules.ts'

type Deps = Pick<Services, 'log' | 'identity'>

/** Why a call may not run. */
export type Refusal = 'decline' | 'cancel' | 'timeout' | 'mismatch' | 'error' | 'denied'

/** The `_meta` key of the signed decision in a result. */
const META_KEY = `${NS}/approval`

/** The grant from an approval. */
export function grantOf({ id, decisions, createdAt }: Approval): Grant {
  return {
    approval: id,
    by: decisions.map(({ by }) => by),
    via: decisions.map(({ via }) => via),
    at: decisions.at(-1)?.at ?? createdAt,
  }
}

interface RunOptions {
  readonly next: Handler
  readonly deps: Deps
  /** The call that the person was asked about, if it is another one, and how it was changed. */
  readonly asked?: Pick<ApprovalRequest, 'digest' | 'written'> & { readonly edited?: Edits }
}

/** Runs a confirmed call. The result contains the signed decision. */
export async function run(
  subject: ConfirmationRequest,
  grant: Grant,
  { next, deps, asked = stateOf(subject) }: RunOptions,
): Promise<Outcome> {
  const { call, argumentsDigest, entry } = subject
  call.logFields.set('approval', grant.approval)
  call.logFields.set('approved_by', grant.by.join(', '))
  const outcome = await next(call)
  // The server may request input too; the person is not asked again when the responses arrive.
  if (outcome.kind !== 'result') {
    const state = { kind: 'granted', nonce: world.randomUUID(), ...asked, grant }
    return { ...outcome, requestState: { ...outcome.requestState, [STATE_KEY]: state } }
  }
  const { approval, by, via, at } = grant
  const claims = {
    jti: world.randomUUID(),
    sub: call.principal.id,
    approval,
    verdict: 'approved',
    by,
    via,
    at: isoTime(at),
    tool: entry.name,
    upstream: entry.upstream,
    arguments_sha256: argumentsDigest,
  }
  // The effect has happened: return the result even if it cannot be signed.
  const signed = await deps.identity.sign(claims).catch((error: unknown) => {
    deps.log.error('confirm.unsigned', { approval, reason: String(error) })
  })
  if (signed === undefined) return outcome
  return { kind: 'result', result: outcome.result.withMeta({ [META_KEY]: signed }) }
}

/** The refusal of a call that a person declined or did not confirm. */
export function declined(call: Call, approval: string, refusal: RefusalDetails): GatewayError {
  const { reason, by, words } = refusal
  call.logFields.set('approval', approval)
  call.logFields.set('declined', reason)
  if (by !== undefined) call.logFields.set('declined_by', by)
  const explanation = words === undefined ? '' : ` ${words}`
  return new GatewayError('CONFIRMATION_DECLINED', `${sentences[reason]}${explanation}`, {
    reason,
    suggestion: 'The call was not run. Do not repeat it unless the person asks for it.',
  })
}

interface RefusalDetails {
  readonly reason: Refusal
  readonly by?: string
  /** The reason that the person gave. */
  readonly words?: string
}

const sentences: Readonly<Record<Refusal, string>> = {
  decline: 'The person declined this call.',
  cancel: 'The person did not respond to the confirmation request of this call.',
  timeout: 'This call was not confirmed in time.',
  mismatch: 'The text typed to confirm this call does not match the required text.',
  error: 'The client could not ask a person to confirm this call.',
  denied: 'This call was denied.',
}

/** A permission to run a call: who granted it, and how. */
export interface Grant {
  readonly approval: string
  readonly by: readonly string[]
  readonly via: readonly string[]
  /** In milliseconds since 1970. */
  readonly at: number
}

/** The state of this layer: a form was sent, a page was named, or the call may run. */
export type ConfirmState = (
  | {
      readonly kind: 'asked'
      readonly nonce: string
      readonly until: number
      /** It is the second form, after one was accepted without its box; what was chosen in that one holds. */
      readonly again?: { readonly isChosen: boolean }
    }
  | { readonly kind: 'opened'; readonly approval: string }
  | {
      readonly kind: 'granted'
      readonly nonce: string
      readonly grant: Grant
      /** What the approver changed of the arguments: with that the call continues. */
      readonly edited?: Edits
    }
) & {
  readonly digest: string
  /** Identifies a call with references as it was written. */
  readonly written?: string
}

/** The state of this layer in a call. */
export function confirmStateOf({ requestState }: Pick<Call, 'requestState'>): ConfirmState | undefined {
  const value = requestState[STATE_KEY]
  // The state was written here: clients only get it sealed.
  return isObject(value) && typeof value.kind === 'string' ? (value as unknown as ConfirmState) : undefined
}

// Remembered grants, in the store. A grant applies to one session of a caller (or the caller, if there are no sessions),
// to one tool, and to calls that can do no more harm than the one it was given for. It never takes fewer people than the
// rule currently requires.

/** Grants that apply to several calls of a tool. */
export interface ApprovalCache {
  /** Uses one of the remaining calls of a grant. */
  recall(subject: ConfirmationRequest, rule: Rule): Promise<Grant | undefined>
  /** Whether there is such a grant; it is not used. */
  has(subject: ConfirmationRequest, rule: Rule): Promise<boolean>
  /** Remembers the grant of a call for the calls that follow. */
  keep(subject: ConfirmationRequest, grant: Grant, rule: Rule): Promise<void>
}

interface RememberedGrant {
  readonly grant: Grant
  /** The hash of the caller; records of earlier versions lack it. */
  readonly owner?: string
  /** The risk of the call it was given for. */
  readonly risk?: Risk
  /** How many calls remain, and until when, in milliseconds since 1970. */
  readonly left: number
  readonly until: number
}

/** Stores grants; `now` returns milliseconds since 1970. */
export function createApprovalCache(store: Store, now: () => number): ApprovalCache {
  const grants = new Collection(store, grantKind, now)
  const usable = (remembered: RememberedGrant | undefined, risk: Risk): RememberedGrant | undefined => {
    if (!remembered || remembered.left < 1 || remembered.until <= now()) return undefined
    return isRiskier(risk, remembered) ? undefined : remembered
  }
  return {
    has: async ({ call, entry, risk }, rule) =>
      usable(await grants.get(idOf(call, entry, rule)), risk) !== undefined,
    recall: ({ call, entry, risk }, rule) =>
      grants.change(idOf(call, entry, rule), (before) => {
        const remembered = usable(before, risk)
        if (!remembered) return ['keep', undefined]
        return [{ ...remembered, left: remembered.left - 1 }, remembered.grant]
      }),
    keep: async ({ call, entry, risk }, grant, rule) => {
      const { for: ttl, max } = rule.remember ?? { for: 0, max: 0 }
      if (max < 2) return
      const owner = callerHash(call.principal.id)
      const remembered: RememberedGrant = { grant, owner, risk, left: max - 1, until: now() + ttl }
      await grants.put(idOf(call, entry, rule), remembered)
    },
  }
}

/** Records of earlier versions contain no risk: it was that of the tool. */
function isRiskier(risk: Risk, remembered: RememberedGrant): boolean {
  return remembered.risk !== undefined && riskRanks[risk] > riskRanks[remembered.risk]
}

/** Scoped to the session of a caller, if there are sessions. A grant by fewer or other people has a different key. */
function idOf({ principal, client }: Call, { upstream, name }: Descriptor, rule: Rule): string {
  const { isOutOfBand, needed, approvers } = rule
  const people = isOutOfBand ? [needed, approvers] : []
  const scope = canonical([principal.id, client.session ?? '', upstream, name, ...people])
  return hash('sha256', scope)
}

const grantKind: RecordKind<RememberedGrant> = {
  name: 'remembered approval',
  prefix: 'approval:kept:',
  encode: (grant) => JSON.stringify(grant),
  decode: (text) => {
    const value = readJson(text)
    // Only this file writes them.
    return isObject(value) ? (value as unknown as RememberedGrant) : undefined
  },
  ttlOf: ({ until }, now) => until - now,
}
