// A process that is stopped between its claim and its call: another one may have made the call when it continues.
import { expect, it } from 'vitest'
import { beforeSendSlot } from '../../../../src/core/exchange.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { bench, done, failureOf, fieldsOf, keyed, textOf } from '../../../support/idempotency-bench.ts'

/** A process that is held up before it sends a call; `meanwhile` is what happens then. */
function heldUp(store: MemoryStore, meanwhile: () => Promise<void>) {
  const term = { now: 1 }
  let sent = 0
  const { make } = bench({
    store,
    term,
    server: async (call) => {
      await meanwhile()
      beforeSendSlot.of(call)?.(call)
      return done(++sent)
    },
  })
  return { make, term, sent: () => sent }
}

it('a call that was claimed in an earlier term is not sent, and its key is free', async () => {
  let isStopped = true
  const process = heldUp(new MemoryStore(), async () => {
    if (isStopped) process.term.now++
  })
  const error = await failureOf(process.make({}, keyed('k')))
  expect(error).toMatchObject({ code: 'SERVER_UNAVAILABLE', category: 'transient' })
  expect(process.sent()).toBe(0)
  isStopped = false
  const { idempotency } = fieldsOf(await process.make({}, keyed('k')))
  expect(idempotency).toMatchObject({ was_replay: false })
  expect(process.sent()).toBe(1)
})

it('a call that another process has made meanwhile is not sent again, and its outcome stays', async () => {
  const store = new MemoryStore()
  const idempotent = { op: 'write', risk: 'reversible', idempotent: true, evidence: [] } as const
  const other = bench({
    store,
    me: 'b',
    alive: new Set(['b']),
    entry: { classification: idempotent },
    server: async () => done(2),
  })
  const process = heldUp(store, async () => {
    await other.make({}, keyed('k'))
    process.term.now++
  })
  expect((await failureOf(process.make({}, keyed('k')))).code).toBe('SERVER_UNAVAILABLE')
  expect([process.sent(), other.seen.length]).toEqual([0, 1])
  expect(textOf(await other.make({}, keyed('k')))).toBe('2')
  expect(other.seen).toHaveLength(1)
})
