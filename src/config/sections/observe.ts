/** The section `observe`. */
import { dirname, resolve } from 'node:path'
import type { JsonSchema } from '../../core/schema/schema.ts'
import type { AuditSettings, ObserveSettings, TraceSettings } from '../../core/settings.ts'
import type { Secret } from '../../core/text/secret.ts'
import { sizeSchema } from '../../core/time/units.ts'

const traces: JsonSchema = {
  type: 'object',
  errorMessage: 'must be a mapping such as { endpoint: http://localhost:4318/v1/traces }',
  description: 'Sends spans over OTLP/HTTP, by the MCP conventions of OpenTelemetry. Off unless configured.',
  properties: {
    endpoint: {
      type: 'string',
      pattern: '^(https?://|\\$\\{)',
      errorMessage: 'must be a URL such as http://localhost:4318/v1/traces',
      description: 'Where spans are posted; `/v1/traces` is added to a URL without a path.',
    },
    headers: {
      type: 'object',
      additionalProperties: {
        type: ['string', 'number'],
        errorMessage: 'must be text',
        'x-secret': true,
      },
      errorMessage: 'must be a mapping of headers to values',
      description: 'Headers of every post, such as credentials.',
    },
    sample: {
      type: 'number',
      minimum: 0,
      maximum: 1,
      default: 1,
      errorMessage: 'must be a number from 0 to 1',
      description: 'Which part of the traces that begin here is recorded; others go as their caller decided.',
    },
    service_name: {
      type: 'string',
      minLength: 1,
      default: 'gatehouse',
      errorMessage: 'must be text',
      description: 'The name of this service in traces.',
    },
  },
  required: ['endpoint'],
  additionalProperties: false,
}

const audit: JsonSchema = {
  type: ['object', 'string', 'boolean'],
  minLength: 1,
  errorMessage: 'must be on, off, a file, or a mapping such as { file: ./audit.jsonl }',
  description:
    'Records every tool call and every refusal in a file whose lines are chained by hashes. Off in the profile open; in corporate .gatehouse/audit.jsonl beside this file.',
  properties: {
    file: { type: 'string', minLength: 1, errorMessage: 'must be a path', description: 'The file.' },
    key: {
      type: 'string',
      minLength: 16,
      errorMessage: 'must be a secret of 16 characters or more',
      'x-secret': true,
      description:
        'Digests of arguments are made with this key (HMAC), so that short arguments cannot be found by trying.',
    },
    max_size: {
      ...sizeSchema,
      default: '100MB',
      description: 'How large the file gets before it is renamed to .1 and the next is begun.',
    },
    keep: {
      type: 'integer',
      minimum: 1,
      errorMessage: 'must be a number from 1',
      description: 'How many full files are kept; all unless this is set.',
    },
  },
  additionalProperties: false,
}

/** The JSON Schema of `observe`. */
export const observeSchema: JsonSchema = {
  type: 'object',
  default: {},
  errorMessage: 'must be a mapping such as { audit: ./audit.jsonl }',
  description: 'How calls are observed: metrics, traces, logs and an audit log.',
  properties: {
    metrics: { type: 'boolean', default: true, description: 'Whether /metrics answers, for Prometheus.' },
    traces,
    audit,
    log: {
      type: 'object',
      default: {},
      errorMessage: 'must be a mapping such as { level: warn }',
      description: 'What is written to stderr.',
      properties: {
        level: {
          enum: ['debug', 'info', 'warn', 'error'],
          errorMessage: 'must be debug, info, warn or error',
          description: 'The least important lines that are written; --log-level wins.',
        },
      },
      additionalProperties: false,
    },
  },
  additionalProperties: false,
}

/** `observe` of a file, with its defaults. */
export interface ObserveValues {
  readonly metrics: boolean
  readonly log: { readonly level?: NonNullable<ObserveSettings['logLevel']> }
  readonly traces?: {
    readonly endpoint: string
    readonly headers?: Readonly<Record<string, Secret>>
    readonly sample: number
    readonly service_name: string
  }
  readonly audit?: boolean | string | AuditValues
}

interface AuditValues {
  readonly file?: string
  readonly key?: Secret
  readonly max_size: number
  readonly keep?: number
}

interface Around {
  readonly profile: 'open' | 'corporate'
  /** The configuration file, where there is one. */
  readonly file?: string
  /** What relative paths are relative to. */
  readonly directory: string
}

const MAX_SIZE = 100 * 1024 ** 2

/** Turns the values of `observe` into settings. */
export function observeSettings(values: ObserveValues, around: Around): ObserveSettings {
  const { metrics, log, traces } = values
  const audit = auditSettings(values.audit, around)
  return {
    metrics,
    ...(log.level !== undefined && { logLevel: log.level }),
    ...(traces && { traces: traceSettings(traces) }),
    ...(audit && { audit }),
  }
}

function traceSettings(traces: NonNullable<ObserveValues['traces']>): TraceSettings {
  const { endpoint, headers = {}, sample, service_name: serviceName } = traces
  return {
    endpoint: endpoint.replace(/^(https?:\/\/[^/?#]+)\/?(?=[?#]|$)/, '$1/v1/traces'),
    headers,
    sample,
    serviceName,
  }
}

function auditSettings(
  audit: ObserveValues['audit'],
  { profile, file, directory }: Around,
): AuditSettings | undefined {
  const isWanted = audit ?? (profile === 'corporate' && file !== undefined)
  if (isWanted === false) return undefined
  const values: AuditValues =
    typeof isWanted === 'object'
      ? isWanted
      : { max_size: MAX_SIZE, ...(typeof isWanted === 'string' && { file: isWanted }) }
  const place = file === undefined ? directory : dirname(file)
  const { key, keep, max_size: maxSize } = values
  return {
    file:
      values.file === undefined ? resolve(place, '.gatehouse/audit.jsonl') : resolve(directory, values.file),
    maxSize,
    ...(key && { key }),
    ...(keep !== undefined && { keep }),
  }
}
