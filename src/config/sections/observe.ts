/**
 * The section `observe`. Spans and metrics are exported as configured, otherwise as the variables of OpenTelemetry in the
 * environment say (OpenTelemetry specification, "Environment Variable Specification" and "OTLP Exporter").
 */
import { existsSync } from 'node:fs'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { isObject } from '../../core/json/json.ts'
import type { FromSchema } from '../../core/schema/from-schema.ts'
import type {
  AuditSettings,
  CallLogSettings,
  ObserveSettings,
  MetricsExportSettings,
  OtlpSettings,
  TraceSettings,
} from '../../core/settings.ts'
import { Secret } from '../../core/text/secret.ts'
import type { Finding } from '../problem.ts'
import { type Environment, namedSecrets } from '../secrets.ts'
import { durationSchema, sizeSchema } from '../../core/time/units.ts'
import { defaultStoreFolder } from './store.ts'
import { percentDecoded } from '../../core/text/escape.ts'
import { MAX_TIMER_MS } from '../../core/time/waiting.ts'

/** The destination of spans or metrics. */
function destination(signal: 'traces' | 'metrics') {
  return {
    endpoint: {
      type: 'string',
      pattern: '^(https?://|\\$\\{)',
      errorMessage: `must be a URL such as http://localhost:4318/v1/${signal}`,
      description: `Where ${signal} are posted over OTLP/HTTP; \`/v1/${signal}\` is added to a URL without a path. Nothing is sent unless this or an \`OTEL_EXPORTER_OTLP_…ENDPOINT\` of the environment is set. See [OpenTelemetry](guard.md#opentelemetry).`,
    },
    headers: {
      type: 'object',
      additionalProperties: {
        type: ['string', 'number'],
        errorMessage: 'must be text',
        'x-secret': true,
      },
      errorMessage: 'must be a mapping of headers to values',
      description: 'Headers of every export request, such as credentials.',
    },
    service_name: {
      type: 'string',
      minLength: 1,
      errorMessage: 'must be text',
      description: `The name of this service in ${signal}. Default: OTEL_SERVICE_NAME of the environment, otherwise gatehouse.`,
    },
  } as const
}

const metricsExport = {
  type: 'object',
  errorMessage: 'must be a mapping such as { endpoint: http://localhost:4318/v1/metrics }',
  description:
    'Exports the metrics of the MCP semantic conventions of OpenTelemetry over OTLP/HTTP. Default: what OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, or OTEL_EXPORTER_OTLP_ENDPOINT, of the environment says; off without them.',
  properties: {
    ...destination('metrics'),
    interval: {
      ...durationSchema,
      description:
        'The time between exports. Default: OTEL_METRIC_EXPORT_INTERVAL of the environment, otherwise 60s.',
    },
  },
  required: ['endpoint'],
  additionalProperties: false,
} as const

const traces = {
  type: 'object',
  errorMessage: 'must be a mapping such as { endpoint: http://localhost:4318/v1/traces }',
  description:
    'Exports spans over OTLP/HTTP, with the MCP semantic conventions of OpenTelemetry. Default: what OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or OTEL_EXPORTER_OTLP_ENDPOINT, of the environment says; off without them.',
  properties: {
    ...destination('traces'),
    sample: {
      type: 'number',
      minimum: 0,
      maximum: 1,
      default: 1,
      errorMessage: 'must be a number from 0 to 1',
      description:
        'The sampling ratio of traces that start here; for others, the decision of the caller applies.',
    },
  },
  required: ['endpoint'],
  additionalProperties: false,
} as const

const audit = {
  type: ['object', 'string', 'boolean'],
  // A word alone is a typing error, or a boolean of YAML 1.1.
  pattern: '^(on|off|true|false)$|[./\\\\]',
  errorMessage:
    'must be on, off, the path of a file such as /var/log/gatehouse/audit.jsonl, or a mapping such as { file: ./audit.jsonl }',
  description:
    'Records every tool call and every refusal in a hash-chained file. Default: off in the profile open; in corporate .gatehouse/audit.jsonl next to this file.',
  properties: {
    file: {
      type: 'string',
      pattern: '[./\\\\]',
      errorMessage: 'must be the path of a file, such as /var/log/gatehouse/audit.jsonl or ./audit.jsonl',
      description:
        'The file of the audit log; `observe.audit: FILE` is the short form. In the profile `corporate` it is `.gatehouse/audit.jsonl` beside the configuration, unless `observe.audit` is `off`; in `open` there is no audit log unless `observe.audit` is `on` or a file.',
    },
    key: {
      type: 'string',
      minLength: 16,
      errorMessage: 'must be a secret of 16 characters or more',
      'x-secret': true,
      description:
        'The HMAC key for digests of arguments, so that short arguments cannot be found by brute force.',
    },
    max_size: {
      ...sizeSchema,
      'x-least': 1024,
      default: '100MB',
      description: 'The size at which the file is rotated: renamed to .1.',
    },
    keep: {
      type: 'integer',
      minimum: 1,
      errorMessage: 'must be a number from 1',
      description: 'How many rotated files are kept. Default: all.',
    },
  },
  additionalProperties: false,
} as const

