import { describe, expect, it } from 'vitest'
import {
  extensionsBadge,
  qualityBadge,
  reportsPage,
  type ShownServer,
} from '../../../../src/features/conformance/page.ts'
import type { KeptReport, TestReport } from '../../../../src/records/test-reports.ts'

const hostile = `<script>alert("1")</script>\u202E`

function kept(
  summary: Partial<TestReport['summary']>,
  { history = [], ...more }: Partial<TestReport> & Partial<Pick<KeptReport, 'history'>> = {},
): KeptReport {
  const report = {
    server_name: 'files',
    server_version: '1.0.0',
    suite_version: '1.0.0',
    tested_at: '2026-11-26T21:00:00.000Z',
    results: [{ test_id: 'CONF-001', category: 'manifest', status: 'failed' as const, duration_ms: 1 }],
    summary: { passed: 0, failed: 0, skipped: 0, errors: 0, ...summary },
    ...more,
  }
  return { report, history }
}

function scored(
  total: number | null,
  called: number,
  listed: number,
  more: Partial<TestReport> = {},
): KeptReport {
  return kept({ passed: 9 }, { score: { total }, coverage: { called, listed }, ...more })
}

function serverOf(quality?: KeptReport, conformance?: KeptReport, name = 'files'): ShownServer {
  return { name, quality, conformance }
}

const titleOf = (svg: string) => /<title>(.*)<\/title>/.exec(svg)?.[1]
const colorOf = (svg: string) => [...svg.matchAll(/fill="(#\w{6})"/g)].at(-1)?.[1]
const lost = {
  results: [
    { test_id: 'server/available', category: 'robustness', status: 'error' as const, duration_ms: 0 },
  ],
}

const unlisted = {
  results: [{ test_id: 'list/tools/pages', category: 'protocol', status: 'failed' as const, duration_ms: 0 }],
}

describe('the badge of the server test', () => {
  it.each([
    [[serverOf()], 'not run'],
    [[serverOf(undefined, kept({ passed: 62 }))], 'not run'],
    [[serverOf(scored(87, 3, 9))], '87/100 · 3 of 9 tools answered'],
    [[serverOf(scored(null, 0, 0))], 'nothing checked · no tools'],
    [[serverOf(scored(0, 0, 0, lost))], 'unavailable'],
    [[serverOf(scored(86, 0, 0, unlisted))], '86/100 · tools could not be listed'],
    [
      [serverOf(scored(100, 3, 9)), serverOf(scored(0, 0, 0, lost)), serverOf()],
      'lowest 0/100 · 3 of 9 tools answered · 2 of 3 servers · 1 unavailable',
    ],
  ])('says the score and of how many tools, and nothing of the gateway', (servers, text) => {
    expect(titleOf(qualityBadge(servers))).toBe(`server test: ${text}`)
  })

  it('is as green for a high score as for one of all tools only if half of the tools answered', () => {
    const [good, few, low] = [scored(100, 9, 9), scored(100, 3, 9), scored(40, 9, 9)].map((each) =>
      colorOf(qualityBadge([serverOf(each)])),
    )
    expect(new Set([good, few, low]).size).toBe(3)
    expect(colorOf(qualityBadge([serverOf(scored(95, 5, 9))]))).toBe(good)
    const failing = { coverage: { called: 9, answered: 0, listed: 9 } }
    expect(colorOf(qualityBadge([serverOf(scored(100, 9, 9, failing))]))).toBe(few)
    const undone = { summary: { passed: 9, failed: 0, skipped: 0, errors: 1 } }
    expect(colorOf(qualityBadge([serverOf(scored(100, 9, 9, undone))]))).toBe(few)
    expect(colorOf(qualityBadge([serverOf(scored(86, 0, 0, unlisted))]))).toBe(low)
    expect(colorOf(qualityBadge([serverOf(scored(100, 9, 9)), serverOf(scored(40, 9, 9))]))).toBe(low)
  })
})

describe('the badge of the gateway extensions', () => {
  it.each([
    [[serverOf(scored(87, 3, 9))], 'not run'],
    [[serverOf(undefined, kept({ skipped: 9 }))], 'not run'],
    [[serverOf(undefined, kept({ passed: 3, failed: 1, errors: 1, skipped: 9 }))], '3 of 5 checks passed'],
    [
      [kept({ passed: 3 }), kept({ passed: 2, failed: 1 })].map((each) => serverOf(undefined, each)),
      '5 of 6 checks passed',
    ],
  ])('counts what passed among what applies', (servers, text) => {
    expect(titleOf(extensionsBadge(servers))).toBe(`gateway extensions: ${text}`)
  })
})

