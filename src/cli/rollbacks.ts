/** Hands rollbacks to a running gateway, or builds one for the purpose, and waits for their end. */
import { setTimeout as pause } from 'node:timers/promises'
import { environment } from '../config/secrets.ts'
import type { Log } from '../core/log.ts'
import { isObject } from '../core/json/json.ts'
import { featureSettings, type Settings } from '../core/settings.ts'
import { Gateway } from '../gateway/gateway.ts'
import type { Audit } from '../gateway/offline.ts'
import { isOver, type Transaction, Transactions } from '../records/transactions.ts'
import type { Store } from '../store/store.ts'

interface Options {
  /** The whole configuration, with what servers need; read once it is needed. @throws ConfigError */
  whole(): Settings
  readonly repository: Transactions
  readonly log: Log
  /** Where the calls are recorded that this process makes itself. */
  readonly audit?: Audit | undefined
}

/** How long what is over can be asked about where no gateway has transactions, in milliseconds. */
const RETENTION = 86_400_000

/** The transactions in a store, as the gateways of a configuration keep them. */
export function transactionsIn(store: Store, settings: Settings): Transactions {
  const own = featureSettings(settings, FEATURE)
  const retention = isObject(own) ? own.retention : undefined
  return new Transactions(store, typeof retention === 'number' ? retention : RETENTION)
}

/** Sees to it that there is a gateway that rolls back. @throws Error */
export function mustRollBack({ features }: Settings): void {
  if (features[FEATURE] === undefined)
    throw new Error(`features.${FEATURE} is off, so no gateway undoes anything: switch it on`)
}

const FEATURE = 'transactions'

/** How long running gateways have to take up what is left to them, at most; they look every two seconds. */
const TAKEOVER_TIMEOUT_MS = 5000
/** How long rolling back may take in all, and how often it is looked how far it is, in milliseconds. */
const ROLLBACK_TIMEOUT_MS = 600_000
const POLL_INTERVAL_MS = 100

/**
 * Has transactions rolled back as far as they can be, one after the other: each of `begins` leaves one to be rolled
 * back, and tells where it is kept. A gateway that runs does it, for it may have servers that only it can reach; where
 * none does, this process does it itself.
 */
export async function finishRollbacks(
  begins: readonly (() => Promise<string>)[],
  options: Options,
): Promise<readonly Transaction[]> {
  const { log, audit } = options
  const until = performance.now() + ROLLBACK_TIMEOUT_MS
  const found: Transaction[] = []
  let own: Gateway | undefined
  const help = async (): Promise<void> => {
    if (own) return
    own = new Gateway(options.whole(), { variables: environment(), log, ...(audit && { audit }) })
    await own.start()
  }
  try {
    for (const begin of begins) {
      const transaction = await finished(await begin(), { ...options, until, help })
      if (transaction) found.push(transaction)
      if (performance.now() > until) break
    }
    return found
  } finally {
    await own?.close()
  }
}

/** A transaction once it is rolled back, or as it is when it takes too long. */
async function finished(
  key: string,
  { repository, until, help }: Options & { readonly until: number; help(): Promise<void> },
): Promise<Transaction | undefined> {
  const began = performance.now()
  for (;;) {
    const found = await repository.find(key)
    const now = performance.now()
    if (!found || isOver(found) || now > until) return found
    // Whoever took it up may be gone: an own gateway finds out.
    if (now - began > (found.runner === undefined ? TAKEOVER_TIMEOUT_MS : 3 * TAKEOVER_TIMEOUT_MS))
      await help()
    await pause(POLL_INTERVAL_MS)
  }
}
