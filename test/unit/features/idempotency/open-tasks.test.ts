// A keyed call of which its server makes a task: the key is held until the task has ended, and replays its result.
import { describe, expect, it } from 'vitest'
import type { Call, Outcome } from '../../../../src/core/call.ts'
import { operationSlot } from '../../../../src/records/operations.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { callCollection } from '../../../../src/records/calls.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import {
  type Bench,
  bench,
  done,
  ending,
  failureOf,
  keyed,
  textOf,
} from '../../../support/idempotency-bench.ts'

const pass = fakeClock()
const upstream = { upstream_task: { id: 'u1' } }
const task = { id: 'u1', status: 'working', createdAt: 1, updatedAt: 1, ttl: null } as const
const alive = new Set(['b'])

/** A server that answers new calls with a task, and calls that continue it with its result. */
const server = async ({ requestState }: Call): Promise<Outcome> =>
  requestState['upstream_task'] === undefined ? { kind: 'task', task, requestState: upstream } : done(7)

async function stateOf({ store }: Bench): Promise<unknown> {
  const [text = 'null'] = (await store.scan(callCollection('anonymous'))).values()
  return JSON.parse(text)?.state
}

class LosableStore extends MemoryStore {
  isAway = false

  override async compareAndSwap(
    ...given: Parameters<MemoryStore['compareAndSwap']>
  ): ReturnType<MemoryStore['compareAndSwap']> {
    if (this.isAway) throw new Error('away')
    return super.compareAndSwap(...given)
  }
}

/** The state with which a call goes on. */
function requestStateOf(outcome: Outcome) {
  if (outcome.kind !== 'task') throw new TypeError(`it is no task: ${outcome.kind}`)
  return outcome.requestState
}

describe('a keyed call whose server made a task of it', () => {
  it('is executing until the task has ended, and is done with its result then', async () => {
    const gateway = bench({ server })
    const requestState = requestStateOf(await gateway.make({}, keyed('k')))
    expect(requestState).toMatchObject(upstream)
    expect(await stateOf(gateway)).toBe('executing')
    expect(textOf(await gateway.make({ requestState }, keyed('k')))).toBe('7')
    expect(await stateOf(gateway)).toBe('done')
    expect(gateway.seen.map((call) => call.requestState['upstream_task'])).toEqual([undefined, { id: 'u1' }])
  })

  it('is replayed afterwards', async () => {
    const { make, seen } = bench({ server })
    const requestState = requestStateOf(await make({}, keyed('k')))
    await make({ requestState }, keyed('k'))
    expect(textOf(await make({}, keyed('k')))).toBe('7')
    expect(seen).toHaveLength(2)
  })

  it('is not made again by the same call meanwhile, which waits for it', async () => {
    const { make, seen } = bench({ server })
    const requestState = requestStateOf(await make({}, keyed('k')))
    const again = make({}, keyed('k'))
    await pass(1000)
    expect(seen).toHaveLength(1)
    await make({ requestState }, keyed('k'))
    await pass(1000)
    expect(textOf(await again)).toBe('7')
    expect(seen).toHaveLength(2)
  })

  it('is unknown where the task is lost on the way', async () => {
    const lost = new GatewayError('OUTCOME_UNKNOWN', 'The connection broke.')
    const { make, seen } = bench({
      server: async (call) => {
        if (call.requestState['upstream_task'] !== undefined) throw lost
        return server(call)
      },
    })
    const requestState = requestStateOf(await make({}, keyed('k')))
    expect((await failureOf(make({ requestState }, keyed('k')))).code).toBe('OUTCOME_UNKNOWN')
    expect((await failureOf(make({}, keyed('k')))).code).toBe('OUTCOME_UNKNOWN')
    expect(seen).toHaveLength(2)
  })

  it('is unknown once its call took too long, though nobody follows the task any more', async () => {
    const gateway = bench({ server })
    const caller = ending()
    requestStateOf(await gateway.make(caller.given, keyed('k')))
    caller.end('OPERATION_TIMEOUT')
    await pass(0)
    expect(await stateOf(gateway)).toBe('unknown')
    expect((await failureOf(gateway.make({}, keyed('k')))).code).toBe('OUTCOME_UNKNOWN')
    expect(gateway.seen).toHaveLength(1)
  })

  it('is unknown then also where the store was away at that time', async () => {
    const store = new LosableStore()
    const gateway = bench({ store, server })
    const caller = ending()
    requestStateOf(await gateway.make(caller.given, keyed('k')))
    store.isAway = true
    caller.end('OPERATION_TIMEOUT')
    await pass(1000)
    expect(await stateOf(gateway)).toBe('executing')
    store.isAway = false
    await pass(6000)
    expect(await stateOf(gateway)).toBe('unknown')
  })

  it('is not made again where it is to be followed for a call that is over', async () => {
    const gateway = bench({ server })
    const caller = ending()
    const requestState = requestStateOf(await gateway.make({}, keyed('k')))
    caller.end('CANCELLED')
    expect((await failureOf(gateway.make({ ...caller.given, requestState }, keyed('k')))).code).toBe(
      'CANCELLED',
    )
    await pass(0)
    expect((await failureOf(gateway.make({}, keyed('k')))).code).toBe('OUTCOME_UNKNOWN')
    expect(gateway.seen).toHaveLength(1)
  })

  it('is continued by another process once its own has ended, and not begun again', async () => {
    const store = new MemoryStore()
    const a = bench({ store, me: 'a', server })
    const requestState = requestStateOf(await a.make({}, keyed('k')))
    const b = bench({ store, me: 'b', alive, server })
    const operation = { id: 'op', key: 'operation:x/n' }
    expect(textOf(await b.make({ slots: operationSlot.put(operation), requestState }, keyed('k')))).toBe('7')
    expect(b.seen.map((call) => call.requestState['upstream_task'])).toEqual([{ id: 'u1' }])
    expect(await stateOf(b)).toBe('done')
    expect(textOf(await b.make({}, keyed('k')))).toBe('7')
    expect(b.seen).toHaveLength(1)
  })

  it('is not taken from a process that lives', async () => {
    const store = new MemoryStore()
    const a = bench({ store, me: 'a', server })
    const requestState = requestStateOf(await a.make({}, keyed('k')))
    const b = bench({ store, me: 'b', server })
    const operation = { id: 'op', key: 'operation:x/n' }
    // The holder of the call records its end.
    await b.make({ slots: operationSlot.put(operation), requestState }, keyed('k'))
    expect(await stateOf(b)).toBe('executing')
    expect(textOf(await a.make({ requestState }, keyed('k')))).toBe('7')
    expect(await stateOf(a)).toBe('done')
  })
})
