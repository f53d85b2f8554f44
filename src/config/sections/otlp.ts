/**
 * Where spans and metrics are exported: as configured, otherwise as the variables of OpenTelemetry in the environment say
 * (OpenTelemetry specification, "Environment Variable Specification" and "OTLP Exporter").
 */
import type {
  MetricsExportSettings,
  ObserveSettings,
  OtlpSettings,
  TraceSettings,
} from '../../core/settings.ts'
import { Secret } from '../../core/text/secret.ts'
import { percentDecoded } from '../../core/text/escape.ts'
import { MAX_TIMER_MS } from '../../core/time/waiting.ts'
import { namedSecrets } from '../configured-secrets.ts'
import type { Environment } from '../secrets.ts'
import type { ObserveValues } from './observe.ts'

/** A destination in the file. */
export interface ConfiguredOtlp {
  readonly endpoint: string
  readonly headers?: Readonly<Record<string, Secret>>
  readonly service_name?: string
}

type Signal = 'traces' | 'metrics'

const DEFAULT_INTERVAL_MS = 60_000
const DEFAULT_TIMEOUT_MS = 10_000
const LOCAL_ENDPOINT = 'http://localhost:4318'

/** The destinations of spans and of metrics. */
export function exportSettings(
  { traces, metrics_export: metrics }: Pick<ObserveValues, 'traces' | 'metrics_export'>,
  env: Environment,
): Pick<ObserveSettings, 'traces' | 'metricsExport'> {
  const spans = traceSettings(traces, env)
  const metricsExport = metricsExportSettings(metrics, env)
  return { ...(spans && { traces: spans }), ...(metricsExport && { metricsExport }) }
}

/** The destination of spans; undefined if they are not exported. */
function traceSettings(
  configured: (ConfiguredOtlp & { readonly sample: number }) | undefined,
  env: Environment,
): TraceSettings | undefined {
  const settings = otlpSettings('traces', configured, env)
  return settings && { ...settings, sample: configured?.sample ?? sampleOf(env) }
}

/** The destination of metrics; undefined if they are not exported. */
function metricsExportSettings(
  configured: (ConfiguredOtlp & { readonly interval?: number }) | undefined,
  env: Environment,
): MetricsExportSettings | undefined {
  const settings = otlpSettings('metrics', configured, env)
  if (!settings) return undefined
  const interval =
    configured?.interval ?? milliseconds(env['OTEL_METRIC_EXPORT_INTERVAL']) ?? DEFAULT_INTERVAL_MS
  const given =
    milliseconds(env['OTEL_METRIC_EXPORT_TIMEOUT']) ?? milliseconds(variable('metrics', 'TIMEOUT', env))
  return { ...settings, interval, timeout: Math.min(given ?? DEFAULT_TIMEOUT_MS, interval) }
}

function otlpSettings(
  signal: Signal,
  configured: ConfiguredOtlp | undefined,
  env: Environment,
): OtlpSettings | undefined {
  if (given(env['OTEL_SDK_DISABLED'])?.toLowerCase() === 'true') return undefined
  const endpoint = configured ? withPath(configured.endpoint, signal) : endpointOf(signal, env)
  if (endpoint === undefined) return undefined
  const { 'service.name': named, ...resource } = pairs(env['OTEL_RESOURCE_ATTRIBUTES'])
  const wanted = variable(signal, 'PROTOCOL', env) ?? 'http/json'
  // Of a configured endpoint it is known that it takes HTTP.
  const protocol = configured && wanted === 'grpc' ? 'http/json' : wanted
  const problem = problemOf({ protocol, endpoint, signal })
  return {
    endpoint,
    headers: configured ? namedSecrets(configured.headers ?? {}) : headersOf(signal, env),
    protocol: protocol === 'http/protobuf' ? protocol : 'http/json',
    serviceName: configured?.service_name ?? given(env['OTEL_SERVICE_NAME']) ?? named ?? 'gatehouse',
    resource,
    ...(problem !== undefined && { problem }),
  }
}

