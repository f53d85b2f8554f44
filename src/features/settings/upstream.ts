/** The settings of the features of the stage upstream: how they are configured, without what they do. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings, setting, compatSetting, flag } from '../../core/setting-schemas.ts'
import { durationSchema, messageSizeSchema } from '../../core/time/units.ts'

/** The settings of the size of results, and where they are. */
export const resultLimitSchema = defineSettings({
  name: 'result_limit',
  place: 'limits',
  properties: {
    result: setting(
      messageSizeSchema,
      '10MB',
      'The maximum size of a result of a tool or resource. Larger results are shortened, with a notice; if they would no longer match the output schema, they are refused with `PAYLOAD_TOO_LARGE`.',
    ),
  },
})

/** The settings of the size of results. */
export type ResultLimitSettings = SettingsIn<typeof resultLimitSchema>

/** The settings of structured content as text. */
export const structuredTextSchema = defineSettings({
  name: 'structured_text',
  isLeftToGateway: true,
  default: 'off',
  description:
    'Whether structured content is added as text, if no text of the result contains it. By default `off`, and `on` in the corporate profile. Independently of this, clients before 2026-07-28 get it as text if the result has no text.',
})

/** The settings of undo, and where they are. */
export const undoSchema = defineSettings({
  name: 'undo',
  description: 'The history of calls that changed something, and how they are undone.',
  isLeftToGateway: true,
  properties: {
    history: setting(
      {
        ...durationSchema,
        pattern: `^off$|${durationSchema.pattern}`,
        errorMessage: 'must be off, or a duration such as 24h or 7d',
      },
      '24h',
      'How long actions and their compensations are kept for `gatehouse undo`: for each caller and gateway, at most the last 10,000 actions and 64 MB. off keeps only the steps of transactions.',
    ),
    proved: {
      enum: ['auto', 'off'],
      default: 'auto',
      errorMessage: 'must be auto or off',
      description:
        'Whether tools without an undo rule are undone as it was proved for exactly these tools ([shipped packs](proofs.md#shipped-packs)): auto for servers with `trust`, off for none.',
    },
  },
})

/** The settings of undo. */
export type UndoSettings = SettingsIn<typeof undoSchema>

/** The settings of retries, and where they are. */
export const retrySchema = defineSettings({
  name: 'retry',
  description: 'Retries of calls that could not be sent.',
  properties: {
    attempts: setting(
      { type: 'integer', minimum: 0, maximum: 5, errorMessage: 'must be a number from 0 to 5' },
      2,
      'How often a call that could not be sent to its server is retried, if it only reads or is idempotent.',
    ),
  },
})

/** The settings of retries. */
export type RetrySettings = SettingsIn<typeof retrySchema>

/** The settings of completed lists. */
export const completeSchema = defineSettings({
  name: 'complete',
  isLeftToGateway: true,
  default: 'off',
  description:
    'Whether tools that servers list get a title, missing hints, and their risk, effects, limits and rules at the end of the description. By default `off`, and `on` in the corporate profile.',
})

/** The settings of the circuit breaker, and where they are. */
export const breakerSchema = defineSettings({
  name: 'breaker',
  description: 'A pause for servers that do not respond.',
  properties: {
    failures: setting(
      { type: 'integer', minimum: 1, errorMessage: 'must be a whole number from 1' },
      10,
      'The number of consecutive failures after which calls to a server are refused: timeouts, broken connections, HTTP 5xx. Rejected credentials do not count.',
    ),
    window: setting(durationSchema, '1m', 'The time within which these failures must occur.'),
    pause: setting(durationSchema, '30s', 'How long calls are then refused.'),
  },
})

/** The settings of the circuit breaker. Times are milliseconds. */
export type BreakerSettings = SettingsIn<typeof breakerSchema>

