import { describe, expect, it } from 'vitest'
import { badge } from '../../../../src/features/conformance/badge.ts'
import { reportsHeaders, reportsPage } from '../../../../src/features/conformance/page.ts'
import { type ConformanceReport, ConformanceReports } from '../../../../src/records/conformance-reports.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'

const hostile = `<script>alert("1")</script>\u202E`

function reportOf(summary: Partial<ConformanceReport['summary']>, message?: string): ConformanceReport {
  return {
    server_name: 'files',
    server_version: '1.0.0',
    suite_version: '1.0.0',
    tested_at: '2026-11-26T21:00:00.000Z',
    results: [
      {
        test_id: 'CONF-001',
        category: 'manifest',
        status: 'failed',
        duration_ms: 1,
        ...(message !== undefined && { message }),
      },
    ],
    summary: { passed: 0, failed: 0, skipped: 0, errors: 0, ...summary },
  }
}

describe('the badge', () => {
  it.each([
    [[], 'not run'],
    [[reportOf({ skipped: 9 })], 'not run'],
    [[reportOf({ passed: 3, skipped: 9 })], '3 of 3 passed'],
    [[reportOf({ passed: 3, failed: 1, errors: 1, skipped: 9 })], '3 of 5 passed'],
    [[reportOf({ passed: 3 }), reportOf({ passed: 2, failed: 1 })], '5 of 6 passed'],
  ])('counts what passed among what applies', (reports, text) => {
    expect(badge(reports)).toContain(`<title>conformance: ${text}</title>`)
  })

  it('has another color if a check failed or could not be carried out', () => {
    const colors = [{ passed: 1 }, { passed: 1, failed: 1 }, { passed: 1, errors: 1 }].map(
      (summary) => /fill="(#\w{6})"/.exec(badge([reportOf(summary)]))?.[1],
    )
    expect(colors[1]).toBe(colors[2])
    expect(colors[0]).not.toBe(colors[1])
  })
})

describe('the page', () => {
  it('escapes what servers say, and shows invisible characters', () => {
    const page = reportsPage([{ name: 'files', report: reportOf({ failed: 1 }, hostile) }], true)
    expect(page).not.toContain('<script')
    expect(page).toContain('&#60;script&#62;alert(&#34;1&#34;)&#60;/script&#62;\\u202e')
    expect(reportsHeaders['content-security-policy']).toContain(`default-src 'none'`)
  })

  it('says what each check is about, and nothing for a report of an earlier version', () => {
    const report = reportOf({ failed: 1 })
    const described = {
      ...report,
      results: report.results.map((each) => ({ ...each, description: 'It has <a> name' })),
    }
    const page = reportsPage([{ name: 'files', report: described }], true)
    expect(page).toContain('<td><code>CONF-001</code><br>It has &#60;a&#62; name</td>')
    expect(reportsPage([{ name: 'files', report }], true)).toContain('<td><code>CONF-001</code></td>')
  })

  it('names the command where the suite has not run, and says so if its report could not be left', () => {
    const shared = reportsPage([{ name: 'files', report: undefined }], true)
    expect(shared).toContain('<code>gatehouse conformance files</code>.')
    expect(reportsPage([{ name: 'files', report: undefined }], false)).toContain(
      'a store that is not in memory',
    )
  })
})

describe('the reports in a store', () => {
  it('are the latest of each server', async () => {
    const reports = new ConformanceReports(new MemoryStore())
    await reports.keep(reportOf({ passed: 1 }))
    await reports.keep(reportOf({ passed: 2 }))
    await reports.keep({ ...reportOf({ passed: 9 }), server_name: 'other' })
    expect(await reports.latest('files')).toEqual(reportOf({ passed: 2 }))
    expect(await reports.latest('none')).toBeUndefined()
  })

  it.each(['', '7', '{}', '{"server_name":"files"}', JSON.stringify({ ...reportOf({}), results: [7] })])(
    'are absent where another program wrote %s',
    async (text) => {
      const store = new MemoryStore()
      await store.put('conformance:files', text, 60_000)
      expect(await new ConformanceReports(store).latest('files')).toBeUndefined()
    },
  )
})
