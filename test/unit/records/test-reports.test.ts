import { describe, expect, it } from 'vitest'
import {
  failureSentence,
  firstFailure,
  type TestReport,
  TestReports,
} from '../../../src/records/test-reports.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

type Result = TestReport['results'][number]

function resultOf(status: Result['status'], more: Partial<Result> = {}): Result {
  return { test_id: `CONF-${status}`, category: 'manifest', status, duration_ms: 1, ...more }
}

function reportOf(summary: Partial<TestReport['summary']>, more: Partial<TestReport> = {}): TestReport {
  return {
    server_name: 'files',
    server_version: '1.0.0',
    suite_version: '1.0.0',
    tested_at: '2026-11-26T21:00:00.000Z',
    results: [resultOf('failed')],
    summary: { passed: 0, failed: 0, skipped: 0, errors: 0, ...summary },
    ...more,
  }
}

describe('the reports in a store', () => {
  it('are the latest of each server and suite, with the numbers of those before', async () => {
    const store = new MemoryStore()
    const reports = new TestReports(store, 'server-test')
    const tested = { score: { total: 87 }, coverage: { called: 3, listed: 9 }, arguments: ['--seed', '7'] }
    await reports.keep(reportOf({ passed: 1 }, { score: { total: null } }))
    await reports.keep(reportOf({ passed: 2, failed: 1, errors: 1 }, tested))
    await reports.keep({ ...reportOf({ passed: 9 }), server_name: 'other' })
    const tested_at = '2026-11-26T21:00:00.000Z'
    expect(await reports.latest('files')).toEqual({
      report: reportOf({ passed: 2, failed: 1, errors: 1 }, tested),
      history: [
        { tested_at, passed: 1, failed: 0, score: null },
        { tested_at, passed: 2, failed: 2, score: 87, called: 3, listed: 9 },
      ],
    })
    expect(await reports.latest('none')).toBeUndefined()
    expect(await new TestReports(store, 'conformance').latest('files')).toBeUndefined()
  })

  it('include those that earlier versions left, which are a report alone', async () => {
    const store = new MemoryStore()
    const reports = new TestReports(store, 'conformance')
    await store.put('conformance:files', JSON.stringify(reportOf({ passed: 1 })), 60_000)
    expect(await reports.latest('files')).toMatchObject({
      report: reportOf({ passed: 1 }),
      history: [{ passed: 1 }],
    })
    await reports.keep(reportOf({ passed: 2 }))
    expect((await reports.latest('files'))?.history).toMatchObject([{ passed: 1 }, { passed: 2 }])
  })

  it('have a bounded history, and bounded results of which those that failed are kept first', async () => {
    const reports = new TestReports(new MemoryStore(), 'server-test')
    const results = [
      ...Array.from({ length: 600 }, () => resultOf('passed')),
      ...Array.from({ length: 200 }, () => resultOf('skipped')),
      ...Array.from({ length: 400 }, () => resultOf('failed', { message: `${'x'.repeat(5000)}\uD800` })),
    ]
    for (let run = 1; run <= 60; run++) await reports.keep(reportOf({ passed: run }))
    await reports.keep(reportOf({}, { results }))
    const { report, history } = (await reports.latest('files')) ?? {}
    expect(history).toHaveLength(50)
    expect(Object.groupBy(report?.results ?? [], ({ status }) => status)).toMatchObject({
      failed: { length: 400 },
      skipped: { length: 100 },
    })
    expect(report?.results.at(-1)?.message?.length).toBeLessThan(1000)
  })

  it('keep every run of commands that end at once', async () => {
    const reports = new TestReports(new MemoryStore(), 'server-test')
    await Promise.all(Array.from({ length: 8 }, () => reports.keep(reportOf({}))))
    expect((await reports.latest('files'))?.history).toHaveLength(8)
  })

  it.each([
    '',
    '7',
    '{}',
    '{"server_name":"files"}',
    JSON.stringify({ ...reportOf({}), results: [7] }),
    JSON.stringify({ ...reportOf({}), coverage: null }),
    JSON.stringify({ ...reportOf({}), score: { total: '100' } }),
    JSON.stringify({ version: 2, report: null, history: [] }),
    JSON.stringify({ version: 3, report: reportOf({}), history: [] }),
  ])('are absent where another program wrote %s', async (text) => {
    const store = new MemoryStore()
    await store.put('conformance:files', text, 60_000)
    expect(await new TestReports(store, 'conformance').latest('files')).toBeUndefined()
  })

  it('leave out entries of the history that are none', async () => {
    const store = new MemoryStore()
    const record = {
      version: 2,
      report: reportOf({}),
      history: [null, 7, { tested_at: 1 }, { tested_at: 'a', passed: 1, failed: 0 }],
    }
    await store.put('server-test:files', JSON.stringify(record), 60_000)
    expect((await new TestReports(store, 'server-test').latest('files'))?.history).toHaveLength(1)
  })
})

describe('what failed first', () => {
  it('is a sentence about what has to be true and what was found', () => {
    const failed = resultOf('failed', { description: 'It answers ping.', message: 'error -32601' })
    expect(firstFailure({ results: [resultOf('passed'), resultOf('skipped'), failed] })).toBe(
      'It answers ping, but: error -32601',
    )
    expect(firstFailure({ results: [resultOf('passed')] })).toBeUndefined()
  })

  it.each([
    [{ description: 'It pings.', message: 'It pings. Not here' }, 'It pings, but: Not here'],
    [{ message: 'no' }, 'no'],
    [{ description: 'It pings.' }, 'It is not so: It pings.'],
    [{}, 'CONF-failed'],
  ])('of %j is "%s"', (more, sentence) => {
    expect(failureSentence(resultOf('failed', more))).toBe(sentence)
  })
})
