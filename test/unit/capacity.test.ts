import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { type KindName, kinds } from '../bench/capacity/kinds.ts'
import { type Usage, perUnit } from '../bench/capacity/meter.ts'
import type { Capacity } from '../bench/capacity/results.ts'
import { capacityDocument, capacityPage } from '../../scripts/performance/capacity-page.ts'
import { type Limits, mostReplicas, needOf, type Workload } from '../../scripts/performance/fleet-model.ts'

const nothing: Usage = {
  roundTrips: 0,
  commands: 0,
  bytesIn: 0,
  bytesOut: 0,
  redisCpu: 0,
  gatewayCpu: 0,
  memory: 0,
}

/** A command takes 5 µs of Redis. */
const busy: Partial<Record<KindName, Partial<Usage>>> = { keyed: { commands: 2, redisCpu: 10 } }

/** Costs in which a kind takes nothing unless it is given; an idle gateway asks Redis ten times a second. */
function costs(given: Partial<Record<KindName, Partial<Usage>>>): Capacity {
  const idle = { ...nothing, roundTrips: 10, commands: 20, redisCpu: 9999 }
  return {
    takenAt: '2026-01-01T00:00:00.000Z',
    machine: { cpu: 'a processor', cores: 2, kernel: '6', node: 'v24' },
    redis: '7',
    idle: [
      { gateways: 1, ...idle },
      { gateways: 2, ...idle, roundTrips: 20, commands: 40 },
      { gateways: 2, transactions: 100, ...idle, roundTrips: 22, commands: 240 },
    ],
    calls: (Object.keys(kinds) as KindName[]).map((kind) => ({
      kind,
      ...nothing,
      ...busy[kind],
      ...given[kind],
    })),
    memory: { idleMegabytes: 100, session: 1000, stream: 2000, subscription: 3000 },
  }
}

const load: Workload = {
  calls: {},
  sessions: 0,
  streams: 0,
  transactions: 0,
  isFollowed: false,
  isSticky: false,
}
const limits: Limits = {
  redisCpu: 1,
  redisMemory: 1e9,
  redisNetwork: 1e6,
  redisConnections: 100,
  storedSessions: 100,
  gatewayCpu: 1,
  gatewayMemory: 1e9,
}

describe('what a fleet needs', () => {
  it('is what its calls and its members take, in proportion to the replicas', () => {
    const measured = costs({ write: { redisCpu: 900, bytesIn: 50, bytesOut: 20, gatewayCpu: 3000 } })
    const need = needOf(10, { ...load, calls: { write: 100 } }, measured)
    expect(need.redisCpuFor.calls).toBeCloseTo(0.9)
    expect(need.redisCpuFor.members).toBeCloseTo(0.001)
    expect(need.of.redisCpu).toBeCloseTo(0.901)
    expect(need.of.redisNetwork).toBeCloseTo(50_000)
    expect(need.of.gatewayCpu).toBeCloseTo(0.3)
    expect(need.of.redisConnections).toBe(20)
  })

  it('has the cost of the hop for the sessions of other gateways, unless the balancer is sticky', () => {
    const measured = costs({ 'session-read': { gatewayCpu: 1000 }, forwarded: { gatewayCpu: 2000 } })
    const reading = { ...load, calls: { 'session-read': 100 } }
    expect(needOf(1, reading, measured).of.gatewayCpu).toBeCloseTo(0.1)
    expect(needOf(4, reading, measured).forwarded).toBe(0.75)
    expect(needOf(4, reading, measured).of.gatewayCpu).toBeCloseTo(0.175)
    expect(needOf(4, { ...reading, isSticky: true }, measured).of.gatewayCpu).toBeCloseTo(0.1)
  })

  it('grows with the square of the replicas where each follows the events of all', () => {
    const measured = costs({
      write: { commands: 2 },
      'event-kept': { commands: 6 },
      'event-elsewhere': { commands: 8 },
    })
    const followers = (replicas: number) =>
      needOf(replicas, { ...load, calls: { write: 1000 }, isFollowed: true }, measured).redisCpuFor.followers
    expect(followers(1)).toBeCloseTo(0.02)
    expect(followers(11)).toBeCloseTo(11 * (0.02 + 10 * 0.01))
  })

  it('has a check of every other gateway, as far as streams are forwarded to it', () => {
    const checks = (replicas: number, streams: number) =>
      needOf(replicas, { ...load, streams }, costs({})).redisCpuFor.checks
    expect(checks(101, 1000)).toBeCloseTo((101 * 100 * (100 / 101) * 0.5 * 10) / 1e6)
    expect(checks(101, 10)).toBeCloseTo((101 * 10 * (100 / 101) * 0.5 * 10) / 1e6)
    expect(checks(101, 0)).toBe(0)
  })

  it('has one scan of the transactions of all replicas', () => {
    const scans = (replicas: number) =>
      needOf(replicas, { ...load, transactions: 50 }, costs({})).redisCpuFor.scans
    expect(scans(1)).toBeCloseTo((50 * 10) / 1e6)
    expect(scans(10)).toBeCloseTo((10 * 50 * 10) / 1e6)
  })

  it('keeps keys for a day, and no more actions and logged calls than the store has at most', () => {
    const kept = { read: { memory: 100 }, write: { memory: 300 }, keyed: { memory: 1000 } }
    const stored = (calls: Workload['calls']) => needOf(1, { ...load, calls }, costs(kept)).of.redisMemory
    expect(stored({ read: 1000 })).toBe(100_000 * 100)
    expect(stored({ write: 1000 })).toBe(100_000 * 100 + 200_000 * 200)
    expect(stored({ keyed: 1000 })).toBe(100_000 * 100 + 200_000 * 200 + 86_400_000 * 700)
  })

  it('fits up to the replicas whose need is within the limit', () => {
    const need = (replicas: number) => needOf(replicas, { ...load, sessions: 3 }, costs({}))
    expect(mostReplicas('storedSessions', limits, need)).toBe(33)
    expect(mostReplicas('redisConnections', limits, need)).toBe(50)
    expect(mostReplicas('gatewayMemory', limits, need)).toBeUndefined()
    const large = (replicas: number) => needOf(replicas, { ...load, sessions: 101 }, costs({}))
    expect(mostReplicas('storedSessions', limits, large)).toBe(0)
  })

  it('is not computed of costs that were not measured', () => {
    const measured = { ...costs({}), calls: [] }
    expect(() => needOf(1, { ...load, calls: { read: 1 } }, measured)).toThrow('was not measured')
  })
})

describe('what was used for each call', () => {
  it('does not have what happens in the background in that time', () => {
    const used = { ...nothing, commands: 130, gatewayCpu: 1000 }
    const background = { ...nothing, commands: 10, gatewayCpu: 100 }
    expect(perUnit({ used, seconds: 3 }, 10, background)).toEqual({
      ...nothing,
      commands: 10,
      gatewayCpu: 70,
    })
  })
})

describe('the page about capacity', () => {
  it('is what the committed results make of it', () => {
    expect(readFileSync(new URL('../../docs/capacity.md', import.meta.url), 'utf8')).toBe(capacityDocument())
  })

  it('puts first what is used up first', () => {
    const page = capacityPage(costs({ write: { redisCpu: 20_000 } }))
    const rows = page
      .slice(page.indexOf('## What saturates first'))
      .split('\n')
      .filter((line) => line.startsWith('| '))
    expect(rows[1]).toContain('The one thread of Redis')
    expect(rows[1]).toContain('| 1 replica |')
  })
})
