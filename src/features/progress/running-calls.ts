/**
 * The operations that a gateway runs. They outlive the runtime that started them, and count toward the memory that their
 * callers may make the gateway hold.
 */
import type { Call } from '../../core/call.ts'
import { bytesOf, type HeldMemory } from '../../core/holdings.ts'
import type { RunningCall } from './running-call.ts'

/** The operations of a gateway, by key. */
export class RunningCalls {
  readonly #byKey = new Map<string, RunningCall>()
  /** What they take of the memory of the gateway; set before the first one. */
  held: HeldMemory | undefined

  get byKey(): ReadonlyMap<string, RunningCall> {
    return this.#byKey
  }

  /** Whether there is memory for one more. */
  fits(call: Call): boolean {
    return this.held?.fits(call.principal, bytesOf(call)) !== false
  }

  add(key: string, running: RunningCall): void {
    this.delete(key)
    this.#byKey.set(key, running)
    this.held?.change(running.call.principal, bytesOf(running.call))
  }

  delete(key: string): void {
    const running = this.#byKey.get(key)
    if (!running) return
    this.#byKey.delete(key)
    this.held?.change(running.call.principal, -bytesOf(running.call))
  }

  close(): void {
    for (const key of this.#byKey.keys()) this.delete(key)
  }
}
