import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { Comparison } from '../bench/gateways/results.ts'
import { documentsOf, performanceDocuments } from '../../scripts/performance/page.ts'
import { svgOf } from '../../scripts/performance/plot.ts'

const middle = { median: 1, low: 1, high: 1 }

const empty: Comparison = {
  taken: { speed: '2026-01-01T00:00:00.000Z' },
  machine: { cpu: 'a processor', cores: 2, kernel: '6', node: 'v24' },
  plan: { launches: 1, rounds: 1, seconds: 1, warmUp: { calls: 1, seconds: 1 }, kills: 1 },
  gateways: [],
  calls: [],
  footprint: [],
  kills: [],
  dangerous: [],
  notMeasured: [],
}

describe('the page about performance', () => {
  it('and its plots are what the committed results make of them', () => {
    const written = [...performanceDocuments().keys()].map(
      (path) => [path, readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')] as const,
    )
    expect(new Map(written)).toEqual(performanceDocuments())
  })

  it('says what was left out, with the reason as text of one cell', () => {
    const reason = 'Error: it | said\n`no`\u001B[31m <b>\u202E'
    const page = documentsOf({ ...empty, notMeasured: [{ gateway: 'x', part: 'speed', reason }] }, undefined)
    expect(page.get('docs/performance.md')).toContain("| x | speed | `Error: it ¦ said 'no' [31m <b>` |")
  })

  it('names the gateways that are better than Gatehouse, but not those over another transport', () => {
    const described = { source: '', configuration: '' }
    const row = { concurrency: 64, bytes: 1024, rate: 1, p50: 1, p99: 9 }
    const cpu = (median: number) => ({ ...middle, median })
    const page = documentsOf(
      {
        ...empty,
        gateways: [
          { ...described, name: 'gatehouse', title: 'Gatehouse', transport: 'http' },
          { ...described, name: 'faster', title: 'Faster', transport: 'http' },
          { ...described, name: 'slower', title: 'Slower', transport: 'http' },
          { ...described, name: 'lines', title: 'Lines', transport: 'stdio' },
        ],
        calls: [
          { ...row, gateway: 'gatehouse', cpu: cpu(100) },
          { ...row, gateway: 'faster', cpu: cpu(50) },
          { ...row, gateway: 'slower', cpu: cpu(200) },
          { ...row, gateway: 'lines', cpu: cpu(10) },
        ],
      },
      undefined,
    )
    expect(page.get('docs/performance.md')).toContain('| CPU per call, µs | 100 | Faster (50) |')
  })
})

describe('a plot', () => {
  it('has a title and a description, and its texts are no markup', () => {
    const svg = svgOf({
      title: 'a < b',
      description: '"quoted" & more',
      bars: [{ label: '</text><script>\u0000\u202E\uD800', value: 1, text: '1' }],
    })
    expect(svg).toContain('<title id="title">a &lt; b</title>')
    expect(svg).toContain('<desc id="description">&quot;quoted&quot; &amp; more</desc>')
    expect(svg).toContain('>&lt;/text&gt;&lt;script&gt;\uFFFD</text>')
    expect(svg).not.toContain('<script>')
  })

  it('cuts a bar that would leave nothing of the others, and says so', () => {
    const bars = [1, 2, 1000].map((value) => ({ label: `${value}`, value, text: `${value}` }))
    const svg = svgOf({ title: '', description: '', bars })
    expect(svg).toContain('>1000 (bar cut)<')
    expect(svg.match(/bar cut/g)).toHaveLength(1)
  })

  it('draws bars in proportion to their values', () => {
    const bars = [1, 2].map((value) => ({ label: `${value}`, value, text: `${value}` }))
    const widths = [
      ...svgOf({ title: '', description: '', bars }).matchAll(/class="other"[^>]* width="([\d.]+)"/g),
    ]
    const [one, two] = widths.map(([, width]) => Number(width))
    expect(two).toBe(2 * (one ?? 0))
  })
})
