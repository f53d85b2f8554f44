import { setTimeout as pause } from 'node:timers/promises'

/** Waits until a condition holds; gives what it found. A condition that throws does not hold. */
export async function until<Found>(
  condition: () => Found | Promise<Found>,
  what: string,
  timeoutMs = 10_000,
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
