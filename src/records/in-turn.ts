/** Runs functions one after the other. */

const tails = new WeakMap<object, Promise<unknown>>()

/** Runs a function once those before it with the same owner have ended. */
export function inTurn<Value>(owner: object, run: () => Promise<Value>): Promise<Value> {
  const before = tails.get(owner) ?? Promise.resolve()
  const done = before.then(run)
  tails.set(
    owner,
    done.catch(() => undefined),
  )
  return done
}
