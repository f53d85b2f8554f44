// How a test of a server ends: with its time, and after a bounded number of tools.
import { describe, expect, it, vi } from 'vitest'
import { fromArguments } from '../../../../src/config/arguments.ts'
import { Redactor } from '../../../../src/core/text/redactor.ts'
import { testServer, unreachableReport } from '../../../../src/testkit/server-test/server-test.ts'
import { scoreOf } from '../../../../src/testkit/server-test/score.ts'
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
    await session.connect()
    const report = await testServer(session, {
      settings,
      redactor: new Redactor(),
      seed: 1,
      tools: [],
      maxTime: 1,
      now: Date.now,
      onTools: () => undefined,
      onProgress: () => undefined,
    })
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

  it('about a server that was lost has no points for robustness, whatever it did before', () => {
    const check = { description: '', duration_ms: 0, category: 'robustness' as const }
    const passed = { ...check, test_id: 'a', subject: 'tool/a', status: 'passed' as const }
    const lost = { ...check, test_id: 'server/available', subject: 'server', status: 'error' as const }
    expect(scoreOf([passed]).areas).toEqual({ robustness: 100 })
    expect(scoreOf([passed, passed, lost]).areas).toEqual({ robustness: 0 })
  })
})
