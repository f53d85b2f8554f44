/** Runs functions one after the other. */
import { partOf } from '../durable/process-scope.ts'

/** The last function of an owner, which the next one waits for. */
class Turns {
  last: Promise<unknown> = Promise.resolve()
}

/** Runs a function once those before it with the same owner have ended. */
export function inTurn<Value>(owner: object, run: () => Promise<Value>): Promise<Value> {
  const turns = partOf(owner, Turns)
  const done = turns.last.then(run)
  turns.last = done.catch(() => undefined)
  return done
}
