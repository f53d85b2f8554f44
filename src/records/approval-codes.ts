/**
 * The codes with which people approve calls at the command line. A gateway prints its code when it starts, and the store has a hash
 * of it. So whoever types it has seen what the gateway printed, which an agent with a terminal of its own has not.
 */
import { scryptSync } from 'node:crypto'
import { world } from '../core/world.ts'
import type { Store } from '../store/store.ts'

/** How long a code is known after an approval was requested, in milliseconds: longer than one can be decided. */
const RETENTION_MS = 7 * 86_400_000
/** How often that is put off, in milliseconds. */
const EXTENSION_INTERVAL_MS = 3_600_000

/** Where people use it, as answers to calls say: models read them, so they name neither the command nor the code. */
export const AT_TERMINAL =
  'in a terminal, with the command and the code that the gateway printed when it started'

/** A code, without what people add or leave out when they type it. */
export function plainCode(typed: string): string {
  return typed.toUpperCase().replaceAll(/[^0-9A-Z]/g, '')
}

/** The code of one gateway in one store. */
export class ApprovalCode {
  readonly #store: Store
  readonly #code: string
  #keptAt = Number.NEGATIVE_INFINITY

  constructor(store: Store, code: string) {
    this.#store = store
    this.#code = code
  }

  /** Makes the code known to commands, from now on. Never rejects: without the store there is no approval either. */
  async keep(): Promise<void> {
    const now = world.monotonic()
    if (now - this.#keptAt < EXTENSION_INTERVAL_MS) return
    this.#keptAt = now
    try {
      await this.#store.put(keyOf(this.#code), '1', RETENTION_MS)
    } catch {
      this.#keptAt = Number.NEGATIVE_INFINITY
    }
  }
}

/** Whether a text is the code of a gateway that has this store. */
export async function isApprovalCode(store: Store, typed: string): Promise<boolean> {
  return (await store.get(keyOf(typed))) !== undefined
}

/** Codes are random, so one salt is enough; the cost of scrypt, about 10 ms, makes it impracticable to try all of them. */
function keyOf(code: string): string {
  return `approval:code:${scryptSync(plainCode(code), 'approval code', 32, { N: 4096 }).toString('hex')}`
}
