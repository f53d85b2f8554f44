import { expect, it } from 'vitest'
import { FirstRoots } from '../../../../src/upstream/protocol/server-requests.ts'
import { fakeClock } from '../../../support/fake-clock.ts'

const pass = fakeClock()
const { signal } = new AbortController()

it('the first call waits for a server that is slow to ask for the roots, and to process them', async () => {
  let pong = Promise.withResolvers<void>()
  const roots = new FirstRoots(() => pong.promise)
  void roots.settled(signal)
  await pass(2000)
  expect(roots.isSettled).toBe(false)
  const expire = (): void => undefined
  roots.requested(expire)
  pong.resolve()
  pong = Promise.withResolvers()
  roots.answered(expire)
  await pass(1000)
  expect(roots.isSettled).toBe(false)
  pong.resolve()
  // It was slow to respond, so it is slow to check folders too.
  await pass(900)
  expect(roots.isSettled).toBe(false)
  await pass(200)
  expect(roots.isSettled).toBe(true)
})

it.each([
  ['responds to no ping', 3400, () => new Promise(() => undefined)],
  ['refuses pings', 400, () => Promise.reject(new Error('unknown method'))],
])('a server that asks for no roots and %s has its first call after a while', async (_what, wait, ping) => {
  const roots = new FirstRoots(ping)
  void roots.settled(signal)
  await pass(wait)
  expect(roots.isSettled).toBe(false)
  await pass(200)
  expect(roots.isSettled).toBe(true)
})
