import { describe, expect, it } from 'vitest'
import { Metrics } from '../../../src/observability/metrics.ts'
import {
  type Collected,
  type Snapshot,
  summed,
  workersText,
} from '../../../src/observability/worker-metrics.ts'

describe('sums of texts of metrics', () => {
  it('add values of equal names and labels, and keep each metric in one place with its description', () => {
    const one =
      '# HELP a A.\n# TYPE a counter\na{x="1 2"} 1\n\n# HELP b B.\n# TYPE b histogram\nb_sum{} 0.5\n'
    const two =
      '# HELP b B.\n# TYPE b histogram\nb_sum{} 0.25\n# HELP a A.\n# TYPE a counter\na{x="1 2"} 2\na{x="3"} 4\n'
    expect(summed([one, two]).split('\n')).toEqual([
      '# HELP a A.',
      '# TYPE a counter',
      'a{x="1 2"} 3',
      'a{x="3"} 4',
      '# HELP b B.',
      '# TYPE b histogram',
      'b_sum{} 0.75',
      '',
    ])
    expect(summed([summed([one]), ''])).toBe(summed([one]))
  })

  it('leave out what is cut off, or is no number', () => {
    expect(summed(['# HELP a A.\na{x="1"} 1\na{x="2', 'b 1\n', '# HELP a A.\na{x="3"} NaN\n'])).toBe(
      '# HELP a A.\na{x="1"} 1\n',
    )
  })
})

/** One worker with so many calls, connections, and calls that wait in the store. */
function metricsOf(
  calls: number,
  isUp: boolean,
  others?: () => Promise<Collected>,
): Metrics & { snapshot(): Promise<Snapshot> } {
  let snapshot: () => Promise<Snapshot> = () => Promise.reject(new Error('none'))
  const metrics = new Metrics({
    isMethod: () => true,
    isOutcome: () => true,
    levels: () => ({
      upstreams: [{ name: 'files', isUp, connections: calls, suspended: 0 }],
      sessions: 1,
      operations: {},
    }),
    pendingApprovals: async () => 3,
    deadLetters: async () => undefined,
    references: async () => undefined,
    workers: {
      collect: () => others?.() ?? Promise.reject(new Error('none')),
      answerWith: (given) => void (snapshot = given),
    },
  })
  const meter = metrics.meter({ method: 'tools/call', upstream: 'files', name: 'read' })
  for (let index = 0; index < calls; index++) meter.count('ok', 0.2, () => true)
  return Object.assign(metrics, { snapshot: () => snapshot() })
}

describe('the metrics of several workers', () => {
  it('are sums, but for what each sees of the store, and whether a server is reached', async () => {
    const other = metricsOf(5, false)
    const past =
      '# HELP gatehouse_calls_total Calls by outcome.\n# TYPE gatehouse_calls_total counter\ngatehouse_calls_total{method="tools/call",upstream="files",tool="read",outcome="ok"} 10\n'
    const asked = metricsOf(2, true, async () => {
      // Messages between processes are JSON.
      const answer: Snapshot = JSON.parse(JSON.stringify(await other.snapshot()))
      return { answers: [answer], past: [past], silent: 1 }
    })
    const lines = (await asked.page()).text.split('\n')
    const labels = '{method="tools/call",upstream="files",tool="read"'
    expect(lines).toEqual(
      expect.arrayContaining([
        `gatehouse_calls_total${labels},outcome="ok"} 17`,
        `gatehouse_call_duration_seconds_count${labels}} 7`,
        `gatehouse_call_duration_seconds_bucket${labels},le="0.25"} 7`,
        'gatehouse_upstream_connections{upstream="files"} 7',
        'gatehouse_upstream_up{upstream="files"} 0',
        'gatehouse_sessions 2',
        'gatehouse_pending_approvals 3',
        'gatehouse_workers{state="counted"} 2',
        'gatehouse_workers{state="silent"} 1',
      ]),
    )
    const described = lines.filter((line) => line.startsWith('# TYPE '))
    expect(new Set(described).size).toBe(described.length)
    const started = lines.find((line) => line.startsWith('process_start_time_seconds '))
    expect(Number(started?.split(' ')[1])).toBeLessThanOrEqual(Math.ceil(Date.now() / 1000))
  })

  it('are collected once for requests at the same time', async () => {
    let collections = 0
    const asked = metricsOf(1, true, async () => {
      collections++
      return { answers: [], past: [], silent: 0 }
    })
    await Promise.all([asked.page(), asked.page()])
    await asked.page()
    expect(collections).toBe(2)
  })

  it('say how many workers they are of', () => {
    expect(workersText({ answers: [], past: [], silent: 2 })).toMatch(/counted"\} 1\n.*silent"\} 2\n/)
  })
})
