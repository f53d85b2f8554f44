/**
 * The states before and after calls that an undo restores, as reads show them. What a call left is read once its caller has
 * the response. Invariant: an undo changes nothing if the state is neither what the call left nor what was before it, unless it
 * is forced.
 *
 * All reads go through the chain, with the rights of the caller.
 */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { classify, firstWords } from '../../core/failure.ts'
import { exactHash } from '../../core/json/canonical-hash.ts'
import { isObject, readJson } from '../../core/json/json.ts'
import { follow, printPath } from '../../core/json/path.ts'
import { displayCall, maskedArguments } from '../../core/masked-arguments.ts'
import type { Payload } from '../../core/payload.ts'
import { maskedDifference, type Side } from '../../core/text/difference.ts'
import { pause, within } from '../../core/time/waiting.ts'
import { world } from '../../core/world.ts'
import { evaluate, pathsOf, resultValue } from '../../core/undo/expression.ts'
import type { UndoRule } from '../../core/undo/rules.ts'
import { ERROR_KEY } from '../../protocol/meta-keys.ts'
import {
  ABSENT,
  type Action,
  type Actions,
  type ActionStates,
  type LeftState,
  type StateAfterUndo,
  undoOrderSlot,
} from '../../records/actions.ts'
import { fromStoredPrincipal } from '../../records/principal.ts'
import { changedSince, isAsLeft, type PresentState } from '../../records/rewind-plan.ts'
import type { Services } from '../feature.ts'
import { masked } from '../offers.ts'
import { internalCall } from '../own-calls.ts'

/** The result of the read before a call: a value, nothing, or an unknown state. */
export type ReadSnapshot =
  | { readonly kind: 'found'; readonly value: unknown; readonly isRedacted: boolean }
  | { readonly kind: 'absent' }
  | {
      readonly kind: 'unreadable'
      readonly reason: string
      /** It may be readable a moment later. */
      readonly isPassing?: boolean
      /** The server did not answer in time. */
      readonly isLate?: true
    }

type KnownState = Exclude<ReadSnapshot, { readonly kind: 'unreadable' }>
type RestoreRule = Extract<UndoRule, { readonly kind: 'restore' }>

/** How long a read after a call, before one that is not confirmed, and around an undo, may take, in milliseconds. */
export const READ_TIMEOUT_MS = 10_000
/** How many states that calls left are read at once. */
const MAX_PENDING_READS = 200
/** How many present states of a server are read at once, and for how long in all, in milliseconds. */
const MAX_PRESENT_READS = 4
const MAX_PRESENT_MS = 30_000
/** How long the arguments of a read, and the text of a state that a call left, are at most, in characters. */
const MAX_ARGUMENTS_LENGTH = 8 * 1024
const MAX_LEFT_LENGTH = 64 * 1024

interface StatesOptions {
  readonly deps: Pick<Services, 'features' | 'log'>
  readonly actions: Actions
  readonly snapshots: SnapshotReader
}

interface Given {
  readonly upstream: string
  readonly args: Readonly<Record<string, unknown>>
  /** How long the read may take, in milliseconds; without it, as long as the call. */
  readonly timeout?: number | undefined
}

/** Reads and compares the states around calls. */
export class States {
  readonly #options: StatesOptions
  /** Reads of what calls left that are not recorded yet, by the key of the action; each knows what it reads. */
  readonly #pending = new Map<string, { readonly read: string; readonly recorded: Promise<void> }>()

  constructor(options: StatesOptions) {
    this.#options = options
  }

