import { expect, it } from 'vitest'
import { VerifiedReceivers } from '../../../../../src/features/events/sinks/receivers.ts'
import { MemoryStore } from '../../../../../src/store/memory.ts'
import { secretOf } from '../../../../support/webhooks.ts'

it('receivers are verified for one caller and one URL, for a time', async () => {
  let now = 1_000_000
  const store = new MemoryStore(() => now)
  const of = (owner: string, url: string) => ({
    owner,
    url,
    subscription: 'sub_1',
    secrets: { current: secretOf(1) },
  })
  // Each process remembers for a while what it read, so another one asks the store.
  const has = (owner: string, url: string) => new VerifiedReceivers(store, () => false).has(of(owner, url))
  await new VerifiedReceivers(store, () => false).add(of('ada', 'https://a.example/'))
  expect(await has('ada', 'https://a.example/')).toBe(true)
  expect(await has('bob', 'https://a.example/')).toBe(false)
  expect(await has('ada', 'https://a.example/?')).toBe(false)
  now += 86_400_000
  expect(await has('ada', 'https://a.example/')).toBe(false)
})
