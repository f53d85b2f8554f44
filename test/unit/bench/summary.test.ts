import { describe, expect, it } from 'vitest'
import type { Sample } from '../../bench/measure.ts'
import { summarize } from '../../bench/summary.ts'

const shape = { concurrency: 16, bytes: 1024 }
const latencies = { rate: 1000, p50: 1, calls: 100 }

function sample(target: string, cpu: number | undefined, more: Partial<Sample> = {}): Sample {
  const own = cpu === undefined ? {} : { cpu, peak: cpu / 2 }
  return { ...shape, ...latencies, target, launch: 0, round: 0, p99: cpu ?? 1, ...own, ...more }
}

const baselines = { none: 'bare' }

describe('the rows of a benchmark', () => {
  it('have one row for each target, build and shape, with medians', () => {
    const rows = summarize(
      [
        sample('none', 90, { round: 0 }),
        sample('none', 100, { round: 1 }),
        sample('none', 130, { round: 2 }),
        sample('none', 70, { build: 'v1' }),
        sample('none', 400, { bytes: 10_240 }),
      ],
      baselines,
    )
    expect(rows.map(({ target, build, bytes, cpu }) => [target, build, bytes, cpu?.median])).toEqual([
      ['none', undefined, 1024, 100],
      ['none', 'v1', 1024, 70],
      ['none', undefined, 10_240, 400],
    ])
  })

  it('compare a turn with the turn of the bare proxy in the same round of the same launch', () => {
    const rows = summarize(
      [
        ...[sample('none', 100), sample('bare', 50)],
        ...[sample('none', 300, { round: 1 }), sample('bare', 150, { round: 1 })],
        // Nothing was measured beside these.
        sample('none', 9000, { round: 2 }),
        sample('bare', 1, { launch: 1 }),
        sample('bare', 1, { concurrency: 64 }),
      ],
      baselines,
    )
    const [row] = rows
    expect(row?.toBase?.cpu).toEqual({ median: 2, low: 2, high: 2 })
    expect(row?.toBase?.p99?.median).toBe(2)
    expect(row?.toBuild).toBeUndefined()
    expect(rows.find(({ target }) => target === 'bare')?.toBase).toBeUndefined()
  })

  it('say of an earlier build how many times its cost the working copy has', () => {
    const rows = summarize(
      [sample('none', 90), sample('none', 60, { build: 'v1' }), sample('bare', 50)],
      baselines,
    )
    expect(rows[1]).toMatchObject({ build: 'v1', toBase: { cpu: { median: 1.2 } } })
    expect(rows[1]?.toBuild).toMatchObject({ cpu: { median: 1.5 }, peak: { median: 1.5 } })
    expect(rows[0]?.toBuild).toBeUndefined()
  })

  it('have the peak of each launch, and the memory before its first call, in the median of launches', () => {
    const rows = summarize(
      [100, 300, 200].flatMap((peak, launch) => [
        sample('none', 50, { launch, peak }),
        sample('none', 50, { launch, round: 1, peak: peak - 10 }),
      ]),
      baselines,
      [90, 120, 100].map((megabytes) => ({ target: 'none', megabytes })),
    )
    expect(rows).toMatchObject([{ peak: 200, idle: 100 }])
  })

  it('have latencies alone where no processes are measured', () => {
    const [row] = summarize([sample('direct', undefined)], baselines)
    expect(row).not.toHaveProperty('cpu')
    expect(row).not.toHaveProperty('peak')
    expect(row?.p99).toBe(1)
  })
})
