/**
 * Finds operations whose process ended, and takes them over: the call is made again if that is safe, otherwise its outcome
 * is unknown. A call that waited for approval ends instead, unless it is a task: it never runs without its client, and the
 * approval stays for the next equal call.
 *
 * Invariant: exactly one of the processes that share the store takes an operation over, by a compare-and-swap of its owner.
 */
import { type Timer, world } from '../../core/world.ts'
import { repeatedCall } from '../own-calls.ts'
import { type Call, SERVER_TASK_KEY } from '../../core/call.ts'
import { background } from '../../core/log.ts'
import { hasExtension, hasIdempotencyKey, TRANSACTION_ID } from '../../protocol/meta-keys.ts'
import { Approvals } from '../../records/approvals.ts'
import { expiryOf, isEnded, type OperationRecord, type StoredOperation } from '../../records/operations.ts'
import { fromStoredPrincipal } from '../../records/principal.ts'
import type { Deps, OperationEngine } from './engine.ts'
import { interrupted, neverSent } from './task-view.ts'

/** The interval at which operations of ended processes are searched, in milliseconds. */
const SWEEP_INTERVAL_MS = 15_000

/** Ensures that no operation stays `working` without a process that works on it. */
export class Recovery {
  readonly #engine: OperationEngine
  readonly #deps: Deps
  /** The operations that were taken over and whose calls have not reached the engine yet: a server may connect slowly. */
  readonly #starting = new Set<string>()
  #timer: Timer | undefined
  #isSweeping = false

  constructor(engine: OperationEngine, deps: Deps) {
    this.#engine = engine
    this.#deps = deps
  }

