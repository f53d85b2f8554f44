/** Values that single parts of the gateway give a call on its way: each has a slot, declared beside its owner. */

/** The values that a call has, the latest first. Immutable, and short: to add one copies nothing. */
export interface Slots {
  readonly slot: Slot<unknown>
  readonly value: unknown
  readonly next: Slots | undefined
}

interface WithSlots {
  readonly slots?: Slots | undefined
}

/** A kind of value that a call can have. */
export class Slot<Value> {
  /** For people who look at a call. */
  readonly name: string

  constructor(name: string) {
    this.name = name
  }

  /** The value of a call; undefined if it has none. */
  of({ slots }: WithSlots): Value | undefined {
    for (let at = slots; at; at = at.next) if (at.slot === this) return at.value as Value
    return undefined
  }

  /** A copy of a call with a value, or without one. */
  set<Held extends WithSlots>(call: Held, value: Value | undefined): Held {
    return { ...call, slots: this.put(value, call.slots) }
  }

  /** Slots with a value, for a call that is copied anyway. */
  put(value: Value | undefined, slots?: Slots): Slots {
    return { slot: this, value, next: slots }
  }
}
