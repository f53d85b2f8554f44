import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** How long after the start the process tidies up, in milliseconds. */
const DELAY = 500

/**
 * Gives back, once, what starting took: the parser, the schemas and the file it read are a fifth of the memory, and
 * V8 lets go of them only when something else needs room.
 */
export function settleMemory(): void {
  setTimeout(() => {
    setFlagsFromString('--expose-gc')
    // The last resort also gives free pages back to the system.
    runInNewContext("gc({ type: 'major', flavor: 'last-resort' })")
    setFlagsFromString('--no-expose-gc')
  }, DELAY).unref()
}
