import { describe, expect, it } from 'vitest'
import type { Call, Handler, Outcome } from '../../../src/core/call.ts'
import { Payload } from '../../../src/core/payload.ts'
import { concurrency } from '../../../src/features/concurrency.ts'
import { pageMethod } from '../../../src/protocol/methods.ts'
import { featureDeps } from '../../support/feature-deps.ts'
import { toolCall } from '../../support/tool-call.ts'

interface Gate {
  readonly handle: Handler
  readonly ends: ((outcome: Outcome) => void)[]
}

function gate(settings: (upstream?: string) => unknown, isGuarded = false): Gate {
  const ends: ((outcome: Outcome) => void)[] = []
  const policy = concurrency.create(settings as never, featureDeps({ isGuarded, isStoreShared: false })).calls
    ?.middleware
  const hanging: Handler = () => new Promise((resolve) => ends.push(resolve))
  return { ends, handle: (call) => (policy?.(call.target)?.(hanging) ?? hanging)(call) }
}

function call(id = 'a', upstream = 'one'): Call {
  return { ...toolCall(), principal: { id }, target: { method: 'tools/call', upstream, name: 't' } }
}

const refused = { code: 'OVERLOADED', httpStatus: 429, extra: { status: 429, retryAfterSeconds: 1 } }

describe('concurrent calls', () => {
  it('C192 concurrent calls are limited per caller and refused beyond the limit', async () => {
    const { handle, ends } = gate(() => ({ concurrency: 2 }))
    const running = [handle(call()), handle(call())]
    await expect(handle(call())).rejects.toMatchObject(refused)
    running.push(handle(call('b')))
    ends[0]?.({ kind: 'result', result: Payload.of({}) })
    await running[0]
    running.push(handle(call()))
    await expect(handle(call())).rejects.toMatchObject(refused)
    expect(ends).toHaveLength(4)
  })

  it('internal calls of a call do not count towards the limit', async () => {
    const { handle, ends } = gate(() => ({ concurrency: 1 }))
    const first = handle(call())
    const internal = handle({ ...call(), internal: 'read' })
    for (const end of ends) end({ kind: 'result', result: Payload.of({}) })
    await Promise.all([first, internal])
    expect(ends).toHaveLength(2)
  })

  it('C192 calls of vendor methods count towards the limit', async () => {
    const { handle, ends } = gate(() => ({ concurrency: 1 }))
    const target = { method: 'vendor/run', upstream: 'one' }
    const first = handle({ ...call(), target })
    await expect(handle({ ...call(), target })).rejects.toMatchObject(refused)
    ends[0]?.({ kind: 'result', result: Payload.of({}) })
    await first
  })

  it('pages of the gateway do not count towards the limit', async () => {
    const { handle, ends } = gate(() => ({ concurrency: 1 }))
    const target = { method: pageMethod('/capabilities/*'), upstream: 'one' }
    const reading = [handle({ ...call(), target }), handle({ ...call(), target }), handle(call())]
    for (const end of ends) end({ kind: 'result', result: Payload.of({}) })
    await Promise.all(reading)
    expect(ends).toHaveLength(3)
  })

  it('a call frees its place when it fails and while it waits for input', async () => {
    const { handle, ends } = gate(() => ({ concurrency: 1 }))
    const first = handle(call())
    ends[0]?.({ kind: 'input_required', inputRequests: {}, requestState: {} })
    await first
    const second = handle(call())
    await expect(handle(call())).rejects.toMatchObject(refused)
    ends[1]?.(Promise.reject(new Error('broken')) as never)
    await expect(second).rejects.toThrow('broken')
    const third = handle(call())
    ends[2]?.({ kind: 'result', result: Payload.of({}) })
    await expect(third).resolves.toMatchObject({ kind: 'result' })
  })

  it('concurrent calls have a limit per server in addition to the common one', async () => {
    const { handle, ends } = gate((upstream) => ({ concurrency: upstream === 'one' ? 1 : 2 }))
    void handle(call('a', 'one'))
    await expect(handle(call('a', 'one'))).rejects.toMatchObject({
      extra: { details: { scope: 'upstream' } },
    })
    void handle(call('a', 'two'))
    await expect(handle(call('a', 'two'))).rejects.toMatchObject({
      extra: { details: { scope: 'principal' } },
    })
    expect(ends).toHaveLength(2)
  })

  it('the default limit applies to authenticated callers only, and subscriptions never count', async () => {
    const open = gate(() => ({}))
    for (let index = 0; index < 20; index++) void open.handle(call())
    expect(open.ends).toHaveLength(20)
    const guarded = gate(() => ({}), true)
    for (let index = 0; index < 8; index++) void guarded.handle(call())
    await expect(guarded.handle(call())).rejects.toMatchObject(refused)
    const policy = concurrency.create(() => ({ concurrency: 1 }), featureDeps()).calls?.middleware
    expect(policy?.({ method: 'subscriptions/listen', upstream: 'one' })).toBeUndefined()
  })
})