describe('the page', () => {
  it('escapes what servers say, and shows invisible characters', () => {
    const results = [
      {
        test_id: `tool/${hostile}/x`,
        category: 'x',
        status: 'failed' as const,
        message: hostile,
        duration_ms: 1,
      },
    ]
    const page = reportsPage([serverOf(scored(5, 1, 1, { results, server_version: hostile }))], true)
    expect(page).not.toContain('<script')
    expect(page).not.toContain('\u202E')
    expect(page).toContain('&#60;script&#62;alert(&#34;1&#34;)&#60;/script&#62;\\u202e')
  })

  it('says what failed as a sentence, with the code small beside it and the command that shows it again', () => {
    const results = [
      {
        test_id: "tool/it's/missing/a",
        category: 'refusals',
        description: 'It refuses a call without a.',
        status: 'failed' as const,
        message: 'it accepted it',
        duration_ms: 1,
      },
    ]
    const quality = kept(
      { failed: 1 },
      { results, score: { total: 50 }, coverage: { called: 1, listed: 3 }, arguments: ['--sandbox', '/a b'] },
    )
    const page = reportsPage([serverOf(quality, undefined, 'my-files')], true)
    expect(page).toContain(
      '<li>It refuses a call without a, but: it accepted it <code class="about">tool/it&#39;s/missing/a</code></li>',
    )
    expect(page).toContain('gatehouse test my-files --sandbox &#39;/a b&#39;\n')
    expect(page).toContain(String.raw`--tool &#39;it&#39;\&#39;&#39;s&#39;`)
    expect(page).toContain('50/100 · 1 of 3 tools answered')
    expect(page).toContain(
      '2 tools were not called, or failed all valid calls: the score says little about them.',
    )
    expect(page).toContain('<code>gatehouse conformance my-files</code>')
  })

  it('folds all but the first failures, and counts those that it does not list', () => {
    const results = Array.from({ length: 40 }, (_none, at) => ({
      test_id: `tool/a/${at}`,
      category: 'results',
      status: 'failed' as const,
      message: `failure ${at}.`,
      duration_ms: 1,
    }))
    const page = reportsPage([serverOf(kept({ failed: 1200 }, { results, score: { total: 1 } }))], true)
    expect(page).toContain('<summary>And 1195 more</summary>')
    expect(page.match(/<li>failure/g)).toHaveLength(30)
  })

  it('draws the history of at least two runs, and leaves out runs in which nothing was checked', () => {
    const run = { tested_at: '2026-11-26T21:00:00.000Z', passed: 1, failed: 1 }
    const history = [
      { ...run, score: 20 },
      { ...run, score: null },
      { ...run, score: 80.9 },
    ]
    const page = reportsPage(
      [serverOf({ ...scored(80, 1, 1), history }, { ...kept({}), history: [run] })],
      true,
    )
    expect(page.match(/<polyline/g)).toHaveLength(1)
    expect(page).toContain('aria-label="Score of the last 2 runs: 20, 80"')
  })

  it('says what each check is about, and nothing for a report of an earlier version', () => {
    const passed = { test_id: 'CONF-001', category: 'manifest', status: 'passed' as const, duration_ms: 1 }
    const results = [{ ...passed, description: 'It has <a> name' }, passed]
    const page = reportsPage([serverOf(undefined, kept({ passed: 2 }, { results }))], true)
    expect(page).toContain('<li>It has &#60;a&#62; name <code class="about">CONF-001</code></li>')
    expect(page).toContain('<li> <code class="about">CONF-001</code></li>')
  })

  it('says of a check that was skipped only why', () => {
    const result = {
      test_id: 'tool/a/calls',
      category: 'results',
      status: 'skipped' as const,
      duration_ms: 1,
    }
    const results = [{ ...result, description: 'a is called.', message: 'not called: it may write' }]
    const page = reportsPage([serverOf(kept({ skipped: 1 }, { results }))], true)
    expect(page).toContain('<li>not called: it may write <code')
  })

  it('names the commands where nothing has run, and says so if a report could not be left', () => {
    const shared = reportsPage([serverOf()], true)
    expect(shared).toContain('<code>gatehouse conformance files</code>.')
    expect(shared).toContain('<code>gatehouse test files</code>.')
    expect(reportsPage([serverOf()], false)).toContain('a store that is not in memory')
  })
})
