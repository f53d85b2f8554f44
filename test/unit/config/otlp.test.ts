import { describe, expect, it } from 'vitest'
import { exportSettings } from '../../../src/config/sections/observe.ts'
import { Secret } from '../../../src/core/text/secret.ts'

type Environment = Readonly<Record<string, string>>

const metricsOf = (env: Environment) => exportSettings({}, env).metricsExport
const tracesOf = (env: Environment) => exportSettings({}, env).traces

describe('the variables of OpenTelemetry', () => {
  it.each<[Environment, string | undefined, string | undefined]>([
    [{}, undefined, undefined],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: '' }, undefined, undefined],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318' }, 'http://c:4318/v1/metrics', 'http://c:4318/v1/traces'],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c/x/' }, 'http://c/x/v1/metrics', 'http://c/x/v1/traces'],
    [{ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://c/own' }, 'http://c/own', undefined],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://c/own' }, undefined, 'http://c/own'],
    [
      { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c', OTEL_METRICS_EXPORTER: 'none' },
      undefined,
      'http://c/v1/traces',
    ],
    [
      { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c', OTEL_METRICS_EXPORTER: 'prometheus' },
      undefined,
      'http://c/v1/traces',
    ],
    [
      { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c', OTEL_TRACES_EXPORTER: ' None ' },
      'http://c/v1/metrics',
      undefined,
    ],
    [{ OTEL_METRICS_EXPORTER: 'console, otlp' }, 'http://localhost:4318/v1/metrics', undefined],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c', OTEL_SDK_DISABLED: 'TRUE' }, undefined, undefined],
    [
      { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c', OTEL_SDK_DISABLED: 'no' },
      'http://c/v1/metrics',
      'http://c/v1/traces',
    ],
  ])('%j send metrics to %s and spans to %s', (env, metrics, traces) => {
    expect([metricsOf(env)?.endpoint, tracesOf(env)?.endpoint]).toEqual([metrics, traces])
  })

  it('name headers, which are secret, and those of a signal win', () => {
    const settings = metricsOf({
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c',
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20abc, x-a = 1 ,broken,=none,x-bad=%zz',
      OTEL_EXPORTER_OTLP_METRICS_HEADERS: 'x-a=2,x-b=a=b',
    })
    const headers = Object.entries(settings?.headers ?? {}).map(([name, value]) => [name, value.reveal()])
    expect(Object.fromEntries(headers)).toEqual({
      authorization: 'Bearer abc',
      'x-a': '2',
      'x-bad': '%zz',
      'x-b': 'a=b',
    })
    expect(JSON.stringify(settings)).not.toContain('abc')
  })

  it.each<[Environment, number, number]>([
    [{}, 60_000, 10_000],
    [{ OTEL_METRIC_EXPORT_INTERVAL: '500' }, 500, 500],
    [{ OTEL_METRIC_EXPORT_INTERVAL: '20000', OTEL_METRIC_EXPORT_TIMEOUT: '30000' }, 20_000, 20_000],
    [{ OTEL_EXPORTER_OTLP_TIMEOUT: '2000' }, 60_000, 2000],
    [{ OTEL_EXPORTER_OTLP_METRICS_TIMEOUT: '3000', OTEL_EXPORTER_OTLP_TIMEOUT: '2000' }, 60_000, 3000],
    [{ OTEL_METRIC_EXPORT_INTERVAL: 'soon' }, 60_000, 10_000],
    [{ OTEL_METRIC_EXPORT_INTERVAL: '-1' }, 60_000, 10_000],
    [{ OTEL_METRIC_EXPORT_INTERVAL: '1e99' }, 2 ** 31 - 1, 10_000],
  ])('%j set the interval to %i ms and the timeout to %i ms', (env, interval, timeout) => {
    expect(metricsOf({ ...env, OTEL_METRICS_EXPORTER: 'otlp' })).toMatchObject({ interval, timeout })
  })

  it.each<[Environment, Readonly<Record<string, unknown>>]>([
    [{}, { serviceName: 'gatehouse', resource: {} }],
    [{ OTEL_SERVICE_NAME: 'door' }, { serviceName: 'door' }],
    [
      { OTEL_RESOURCE_ATTRIBUTES: 'service.name=attic,host.name=h%20h' },
      { serviceName: 'attic', resource: { 'host.name': 'h h' } },
    ],
    [{ OTEL_RESOURCE_ATTRIBUTES: 'service.name=attic', OTEL_SERVICE_NAME: 'door' }, { serviceName: 'door' }],
    [{}, { protocol: 'http/json' }],
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf' }, { protocol: 'http/protobuf' }],
    [
      {
        OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
        OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: 'http/json',
      },
      { protocol: 'http/json' },
    ],
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, { problem: expect.stringContaining('grpc') }],
    [{ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'c:4317' }, { problem: expect.stringContaining('no URL') }],
  ])('%j are read as %j', (env, settings) => {
    expect(metricsOf({ OTEL_METRICS_EXPORTER: 'otlp', ...env })).toMatchObject(settings)
  })

  it.each<[Environment, number]>([
    [{}, 1],
    [{ OTEL_TRACES_SAMPLER: 'always_off' }, 0],
    [{ OTEL_TRACES_SAMPLER: 'parentbased_always_off' }, 0],
    [{ OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.25' }, 0.25],
    [{ OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: 'most' }, 1],
  ])('%j sample %d of the traces', (env, sample) => {
    expect(tracesOf({ ...env, OTEL_TRACES_EXPORTER: 'otlp' })?.sample).toBe(sample)
  })

  it('do not change what the file says, but one that turns everything off', () => {
    const traces = {
      endpoint: 'http://file',
      headers: { 'x-k': new Secret('v') },
      sample: 0.5,
      service_name: 'f',
    }
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://env',
      OTEL_EXPORTER_OTLP_HEADERS: 'x-e=1',
      OTEL_TRACES_EXPORTER: 'none',
      OTEL_SERVICE_NAME: 'e',
      OTEL_TRACES_SAMPLER: 'always_off',
    }
    expect(exportSettings({ traces }, env).traces).toMatchObject({
      endpoint: 'http://file/v1/traces',
      headers: { 'x-k': expect.anything() },
      sample: 0.5,
      serviceName: 'f',
    })
    expect(exportSettings({ traces }, env).traces?.headers).not.toHaveProperty('x-e')
    const grpc = exportSettings({ traces }, { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }).traces
    expect(grpc).toMatchObject({ protocol: 'http/json' })
    expect(grpc).not.toHaveProperty('problem')
    expect(exportSettings({ traces }, { ...env, OTEL_SDK_DISABLED: 'true' }).traces).toBeUndefined()
  })
})
