import { setTimeout as pause } from 'node:timers/promises'

/**
 * How long a test waits at most for anything that it expects, in milliseconds: a process that starts, a response, a line of
 * the log. A machine may be many times slower than the one that a test was written on, so no test has a limit of its own
 * that is shorter. It is less than the limit of a test, which would not say what was waited for.
 */
export const WAIT_TIMEOUT_MS = 50_000

/** Waits until a condition holds; gives what it found. A condition that throws does not hold. */
export async function until<Found>(
  condition: () => Found | Promise<Found>,
  what: string,
  timeoutMs = WAIT_TIMEOUT_MS,
): Promise<NonNullable<Exclude<Found, false>>> {
  const deadline = Date.now() + timeoutMs
  let failure: unknown
  for (;;) {
    try {
      const found = await condition()
      if (isFound(found)) return found
    } catch (error) {
      failure = error
    }
    if (Date.now() > deadline) throw new Error(`waited ${timeoutMs} ms for ${what}`, { cause: failure })
    await pause(15)
  }
}

function isFound<Found>(found: Found): found is NonNullable<Exclude<Found, false>> {
  return found !== undefined && found !== null && found !== false
}
