/**
 * Keeps large results: references take the place of their large parts. After the server has answered nothing fails, so a
 * result that cannot be kept is passed on.
 */
import type { Call, Middleware } from '../../core/call.ts'
import { asGatewayError } from '../../core/error.ts'
import { isLongerThan } from '../../core/json/shorten.ts'
import type { Payload } from '../../core/payload.ts'
import { MAX_MESSAGE_BYTES } from '../../core/spool.ts'
import { withoutFlag } from '../../protocol/meta-keys.ts'
import { References } from '../../records/references.ts'
import { StoreSpool } from '../../records/spool.ts'
import type { Feature, Services } from '../feature.ts'
import {
  AS_REFERENCE,
  keeper,
  type Keeping,
  limitsOf,
  MAX_PARTS,
  REFERENCE_ID,
  withFacts,
  withReason,
  withReferences,
} from './keep.ts'
import { mayRead } from './may-read.ts'
import { type ReferenceSettings, referencesSchema } from './settings.ts'
import { type Unspooled, wholeAgain, withoutSpooled } from './spooled.ts'
import { DataUrls } from './urls.ts'

/** How long a string of a result is that is kept while it arrives, in bytes. */
const SPOOLED_BYTES = 1024 * 1024

/** Keeps large results. */
export const largeResults: Feature<ReferenceSettings | false> = {
  ...referencesSchema,
  create: (settings, deps) => {
    const limits = limitsOf(settings())
    const keepingOf = keeper(settings, {
      references: new References(deps.store, limits),
      urls: new DataUrls(deps),
    })
    const { capacity = Number.POSITIVE_INFINITY } = deps.store.blobs
    const spool = StoreSpool.of(deps.store.blobs, {
      over: SPOOLED_BYTES,
      total: Math.min(limits.total, capacity),
      restored: MAX_MESSAGE_BYTES,
    })
    return {
      middleware: ({ method, upstream, isBuiltin }) => {
        if (method !== 'tools/call' || isBuiltin || upstream === undefined) return undefined
        const options = keepingOf(upstream)
        return options && keeping({ ...options, spool }, upstream, deps)
      },
    }
  },
}

function keeping(
  options: Keeping & { readonly spool: StoreSpool },
  upstream: string,
  deps: Pick<Services, 'invoker' | 'servers' | 'log' | 'metrics'>,
): Middleware {
  const { references: kept, spool, over } = options
  return (next) => async (call) => {
    if (call.isPage || call.internal) return next(call.spool ? { ...call, spool: undefined } : call)
    const isRequested = call.meta[AS_REFERENCE] === true
    const id = call.meta[REFERENCE_ID]
    if (typeof id === 'string') await kept.mustBeFree(call.principal, id)
    const outcome = await next({ ...withoutFlag(withoutFlag(call, AS_REFERENCE), REFERENCE_ID), spool })
    if (outcome.kind !== 'result') return outcome
    const { text } = outcome.result
    const isSpooled = spool.isIn(text)
    if (!isSpooled && !isRequested && !isLongerThan(text, over)) return outcome
    if (!(await mayRead({ server: upstream, id: '' }, call, deps)))
      return isSpooled ? { ...outcome, result: await wholeAgain(outcome.result, spool) } : outcome
    const chosen = typeof id === 'string' ? { ...options, id } : options
    const parts = await keepParts(outcome.result, call, { ...chosen, isRequested, isSpooled })
    if (parts.kept.length > 0) deps.metrics.referenced('kept', parts.kept.length)
    const result = withFacts(parts, call)
    if (!parts.problem) return { kind: 'result', result }
    const tool = { upstream, name: call.target.name }
    return { kind: 'result', result: withReason(result, parts.problem, tool, deps) }
  }
}

interface KeepingOne extends Keeping {
  readonly spool: StoreSpool
  readonly id?: string
  readonly isRequested: boolean
  readonly isSpooled: boolean
}

/** Keeps what arrived before the result, then other large parts of it. Never throws for want of room. */
async function keepParts(given: Payload, call: Call, options: KeepingOne): Promise<Unspooled> {
  const first: Unspooled = options.isSpooled
    ? await withoutSpooled(given, call, options)
    : { result: given, kept: [] }
  const { result, kept, problem } = first
  const isRequested = options.isRequested && kept.length === 0
  const isDone = !isRequested && !isLongerThan(result.text, options.over)
  if (problem || isDone || result.member('isError') === true) return first
  try {
    const id = kept.length === 0 ? options.id : undefined
    const most = MAX_PARTS - kept.length
    const rest = await withReferences(result, call, { ...options, id, isRequested, most })
    return { result: rest.result, kept: [...kept, ...rest.kept] }
  } catch (error) {
    return { ...first, problem: asGatewayError(error) }
  }
}
