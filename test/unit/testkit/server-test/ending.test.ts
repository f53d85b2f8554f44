// How a test of a server ends: with its time, and after a bounded number of tools.
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { fromArguments } from '../../../../src/config/load.ts'
import { Redactor } from '../../../../src/core/text/redactor.ts'
import { gradeOf, scoreText } from '../../../../src/features/conformance/page.ts'
import {
  type ServerReport,
  testServer,
  unreachableReport,
  untestedReport,
  whyUntested,
  scoreOf,
} from '../../../../src/testkit/server-test/server-test.ts'
import { ServerLost, ServerSession } from '../../../../src/testkit/server-test/session.ts'
import type { TransportReceiver } from '../../../../src/upstream/transport/transport.ts'
import { isObject, type Json, parse } from '../../../support/server/json.ts'

/** A session with a server that answers as `answerTo` says; nothing for no answer. */
function sessionWith(answerTo: (method: unknown) => Json | undefined, timeout = 60_000): ServerSession {
  const answer = (text: string, { receive }: TransportReceiver): void => {
    const message = parse(text)
    if (!isObject(message)) return
    const result = answerTo(message['method'])
    if (result) receive(JSON.stringify({ jsonrpc: '2.0', id: message['id'], result }))
  }
  return new ServerSession({
    open: async (receiver) => ({
      hasProvenance: false,
      send: async (text) => answer(text, receiver),
      close: async () => undefined,
    }),
    era: 'legacy',
    revision: '2025-11-25',
    isHttp: false,
    timeout,
    startTimeout: timeout,
    now: Date.now,
  })
}

const welcome = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: {} },
  serverInfo: { name: 'a', version: '1' },
}

describe('a session that is ended for good', () => {
  it('ends the requests that wait, and refuses all later ones, for its reason', async () => {
    const session = sessionWith((method) => (method === 'initialize' ? welcome : undefined))
    await session.connect()
    const waiting = session.request('ping')
    session.end('the time is over')
    session.end('another reason')
    const lost = new ServerLost('the time is over')
    await expect(waiting).rejects.toEqual(lost)
    await expect(session.request('ping')).rejects.toEqual(lost)
    await expect(session.isAlive()).rejects.toEqual(lost)
    expect(() => session.mustGoOn()).toThrow(lost)
  })

  it('reads what has come before it gives a request up', async () => {
    vi.useFakeTimers()
    try {
      const session = sessionWith((method) => (method === 'initialize' ? welcome : undefined), 1000)
      await session.connect()
      const answer = session.request('ping')
      // The wait is over, and what was read in the same turn of the loop is still to come.
      vi.advanceTimersToNextTimer()
      const state = await Promise.race([answer.then(() => 'given up'), Promise.resolve('waiting')])
      expect(state).toBe('waiting')
      await vi.runAllTimersAsync()
      expect(await answer).toMatchObject({ kind: 'none', why: 'timeout' })
    } finally {
      vi.useRealTimers()
    }
  })
})

