/**
 * Keeps the sources of events open while clients want them. A source closes some time after it was wanted last. What
 * lasts, such as a stream or a subscription, wants it by a timer, so that it stays open also if nothing happens, its
 * client does not read, and nobody sends a request.
 */
import { world } from '../../core/world.ts'
import type { Principal } from '../../core/principal.ts'
import type { EventRequest, Parts } from './requests.ts'

/** How often what lasts keeps its sources open, in milliseconds. They stay open for minutes. */
export const KEEP_INTERVAL_MS = 60_000

/**
 * Has requested events kept, and their sources open, for a while.
 * @throws QUOTA_EXHAUSTED, SERVER_UNAVAILABLE, and the error with which a server refuses to send them
 */
export async function keepOpen(
  requests: readonly Pick<EventRequest, 'type' | 'arguments'>[],
  principal: Principal,
  { events }: Pick<Parts, 'events'>,
): Promise<void> {
  const upstreams = new Set(requests.map(({ type }) => type.upstream))
  await Promise.all([...upstreams].map((upstream) => events(upstream).want()))
  await Promise.all(requests.map(async ({ type, arguments: wanted }) => type.keep?.(wanted, principal)))
}

/** Calls `keep` now and then, but not while an earlier call goes on, until the signal is aborted. It must not reject. */
export function repeatedly(keep: () => Promise<void>, intervalMs: number, signal: AbortSignal): void {
  if (signal.aborted) return
  let isRunning = false
  const run = async (): Promise<void> => {
    if (isRunning) return
    isRunning = true
    await keep()
    isRunning = false
  }
  const timer = world.setInterval(() => void run(), intervalMs).unref()
  signal.addEventListener('abort', () => world.clearInterval(timer), { once: true })
}
