/** Clients of every kind that work with a fleet whatever happens to it, and what their calls came to. */
import { setTimeout as pause } from 'node:timers/promises'
import type { ChaosField } from './chaos-field.ts'
import type { CallCounts, Pace } from './chaos-plan.ts'
import { until } from './condition.ts'
import { type Addresses, type Ending, untilAnswered } from './crash-run.ts'
import {
  type EventAddress,
  pollEvents,
  publish,
  type Published,
  streamEvents,
  type Subscriber,
} from './event-client.ts'
import { FleetSession } from './fleet-session.ts'
import type { KeyedCall } from './keyed-client.ts'
import { type HistoryEvent, type OperationEnding, runOperation } from './operation-client.ts'
import { fleetKinds, planOperations } from './operation-verdict.ts'
import { runSaga, type SagaEnding } from './saga-client.ts'
import { planEffectSagas } from './saga-plan.ts'
import { within } from '../../src/core/time/waiting.ts'
import { type Seeded, seeded } from '../simulate/random.ts'
import type { Json } from './server/json.ts'
import { isSoak } from './soak.ts'

/** How many clients of each kind there are: many, as each of them waits for a gateway that is stopped as long as that is. */
const CLIENTS = { keyed: 12, operations: 20, sagas: 6, publishers: 4, sessions: 6 } as const
/** How long a client rests at most after a call, so that calls are made all the time, in milliseconds. */
const MAX_REST_MS = 1500
/** How long a client may get no outcome at all, in milliseconds: on a busy machine much is away for long. */
export const ENDING_MS = 120_000
/** How many operations and transactions are planned at a time. */
const BATCH = 52
const tools = ['add_effect', 'add_blind_effect'] as const
/** The event of what publishers call, and which of them a subscription requests. */
const published = 'add_blind_effect.succeeded'
export const eventFilters: readonly (readonly [arguments: Json, isRequested: (key: string) => boolean])[] = [
  [{}, () => true],
  [{ key: '0 *' }, (key) => key.startsWith('0 ')],
]

/** The clients of one run. */
export class ChaosWork {
  readonly keyed: Ending[] = []
  readonly operations: OperationEnding[] = []
  readonly sagas: SagaEnding[] = []
  readonly sessions: readonly FleetSession[]
  readonly history: HistoryEvent[] = []
  published: readonly Published[] = []
  subscribers: readonly Subscriber[] = []
  readonly #field: ChaosField
  readonly #seed: number
  #publications = 0

  constructor(field: ChaosField, seed: number) {
    this.#field = field
    this.#seed = seed
    this.sessions = Array.from({ length: CLIENTS.sessions }, (_none, index) => {
      return new FleetSession(`${field.origin}/mcp`, `session-${index}`, seeded(seed + index))
    })
  }

  /** How many calls were made so far, by kind. */
  get counts(): CallCounts {
    return {
      keyed: this.keyed.length,
      operations: this.operations.length,
      steps: this.sagas.reduce((sum, { asked }) => sum + asked, 0),
      publications: this.#publications,
      sessions: this.sessions.reduce((sum, { calls }) => sum + calls.length, 0),
    }
  }