describe('the report', () => {
  const [settings] = fromArguments(['node'], { env: {} }).upstreams
  if (!settings) throw new Error('no server')
  const reportOf = async (session: ServerSession, maxTime = 10_000): Promise<ServerReport> => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    await session.connect()
    let isRunning = true
    const testing = testServer(session, {
      settings,
      redactor: new Redactor(),
      seed: 1,
      tools: [],
      maxTime,
      now: Date.now,
      onTools: () => undefined,
      onProgress: () => undefined,
    }).finally(() => (isRunning = false))
    while (isRunning) await vi.advanceTimersByTimeAsync(100)
    return testing
  }

  const tool = (name: string, inputSchema: Json): Json => ({ name, description: 'Returns it.', inputSchema })
  const failed = { content: [{ type: 'text', text: 'Something went wrong' }], isError: true }

  it('counts the tools of which a valid call succeeded, and says which have none', async () => {
    const tools = [tool('get_one', { type: 'object' }), tool('get_two', { type: 'object' })]
    let calls = 0
    const session = sessionWith((method) => {
      if (method === 'initialize') return welcome
      if (method === 'tools/list') return { tools }
      return method === 'tools/call' && ++calls > 2 ? failed : { content: [] }
    })
    const report = await reportOf(session)
    expect(report.coverage).toEqual({ called: 2, answered: 1, listed: 2 })
    expect(report.results).toContainEqual(
      expect.objectContaining({
        test_id: 'tool/get_two/success',
        status: 'skipped',
        message: 'no valid call succeeded: give an example in the configuration',
      }),
    )
    expect(report.results.map(({ test_id }) => test_id)).not.toContain('tool/get_one/success')
  })

  it('does not count calls that had to be refused, calls without a result, and questions', async () => {
    const a = { type: 'string', minLength: 3, maxLength: 2 }
    const unfit = { type: 'object', properties: { a }, required: ['a'] }
    for (const [schema, answer] of [
      [unfit, { content: [] }],
      [{ type: 'object' }, undefined],
      [{ type: 'object' }, { resultType: 'input_required', inputRequests: {} }],
    ] as const) {
      const session = sessionWith((method) => {
        if (method === 'initialize') return welcome
        if (method === 'tools/call') return answer
        return method === 'tools/list' ? { tools: [tool('get_one', schema)] } : {}
      }, 20)
      expect((await reportOf(session)).coverage).toEqual({ called: 1, answered: 0, listed: 1 })
    }
  })

  it.each([
    ['does not answer', undefined],
    ['has no list', {}],
  ])('says that the tools could not be listed if tools/list %s, and is never good', async (_what, list) => {
    const session = sessionWith((method) => {
      if (method === 'initialize') return welcome
      return method === 'tools/list' ? list : {}
    }, 20)
    const report = await reportOf(session)
    expect(report.coverage.listed).toBe(0)
    expect(scoreText(report)).toMatch(/^\d+\/100 · tools could not be listed$/)
    expect(gradeOf(report)).toBe('poor')
  })

  it('says how many of the tools were called, and that the rest of very many is left out', async () => {
    const tools = Array.from({ length: 1002 }, (_none, at) => ({
      name: `get_${at}`,
      description: 'Returns a number.',
      inputSchema: { type: 'object' },
    }))
    const session = sessionWith((method) => {
      if (method === 'initialize') return welcome
      return method === 'tools/list' ? { tools } : { content: [] }
    })
    const report = await reportOf(session, 1)
    expect(report.coverage.listed).toBe(1002)
    expect(report.results.find(({ test_id }) => test_id === 'list/tools/left-out')?.message).toBe(
      '2 tools are not called: only the first 1000 are',
    )
  })

  it('about a server that cannot be reached has the score 0, and no coverage', () => {
    const report = unreachableReport('a cannot be reached', { name: 'a', seed: 1, began: 0 })
    expect(report).toMatchObject({
      score: { total: 0 },
      coverage: { called: 0, listed: 0 },
      summary: { errors: 1 },
      tested_at: '1970-01-01T00:00:00.000Z',
    })
  })

  it('about a server that was not tested has no score, and says why', () => {
    const report = untestedReport('its folder is large', { name: 'a', seed: 1, began: 0 })
    expect(report).toMatchObject({ score: { total: null }, summary: { skipped: 1, failed: 0, errors: 0 } })
    expect(whyUntested(report)).toBe('its folder is large')
    expect(whyUntested(unreachableReport('away', { name: 'a', seed: 1, began: 0 }))).toBeUndefined()
  })

  it('about a server that was lost has no points for robustness, whatever it did before', () => {
    const check = { description: '', duration_ms: 0, category: 'robustness' as const }
    const passed = { ...check, test_id: 'a', subject: 'tool/a', status: 'passed' as const }
    const lost = { ...check, test_id: 'server/available', subject: 'server', status: 'error' as const }
    expect(scoreOf([passed]).areas).toEqual({ robustness: 100 })
    expect(scoreOf([passed, passed, lost]).areas).toEqual({ robustness: 0 })
  })
})
