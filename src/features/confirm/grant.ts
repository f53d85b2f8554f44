/**
 * A granted confirmation: the call runs with a signed decision in its result. The grant travels in the request
 * state.
 */
import { randomUUID, hash } from 'node:crypto'
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { type Descriptor, type Risk, riskRanks } from '../../core/descriptor.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject, canonical } from '../../core/json/json.ts'
import { NS } from '../../protocol/meta-keys.ts'
import type { Approval } from '../../records/approvals.ts'
import { casUpdate, type CasUpdate } from '../../records/cas-update.ts'
import type { Store } from '../../store/store.ts'
import type { Services } from '../feature.ts'
import { type ConfirmationRequest, STATE_KEY } from './request.ts'
import type { Rule } from './rules.ts'

type Deps = Pick<Services, 'log' | 'identity'>

/** Why a call may not run. */
export type Refusal = 'decline' | 'cancel' | 'timeout' | 'mismatch' | 'error' | 'denied'

/** Where the signed decision stands in the `_meta` of a result. */
const META_KEY = `${NS}/approval`

/** What the people who approved a call granted. */
export function grantOf({ id, decisions, createdAt }: Approval): Grant {
  return {
    approval: id,
    by: decisions.map(({ by }) => by),
    via: decisions.map(({ via }) => via),
    at: decisions.at(-1)?.at ?? createdAt,
  }
}

/** Runs a call that was confirmed. The result says who did so, signed. */
export async function run(
  { call, digest, argumentsDigest, entry }: ConfirmationRequest,
  grant: Grant,
  { next, deps }: { readonly next: Handler; readonly deps: Deps },
): Promise<Outcome> {
  call.logFields.set('approval', grant.approval)
  call.logFields.set('approved_by', grant.by.join(', '))
  const outcome = await next(call)
  // The server may ask too; then the person is not asked again when the answers come.
  if (outcome.kind === 'input_required') {
    const slot = { kind: 'granted', nonce: randomUUID(), digest, grant }
    return { ...outcome, requestState: { ...outcome.requestState, [STATE_KEY]: slot } }
  }
  const { approval, by, via, at } = grant
  const claims = {
    jti: randomUUID(),
    sub: call.principal.id,
    approval,
    verdict: 'approved',
    by,
    via,
    at: new Date(at).toISOString(),
    tool: entry.name,
    upstream: entry.upstream,
    arguments_sha256: argumentsDigest,
  }
  // The effect has happened: the result is returned even where it cannot be signed.
  const signed = await deps.identity.sign(claims).catch((error: unknown) => {
    deps.log.error('confirm.unsigned', { approval, reason: String(error) })
  })
  if (signed === undefined) return outcome
  return { kind: 'result', result: outcome.result.withMeta({ [META_KEY]: signed }) }
}

/** The refusal of a call that a person did not want, or did not answer for. */
export function declined(call: Call, approval: string, said: Said): GatewayError {
  const { reason, by, words } = said
  call.logFields.set('approval', approval)
  call.logFields.set('declined', reason)
  if (by !== undefined) call.logFields.set('declined_by', by)
  const why = words === undefined ? '' : ` ${words}`
  return new GatewayError('CONFIRMATION_DECLINED', `${sentences[reason]}${why}`, {
    reason,
    suggestion: 'It was not run. Do not make it again unless the person asks for it.',
  })
}

interface Said {
  readonly reason: Refusal
  readonly by?: string
  /** What the person said of it. */
  readonly words?: string
}

const sentences: Readonly<Record<Refusal, string>> = {
  decline: 'The person who was asked declined this call.',
  cancel: 'The person who was asked to confirm this call did not answer.',
  timeout: 'This call was not confirmed in time.',
  mismatch: 'What was typed to confirm this call is not what had to be typed.',
  error: 'The client could not ask a person to confirm this call.',
  denied: 'This call was denied.',
}

/** That a call may run: who said so, and how. */
export interface Grant {
  readonly approval: string
  readonly by: readonly string[]
  readonly via: readonly string[]
  /** In milliseconds since 1970. */
  readonly at: number
}

/** What this layer wrote into the state: that it asked, that it named a page, or that the call may run. */
export type ConfirmState =
  | { readonly kind: 'asked'; readonly nonce: string; readonly digest: string; readonly until: number }
  | { readonly kind: 'opened'; readonly approval: string; readonly digest: string }
  | { readonly kind: 'granted'; readonly nonce: string; readonly digest: string; readonly grant: Grant }

/** What this layer wrote into the state of a call. */
export function confirmStateOf({ requestState: state }: Call): ConfirmState | undefined {
  const slot = state[STATE_KEY]
  // What is in the state was written here: clients get it sealed.
  return isObject(slot) && typeof slot.kind === 'string' ? (slot as unknown as ConfirmState) : undefined
}

// Grants that hold for several calls of a tool, in the store.
// A grant holds for one session of a caller (the caller, where there are no sessions), for one tool, and for calls
// that can do no more harm than the one it was given for. It never takes fewer people than the rule asks for now.

/** Grants that hold for several calls of a tool. */
export interface ApprovalCache {
  /** One call of those that were granted. */
  recall(subject: ConfirmationRequest, rule: Rule): Promise<Grant | undefined>
  /** Keeps the grant of a call for the calls that follow. */
  keep(subject: ConfirmationRequest, grant: Grant, rule: Rule): Promise<void>
}

interface Kept {
  readonly grant: Grant
  /** How much harm the call could do it was given for. */
  readonly risk?: Risk
  /** How many calls are left, and until when, in milliseconds since 1970. */
  readonly left: number
  readonly until: number
}

/** Keeps grants in a store; `now` tells the time in milliseconds since 1970. */
export function createApprovalCache(store: Store, now: () => number): ApprovalCache {
  return {
    recall: ({ call, entry, risk }, rule) => {
      const look = (text: string | undefined): CasUpdate<Grant | undefined> => {
        const kept = text === undefined ? undefined : parse(text)
        const ttl = kept ? kept.until - now() : 0
        if (!kept || kept.left < 1 || ttl <= 0 || isWorse(risk, kept)) return { result: undefined }
        return { result: kept.grant, write: { text: JSON.stringify({ ...kept, left: kept.left - 1 }), ttl } }
      }
      return casUpdate(store, keyOf(call, entry, rule), look, () => undefined)
    },
    keep: async ({ call, entry, risk }, grant, rule) => {
      const { for: ttl, max } = rule.remember ?? { for: 0, max: 0 }
      if (max < 2) return
      const kept: Kept = { grant, risk, left: max - 1, until: now() + ttl }
      await store.put(keyOf(call, entry, rule), JSON.stringify(kept), ttl)
    },
  }
}

/** Records of earlier versions do not say their risk: it was that of the tool. */
function isWorse(risk: Risk, kept: Kept): boolean {
  return kept.risk !== undefined && riskRanks[risk] > riskRanks[kept.risk]
}

/** For one session of a caller, where there are sessions. A grant that took fewer people, or others, is none of it. */
function keyOf({ principal, client }: Call, { upstream, name }: Descriptor, rule: Rule): string {
  const { isOutOfBand, needed, approvers } = rule
  const people = isOutOfBand ? [needed, approvers] : []
  const of = canonical([principal.id, client.session ?? '', upstream, name, ...people])
  return `approval:kept:${hash('sha256', of)}`
}

function parse(text: string): Kept | undefined {
  const value: unknown = JSON.parse(text)
  // Written above.
  return isObject(value) ? (value as unknown as Kept) : undefined
}
