/** A person who decides about calls of others, through the store, as the pages and the command line do. */
import { world } from '../../src/core/world.ts'
import { Approvals } from '../../src/records/approvals.ts'
import type { Store } from '../../src/store/store.ts'
import type { History } from './history.ts'
import type { Seeded } from './random.ts'
import type { Scheduler, SimulatedProcess } from './scheduler.ts'

interface Options {
  readonly process: SimulatedProcess
  readonly scheduler: Scheduler
  readonly random: Seeded
  readonly history: History
  readonly store: Store
}

/** How often the person looks, in milliseconds: at most. */
const LOOK_INTERVAL_MS = 2000

/** Has a person decide for as long as the simulation lasts. */
export function startApprover({ process, scheduler, random, history, store }: Options): void {
  const approvals = new Approvals(store, world.now)
  const decideAll = async (): Promise<void> => {
    for (const { id, arguments: args, message } of await approvals.pending()) {
      const verdict = random.chance(0.85) ? 'approved' : 'denied'
      // Before it is stored: a decision whose response is lost may count.
      history.add({ kind: 'approval', order: JSON.stringify(args['order']), verdict, question: message })
      await approvals.decide(id, { by: 'user:boss', via: 'sign_in', verdict }).catch(() => undefined)
    }
  }
  const look = (): void => {
    const again = (): void => void scheduler.after(process, LOOK_INTERVAL_MS * random.next(), 'look', look)
    decideAll().then(again, again)
  }
  scheduler.after(process, LOOK_INTERVAL_MS, 'look', look)
}
