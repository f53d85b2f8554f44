import { setTimeout as pause } from 'node:timers/promises'
import { environment } from '../config/secrets.ts'
import type { Log } from '../core/log.ts'
import type { Settings } from '../core/settings.ts'
import { createGateway, type Gateway } from '../gateway.ts'
import { isOver, type Transaction, type Transactions } from '../records/transactions.ts'

interface Options {
  readonly settings: Settings
  readonly book: Transactions
  readonly log: Log
  /** How long running gateways have to take one up, in milliseconds. */
  readonly patience?: number
}

/** How long running gateways have to take up what is left to them, at most; they look every two seconds. */
const PATIENCE = 5000
/** How long rolling back may take in all, and how often it is looked how far it is, in milliseconds. */
const LONGEST = 600_000
const LOOK = 100

/**
 * Waits until transactions that are to be rolled back are, as far as they can be. A gateway that runs does it, for
 * it may have servers nobody else can reach; where none does, this process does it itself.
 */
export async function finishRollbacks(
  keys: readonly string[],
  options: Options,
): Promise<readonly Transaction[]> {
  const { book, settings, log, patience = PATIENCE } = options
  const began = performance.now()
  let own: Gateway | undefined
  try {
    for (;;) {
      const found = await Promise.all(keys.map((key) => book.find(key)))
      const known = found.filter((each) => each !== undefined)
      const left = known.filter((each) => !isOver(each))
      const waited = performance.now() - began
      if (left.length === 0 || waited > LONGEST) return known
      const isFree = left.some(({ runner }) => runner === undefined)
      // Whoever took it up may be gone: an own gateway finds out.
      if (!own && (isFree ? waited > patience : waited > 3 * patience)) {
        own = createGateway(settings, { variables: environment(), log })
        await own.warm()
      }
      await pause(LOOK)
    }
  } finally {
    await own?.close()
  }
}
