import { setTimeout as wait } from 'node:timers/promises'
import type { Call, InputRequest } from '../core/call.ts'
import type { UpstreamCall } from '../bridge/park.ts'
import { Registry } from '../core/registry.ts'
import { method } from '../wire/methods.ts'
import { ActiveCall } from './active.ts'
import { amongCalls, isOfClient } from './recipients.ts'

interface Found {
  readonly active: ActiveCall
  /** It may be another call of the same client that the server asks for, or none. */
  readonly isAmbiguous: boolean
}

/** How many questions may wait for a call to ask through, and how long, in milliseconds. */
const MAX_HELD = 10
const MAX_HOLD_MS = 60_000

/** Finds out for which call a server asks something. */
export class RequestCorrelator {
  readonly #calls = new Registry<number, ActiveCall>()
  readonly #held = new Set<() => void>()
  #isDoubtful = false
  /** The last id given to a call that is not sent yet: requests have others. */
  #expected = 0

  /** The server asks outside a call's own stream. */
  get isDoubtful(): boolean {
    return this.#isDoubtful
  }

  begin(id: number, active: ActiveCall): void {
    // The request before this one of the same call is over.
    this.#calls.delete(active.id)
    active.id = id
    this.#calls.set(id, active)
    if (this.#held.size > 0 && isAskable(active)) for (const go of this.#held) go()
  }

  /** A call that is not sent yet can be asked through. */
  expect(active: ActiveCall): void {
    this.begin(--this.#expected, active)
  }

  end({ id }: ActiveCall): void {
    this.#calls.delete(id)
  }

  /** The calls a message may be about: that of its stream, or those under way that are of one caller. */
  recipients(about: number | undefined): readonly UpstreamCall[] {
    if (about === undefined)
      return amongCalls(
        this.#calls
          .values()
          .map(({ working }) => working)
          .filter(isOfClient),
      ).to
    const found = this.#calls.get(about)
    return found ? [found.working] : []
  }

  /** Who may hear a log message of no known call: all while none is under way, else the caller or session all are of. */
  mayHear({ client, principal }: Call): boolean {
    return this.#calls.values().every(({ working: { call } }) => {
      const isSameCaller = !principal.isEverybody && call.principal.id === principal.id
      return isSameCaller || (client.session !== undefined && call.client.session === client.session)
    })
  }

  /** Whom to ask. Roots asked for before there is anybody are held until there is. */
  async find(
    question: InputRequest,
    about: number | undefined,
    listeners: readonly UpstreamCall[],
  ): Promise<Found | undefined> {
    const found = this.#find(question, about, listeners)
    if (found || question.method !== 'roots/list' || this.#calls.size > 0) return found
    await this.#hold()
    return this.#find(question, undefined, listeners)
  }

  #find(
    question: InputRequest,
    about: number | undefined,
    listeners: readonly UpstreamCall[],
  ): Found | undefined {
    const owner = about === undefined ? undefined : this.#calls.get(about)
    if (owner) return { active: owner, isAmbiguous: false }
    const calls = this.#calls.values().filter(isAskable)
    const working = calls.filter((each) => !each.isWaiting)
    // Roots are asked for at any time; anything else is for a call.
    if (working.length > (question.method === 'roots/list' ? 1 : 0)) this.#isDoubtful = true
    const candidates = [working, calls, listeners.map(quiet)].find((each) => each.length > 0) ?? []
    const last = candidates.at(-1)
    if (!last || !candidates.every((each) => isSameClient(each, last))) return undefined
    return { active: last, isAmbiguous: candidates.length > 1 || question.method === 'roots/list' }
  }

  async #hold(): Promise<void> {
    if (this.#held.size >= MAX_HELD) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#held.add(resolve)
    await Promise.race([promise, wait(MAX_HOLD_MS, undefined, { ref: false })])
    this.#held.delete(resolve)
  }
}

function isAskable({ working }: ActiveCall): boolean {
  return method(working.call.method).asks === true
}

/** A listener as something to ask through; it holds no turn. */
function quiet(working: UpstreamCall): ActiveCall {
  return new ActiveCall(working, free, () => Promise.resolve(free))
}

const free = (): void => undefined

function isSameClient(one: ActiveCall, other: ActiveCall): boolean {
  if (one === other) return true
  const { session } = one.working.call.client
  return session !== undefined && session === other.working.call.client.session
}
