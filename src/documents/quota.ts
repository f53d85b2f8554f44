import type { RemainingQuota } from '../core/record.ts'

/** What is left, as documents and results tell it: how much, until when, and of what. */
export function quotaData({ remaining, resetsAt, of }: RemainingQuota): Readonly<Record<string, unknown>> {
  return { remaining, ...(resetsAt !== undefined && { resets_at: new Date(resetsAt).toISOString() }), of }
}
