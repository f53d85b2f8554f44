/**
 * The subscriptions whose events this process sends to clients as they happen. They outlive the runtime in which they
 * began: after a reload, the next one goes on where the previous one ended.
 */
import type { Call, ClientStream } from '../../../core/call.ts'
import { hasReachedShare, type Principal } from '../../../core/principal.ts'
import type { Positions } from './pending.ts'

/** A subscription that is sent to a stream. */
export interface Push {
  readonly id: string
  readonly stream: ClientStream
  /** The call of the subscriber: its address, client and rights. */
  readonly call: Call
  /** Aborted when it ends. */
  readonly over: AbortController
  /** Up to where its events were sent. */
  positions: Positions
  /** When the subscription ends unless it is renewed, as far as this process knows, in milliseconds since 1970. */
  expiresAt: number
}

/** How many there are at most; one caller may have a quarter of them. */
const MAX_PUSHES = 4000

/** Those of a gateway. */
export class Pushes {
  readonly #all = new Set<Push>()
  /** The runtime that sends them: the last one with events. */
  #sender: object | undefined

  /** Makes a runtime the one that sends them. */
  takeOver(runtime: object): void {
    this.#sender = runtime
  }

  /** Whether no later runtime sends them. */
  isSender(runtime: object): boolean {
    return this.#sender === runtime
  }

  /** Adds one; undefined if there are too many. One of the same subscription and stream ends. */
  add(opened: Omit<Push, 'over'>): Push | undefined {
    const { id, stream, call } = opened
    for (const each of this.#all)
      if (each.stream === stream && isOf(each, call.principal, id)) this.#drop(each)
    const holders = new Map([...this.#all].entries())
    const hasShare = hasReachedShare(call.principal, holders, (each) => each.call.principal.id, MAX_PUSHES)
    if (hasShare || this.#all.size >= MAX_PUSHES || stream.closed.aborted) return undefined
    const push = { ...opened, over: new AbortController() }
    this.#all.add(push)
    stream.closed.addEventListener('abort', () => this.#drop(push), { signal: push.over.signal })
    return push
  }

  /** Ends one, and its stream if that belongs to it. */
  end(push: Push): void {
    this.#drop(push)
    push.stream.end?.()
  }

  /** Ends those of a subscription. */
  endAll(principal: Pick<Principal, 'id'>, id: string): void {
    for (const each of this.#all) if (isOf(each, principal, id)) this.end(each)
  }

  /** Ends those of a stream. */
  leave(stream: ClientStream): void {
    for (const each of this.#all) if (each.stream === stream) this.#drop(each)
  }

  values(): readonly Push[] {
    return [...this.#all]
  }

  close(): void {
    for (const each of this.#all) this.end(each)
  }

  #drop(push: Push): void {
    this.#all.delete(push)
    push.over.abort()
  }
}

function isOf({ id, call }: Push, principal: Pick<Principal, 'id'>, wanted: string): boolean {
  return id === wanted && call.principal.id === principal.id
}
