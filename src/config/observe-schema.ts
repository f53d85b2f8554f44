import type { JsonSchema } from '../core/schema.ts'
import { sizeSchema } from '../core/units.ts'

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
        'Digests of arguments are made with this key (HMAC), so that short arguments can not be found by trying.',
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
  description: 'What is told of calls: metrics, traces, logs and an audit log.',
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
