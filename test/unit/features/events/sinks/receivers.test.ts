import { expect, it } from 'vitest'
import { ReceiverVerifier } from '../../../../../src/features/events/sinks/receivers.ts'
import { MemoryStore } from '../../../../../src/store/memory.ts'
import { FakeReceivers, ManualClock, secretOf } from '../../../../support/webhooks.ts'

it('receivers are verified for one caller and one URL, for a time', async () => {
  const clock = new ManualClock(1_000_000)
  const store = new MemoryStore(() => clock.now())
  const dialer = new FakeReceivers(clock)
  // Each process remembers for a while what it read, so another one asks the store.
  const isChallenged = async (owner: string, url: string): Promise<boolean> => {
    const before = dialer.requests.length
    const verifier = new ReceiverVerifier(dialer, store, () => clock.now())
    const receiver = { owner, url, subscription: 'sub_1', secrets: { current: secretOf(1) } }
    expect(await verifier.verify(receiver)).toEqual({ kind: 'verified' })
    return dialer.requests.length > before
  }
  expect(await isChallenged('ada', 'https://a.example/')).toBe(true)
  expect(await isChallenged('ada', 'https://a.example/')).toBe(false)
  expect(await isChallenged('bob', 'https://a.example/')).toBe(true)
  expect(await isChallenged('ada', 'https://a.example/?')).toBe(true)
  await clock.advance(86_400_000)
  expect(await isChallenged('ada', 'https://a.example/')).toBe(true)
})