/** The settings of stamps. */
export const provenanceSchema = defineSettings({
  name: 'provenance',
  description: 'Where results come from, when they were received, and whether they were changed.',
  isLeftToGateway: true,
  properties: {
    always: flag(
      false,
      'Whether every result is stamped, not only results with more to report than server and time, or for clients that request it. See [Where results come from](descriptions.md#where-results-come-from).',
    ),
    hash: flag(false, 'Every result has a SHA-256 of its content. Receipts always have one.'),
    compat: compatSetting(
      'Whether the stamp is also sent at `provenance` of a tool’s result, where the server has none: with the setting `always` or for clients that request it (`on`), or in every result, which then has its content at `result` too (`always`).',
    ),
  },
})

/** The settings of stamps. */
export type ProvenanceSettings = SettingsIn<typeof provenanceSchema>

const globs = { type: ['string', 'array'], items: { type: 'string', minLength: 1 }, minLength: 1 } as const

/** The settings of masking, and where they are. */
export const maskSchema = defineSettings({
  name: 'mask',
  description: 'Masking of personal data; off by default.',
  default: 'off',
  properties: {
    rules: {
      type: 'array',
      default: [],
      errorMessage: 'must be a list of { path } or { pattern }',
      description:
        'What is masked in responses of servers: by `path` or `pattern`. The rules of a server replace those for all servers. Lists of tools, prompts and resources are not masked.',
      items: {
        type: 'object',
        additionalProperties: false,
        errorMessage: 'must be a mapping with `path:` or `pattern:`',
        properties: {
          path: {
            type: 'string',
            minLength: 1,
            errorMessage: 'must be a path such as $.items[*].email',
            description:
              'Where in JSON: of structured content, and of texts that are JSON. It starts with $; then come .name, [0], [*] or .* steps.',
            examples: ['$.items[*].email'],
          },
          pattern: {
            type: 'string',
            minLength: 1,
            errorMessage: 'must be a regular expression',
            description: 'A regular expression: its matches are masked everywhere.',
            examples: ['[\\w.+-]+@[\\w-]+\\.[\\w.]+'],
          },
          tools: {
            ...globs,
            'x-names': 'tool',
            errorMessage: 'must be the name of a tool, a glob, or a list of them',
            description: 'The tools to whose responses it applies; all responses if not given.',
          },
          replace: {
            type: 'string',
            default: '***',
            errorMessage: 'must be a text',
            description: 'The replacement text.',
          },
        },
      },
      examples: [[{ path: '$.items[*].email' }, { pattern: '\\b\\d{3}-\\d{2}-\\d{4}\\b', replace: '[SSN]' }]],
    },
  },
})

/** The settings of masking. */
export type MaskSettings = SettingsIn<typeof maskSchema>

/** A configured rule: masks by a path or a pattern. */
export type RuleSettings = MaskSettings['rules'][number]

/** The settings of recommendations, and where they are. */
export const discoverySchema = defineSettings({
  name: 'discovery',
  description: 'Recommends a server for a task, and the likely tool for a wrong name.',
  isLeftToGateway: true,
  properties: {
    registry: {
      type: ['string', 'boolean'],
      default: 'off',
      pattern: '^(off|false|https://\\S+|http://(localhost|127\\.0\\.0\\.1|\\[::1\\])(:\\d+)?(/\\S*)?)$',
      not: { const: true },
      errorMessage: 'must be off, or the URL of an MCP registry with https://',
      description:
        'The MCP registry in which servers outside of this gateway are searched. It receives what callers search for.',
      examples: ['https://catalog.example.com'],
    },
    publishers: {
      type: ['array', 'string'],
      items: { type: 'string', minLength: 1, errorMessage: 'must be a namespace or glob' },
      default: [],
      errorMessage: 'must be a list of namespaces or globs such as io.github.modelcontextprotocol',
      description:
        'The publishers whose servers may be recommended: the part of their name before the slash, or a glob of it. Empty by default: none.',
      examples: [['io.github.modelcontextprotocol', 'com.example.*']],
    },
  },
})

/** Where servers are searched besides the configuration and this gateway. */
export type DiscoverySettings = SettingsIn<typeof discoverySchema>
