// How long the test of a tool waits for a server that is slow, or silent.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { Redactor } from '../../../../src/core/text/redactor.ts'
import { Results } from '../../../../src/testkit/server-test/results.ts'
import { ServerSession } from '../../../../src/testkit/server-test/session.ts'
import { testReadingTool } from '../../../../src/testkit/server-test/tool-test.ts'
import type { TransportReceiver } from '../../../../src/upstream/transport/transport.ts'
import { isObject, objectAt, parse } from '../../../support/server/json.ts'

const TIMEOUT_MS = 1000

const tool: Descriptor = {
  upstream: 'one',
  kind: 'tool',
  name: 'wait',
  definition: {
    name: 'wait',
    inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
  classification: { op: 'read', risk: 'safe', idempotent: true, evidence: [] },
}

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Tests the tool of a server that never ends a call; how many calls it got, and what was left out. */
async function tested(hasProgress: boolean) {
  const calls: number[] = []
  const session = new ServerSession({
    open: async (receiver) => ({
      hasProvenance: false,
      send: async (text) => answer(text, receiver),
      close: async () => undefined,
    }),
    era: 'legacy',
    revision: '2025-11-25',
    isHttp: false,
    timeout: TIMEOUT_MS,
    startTimeout: TIMEOUT_MS,
    now: Date.now,
  })
  const answer = (text: string, { receive }: TransportReceiver): void => {
    const message = parse(text)
    if (!isObject(message) || typeof message['id'] !== 'number') return
    const { id, method } = message
    const reply = (fields: object): void => receive(JSON.stringify({ jsonrpc: '2.0', ...fields }))
    if (method !== 'tools/call') return reply({ id, result: { protocolVersion: '2025-11-25' } })
    calls.push(id)
    const { progressToken } = objectAt(objectAt(message, 'params'), '_meta')
    const params = { progressToken, progress: 1 }
    if (hasProgress) setInterval(() => reply({ method: 'notifications/progress', params }), TIMEOUT_MS / 2)
  }
  await session.connect()
  const results = new Results((text) => text)
  const test = testReadingTool(tool, {
    session,
    results,
    redactor: new Redactor(),
    seed: 1,
    examples: [],
    most: 80,
    deadline: Number.MAX_SAFE_INTEGER,
    now: Date.now,
  })
  await vi.advanceTimersByTimeAsync(10 * TIMEOUT_MS)
  await test
  return { calls: calls.length, leftOut: results.all.find(({ test_id: id }) => id === 'tool/wait/left-out') }
}

describe('the calls of a tool', () => {
  it('end with the second one without a response in time', async () => {
    const { calls, leftOut } = await tested(false)
    expect(calls).toBe(2)
    expect(leftOut).toMatchObject({
      status: 'skipped',
      message: expect.stringMatching(/^\d+ cases were left out: 2 calls did not end in time$/),
    })
  })

  it('end with the first one that reports progress and takes three times as long', async () => {
    const { calls, leftOut } = await tested(true)
    expect(calls).toBe(1)
    expect(leftOut?.message).toMatch(/: a call did not end in time though it reported progress$/)
  })
})
