import { describe, expect, it } from 'vitest'
import { judge } from '../../bench/budgets.ts'
import type { Row } from '../../bench/summary.ts'

function row(target: string, concurrency: number, cpu: number, more: Partial<Row> = {}): Row {
  const exactly = (median: number) => ({ median, low: median, high: median })
  const latencies = { rate: 1000, p50: 1, p99: 2 }
  return { target, concurrency, bytes: 1024, ...latencies, toBase: { cpu: exactly(cpu) }, ...more }
}

const startMs = { median: 500, low: 490, high: 510 }
const judged = (rows: readonly Row[], ...chosen: string[]) =>
  judge(rows, { startMs, chosen, concurrencies: [16, 64] })
const named = (rows: readonly Row[], name: string, ...chosen: string[]) =>
  judged(rows, ...chosen).find((each) => each.name === name)

describe('the budgets of a benchmark', () => {
  it('hold each concurrency against the budget of a target, and against what is aimed at', () => {
    const rows = [row('none', 16, 1.2), row('none', 64, 1.05)]
    expect(named(rows, 'CPU per call, none, 16 at once', 'none')).toMatchObject({
      ...{ value: 1.2, limit: 1.25, met: true, stretchMet: false },
    })
    expect(named(rows, 'CPU per call, none, 64 at once', 'none')).toMatchObject({
      ...{ value: 1.05, stretch: 1.1, met: true, stretchMet: true },
    })
    expect(named([row('none', 16, 1.26)], 'CPU per call, none, 16 at once', 'none')?.met).toBe(false)
  })

  it('count what could not be measured as missed, and leave out what was not asked for', () => {
    const verdicts = judged([], 'guarded')
    expect(verdicts.filter(({ name }) => name.startsWith('CPU'))).toMatchObject([
      { target: 'guarded', met: false, stretchMet: false },
      { target: 'guarded', met: false, stretchMet: false },
    ])
    expect(verdicts.some(({ value, name }) => value !== undefined && name.startsWith('CPU'))).toBe(false)
    expect(judged([], 'bare').map(({ name }) => name)).toEqual(['start until /health answers'])
  })

  it('ignore earlier builds and large replies', () => {
    const others = [row('none', 16, 9, { build: 'v1' }), row('none', 16, 9, { bytes: 10_240 })]
    const rows = [...others, row('none', 16, 1)]
    expect(named(rows, 'CPU per call, none, 16 at once', 'none')?.value).toBe(1)
  })

  it('are about the target that needs most memory, of those whose store calls do not fill', () => {
    const rows = [
      row('none', 16, 1, { idle: 90, peak: 120 }),
      row('default', 64, 1, { idle: 95, peak: 210 }),
      row('keyed-memory', 64, 1, { idle: 300, peak: 900 }),
    ]
    expect(named(rows, 'idle memory', 'default')).toMatchObject({ target: 'default', value: 95, met: true })
    expect(named(rows, 'peak memory', 'default')).toMatchObject({ target: 'default', value: 210, met: false })
  })

  it('have one for the tail of calls out of the box', () => {
    const p99 = { median: 1.4, low: 1, high: 2 }
    const verdict = named([row('default', 64, 1, { toBase: { p99 } })], 'p99, default, 64 at once', 'default')
    expect(verdict).toMatchObject({ value: 1.4, met: true, stretchMet: false })
  })
})