/** The endpoint in the environment; undefined if it names none, or another exporter. */
function endpointOf(signal: Signal, env: Environment): string | undefined {
  const exporters = given(env[`OTEL_${signal.toUpperCase()}_EXPORTER`])
    ?.split(',')
    .map((each) => each.trim().toLowerCase())
  if (exporters && !exporters.includes('otlp')) return undefined
  const own = given(env[`OTEL_EXPORTER_OTLP_${signal.toUpperCase()}_ENDPOINT`])
  if (own !== undefined) return own
  const base = given(env['OTEL_EXPORTER_OTLP_ENDPOINT']) ?? (exporters && LOCAL_ENDPOINT)
  return base === undefined ? undefined : `${base.replace(/\/+$/, '')}/v1/${signal}`
}

/** An endpoint in the file: the path is added to one without. */
function withPath(endpoint: string, signal: Signal): string {
  return endpoint.replace(/^(https?:\/\/[^/?#]+)\/?(?=[?#]|$)/, `$1/v1/${signal}`)
}

function problemOf(asked: {
  readonly protocol: string
  readonly endpoint: string
  readonly signal: Signal
}): string | undefined {
  const { protocol, endpoint, signal } = asked
  const name = `OTEL_EXPORTER_OTLP_${signal.toUpperCase()}`
  if (protocol !== 'http/json' && protocol !== 'http/protobuf')
    return `The protocol ${protocol.slice(0, 32)} of OTLP is not supported: set ${name}_PROTOCOL to http/protobuf, and ${name}_ENDPOINT to a URL for it.`
  const url = URL.parse(endpoint)
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return undefined
  return `The OTLP endpoint of the environment is no URL: set ${name}_ENDPOINT to one such as ${LOCAL_ENDPOINT}/v1/${signal}.`
}

function headersOf(signal: Signal, env: Environment): Readonly<Record<string, Secret>> {
  const headers = {
    ...pairs(env['OTEL_EXPORTER_OTLP_HEADERS']),
    ...pairs(env[`OTEL_EXPORTER_OTLP_${signal.toUpperCase()}_HEADERS`]),
  }
  const secrets = Object.entries(headers).map(([name, value]) => [name, new Secret(value)] as const)
  return namedSecrets(Object.fromEntries(secrets))
}

function sampleOf(env: Environment): number {
  const sampler = given(env['OTEL_TRACES_SAMPLER']) ?? ''
  if (sampler.endsWith('always_off')) return 0
  if (!sampler.endsWith('traceidratio')) return 1
  const ratio = Number(given(env['OTEL_TRACES_SAMPLER_ARG']) ?? 1)
  return ratio >= 0 && ratio <= 1 ? ratio : 1
}

/** The variable of a signal, otherwise that of all signals. */
function variable(signal: Signal, name: string, env: Environment): string | undefined {
  return (
    given(env[`OTEL_EXPORTER_OTLP_${signal.toUpperCase()}_${name}`]) ??
    given(env[`OTEL_EXPORTER_OTLP_${name}`])
  )
}

/** A variable that is empty counts as one that is not set. */
function given(value: string | undefined): string | undefined {
  const text = value?.trim()
  return text === '' ? undefined : text
}

/** A time in milliseconds; what is no such time counts as not set. */
function milliseconds(value: string | undefined): number | undefined {
  const number = Number(given(value))
  return Number.isInteger(number) && number > 0 ? Math.min(number, MAX_TIMER_MS) : undefined
}

/** `name=value` pairs between commas, percent-encoded as in W3C Baggage; others are left out. */
function pairs(value: string | undefined): Record<string, string> {
  const found: Record<string, string> = {}
  for (const pair of given(value)?.split(',') ?? []) {
    const at = pair.indexOf('=')
    const name = pair.slice(0, at).trim()
    if (at > 0 && name !== '') found[percentDecoded(name)] = percentDecoded(pair.slice(at + 1).trim())
  }
  return found
}
