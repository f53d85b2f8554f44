/**
 * The codes of gateways: people approve calls with them at the command line, and enter the pages. A gateway prints its code when it
 * starts, and the store has a hash of it. So whoever types it has seen what the gateway printed, which an agent with a terminal of
 * its own has not.
 */
import { scryptSync } from 'node:crypto'
import { type Timer, world } from '../core/world.ts'
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

/** The code of one gateway in one store: any gateway of the store may show the approval for which people type it. */
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

function keyOf(code: string): string {
  return `approval:code:${hashOf(code, 'approval code')}`
}

/** Codes are random, so one salt is enough; the cost of scrypt, about 10 ms, makes it impracticable to try all of them. */
function hashOf(code: string, salt: string): string {
  return scryptSync(plainCode(code), salt, 32, { N: 4096 }).toString('hex')
}

// A request for a page reaches any of the gateways that share a store, so each accepts the codes of all of them.

/** How long a code opens pages after its gateway renewed it last, and how often it does, in milliseconds. */
const PAGE_CODE_TTL_MS = 120_000
const PAGE_CODE_RENEWAL_MS = 30_000

/** The code with which people enter the pages of the gateways that share a store, as long as its gateway runs. */
export class PageCode {
  readonly #store: () => Store
  readonly #key: () => string
  #timer: Timer | undefined

  /** A reload can replace the store. */
  constructor(store: () => Store, code: string) {
    let key: string | undefined
    this.#store = store
    this.#key = () => (key ??= pageKeyOf(code))
  }

  /** Makes it known to the other gateways from now on, while `isUsed`; resolves when they know it. Never rejects. */
  async start(isUsed: () => boolean): Promise<void> {
    // A store that is away gets it with the next renewal.
    const renew = async (): Promise<void> => {
      if (isUsed())
        await this.#store()
          .put(this.#key(), '1', PAGE_CODE_TTL_MS)
          .catch(() => undefined)
    }
    this.#timer ??= world.setInterval(() => void renew(), PAGE_CODE_RENEWAL_MS).unref()
    await renew()
  }

  /** Never rejects. */
  async close(): Promise<void> {
    if (!this.#timer) return
    world.clearInterval(this.#timer)
    await this.#store()
      .delete(this.#key())
      .catch(() => false)
  }
}

/** Whether a text is the code of a gateway that runs and has this store. @throws SERVER_UNAVAILABLE */
export async function isPageCode(store: Store, typed: string): Promise<boolean> {
  return (await store.get(pageKeyOf(typed))) !== undefined
}

function pageKeyOf(code: string): string {
  return `page-code:${hashOf(code, 'page code')}`
}
