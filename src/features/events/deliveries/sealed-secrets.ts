/** The secrets of subscriptions as they are stored: encrypted with the keys of the gateway, each for one subscription. */
import type { Seal, SealUse } from '../../../core/seal.ts'
import { Secret } from '../../../core/text/secret.ts'
import type { WebhookState } from '../../../records/event-subscriptions.ts'
import type { SubscriptionSecrets } from '../webhooks/secrets.ts'

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
