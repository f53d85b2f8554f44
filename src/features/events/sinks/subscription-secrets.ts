/**
 * The secrets of one subscription, which sign its messages, and which are encrypted in the store. After a change both sign for a
 * while: a receiver may learn of the change before or after the gateway does, and never sees a message that it cannot verify.
 */
import type { Seal, SealUse } from '../../../core/seal.ts'
import { Secret } from '../../../core/text/secret.ts'
import type { WebhookState } from '../../../records/event-subscriptions.ts'

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

/** The secrets of a subscription as they are stored: encrypted with the keys of the gateway. */
type SealedSecrets = Pick<WebhookState, 'secret' | 'earlier'>

/** Encrypts the secrets of a subscription. */
export function sealSecrets(
  subscription: string,
  { current, earlier }: SubscriptionSecrets,
  seal: Seal,
): SealedSecrets {
  const sealed = (secret: Secret): string => seal.close(secret.reveal(), useOf(subscription), 0)
  return {
    secret: sealed(current),
    ...(earlier && { earlier: { secret: sealed(earlier.secret), until: earlier.until } }),
  }
}

/** Decrypts the secrets of a subscription; undefined if the key that encrypted them is not known, or not known yet. */
export function openSecrets(
  subscription: string,
  { secret, earlier }: SealedSecrets,
  seal: Seal,
): SubscriptionSecrets | undefined {
  const opened = (text: string): Secret | undefined => {
    const found = seal.open(text, useOf(subscription))
    return found.kind === 'valid' && typeof found.value === 'string' ? new Secret(found.value) : undefined
  }
  const current = opened(secret)
  const before = earlier && opened(earlier.secret)
  return current && { current, ...(earlier && before && { earlier: { ...earlier, secret: before } }) }
}

function useOf(subscription: string): SealUse {
  return { purpose: 'webhook-secret', binding: subscription }
}
