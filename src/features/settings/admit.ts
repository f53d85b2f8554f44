/** The settings of the features of the stage admit: how they are configured, without what they do. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings, flag, setting, compatSetting } from '../../core/setting-schemas.ts'
import { DEFAULT_RATE } from '../../core/principal.ts'
import { rateSchema, timeoutSchema, durationSchema } from '../../core/time/units.ts'

/** The settings of dry runs. */
export const dryRunSchema = defineSettings({
  name: 'dry_run',
  description:
    'Whether callers can try a call of a tool: everything decides about it, the server is not called, and nothing is kept. Without it such calls are refused. See [Dry runs](dry-runs.md).',
})

/** The settings of deadlines, and where they are. */
export const limitsSchema = defineSettings({
  name: 'limits',
  place: 'limits',
  properties: {
    timeout: setting(
      timeoutSchema,
      '30s',
      'How long a call may be silent, else `OPERATION_TIMEOUT`: a response, or at least progress, must arrive within this time.',
    ),
    max_timeout: setting(timeoutSchema, '10m', 'The longest duration of a call, whatever its progress.'),
  },
})

/** The settings of deadlines, in milliseconds. */
export type DeadlineSettings = SettingsIn<typeof limitsSchema>

/** The settings of arguments for the gateway. */
export const injectArgumentsSchema = defineSettings({
  name: 'inject_arguments',
  place: 'top',
  isLeftToGateway: true,
  default: 'off',
  description:
    'Whether tools also accept values for the gateway as arguments, such as `_idempotency_key`, for hosts that let models write arguments only. Servers never see them.',
})

/** The settings of contracts. */
export const contractSchema = defineSettings({
  name: 'contract',
  isLeftToGateway: true,
  description:
    'A version of what each server offers, which rises with changes; clients are notified, and `gatehouse changelog` prints it.',
})

/** The default if nothing is configured and callers can be told apart. */
export const DEFAULT_MAX_CALLS = 8

/** The settings of concurrency, and where they are. */
export const concurrencySchema = defineSettings({
  name: 'concurrency',
  place: 'limits',
  properties: {
    concurrency: {
      type: ['integer', 'string'],
      minimum: 1,
      pattern: '^off$',
      errorMessage: 'must be off, or a whole number from 1',
      description: `How many calls each caller may have in flight, at all gateways with one store together; more are refused with \`OVERLOADED\`. Default: ${DEFAULT_MAX_CALLS} with authentication or the corporate profile, otherwise off.`,
    },
  },
})

/** The settings of concurrency. */
export type ConcurrencySettings = SettingsIn<typeof concurrencySchema>

/** The most pages that one call can collect. */
export const MAX_PAGES = 1000

/** The settings of pages, and where they are. */
export const streamSchema = defineSettings({
  name: 'stream',
  description: 'All pages of a tool with one call. See [Pages](long-running-calls.md#pages).',
  isLeftToGateway: true,
  properties: {
    collect: flag(
      false,
      'Whether the pages of tools that return their results in pages are collected for every caller. By default only for callers that request it with `_meta["dev.gatehouse/stream"]`.',
    ),
    max_pages: setting(
      {
        type: 'integer',
        minimum: 1,
        maximum: MAX_PAGES,
        errorMessage: `must be a whole number from 1 to ${MAX_PAGES}`,
      },
      50,
      'How many pages one call collects, at most 1,000. Callers can request fewer.',
    ),
  },
})

/** The settings of results in pages. */
export type StreamSettings = SettingsIn<typeof streamSchema>

/** The settings of rates, and where they are. */
export const rateLimitSchema = defineSettings({
  name: 'rate_limit',
  place: 'limits',
  properties: {
    rate: {
      ...rateSchema,
      pattern: `^off$|${rateSchema.pattern}`,
      errorMessage: 'must be off, a rate such as 10/minute or 100/10s, or a list of rates',
      description: `How often each caller may call, in any time window, else \`RATE_LIMIT_EXCEEDED\`: one rate, or several that all apply. Default: ${DEFAULT_RATE} with authentication or the corporate profile, otherwise off.`,
      examples: ['60/minute', ['10/second', '1000/day']],
    },
  },
})

/** The settings of rates. */
export type RateSettings = SettingsIn<typeof rateLimitSchema>

/** The settings of errors, and where they are. */
export const errorsSchema = defineSettings({
  name: 'errors',
  description: 'Errors in one common form.',
  properties: {
    http_status: {
      enum: ['compatible', 'mapped'],
      description:
        'The HTTP status of errors of calls: 200, which every client accepts, or the status of the error. By default `compatible`, and `mapped` in the corporate profile.',
    },
    compat: compatSetting(
      'Whether the structured error is also sent at `error` of the result if a tool was not run, and if the tool itself failed: for clients that request it (`on`), or for all (`always`). With `always`, every refused call of a tool has a result, also where there is an error of JSON-RPC or an HTTP status otherwise.',
    ),
    hide_details: flag(
      false,
      'Whether errors and log messages of servers lose what is internal to them: stack traces, paths, hosts, queries with values, and what looks like a secret. Secrets of this configuration are always taken out, exactly. By default `false`, and `true` in the corporate profile.',
    ),
    documentation_hosts: {
      type: ['array', 'string'],
      items: { type: 'string', minLength: 1, errorMessage: 'must be a host name or glob' },
      default: [],
      errorMessage: 'must be a list of host names or globs',
      description: 'Hosts to which documentation links in errors may lead, besides the host of the server.',
    },
  },
})

/** The settings of errors. */
export type ErrorSettings = SettingsIn<typeof errorsSchema>

/** The settings of receipts. */
export const receiptsSchema = defineSettings({
  name: 'receipts',
  isLeftToGateway: true,
  description: 'Whether callers get a signed receipt of a result on request; `gatehouse verify` checks it.',
})

/** The settings of usage in results. */
export const usageSchema = defineSettings({
  name: 'usage',
  isLeftToGateway: true,
  description:
    'Whether results report the usage of the call, if known: its units, its duration, and what remains.',
})

/** The settings of operations, and where they are. */
export const progressSchema = defineSettings({
  name: 'progress',
  description:
    'What callers hear of calls that last, operations and tasks. See [Long-running calls](long-running-calls.md).',
  properties: {
    heartbeat: setting(
      durationSchema,
      '5s',
      'How long a server may be silent before the gateway notifies the caller that the call still runs.',
    ),
    keep: setting(
      durationSchema,
      '10m',
      'How long the outcome of a call that took over a second is kept for `operation/resume`.',
    ),
    tasks: {
      type: 'object',
      additionalProperties: false,
      default: {},
      properties: {
        after: setting(
          durationSchema,
          '20s',
          'How long a call may take before a client that supports tasks gets it as a task.',
        ),
        answer_within: {
          ...durationSchema,
          description:
            'How long a client without tasks waits at most for a result: after that it gets the id of the operation, to request the result later. For clients with a short timeout. Not set by default.',
        },
      },
      description: 'When calls become tasks, and how long clients without tasks wait.',
    },
    compat: flag(
      false,
      'Whether `type`, `operation_id` and `estimated_remaining_seconds` are also beside `progressToken` of progress notifications. By default `off`, and `on` with `compat: proposals`.',
    ),
  },
})

/** The settings of the feature for one server; times are milliseconds. */
export type ProgressSettings = SettingsIn<typeof progressSchema>
