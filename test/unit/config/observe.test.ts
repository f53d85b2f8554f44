import { describe, expect, it } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import type { ObserveSettings } from '../../../src/core/settings.ts'

const jwt = { issuer: 'https://idp.example.com', audience: 'gateway' }

function load(config: Readonly<Record<string, unknown>>): ObserveSettings {
  const text = JSON.stringify({ upstreams: { a: 'some-server' }, ...config })
  return loadSettings(text, { file: '/srv/gateway/gateway.config.yaml', env: { KEY: 'k'.repeat(20) } })
    .settings.observe
}

describe('observe settings', () => {
  it('only metrics and the log of calls, without arguments and results, are on by default', () => {
    const { calls, ...others } = load({})
    expect(others).toEqual({ metrics: true })
    expect(calls).toMatchObject({ keep: 'metadata', ttl: 7 * 86_400_000, maxCalls: 100_000 })
  })

  it('the log of calls has the same defaults if only one of its settings is written', () => {
    expect(load({ observe: { calls: { keep: 'results' } } }).calls).toEqual({
      ...load({}).calls,
      keep: 'results',
    })
  })

  it('no calls are logged with `calls: off`, nor where all features are off', () => {
    for (const calls of [false, 'off', 'false'])
      expect(load({ observe: { calls } })).not.toHaveProperty('calls')
    expect(load({ observe: { calls: 'on' } })).toEqual(load({}))
    expect(() => load({ observe: { calls: 'none' } })).toThrow('must be on, off, or a mapping')
    expect(load({ features: 'none' })).not.toHaveProperty('calls')
    expect(load({ features: 'none', observe: { calls: true } })).toHaveProperty('calls')
  })

  it('spans are sent to the default path of a collector, with secret headers', () => {
    const { traces } = load({
      observe: { traces: { endpoint: 'http://collector:4318', headers: { 'x-key': '${KEY}' } } },
    })
    expect(traces).toMatchObject({
      endpoint: 'http://collector:4318/v1/traces',
      sample: 1,
      serviceName: 'gatehouse',
    })
    expect(String(traces?.headers['x-key'])).toBe('***')
    expect(
      load({ observe: { traces: { endpoint: 'https://otlp.example.com/custom' } } }).traces?.endpoint,
    ).toBe('https://otlp.example.com/custom')
    expect(load({ observe: { traces: { endpoint: 'http://collector:4318?k=1' } } }).traces?.endpoint).toBe(
      'http://collector:4318/v1/traces?k=1',
    )
  })

  it.each([
    [{ audit: './audit.jsonl' }, '/srv/gateway/audit.jsonl'],
    [{ audit: 'on' }, '/srv/gateway/.gatehouse/audit.jsonl'],
    [{ audit: true }, '/srv/gateway/.gatehouse/audit.jsonl'],
    [{ audit: { file: '/var/log/audit.jsonl' } }, '/var/log/audit.jsonl'],
    [{ audit: { max_size: '1MB' } }, '/srv/gateway/.gatehouse/audit.jsonl'],
  ])('observe: %j sets the file of the audit log', (observe, file) => {
    expect(load({ observe }).audit?.file).toBe(file)
  })

  it('the size, count and key of an audit log are read', () => {
    const { audit } = load({ observe: { audit: { max_size: '1MB', keep: 3, key: '${KEY}' } } })
    expect(audit).toMatchObject({ maxSize: 1024 ** 2, keep: 3 })
    expect(audit?.key?.reveal()).toBe('k'.repeat(20))
  })

  it('the corporate profile writes an audit log unless it is off', () => {
    const corporate = { profile: 'corporate', auth: { jwt } }
    expect(load(corporate).audit?.file).toBe('/srv/gateway/.gatehouse/audit.jsonl')
    expect(load({ ...corporate, observe: { audit: 'off' } }).audit).toBeUndefined()
  })

  it.each([
    { metrics: 'maybe' },
    { audit: { key: 'short' } },
    { traces: {} },
    { traces: { endpoint: 'collector:4318' } },
    { traces: { endpoint: 'http://collector', sample: 2 } },
    { log: { level: 'loud' } },
    { other: 1 },
  ])('observe: %j is refused', (observe) => expect(() => load({ observe })).toThrow(/observe/))
})