  /** Reads the state before a call, after what earlier calls left there has been read. Never throws. */
  async before(
    call: Call,
    rule: RestoreRule,
    { upstream, args, timeout }: Given,
  ): Promise<{ readonly snapshot: ReadSnapshot; readonly states?: ActionStates }> {
    let read: SnapshotRead
    try {
      read = { upstream, tool: rule.snapshot.tool, arguments: evaluate(rule.snapshot, { args }) }
    } catch (error) {
      return { snapshot: unreadable(error) }
    }
    const name = nameOf(read)
    const earlier = [...this.#pending.values()].filter((each) => each.read === name)
    await Promise.all(earlier.map(({ recorded }) => recorded))
    const { snapshots } = this.#options
    const snapshot =
      timeout === undefined
        ? await snapshots.read(call, read)
        : await snapshots.readWithin(call, read, 'during', timeout)
    if (snapshot.kind === 'unreadable' || name.length > MAX_ARGUMENTS_LENGTH) return { snapshot }
    const parts = pathsOf(rule.restore).flatMap(({ root, steps }) => (root === 'snapshot' ? [steps] : []))
    const { tool, arguments: given } = read
    return {
      snapshot,
      states: { tool, arguments: given, parts, before: hashOf(snapshot, parts) },
    }
  }

  /** Reads what a call left, once its caller has the response, and has it recorded. */
  readLeft(call: Call, action: Action, write: (left: LeftState) => Promise<void>): void {
    const { states, status } = action
    if (!states || status !== 'ok') return
    const recorded = this.#left(call, action.upstream, states)
      .then(write)
      // Without it, an undo cannot tell what others changed, and says so.
      .catch((error: unknown) =>
        this.#options.deps.log.debug('undo.state_lost', { upstream: action.upstream, reason: String(error) }),
      )
      .finally(() => this.#pending.delete(action.key))
    this.#pending.set(action.key, { read: nameOf({ ...states, upstream: action.upstream }), recorded })
  }

  /** Resolves once what an action left, or all of them, has been recorded. */
  async settled(key?: string): Promise<void> {
    if (key !== undefined) return this.#pending.get(key)?.recorded
    await Promise.all([...this.#pending.values()].map(({ recorded }) => recorded))
  }

  /**
   * Reads what is there now where actions left a state, with the rights of their callers: the result by the keys of the
   * actions. A server that does not answer in time is not asked again. Never throws.
   */
  async present(actions: readonly Action[]): Promise<ReadonlyMap<string, PresentState>> {
    const servers = Map.groupBy(actions, ({ upstream }) => upstream)
    const found = await Promise.all([...servers.values()].map((each) => this.#presentAt(each)))
    return new Map(found.flat())
  }

  async #presentAt(actions: readonly Action[]) {
    const ofRead = ({ principal, upstream, states }: Action): string =>
      JSON.stringify([principal.id, upstream, states?.tool, states?.arguments])
    // Several readers take the next one in turn.
    const reads = Map.groupBy(actions, ofRead).values()
    const found: (readonly [key: string, PresentState])[] = []
    const until = world.monotonic() + MAX_PRESENT_MS
    let silence: ReadSnapshot | undefined
    const read = async (): Promise<void> => {
      for (const same of reads) {
        if (world.monotonic() > until) silence ??= OUT_OF_TIME
        const now = silence ?? (await this.#now(same[0]))
        if (now.kind === 'unreadable' && now.isLate) silence = now
        found.push(...same.map((action) => [action.key, this.#presentState(action, now)] as const))
      }
    }
    await Promise.all(Array.from({ length: MAX_PRESENT_READS }, read))
    return found
  }

  async #now(action: Action | undefined): Promise<ReadSnapshot> {
    if (!action?.states) return { kind: 'unreadable', reason: 'there is nothing to read' }
    const { states, upstream } = action
    const principal = fromStoredPrincipal(action.principal)
    const read = { upstream, tool: states.tool, arguments: states.arguments }
    return this.#options.snapshots.readWithin(
      internalCall({ purpose: 'read', principal, ...read }),
      read,
      'during',
    )
  }

  #presentState(action: Action, now: ReadSnapshot): PresentState {
    const { states, secrets } = action
    if (now.kind === 'unreadable') return { unread: now.reason }
    if (!states?.left || 'unread' in states.left) return { unread: 'what the call left was not read' }
    const hash = hashOf(now, states.parts)
    return {
      hash,
      read: displayCall(states.tool, states.arguments, { secrets }),
      difference: isAsLeft(hash, states) ? [] : this.#difference(action, states.left, now),
    }
  }

  /** Makes a compensating call, unless others changed since what the action left. @throws CONFLICT, SERVER_UNAVAILABLE */
  async undo(call: Call, next: Handler): Promise<Outcome> {
    const order = undoOrderSlot.of(call)
    if (!order) return next(call)
    if (!order.isForced) await this.#mustBeUnchanged(call, order.action)
    const outcome = await next(call)
    const isDone = outcome.kind === 'result' && outcome.result.member('isError') !== true
    if (isDone) order.found(await this.#stateAfter(call, order.action))
    return outcome
  }

  async #left(call: Call, upstream: string, states: ActionStates): Promise<LeftState> {
    if (this.#pending.size >= MAX_PENDING_READS)
      return { unread: `${MAX_PENDING_READS} other calls had just ended` }
    await pause(0)
    const found = await this.#options.snapshots.readWithin(call, { ...states, upstream }, 'later')
    if (found.kind === 'unreadable') return { unread: found.reason }
    const hash = hashOf(found, states.parts)
    const text = found.kind === 'found' ? JSON.stringify(found.value) : undefined
    return { hash, ...(text !== undefined && text.length <= MAX_LEFT_LENGTH && { text }) }
  }

  async #mustBeUnchanged(call: Call, { key, ...given }: Action): Promise<void> {
    await this.settled(key)
    const action = (await this.#options.actions.find(key)) ?? { key, ...given }
    const { states, upstream, tool } = action
    if (!states?.left || 'unread' in states.left) return
    const now = await this.#options.snapshots.readWithin(call, { ...states, upstream }, 'during')
    if (now.kind === 'unreadable') throw notReadable(now)
    const found = this.#presentState(action, now)
    if ('unread' in found || isAsLeft(found.hash, states)) return
    const { read, difference } = found
    throw new GatewayError('CONFLICT', changedSince(read, tool), {
      reason: 'changed_since',
      suggestion: OVERWRITE,
      details: { server: upstream, read, difference },
      isUnsent: true,
      isUserActionable: true,
    })
  }

  /** What changed since, without what is masked for callers and in the history. */
  #difference(
    { states, upstream, secrets }: Action,
    left: Extract<LeftState, { readonly hash: string }>,
    now: KnownState,
  ): readonly string[] {
    if (now.kind === 'absent') return ['It is not there any more.']
    if (!states || (left.hash !== ABSENT && left.text === undefined))
      return [
        `What the call left is longer than ${MAX_LEFT_LENGTH / 1024} KB, so the difference is not known.`,
      ]
    const sideOf = (value: unknown): Side => {
      const target = { upstream, method: 'tools/call', name: states.tool }
      const shown = maskedArguments(masked(this.#options.deps, value, target), secrets)
      return { real: partsOf(value, states.parts), shown: partsOf(shown, states.parts) }
    }
    const before =
      left.text === undefined ? { real: undefined, shown: undefined } : sideOf(readJson(left.text))
    return maskedDifference(before, sideOf(now.value))
  }

  async #stateAfter(call: Call, { states, upstream }: Action): Promise<StateAfterUndo> {
    if (!states) return 'unknown'
    const found = await this.#options.snapshots.readWithin(call, { ...states, upstream }, 'during')
    if (found.kind === 'unreadable') return 'unknown'
    return hashOf(found, states.parts) === states.before ? 'old' : 'other'
  }
}

const OUT_OF_TIME: ReadSnapshot = {
  kind: 'unreadable',
  reason: `the other states of the server took longer than ${MAX_PRESENT_MS / 1000} s to read`,
}

const OVERWRITE =
  'Look at the difference. To undo it anyway, which overwrites that change: gatehouse undo or gatehouse tx rollback with --force, or rollback_transaction with force: true.'

function notReadable({
  reason,
  isPassing,
}: Extract<ReadSnapshot, { readonly kind: 'unreadable' }>): GatewayError {
  return new GatewayError(
    isPassing ? 'SERVER_UNAVAILABLE' : 'CONFLICT',
    `It could not be read whether something else changed it since, so nothing was undone: ${reason}`,
    { reason: 'state_unread', suggestion: OVERWRITE, isUnsent: true, isUserActionable: true },
  )
}

function hashOf(state: KnownState, parts: ActionStates['parts']): string {
  return state.kind === 'absent' ? ABSENT : exactHash(partsOf(state.value, parts) ?? null)
}

/** The parts of a result that count, each at its path; the whole result without parts. */
function partsOf(value: unknown, parts: ActionStates['parts']): unknown {
  if (parts.length === 0 || parts.some((steps) => steps.length === 0)) return value
  const found = parts.map((steps) => {
    const path = printPath({ root: 'snapshot', steps }).slice('$.snapshot'.length)
    return [path.replace(/^\./, ''), follow(value, steps)] as const
  })
  return Object.fromEntries(found)
}

/** A call that reads a state. */
interface SnapshotRead {
  readonly upstream: string
  readonly tool: string
  readonly arguments: Readonly<Record<string, unknown>>
}

function nameOf({ upstream, tool, arguments: given }: SnapshotRead): string {
  return JSON.stringify([upstream, tool, given])
}

/**
 * Reads states. The caller sees masked and shortened results, but a compensation must restore the exact state, so the results
 * are taken as they come from the server.
 */
export class SnapshotReader {
  readonly #deps: Pick<Services, 'invoker'>
  /** The servers' results of reading calls, by the calls' log fields. */
  readonly #raw = new WeakMap<Call['logFields'], Payload>()

  constructor(deps: Pick<Services, 'invoker'>) {
    this.#deps = deps
  }

  /** Records the result of a reading call from its server. */
  recordResult(call: Call, outcome: Outcome): void {
    if (outcome.kind === 'result') this.#raw.set(call.logFields, outcome.result)
  }

  /** Reads with the rights of the caller, as long as the call lasts. Never throws. */
  read(call: Call, read: SnapshotRead): Promise<ReadSnapshot> {
    return this.#made(readingCall(call, read))
  }

  /** The same with a time limit, during a call, or later on its connection. Never throws. */
  readWithin(
    call: Call,
    read: SnapshotRead,
    when: 'during' | 'later',
    timeout = READ_TIMEOUT_MS,
  ): Promise<ReadSnapshot> {
    const controller = new AbortController()
    const signal = when === 'during' ? AbortSignal.any([controller.signal, call.signal]) : controller.signal
    const abort = (reason: unknown): void => controller.abort(reason)
    const late: ReadSnapshot = {
      kind: 'unreadable',
      reason: `${read.tool} did not answer within ${timeout / 1000} s`,
      isPassing: true,
      isLate: true,
    }
    const made = this.#made({ ...readingCall(call, read), signal, abort })
    return within(made, timeout, late).then((found) => {
      if (found === late) abort(new GatewayError('OPERATION_TIMEOUT', late.reason))
      return found
    })
  }

  async #made(call: Call): Promise<ReadSnapshot> {
    try {
      const outcome = await this.#deps.invoker.call(call)
      if (outcome.kind !== 'result') return { kind: 'unreadable', reason: 'the server requests input first' }
      return this.#result(outcome.result, this.#raw.get(call.logFields))
    } catch (error) {
      return unreadable(error)
    }
  }

  #result(result: Payload, raw: Payload | undefined): ReadSnapshot {
    if (result.fields.isError === true) return readFailure(result)
    if (!raw) return { kind: 'unreadable', reason: 'it was not read from the server' }
    return { kind: 'found', value: resultValue(raw), isRedacted: raw.isRedacted }
  }
}

function readingCall(during: Call, { upstream, tool, arguments: given }: SnapshotRead): Call {
  const { principal } = during
  return internalCall({ purpose: 'read', principal, upstream, tool, arguments: given, during })
}

/**
 * Only an explicit "not found" of the server means that nothing exists: a failed read may hide existing data, which the
 * compensation of a write would then remove.
 */
function readFailure(result: Payload): ReadSnapshot {
  const { _meta: meta } = result.fields
  const error = isObject(meta) ? meta[ERROR_KEY] : undefined
  const { code, message, category } = isObject(error)
    ? error
    : { ...classify({ text: firstWords(result) }, []), message: firstWords(result) }
  if (code === 'RESOURCE_NOT_FOUND') return { kind: 'absent' }
  return {
    kind: 'unreadable',
    reason: `${String(code)}: ${String(message)}`.slice(0, MAX_REASON_LENGTH),
    isPassing: isPassing(category),
  }
}

const MAX_REASON_LENGTH = 500

function unreadable(thrown: unknown): ReadSnapshot {
  const { category, message } = asGatewayError(thrown)
  const reason = thrown instanceof Error ? thrown.message : message
  return {
    kind: 'unreadable',
    reason: reason.slice(0, MAX_REASON_LENGTH),
    isPassing: isPassing(category),
  }
}

function isPassing(category: unknown): boolean {
  return category === 'transient' || category === 'rate_limited' || category === 'auth_required'
}
