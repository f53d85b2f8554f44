import { describe, expect, it } from 'vitest'
import {
  coverageText,
  failureSentence,
  firstFailure,
  shortFailure,
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

  it('are small whatever a server calls itself and its tools, and do not repeat what an id says', async () => {
    const store = new MemoryStore()
    const long = 'x'.repeat(200_000)
    const results = Array.from({ length: 6 }, () => ({
      ...resultOf('failed', { test_id: long, category: long, proposal_ref: long }),
      subject: long,
    }))
    const more = { server_version: long, suite_version: long, revision: long, results }
    await new TestReports(store, 'server-test').keep(reportOf({}, more))
    const text = (await store.get('server-test:files')) ?? ''
    expect(text.length).toBeLessThan(20_000)
    expect(text).not.toContain('"subject"')
    expect(text).toContain('"revision":"xxx')
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
    JSON.stringify({ ...reportOf({}), coverage: { called: 1, answered: '1', listed: 1 } }),
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
    expect(firstFailure({ results: [resultOf('passed'), resultOf('skipped'), failed] }, 100)).toBe(
      'It answers ping, but: error -32601',
    )
    expect(firstFailure({ results: [resultOf('passed')] }, 100)).toBeUndefined()
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

describe('a short sentence about a failure', () => {
  it.each([
    ['the words before it, if the next one is short', 'aa bb cc', 7, 'aa bb …'],
    ['the beginning of a long word', `name ${'x'.repeat(90)}`, 30, `name ${'x'.repeat(25)}…`],
    [
      'no half of a pair of surrogates',
      `name ${'\u{1F600}'.repeat(90)}`,
      30,
      /^name (?:\u{1F600}){12}\uFFFD…$/u,
    ],
    ['the whole, if it is short enough', 'aa bb', 7, 'aa bb'],
  ])('has %s', (_what, message, length, expected) => {
    expect(shortFailure(resultOf('failed', { message }), length)).toMatch(expected)
  })

  it('has no secret, also where it is cut', () => {
    const message = `postgres://user:${'hunter2secret'.repeat(9)}@host/db`
    expect(shortFailure(resultOf('failed', { message }), 40)).not.toContain('hunter2')
  })

  it('says the whole rule about names of tools, and what is found', () => {
    const description = 'Names of tools have 1 to 128 characters of A-Z, a-z, 0-9, "_", "-" and ".".'
    const message = `"${'bad name '.repeat(8)}" has other characters, or over 128`
    expect(shortFailure(resultOf('failed', { description, message }), 120)).toMatch(
      /^Names of tools have 1 to 128 characters of A-Z, a-z, 0-9, "_", "-" and ".", but: "bad name /,
    )
  })
})

describe('how many tools answered', () => {
  it.each([
    [undefined, 'no tools'],
    [{ called: 3, answered: 1, listed: 9 }, '1 of 9 tools answered'],
    // A report of an earlier version.
    [{ called: 3, listed: 9 }, '3 of 9 tools answered'],
  ])('of %j is "%s"', (coverage, text) => {
    expect(coverageText({ results: [], ...(coverage && { coverage }) })).toBe(text)
  })

  it('is not known if the list of tools could not be read', () => {
    const results = [resultOf('failed', { test_id: 'list/tools/pages' })]
    expect(coverageText({ results, coverage: { called: 0, answered: 0, listed: 0 } })).toBe(
      'tools could not be listed',
    )
    expect(coverageText({ results, coverage: { called: 0, answered: 0, listed: 2 } })).toBe(
      '0 of 2 tools answered',
    )
  })
})
