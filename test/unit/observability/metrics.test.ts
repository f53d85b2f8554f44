import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { Metrics } from '../../../src/observability/metrics.ts'
import type { Levels, MetricSources } from '../../../src/observability/exposition.ts'
import { needs } from '../../support/needs.ts'

const never = (): boolean => false

function metricsWith(
  levels: Levels = {
    upstreams: [],
    sessions: 0,
    operations: {},
  },
  pendingApprovals = async (): Promise<number | undefined> => 0,
  deadLetters = async (): Promise<number | undefined> => undefined,
  references: MetricSources['references'] = async () => undefined,
) {
  return new Metrics({
    isMethod: (name) => name === 'tools/call' || name === 'tools/list',
    isOutcome: (outcome) => ['ok', 'tool_error', 'OPERATION_TIMEOUT'].includes(outcome),
    levels: () => levels,
    pendingApprovals,
    deadLetters,
    references,
  })
}

const toolOf = (name: string) => ({ method: 'tools/call', upstream: 'files', name })

/** The sample lines of a metric. */
async function samples(metrics: Metrics, name: string): Promise<string[]> {
  const lines = (await metrics.page()).text.split('\n')
  return lines.filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
}

describe('metrics of references', () => {
  it('count what happens to them, and measure what is in the store', async () => {
    let scans = 0
    const levels = { result: { count: 2, bytes: 3000 }, upload: { count: 0, bytes: 0 } }
    const metrics = metricsWith(undefined, undefined, undefined, async () => {
      scans++
      return levels
    })
    metrics.referenced('used', 3)
    metrics.referenced('used')
    metrics.referenced('refused')
    expect(await samples(metrics, 'gatehouse_references_total')).toEqual([
      'gatehouse_references_total{outcome="used"} 4',
      'gatehouse_references_total{outcome="refused"} 1',
    ])
    expect(scans).toBe(1)
    expect(await samples(metrics, 'gatehouse_references')).toEqual([
      'gatehouse_references{kind="result"} 2',
      'gatehouse_references{kind="upload"} 0',
    ])
    expect(await samples(metrics, 'gatehouse_reference_bytes')).toEqual([
      'gatehouse_reference_bytes{kind="result"} 3000',
      'gatehouse_reference_bytes{kind="upload"} 0',
    ])
  })

  it('have no samples where references are off', async () => {
    expect(await samples(metricsWith(), 'gatehouse_references')).toEqual([])
    expect(await samples(metricsWith(), 'gatehouse_reference_bytes')).toEqual([])
    expect(await samples(metricsWith(), 'gatehouse_references_total')).toEqual([])
  })
})

describe('metrics of calls', () => {
  it.each([
    [2, ['gatehouse_pending_approvals 2']],
    [undefined, []],
  ])('pending approvals are counted if the store reports %s', async (pending, lines) => {
    const metrics = metricsWith(undefined, async () => pending)
    expect(await samples(metrics, 'gatehouse_pending_approvals')).toEqual(lines)
  })

  it('deliveries of events are counted by outcome, with the time until they were accepted, and dead letters', async () => {
    const metrics = metricsWith(undefined, undefined, async () => 3)
    expect(await samples(metrics, 'gatehouse_event_lag_seconds_count')).toEqual([])
    metrics.delivered('retried')
    metrics.delivered('delivered', 0.2)
    metrics.delivered('delivered')
    expect(await samples(metrics, 'gatehouse_event_deliveries_total')).toEqual([
      'gatehouse_event_deliveries_total{outcome="retried"} 1',
      'gatehouse_event_deliveries_total{outcome="delivered"} 2',
    ])
    expect(await samples(metrics, 'gatehouse_event_lag_seconds_count')).toEqual([
      'gatehouse_event_lag_seconds_count{} 1',
    ])
    expect(await samples(metrics, 'gatehouse_event_dead_letters')).toEqual(['gatehouse_event_dead_letters 3'])
    expect(await samples(metricsWith(), 'gatehouse_event_dead_letters')).toEqual([])
  })

  it('hidden characters in tool names are removed', async () => {
    const metrics = metricsWith()
    metrics.meter(toolOf('a\u001B[31mb\u202E')).count('ok', 0.01, () => true)
    expect((await metrics.page()).text).toContain('tool="a')
    for (const hidden of ['\u001B', '\u202E']) expect((await metrics.page()).text).not.toContain(hidden)
  })

  it('C206 C207 calls are counted by tool and outcome, with their duration', async () => {
    const metrics = metricsWith()
    metrics.meter(toolOf('read')).count('ok', 0.02, never)
    metrics.meter(toolOf('read')).count('tool_error', 0.2, never)
    expect(await samples(metrics, 'gatehouse_calls_total')).toEqual([
      'gatehouse_calls_total{method="tools/call",upstream="files",tool="read",outcome="ok"} 1',
      'gatehouse_calls_total{method="tools/call",upstream="files",tool="read",outcome="tool_error"} 1',
    ])
    expect(await samples(metrics, 'gatehouse_call_duration_seconds_count')).toEqual([
      'gatehouse_call_duration_seconds_count{method="tools/call",upstream="files",tool="read"} 2',
    ])
  })

  it('C207 durations are in buckets from one millisecond to minutes', async () => {
    const metrics = metricsWith()
    for (const seconds of [0.0005, 0.02, 400]) metrics.meter(toolOf('read')).count('ok', seconds, never)
    const buckets = await samples(metrics, 'gatehouse_call_duration_seconds_bucket')
    const counts = buckets.map((line) => [/le="([^"]+)"/.exec(line)?.[1], line.split(' ').at(-1)])
    expect(counts[0]).toEqual(['0.001', '1'])
    expect(counts).toContainEqual(['0.025', '2'])
    expect(counts).toContainEqual(['300', '2'])
    expect(counts.at(-1)).toEqual(['+Inf', '3'])
  })

  it('unlisted tool names are counted as other', async () => {
    const metrics = metricsWith()
    metrics.meter(toolOf('made-up')).count('tool_error', 0, never)
    metrics.meter(toolOf('listed')).count('tool_error', 0, () => true)
    const lines = await samples(metrics, 'gatehouse_calls_total')
    expect(lines).toEqual([
      'gatehouse_calls_total{method="tools/call",upstream="files",tool="other",outcome="tool_error"} 1',
      'gatehouse_calls_total{method="tools/call",upstream="files",tool="listed",outcome="tool_error"} 1',
    ])
  })

  it('unknown methods and outcomes are counted as other', async () => {
    const metrics = metricsWith()
    metrics.meter({ method: 'vendor/one', upstream: 'files' }).count('ok', 0, never)
    metrics.meter({ method: 'vendor/two', upstream: 'files' }).count('MADE_UP', 0, never)
    expect(await samples(metrics, 'gatehouse_calls_total')).toEqual([
      'gatehouse_calls_total{method="other",upstream="files",tool="",outcome="ok"} 1',
      'gatehouse_calls_total{method="other",upstream="files",tool="",outcome="other"} 1',
    ])
  })

  it('the number of distinct tools per server is limited', async () => {
    const metrics = metricsWith()
    for (let index = 0; index < 700; index++) metrics.meter(toolOf(`tool-${index}`)).count('ok', 0, never)
    const lines = await samples(metrics, 'gatehouse_calls_total')
    expect(lines).toHaveLength(501)
    expect(lines.find((line) => line.includes('tool="other"'))).toMatch(/ 200$/)
  })
})