  /** Begins the sessions and subscriptions. */
  async begin(): Promise<void> {
    await Promise.all(this.sessions.map((each) => each.begin()))
    const filters = eventFilters.map(([given]) => ({ name: published, arguments: given }))
    const address = this.#events
    const readers = filters.flatMap((filter) => [
      pollEvents(address, filter, 300),
      streamEvents(address, filter),
    ])
    // What the owner of webhooks had is taken over after half a minute, for which the ordinary run does not wait.
    const hooked = isSoak ? filters : []
    const hooks = await Promise.all(
      hooked.map((filter) => this.#field.receivers.subscribe({ address, filter })),
    )
    this.subscribers = [...readers, ...hooks]
    const ready = Promise.all(this.subscribers.map((each) => each.ready))
    if (await within(ready, ENDING_MS, undefined)) return
    const faults = this.subscribers.flatMap((each) => each.faults[0] ?? [])
    throw new Error(`subscriptions do not begin: ${faults.join(' ')}`)
  }

  /** Makes all calls, as the pace allows; every client ends what it has begun. */
  async run(pace: Pace): Promise<void> {
    const random = seeded(this.#seed + 4)
    const rest = (): Promise<void> => pause(random.next() * MAX_REST_MS)
    const begun: Begun = { pace, rest }
    const publishing = Promise.all(
      Array.from({ length: CLIENTS.publishers }, (_none, index) => this.#publish(index, begun)),
    )
    const work = [this.#keyedCalls, this.#manyOperations, this.#manySagas, this.#inSessions]
    await Promise.all(work.map((each) => each.call(this, begun)))
    this.published = await publishing
  }

  async close(): Promise<void> {
    for (const each of this.sessions) each.close()
    await Promise.all(this.subscribers.map((each) => each.close()))
  }

  /** The address of a server behind the balancer. */
  at(server: string): Addresses {
    return [{ url: `${this.#field.origin}/mcp${server === '' ? '' : `/${server}`}` }]
  }

  get #events(): EventAddress {
    return { urls: [`${this.#field.origin}/mcp/events`], token: this.#field.token }
  }

  async #keyedCalls({ pace, rest }: Begun): Promise<void> {
    const random = seeded(this.#seed + 1)
    let number = 0
    await inParallel(CLIENTS.keyed, async () => {
      while (await pace.call('keyed')) {
        const key = `keyed-${number++}`
        const call: KeyedCall = {
          tool: random.pick(tools),
          arguments: { key, value: `value of ${key}` },
          key,
        }
        this.keyed.push(await untilAnswered(call, this.at('quick'), own(random), ENDING_MS))
        await rest()
      }
    })
  }

  async #manyOperations({ pace, rest }: Begun): Promise<void> {
    const random = seeded(this.#seed + 2)
    const next = batches((batch) => planOperations(BATCH, `operation-${batch}`, random, fleetKinds))
    const clients = { gateways: this.at(''), history: this.history, listens: 0.4 }
    await inParallel(CLIENTS.operations, async () => {
      while (await pace.call('operations')) {
        this.operations.push(await runOperation(next(), clients, own(random)))
        await rest()
      }
    })
  }

  async #manySagas({ pace, rest }: Begun): Promise<void> {
    const random = seeded(this.#seed + 3)
    const next = batches((batch) => planEffectSagas(BATCH, `saga-${batch}`, 'add_effect', random))
    await inParallel(CLIENTS.sagas, async () => {
      for (let plan = next(); await pace.call('steps', plan.steps.length); plan = next()) {
        this.sagas.push(await runSaga(plan, this.at('quick'), own(random)))
        await rest()
      }
    })
  }

  /** Whoever gets no answer makes another call. */
  async #inSessions({ pace, rest }: Begun): Promise<void> {
    const work = this.sessions.map(async (each, index) => {
      while (await pace.call('sessions')) {
        await until(() => each.call(), `an answer in session ${index}`, ENDING_MS)
        await rest()
      }
    })
    await Promise.all(work)
  }

  #publish(publisher: number, { pace, rest }: Begun): Promise<Published> {
    let number = 0
    return publish(this.#events, 'add_blind_effect', async () => {
      await rest()
      if (!(await pace.call('publications'))) return undefined
      this.#publications++
      return { key: `${publisher} ${++number}`, value: 'x' }
    })
  }
}

/** When clients call. */
interface Begun {
  readonly pace: Pace
  rest(): Promise<void>
}

/** Chances of their own for one of several that run at once. */
function own(random: Seeded): Seeded {
  return seeded(random.below(2 ** 31))
}

/** Gives one of a batch after the other. */
function batches<Item>(make: (batch: number) => readonly Item[]): () => Item {
  let batch = 0
  let left: Item[] = []
  return () => {
    if (left.length === 0) left = [...make(batch++)]
    const next = left.shift()
    if (next === undefined) throw new TypeError('a batch is empty')
    return next
  }
}

async function inParallel(count: number, work: () => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: count }, work))
}
