/**
 * The secrets of one subscription. After a change both sign for a while: a receiver may learn of the change before or
 * after the gateway does, and never sees a message that it cannot verify.
 */
import type { Secret } from '../../../core/text/secret.ts'

/** How long the earlier secret signs beside the current one, in milliseconds. */
const OVERLAP_MS = 15 * 60_000

/** The current secret, and the one before. */
export interface SubscriptionSecrets {
  readonly current: Secret
  /** It signs until `until`, in milliseconds since 1970. */
  readonly earlier?: { readonly secret: Secret; readonly until: number }
}

/** The secrets after a subscription was made again with this secret; the same ones if it is not another. */
export function replaceSecret(held: SubscriptionSecrets, secret: Secret, now: number): SubscriptionSecrets {
  if (held.current.digest === secret.digest) return held
  return { current: secret, earlier: { secret: held.current, until: now + OVERLAP_MS } }
}

/** The secrets that sign a message now, the current one first. */
export function secretsAt({ current, earlier }: SubscriptionSecrets, now: number): readonly Secret[] {
  return earlier && now < earlier.until ? [current, earlier.secret] : [current]
}
