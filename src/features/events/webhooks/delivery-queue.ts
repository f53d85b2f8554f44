/**
 * What a webhook worker needs of the records of subscriptions: the events that each one is owed.
 *
 * Delivery is at least once. Durable is which events are settled; it is written a little later, for many events at once.
 * The attempts that were made are known to the process alone that delivers the subscription. So a crash repeats what was
 * not written yet, under the same ids, and begins the attempts anew; it never loses an event.
 */
import type { FailureCategory } from './attempts.ts'
import type { Receiver } from './verification.ts'

/** An event that is owed to a subscription, and the state of its delivery. Times are in milliseconds since 1970. */
export interface Delivery {
  /** The id of the event, which is the same for all attempts; unique in its subscription. */
  readonly id: string
  /** The number of attempts. */
  readonly attempts: number
  /** When the first attempt began; absent before. */
  readonly firstAt?: number
  /** No attempt is made before. */
  readonly notBefore: number
}

/**
 * How a delivery ended. `refused` by the receiver for good, `abandoned` after too many attempts: it belongs to the dead
 * letters; `withheld`: the subscriber may not have it; `too_large` and `no_id`: it cannot be sent.
 */
export type Settlement =
  | { readonly kind: 'delivered'; readonly at: number }
  | { readonly kind: 'refused' | 'abandoned'; readonly at: number; readonly failure: FailureCategory }
  | { readonly kind: 'withheld' | 'too_large' | 'no_id'; readonly at: number }

/** A message as it is sent. */
export interface OutgoingMessage {
  /** An event, or something about the subscription, such as a gap in it. */
  readonly kind: 'event' | 'control'
  readonly body: string
}

/** An attempt that failed, and when the next one is made. */
export interface FailedAttempt extends Delivery {
  readonly firstAt: number
  readonly failure: FailureCategory
}

/** The records of subscriptions, as a worker uses them. */
export interface DeliveryQueue {
  /** Where a subscription is delivered; undefined if it ended, is suspended, or belongs to another process. */
  receiver(subscription: string): Receiver | undefined
  /** The oldest deliveries that have not ended, oldest first. @throws if the store cannot be read */
  open(subscription: string, limit: number): Promise<readonly Delivery[]>
  /**
   * The message of a delivery, made for each attempt: rights, masking, and the cursor up to which everything was accepted
   * may have changed. `withheld` if the subscriber may not have it, `unknown` if that cannot be found out now.
   */
  message(subscription: string, delivery: Delivery): Promise<OutgoingMessage | 'withheld' | 'unknown'>
  /** Records a failed attempt, which is followed by another one. */
  retry(subscription: string, failed: FailedAttempt): void
  /** Ends a delivery. */
  settle(subscription: string, delivery: Delivery, settlement: Settlement): void
}
