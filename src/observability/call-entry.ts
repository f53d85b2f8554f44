/** The entry of a call in the log of calls. */
import type { Call, Outcome, Target } from '../core/call.ts'
import { clientName } from '../core/text/words.ts'
import { world } from '../core/world.ts'
import { type CallEnd, type LoggedCall, type Trail } from '../core/logged-call.ts'
import { asObject } from '../core/json/json.ts'
import { shortened } from '../core/text/escape.ts'
import { excerpt } from '../core/text/redact.ts'
import { ERROR_KEY } from '../protocol/meta-keys.ts'
import { type Ending, displayName, isRefusal } from './ending.ts'

/** The maximum lengths of a name, and of a reason, in characters. */
const MAX_NAME_LENGTH = 512
const MAX_REASON_LENGTH = 500
/** How long what features noted may be, in characters of JSON. */
const MAX_FACTS_LENGTH = 4000

/** A call that ended, and what is known of its way. */
export interface EndedCall {
  readonly call: Call
  readonly target: Target
  readonly ending: Ending
  readonly trail: Trail
  /** Absent if it failed. */
  readonly outcome?: Outcome | undefined
}

/** The entry of a call; `facts` are the fields of its log line that features added, if any. */
export function callEntry(
  { call, target, ending, trail, outcome }: EndedCall,
  facts: LoggedCall['facts'],
): LoggedCall {
  const { requestId, principal, client, method, params, meta } = call
  const { code, ms } = ending
  const reason = ending.reason ?? refusalOf(ending, outcome)
  const name = displayName(method, target.name ?? call.target.name)
  return {
    at: world.now(),
    ms,
    end: endOf(ending),
    id: requestId,
    who: principal.id,
    client: clientName(client),
    server: target.upstream ?? call.target.upstream,
    method,
    name: name === undefined ? undefined : shortened(name, MAX_NAME_LENGTH),
    op: trail.tool?.classification.op,
    code,
    reason: reason === undefined ? undefined : shortened(reason, MAX_REASON_LENGTH),
    in: Buffer.byteLength(params.text),
    out: outcome?.kind === 'result' ? Buffer.byteLength(outcome.result.text) : undefined,
    layer: trail.hasReachedServer || ending.outcome === 'ok' ? undefined : trail.layer,
    spans: trail.spans.length > 0 ? trail.spans : undefined,
    action: trail.action,
    trace: typeof meta.traceparent === 'string' ? meta.traceparent.slice(3, 35) : undefined,
    facts: facts && keptFacts(facts),
  }
}

/** What a caller is told about a refusal: words of the gateway, unlike those of a failure, which may be of the server. */
function refusalOf({ code }: Ending, outcome: Outcome | undefined): string | undefined {
  if (!isRefusal(code) || outcome?.kind !== 'result') return undefined
  const { message } = asObject(outcome.result.meta(ERROR_KEY))
  return typeof message === 'string' ? excerpt(message, MAX_REASON_LENGTH) : undefined
}

function endOf({ outcome, code }: Ending): CallEnd {
  if (outcome === 'ok' || outcome === 'task' || outcome === 'dry_run') return outcome
  if (outcome === 'ask' || code === 'CONFIRMATION_REQUIRED') return 'asked'
  return isRefusal(code) ? 'denied' : 'failed'
}

function keptFacts(facts: NonNullable<LoggedCall['facts']>): LoggedCall['facts'] {
  const { length } = JSON.stringify(facts)
  if (length <= '{}'.length) return undefined
  return length <= MAX_FACTS_LENGTH ? facts : { omitted: true }
}
