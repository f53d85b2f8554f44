/**
 * Grants that hold for several calls of a tool, in the store.
 *
 * A grant holds for one session of a caller (the caller, where there are no sessions), for one tool, and for calls
 * that can do no more harm than the one it was given for. It never takes fewer people than the rule asks for now.
 */
import { hash } from 'node:crypto'
import { type Descriptor, type Risk, riskRanks } from '../../core/descriptor.ts'
import type { Call } from '../../core/call.ts'
import { canonical, isObject } from '../../core/json/json.ts'
import { casUpdate, type CasUpdate } from '../../records/cas-update.ts'
import type { Store } from '../../store/store.ts'
import type { Grant } from './grant.ts'
import type { Rule } from './rules.ts'
import type { ConfirmationRequest } from './request.ts'

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
