import { onTestFinished } from 'vitest'

/** The same thing, closed when the test is over; what was opened last is closed first. */
export function closedAtEnd<Closable extends { close(): Promise<unknown> }>(given: Closable): Closable {
  onTestFinished(async () => {
    await given.close()
  })
  return given
}
