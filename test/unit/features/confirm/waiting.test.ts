import { expect, it } from 'vitest'
import { HeldMemory } from '../../../../src/core/holdings.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { Waiting, waitOf } from '../../../../src/features/confirm/waiting.ts'
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
    void waiting.wait(large(id), { approval: 'a1', timeout: 60_000, message: 'waits' }).then(() => {
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

it.each([
  ['an unknown client', undefined, undefined, 25_000],
  ['Claude Code', undefined, undefined, 25_000],
  ['claude-code', undefined, undefined, 50_000],
  ['Visual Studio Code - Insiders', undefined, undefined, 240_000],
  ['gemini-cli-mcp-client-files', undefined, undefined, 240_000],
  ['opencode', undefined, undefined, 50_000],
  ['opencode', 7, undefined, 240_000],
  ['zed', 7, undefined, 50_000],
  ['zed', undefined, 1000, 1000],
  ['zed', undefined, 'off', 0],
  [null, undefined, undefined, 25_000],
] as const)(
  'a call of %s with the progress token %s and the setting %s waits %s ms',
  (name, token, setting, ms) => {
    const meta = token === undefined ? {} : { progressToken: token }
    const call = toolCall({ params: Payload.of({ name: 'echo', _meta: meta }) })
    expect(waitOf({ ...call, client: { ...call.client, info: { name } } }, setting)).toBe(ms)
  },
)
