import { describe, expect, it } from 'vitest'
import {
  durationText,
  latencyPlot,
  longest,
  ratePlot,
  summaryOf,
  waterfall,
} from '../../../../src/downstream/pages/plot.ts'
import { CallRates, type CallSums, sumOf } from '../../../../src/records/call-rates.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'

function sums(...calls: readonly (readonly [ms: number, end: 'ok' | 'failed' | 'denied'])[]): CallSums {
  const rates = new CallRates(new MemoryStore())
  for (const [ms, end] of calls) rates.count({ at: 1, ms, end })
  return sumOf(Object.values(rates.present.servers))
}

/** The bars of a plot: their class, beginning and height. */
function bars(html: string): readonly (readonly [string, number, number])[] {
  const found = html.matchAll(
    /<rect class="(\w+)" x="([\d.]+)" y="[\d.]+" width="[\d.]+" height="([\d.]+)"\/>/g,
  )
  return [...found].map(([, kind = '', x, height]) => [kind, Number(x), Number(height)] as const)
}

describe('the plots of calls', () => {
  it('stack what succeeded, was denied and failed, in parts of the highest bar', () => {
    const none = sums()
    const some = sums([1, 'ok'], [1, 'ok'], [1, 'denied'], [1, 'failed'])
    const plot = String(ratePlot([none, some, sums([1, 'ok'])], 'calls'))
    expect(bars(plot)).toEqual([
      ['good', 240, 60],
      ['held', 240, 30],
      ['bad', 240, 30],
      ['good', 480, 30],
    ])
  })

  it('have gaps in their lines where nothing was called', () => {
    const one = sums([100, 'ok'])
    const plot = String(latencyPlot([one, one, sums(), one], 'durations'))
    expect(plot.match(/<polyline/g)).toHaveLength(2)
    expect(plot.match(/<circle/g)).toHaveLength(2)
    expect(longest([one, sums()])).toBeGreaterThan(50)
  })

  it('are described in words', () => {
    expect(summaryOf([sums(), sums()])).toBe('No calls.')
    expect(summaryOf([sums([3, 'ok']), sums([3, 'failed'], [3, 'denied'])])).toMatch(
      /^3 calls, 1 failed, 1 denied\. Half took at most \d ms, 95 % at most \d ms\.$/,
    )
  })

  it.for([
    [0.256, '0.26 ms'],
    [12.4, '12 ms'],
    [1490, '1.5 s'],
    [90_000, '1.5 min'],
  ] as const)('show %s milliseconds as %s', ([ms, text]) => {
    expect(durationText(ms)).toBe(text)
  })

  it('show the parts of a call where they began, and also the shortest', () => {
    const plot = String(
      waterfall(
        [
          { kind: 'gateway', start: 0, ms: 1000 },
          { kind: 'server', start: 500, ms: 0.01 },
        ],
        1000,
        'time',
      ),
    )
    expect(bars(plot).map(([kind, x]) => [kind, x])).toEqual([
      ['gateway', 0],
      ['server', 360],
    ])
    expect(plot).not.toContain('width="0"')
    expect(String(waterfall([{ kind: 'gateway', start: 0, ms: 0 }], 0, 'time'))).not.toMatch(/NaN|Infinity/)
  })
})
