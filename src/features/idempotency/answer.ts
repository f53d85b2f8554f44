import { GatewayError } from '../../core/error.ts'
import { isoTime } from '../../core/iso-time.ts'
import { isObject } from '../../core/json.ts'
import type { Payload } from '../../core/payload.ts'
import { IDEMPOTENCY_KEY, NS } from '../../wire/extensions.ts'

/** What is said of the key of a call in its answer. */
export interface About {
  /** Absent where the caller sent none. */
  readonly key?: string | undefined
  readonly wasReplay: boolean
  /** When the call first began, in milliseconds since 1970. */
  readonly startedAt: number
}

/** Where a result says that it was found out by a read of the gateway, and that it could not be remembered. */
export const VERIFIED = `${NS}/verified`
export const UNRECORDED = `${NS}/unrecorded`

const META_KEY = `${NS}/idempotency`

/** A result that says what is known of its key. */
export function annotateReplay(
  result: Payload,
  about: About,
  { compat }: { readonly compat: boolean },
): Payload {
  const said = fieldsOf(about)
  // Who sent no key is only told that nothing was done anew.
  if (about.key === undefined) return about.wasReplay ? result.withMeta({ [META_KEY]: said }) : result
  const whole = result.withMeta({ [META_KEY]: said, ...said })
  return compat ? whole.with({ idempotency: said }) : whole
}

/** A failure of the server that says what is known of the key of its call. */
export function annotateFailure(error: unknown, about: About): unknown {
  if (!(error instanceof GatewayError) || about.key === undefined) return error
  const said = fieldsOf(about)
  const { data, relayed } = error.extra
  if (!relayed) return error.with({ data: { ...data, ...said } })
  const sent = relayed.fields.data
  if (sent !== undefined && !isObject(sent)) return error
  return error.with({ data: { ...data, ...said }, relayed: relayed.with({ data: { ...sent, ...said } }) })
}

function fieldsOf({ key, wasReplay, startedAt }: About): Readonly<Record<string, unknown>> {
  return {
    ...(key !== undefined && { [IDEMPOTENCY_KEY]: key }),
    was_replay: wasReplay,
    original_timestamp: isoTime(startedAt),
  }
}