describe('other metrics', () => {
  it('C208 authentication refusals and rate-limit refusals are counted', async () => {
    const metrics = metricsWith()
    metrics.refused('TOKEN_EXPIRED')
    metrics.rateLimited('files')
    expect(await samples(metrics, 'gatehouse_auth_failures_total')).toEqual([
      'gatehouse_auth_failures_total{reason="TOKEN_EXPIRED"} 1',
    ])
    expect(await samples(metrics, 'gatehouse_rate_limited_total')).toEqual([
      'gatehouse_rate_limited_total{upstream="files"} 1',
    ])
  })

  it('servers, sessions, suspended calls and operations are reported as gauges', async () => {
    const levels = {
      upstreams: [{ name: 'a', isUp: true, connections: 2, suspended: 3 }],
      sessions: 5,
      operations: { working: 4, input_required: 0 },
    }
    const metrics = metricsWith(levels)
    levels.upstreams = [{ name: 'b', isUp: false, connections: 0, suspended: 1 }]
    expect(await samples(metrics, 'gatehouse_upstream_up')).toEqual(['gatehouse_upstream_up{upstream="b"} 0'])
    expect(await samples(metrics, 'gatehouse_upstream_connections')).toEqual([
      'gatehouse_upstream_connections{upstream="b"} 0',
    ])
    expect(await samples(metrics, 'gatehouse_sessions')).toEqual(['gatehouse_sessions 5'])
    expect(await samples(metrics, 'gatehouse_parked_calls')).toEqual(['gatehouse_parked_calls 1'])
    expect(await samples(metrics, 'gatehouse_operations')).toEqual([
      'gatehouse_operations{state="working"} 4',
      'gatehouse_operations{state="input_required"} 0',
    ])
  })

  const needsPromtool = needs({ program: '/usr/bin/promtool', get: 'apt-get install prometheus' })

  it('the page is valid Prometheus text', needsPromtool, async () => {
    const metrics = metricsWith({
      upstreams: [{ name: 'a', isUp: true, connections: 2, suspended: 3 }],
      sessions: 5,
      operations: { working: 1, input_required: 2 },
    })
    metrics.meter(toolOf('a "quoted"\\name\n')).count('ok', 0.1, never)
    metrics.stored('get', 0.001)
    metrics.refused('TOKEN_EXPIRED')
    metrics.rateLimited('files')
    const checked = spawnSync('promtool', ['check', 'metrics'], {
      input: (await metrics.page()).text,
      encoding: 'utf8',
    })
    // The process metrics of Node follow other naming rules.
    const own = `${checked.stdout}${checked.stderr}`.split('\n').filter((line) => line.includes('gatehouse'))
    expect(own).toEqual([])
    expect([0, 3]).toContain(checked.status)
  })
})