  /** Takes over the operations of ended processes, now and at an interval. */
  async start(): Promise<void> {
    const sweep = (): void => background(this.#sweep(), this.#deps.log)
    this.#timer ??= world.setInterval(sweep, SWEEP_INTERVAL_MS).unref()
    await this.#sweep()
  }

  close(): void {
    world.clearInterval(this.#timer)
  }

  /** The record of an operation; one whose process ended is taken over first. @throws what the store throws */
  async find(key: string): Promise<StoredOperation | undefined> {
    const stored = await this.#engine.journal.operations.find(key)
    if (!stored || !(await this.#isLost(stored))) return stored
    await this.#takeUp(stored)
    return this.#engine.journal.operations.find(key)
  }

  async #sweep(): Promise<void> {
    if (this.#isSweeping) return
    this.#isSweeping = true
    try {
      for await (const own of this.#engine.journal.operations.byCaller()) await this.#takeUpLost(own)
    } finally {
      this.#isSweeping = false
    }
  }

  async #takeUpLost(all: readonly StoredOperation[]): Promise<void> {
    for (const stored of all) if (await this.#isLost(stored)) await this.#takeUp(stored)
  }

  async #isLost({ key, record }: StoredOperation): Promise<boolean> {
    if (isEnded(record) || this.#engine.running(key) || this.#starting.has(key)) return false
    const { membership } = this.#deps.identity
    // It ended in this process, but its end could not be written.
    if (record.owner === membership.id) return world.now() - record.updatedAt > SWEEP_INTERVAL_MS
    return !(await membership.isAlive(record.owner))
  }

  /** Becomes the owner of an operation, and makes its call again if that has no second effect. */
  async #takeUp({ key, record: lost }: StoredOperation): Promise<void> {
    const { membership } = this.#deps.identity
    await membership.register()
    const isUnsent = await this.#isUnsent(lost)
    const isRepeatable = !(isUnsent && lost.taskTtl === undefined) && this.#isRepeatable(lost)
    let isOurs = false
    // Input that was requested before the server started can be requested again.
    const hasNotStarted = isUnsent || (lost.state === 'input_required' && lost.input?.isOpen !== true)
    const record = await this.#engine.journal.change(key, (before) => {
      isOurs = before.owner === lost.owner && before.updatedAt === lost.updatedAt && !isEnded(before)
      if (!isOurs) return undefined
      if (!isRepeatable) return isUnsent ? this.#asUnsent(before) : this.#asUnknown(before)
      // This process says itself when the call waits again.
      const { approval: _approval, ...rest } = before
      return { ...rest, owner: membership.id, state: 'working' }
    })
    if (!isOurs || !record) return
    this.#deps.log.warn('operation.interrupted', {
      upstream: record.upstream,
      tool: record.tool,
      resumed: isRepeatable,
    })
    if (isRepeatable) background(this.#repeat(key, record, hasNotStarted), this.#deps.log)
  }

  /** Makes the call of an operation again. @throws what the call fails with */
  async #repeat(key: string, record: OperationRecord, hasNotStarted: boolean): Promise<void> {
    const { invoker, identity } = this.#deps
    this.#starting.add(key)
    try {
      await invoker.relay(this.#callOf(key, record, hasNotStarted))
    } catch (error) {
      // A call that is refused before it runs, for example because its server is not configured, would be repeated forever.
      await this.#engine.journal.change(key, (before) => {
        const isLeft = before.owner === identity.membership.id && !isEnded(before)
        return isLeft && !this.#engine.running(key) ? this.#asUnknown(before) : undefined
      })
      throw error
    } finally {
      this.#starting.delete(key)
    }
  }

  #asUnknown(record: OperationRecord): OperationRecord {
    return this.#ended(record, { state: 'unknown', failure: interrupted() })
  }

  #asUnsent(record: OperationRecord): OperationRecord {
    const isKeyed = record.request !== undefined && hasIdempotencyKey(record.request)
    return this.#ended(record, { state: 'failed', failure: neverSent(isKeyed) })
  }

  #ended(
    { request: _request, input: _input, approval: _approval, ...rest }: OperationRecord,
    end: Pick<OperationRecord, 'state' | 'failure'>,
  ): OperationRecord {
    const { id: owner } = this.#deps.identity.membership
    return { ...rest, owner, ...end, expiresAt: expiryOf(rest, KEPT_MS) }
  }

  /** Whether a call waited for an approval that no one has used: then its server got nothing. */
  async #isUnsent({ approval }: OperationRecord): Promise<boolean> {
    if (approval === undefined) return false
    const found = await new Approvals(this.#deps.store, world.now).find(approval)
    return found?.status === 'pending' || found?.status === 'approved'
  }

  /**
   * Whether a call may be made again: it continues a task of its server, its key prevents a second effect, or the gateway
   * can find out its outcome.
   */
  #isRepeatable({ request, upstream }: OperationRecord): boolean {
    if (!request) return false
    if (request.requestState[SERVER_TASK_KEY] !== undefined) return true
    if (!this.#deps.features.isOn('idempotency', upstream)) return false
    const call = { meta: request.meta, params: request.params } as const
    return !hasExtension(call, TRANSACTION_ID)
  }

  #callOf(key: string, record: OperationRecord, hasNotStarted: boolean): Call {
    const { request, principal, upstream, tool, startedAt, taskTtl } = record
    if (!request) throw new TypeError('an operation without its request cannot be taken up')
    const { params, meta, client, requestState } = request
    const isKeyed = hasIdempotencyKey({ meta, params }) || requestState[SERVER_TASK_KEY] !== undefined
    return repeatedCall({
      requestId: record.requestId,
      params,
      meta,
      client,
      principal: this.#deps.invoker.present(fromStoredPrincipal(principal)),
      target: { upstream, method: 'tools/call', name: tool },
      requestState,
      operation: {
        id: record.id,
        key,
        // A call without a key is recorded as lost, so that it does not run twice.
        ...(!isKeyed && !hasNotStarted && { lostSince: startedAt }),
        ...(taskTtl !== undefined && { isTask: true as const }),
      },
    })
  }
}

/** How long an operation with an unknown outcome is kept, in milliseconds. */
const KEPT_MS = 3_600_000
