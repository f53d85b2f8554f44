/**
 * What happens to a fleet while it works. Two lanes of faults run beside each other: one strikes gateways, the other one their
 * store and the way to it, so that each fault of one lane meets those of the other. Calls and faults keep pace, so that a run has
 * the same calls and faults on every machine.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { ChaosField, LosableStore } from './chaos-field.ts'
import type { MortalGateway } from './crash-field.ts'
import type { NetworkPlace } from './network.ts'
import type { Seeded } from '../simulate/random.ts'
import { isSoak } from './soak.ts'

const memberFaults = ['killed', 'stopped', 'added', 'left', 'restarted'] as const
const storeFaults = ['store is killed', 'store hangs', 'cut off'] as const

type MemberFault = (typeof memberFaults)[number]
type StoreFault = (typeof storeFaults)[number]

/** The length of a pause between two faults, and of a stop or a cut, which outlasts every lease, in milliseconds. */
const BETWEEN_MS = [100, 1500] as const
const STOPPED_MS = isSoak ? ([10_500, 15_000] as const) : ([10_500, 11_500] as const)

/** Faults that are about to happen, in the order of a seed. */
export interface FaultPlan {
  readonly member: readonly MemberFault[]
  readonly store: readonly StoreFault[]
}

/** Each fault so many times. */
export function planFaults(random: Seeded, rounds: number, mayCut: boolean): FaultPlan {
  const store = storeFaults.filter((fault) => mayCut || fault !== 'cut off')
  const lane = <Fault>(faults: readonly Fault[]): readonly Fault[] =>
    Array.from({ length: rounds }, () => shuffled(faults, random)).flat()
  return { member: lane(memberFaults), store: lane(store) }
}

/** How many calls of each kind there are. */
export type CallCounts = Readonly<
  Record<'keyed' | 'operations' | 'steps' | 'publications' | 'sessions', number>
>

type CallKind = keyof CallCounts

/** How often it is looked whether something may begin, in milliseconds. */
const LOOK_MS = 50

/** Lets each fault meet its share of the calls: it begins once those of the faults before it have begun. */
export class Pace {
  readonly #calls: CallCounts
  readonly #begun = new Map<CallKind, number>()
  /** How many faults of each lane have begun, and how many there are. */
  readonly #lanes: Readonly<Record<keyof FaultPlan, { begun: number; readonly all: number }>>
  #isEnded = false

  constructor(calls: CallCounts, { member, store }: FaultPlan) {
    this.#calls = calls
    this.#lanes = { member: { begun: 0, all: member.length }, store: { begun: 0, all: store.length } }
  }

  /** Waits until another call of a kind may begin, which may be several in one; false if all of them have begun. */
  async call(kind: CallKind, count = 1): Promise<boolean> {
    for (;;) {
      const begun = this.#begun.get(kind) ?? 0
      if (this.#isEnded || begun >= this.#calls[kind]) return false
      const share = Math.min(...Object.values(this.#lanes).map((lane) => lane.begun / lane.all))
      if (begun < share * this.#calls[kind]) {
        this.#begun.set(kind, begun + count)
        return true
      }
      await pause(LOOK_MS)
    }
  }

  /** Waits until the next fault of a lane may begin. */
  async fault(lane: keyof FaultPlan): Promise<void> {
    const { begun, all } = this.#lanes[lane]
    const isBehind = ([kind, calls]: [string, number]): boolean =>
      (this.#begun.get(kind as CallKind) ?? 0) < (begun / all) * calls
    while (!this.#isEnded && Object.entries(this.#calls).some(isBehind)) await pause(LOOK_MS)
    this.#lanes[lane].begun++
  }

  /** No more calls begin. */
  end(): void {
    this.#isEnded = true
  }
}

interface Struck {
  readonly pace: Pace
  readonly field: ChaosField
  readonly store: LosableStore
  readonly place?: NetworkPlace | undefined
}

/** Faults as they happen. */
export class Chaos {
  /** What happened, and when. */
  readonly history: string[] = []
  readonly counts = new Map<string, number>()
  readonly #struck: Struck
  readonly #began = performance.now()

  constructor(struck: Struck) {
    this.#struck = struck
  }

  /** Has all of a plan happen. Resolves once everything is as it was; @throws if a gateway does not end, or start, as it should */
  async run({ member, store }: FaultPlan, random: Seeded): Promise<void> {
    await Promise.all([
      this.#lane('member', member, random, (fault) => this.#strikeMember(fault, random)),
      this.#lane('store', store, random, (fault) => this.#strikeStore(fault, random)),
    ])
  }

  async #lane<Fault extends string>(
    lane: keyof FaultPlan,
    faults: readonly Fault[],
    random: Seeded,
    strike: (fault: Fault) => Promise<string>,
  ): Promise<void> {
    for (const fault of faults) {
      await this.#struck.pace.fault(lane)
      await pause(between(random, BETWEEN_MS))
      const from = this.#now()
      const what = await strike(fault)
      this.history.push(`${from} to ${this.#now()} ms: ${what}`)
      this.counts.set(fault, (this.counts.get(fault) ?? 0) + 1)
    }
  }

  async #strikeMember(fault: MemberFault, random: Seeded): Promise<string> {
    const { field } = this.#struck
    if (fault === 'added') {
      await field.add()
      return 'a gateway was added'
    }
    if (fault === 'left') {
      await field.leave()
      return 'the gateway that was added last left'
    }
    const index = random.below(field.members.length)
    await strikeOne(field.members[index], fault, random)
    return `gateway ${index} was ${fault}`
  }

  async #strikeStore(fault: StoreFault, random: Seeded): Promise<string> {
    const { store, place } = this.#struck
    if (fault === 'cut off') {
      place?.cut()
      await pause(between(random, STOPPED_MS)).finally(() => place?.mend())
      return 'gateway 2 was cut off from the store'
    }
    await store.lose(fault === 'store hangs' ? 'hangs' : 'is killed', random)
    return `the ${fault}`
  }

  #now(): number {
    return Math.round(performance.now() - this.#began)
  }
}

async function strikeOne(
  gateway: MortalGateway | undefined,
  fault: Exclude<MemberFault, 'added' | 'left'>,
  random: Seeded,
): Promise<void> {
  if (fault === 'stopped') {
    gateway?.freeze()
    await pause(between(random, STOPPED_MS)).finally(() => gateway?.thaw())
    return
  }
  await (fault === 'killed' ? gateway?.kill() : gateway?.stop())
  await pause(random.below(1500))
  await gateway?.start()
}

function between(random: Seeded, [least, most]: readonly [number, number]): number {
  return least + random.below(most - least)
}

function shuffled<Item>(items: readonly Item[], random: Seeded): readonly Item[] {
  return items
    .map((item) => ({ item, at: random.next() }))
    .toSorted((one, other) => one.at - other.at)
    .map(({ item }) => item)
}
