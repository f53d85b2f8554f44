import { expect, it } from 'vitest'
import { HeldMemory } from '../../../../src/core/holdings.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { Waiting, waitOf } from '../../../../src/features/confirm/waiting.ts'
import { type Approval, Approvals } from '../../../../src/records/approvals.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import { toolCall } from '../../../support/tool-call.ts'

const pass = fakeClock()

it('a call waits for approval only while its caller has memory for it', async () => {
  let status = 'pending'
  const approvals = { find: async () => ({ status }) as Approval, noteWaiting: async () => undefined }
  const waiting = new Waiting(approvals, new HeldMemory())
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

it('an approval says whether a call waits for it, until it is decided', async () => {
  const approvals = new Approvals(new MemoryStore(), Date.now)
  const draft = {
    kind: 'page',
    caller: 'a',
    upstream: 'disks',
    tool: 'wipe',
    arguments: {},
    digest: 'd',
  } as const
  const { approval } = await approvals.request({
    ...draft,
    risk: 'destructive',
    message: 'Run wipe?',
    needed: 1,
    approvers: [],
    ttl: 600_000,
  })
  const waitings = [1, 2].map(() => new Waiting(approvals, new HeldMemory()))
  const wait = (waiting: Waiting | undefined, timeout: number): Promise<unknown> | undefined =>
    waiting?.wait(toolCall(), { approval: approval.id, timeout, message: 'waits' })
  const mustRepeat = async (): Promise<boolean> => (await approvals.find(approval.id))?.mustRepeat === true
  const [one, other] = waitings
  void wait(one, 5000)
  void wait(one, 9000)
  void wait(other, 20_000)
  await pass(7000)
  expect(await mustRepeat()).toBe(false)
  // The gateway that has another one notices that it is said of no call.
  await pass(5000)
  expect(await mustRepeat()).toBe(false)
  await pass(10_000)
  expect(await mustRepeat()).toBe(true)
  const again = wait(one, 60_000)
  await pass(1000)
  expect(await mustRepeat()).toBe(false)
  const signal = new AbortController()
  void other
    ?.wait(toolCall({ signal: signal.signal }), { approval: approval.id, timeout: 60_000, message: 'waits' })
    .catch(() => undefined)
  await approvals.decide(approval.id, { by: 'a', via: 'code', verdict: 'approved' })
  signal.abort()
  await pass(1000)
  await again
  expect(await mustRepeat()).toBe(false)
})

it.each([
  ['an unknown client', undefined, undefined, 15_000],
  ['Claude Code', undefined, undefined, 15_000],
  ['Java SDK MCP Sync Client', undefined, undefined, 15_000],
  ['claude-code', undefined, undefined, 50_000],
  ['Visual Studio Code - Insiders', undefined, undefined, 240_000],
  ['gemini-cli-mcp-client-files', undefined, undefined, 240_000],
  ['opencode', undefined, undefined, 50_000],
  ['opencode', 7, undefined, 240_000],
  ['zed', 7, undefined, 50_000],
  ['zed', undefined, 1000, 1000],
  ['zed', undefined, 'off', 0],
  [null, undefined, undefined, 15_000],
] as const)(
  'a call of %s with the progress token %s and the setting %s waits %s ms',
  (name, token, setting, ms) => {
    const meta = token === undefined ? {} : { progressToken: token }
    const call = toolCall({ params: Payload.of({ name: 'echo', _meta: meta }) })
    expect(waitOf({ ...call, client: { ...call.client, info: { name } } }, setting)).toBe(ms)
  },
)
