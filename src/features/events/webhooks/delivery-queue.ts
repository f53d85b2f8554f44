/**
 * What a webhook worker needs of the records of subscriptions: the events that each one is owed, durably. Every change is
 * durable before it resolves. Several processes may deliver from the same records: an update that loses against another
 * one is not made, so only one process makes an attempt.
 */
import type { FailureCategory } from './attempts.ts'
import type { Receiver } from './verification.ts'

/** An event that is owed to a subscription, and the state of its delivery. Times are in milliseconds since 1970. */
export interface Delivery {
  /** The id of the event, which is the same for all attempts; unique in its subscription. */
  readonly id: string
  /** The number of attempts that were begun. */
  readonly attempts: number
  /** When the first attempt began; absent before. */
  readonly firstAt?: number
  /** No attempt is made before. During an attempt this is when another process may take the delivery over. */
  readonly notBefore: number
  /** Why the last attempt failed. */
  readonly failure?: FailureCategory
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

/** The records of subscriptions, as a worker uses them. */
export interface DeliveryQueue {
  /** The subscriptions with deliveries that have not ended. */
  subscriptions(): Promise<readonly string[]>
  /** Where a subscription is delivered; undefined if it ended or is suspended. */
  receiver(subscription: string): Promise<Receiver | undefined>
  /** The oldest deliveries that have not ended, oldest first. */
  open(subscription: string, limit: number): Promise<readonly Delivery[]>
  /** Replaces a delivery; resolves with whether it was still the same. */
  update(subscription: string, before: Delivery, after: Delivery): Promise<boolean>
  /**
   * The message of a delivery, made for each attempt: rights, masking, and the cursor up to which everything was accepted
   * may have changed. Undefined if the subscriber may not have it.
   */
  message(subscription: string, delivery: Delivery): Promise<OutgoingMessage | undefined>
  /** Ends a delivery. */
  settle(subscription: string, delivery: Delivery, settlement: Settlement): Promise<void>
}
