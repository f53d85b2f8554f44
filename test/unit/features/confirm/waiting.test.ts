import { expect, it } from 'vitest'
import { HeldMemory } from '../../../../src/core/holdings.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { Waiting } from '../../../../src/features/confirm/waiting.ts'
import type { Approval } from '../../../../src/records/approvals.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import { toolCall } from '../../../support/tool-call.ts'

const pass = fakeClock()

it('a call waits for approval only while its caller has memory for it', async () => {
  let status = 'pending'
  const waiting = new Waiting(async () => ({ status }) as Approval, new HeldMemory())
  const large = (id: string) =>
    toolCall({ principal: { id }, params: Payload.of({ text: 'x'.repeat(8_000_000) }) })
  let ended = 0
  const wait = (id: string): void =>
    void waiting.wait(large(id), 'a1', 60_000).then(() => {
      ended++
    })
  for (const id of ['greedy', 'greedy', 'quiet']) wait(id)
  await pass(1000)
  expect(ended).toBe(0)
  wait('greedy')
  await pass(0)
  expect(ended).toBe(1)
  status = 'approved'
  await pass(1000)
  expect(ended).toBe(4)
  status = 'pending'
  wait('greedy')
  await pass(1000)
  expect(ended).toBe(4)
  waiting.close()
})