const calls = {
  type: ['object', 'boolean'],
  errorMessage: 'must be on, off, or a mapping such as { keep: arguments, for: 7d }',
  description:
    'The log of calls in the store, for the console and `gatehouse log`: who called which tool, how it ended, and how long it took. Default: on, without arguments and results; off with `features: none`. See [Console](console.md).',
  properties: {
    keep: {
      enum: ['metadata', 'arguments', 'results'],
      default: 'metadata',
      errorMessage: 'must be metadata, arguments or results',
      description:
        'What is kept of each call: only its metadata, also its arguments, or arguments and results. Secrets are masked.',
    },
    for: { ...durationSchema, default: '7d', description: 'How long calls are kept.' },
    max: {
      type: 'integer',
      minimum: 100,
      maximum: 1_000_000,
      default: 100_000,
      errorMessage: 'must be a number from 100 to 1000000',
      description: 'How many calls are kept; a store in memory keeps 10,000 at most.',
    },
    contents_for: {
      ...durationSchema,
      default: '24h',
      description: 'How long arguments and results are kept.',
    },
    contents_max: {
      ...sizeSchema,
      'x-least': 1024 * 1024,
      'x-most': 256 * 1024 * 1024,
      default: '64MB',
      description: 'How large all kept arguments and results are together.',
    },
  },
  additionalProperties: false,
} as const

/** The JSON Schema of `observe`. */
export const observeSchema = {
  type: 'object',
  default: {},
  errorMessage: 'must be a mapping such as { audit: ./audit.jsonl }',
  description: 'Metrics, traces, logs and the audit log.',
  properties: {
    metrics: { type: 'boolean', default: true, description: 'Whether /metrics is served, for Prometheus.' },
    metrics_export: metricsExport,
    traces,
    audit,
    calls,
    log: {
      type: 'object',
      default: {},
      errorMessage: 'must be a mapping such as { level: warn }',
      description: 'The log on stderr.',
      properties: {
        level: {
          enum: ['debug', 'info', 'warn', 'error'],
          errorMessage: 'must be debug, info, warn or error',
          description: 'The minimum level of written lines; --log-level takes precedence.',
        },
      },
      additionalProperties: false,
    },
  },
  additionalProperties: false,
} as const

/** `observe` as validated, with its defaults. */
export type ObserveValues = FromSchema<typeof observeSchema>

interface ObserveContext {
  readonly profile: 'open' | 'corporate'
  /** Whether all features are off. */
  readonly isBare?: boolean
  /** The configuration file, if there is one. */
  readonly file?: string
  /** The base of relative paths. */
  readonly directory: string
  readonly env: Environment
}

const MAX_SIZE = 100 * 1024 ** 2

/** Converts the values of `observe` to settings, without those of exports. */
export function observeSettings(values: ObserveValues, context: ObserveContext): ObserveSettings {
  const { metrics, log } = values
  const audit = auditSettings(values.audit, context)
  const callLog = callLogSettings(values.calls ?? context.isBare !== true)
  return {
    metrics,
    ...(callLog && { calls: callLog }),
    ...(log.level !== undefined && { logLevel: log.level }),
    ...(audit && { audit }),
  }
}

function callLogSettings(calls: NonNullable<ObserveValues['calls']>): CallLogSettings | undefined {
  if (calls === false) return undefined
  const values = calls === true ? defaultCalls : calls
  const { keep, for: ttl, max, contents_for: contentTtl, contents_max: maxContentBytes } = values
  return { keep, ttl, maxCalls: max, contentTtl, maxContentBytes }
}

const DAY_MS = 86_400_000
const defaultCalls = {
  keep: 'metadata',
  for: 7 * DAY_MS,
  max: 100_000,
  contents_for: DAY_MS,
  contents_max: 64 * 1024 ** 2,
} as const

function auditSettings(audit: ObserveValues['audit'], context: ObserveContext): AuditSettings | undefined {
  const { profile, file, directory } = context
  const chosen = audit ?? (profile === 'corporate' && file !== undefined)
  if (chosen === false) return undefined
  const values: Exclude<NonNullable<ObserveValues['audit']>, string | boolean> = typeof chosen === 'object'
    ? chosen
    : { max_size: MAX_SIZE, ...(typeof chosen === 'string' && { file: chosen }) }
  const { key, keep, max_size: maxSize } = values
  return {
    file: values.file === undefined ? defaultFile(context) : resolve(directory, values.file),
    maxSize,
    ...(key && { key }),
    ...(keep !== undefined && { keep }),
  }
}

/** The file where none is configured: next to the configuration or, like the store, in a folder of the user if that is not writable. */
function defaultFile({ file, directory, env }: ObserveContext): string {
  const place = file === undefined ? directory : dirname(file)
  const folder = existsSync(place)
    ? defaultStoreFolder({ ...(file !== undefined && { file }), directory: place, upstreams: {} }, env)
    : join(place, '.gatehouse')
  return join(folder, 'audit.jsonl')
}

/** Warns about a path that depends on where the configuration is: with a moved file, another log would begin. */
export function auditWarnings(observe: unknown, directory: string): Finding[] {
  const audit = isObject(observe) ? observe.audit : undefined
  const [path, file] = isObject(audit)
    ? [['observe', 'audit', 'file'], audit.file]
    : [['observe', 'audit'], audit]
  if (typeof file !== 'string' || !/[./\\]/.test(file) || isAbsolute(file)) return []
  const message = `this path is relative to the folder of this file: write ${resolve(directory, file)}, so that the log continues there when this file is moved`
  return [{ path, message }]
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
  configured: (FromSchema<typeof metricsExport> & { readonly sample: number }) | undefined,
  env: Environment,
): TraceSettings | undefined {
  const settings = otlpSettings('traces', configured, env)
  return settings && { ...settings, sample: configured?.sample ?? sampleOf(env) }
}

/** The destination of metrics; undefined if they are not exported. */
function metricsExportSettings(
  configured: (FromSchema<typeof metricsExport> & { readonly interval?: number }) | undefined,
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
  configured: FromSchema<typeof metricsExport> | undefined,
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
