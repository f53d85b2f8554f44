/** The settings of the features of the stage effect: how they are configured, without what they do. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings, flag, setting } from '../../core/setting-schemas.ts'
import { durationSchema, sizeSchema } from '../../core/time/units.ts'
import { rememberSchema } from '../../core/remember.ts'

/** The settings of idempotency keys, and where they are. */
export const idempotencySchema = defineSettings({
  name: 'idempotency',
  description: 'Calls with a key, which run once.',
  isLeftToGateway: true,
  properties: {
    ttl: setting(
      durationSchema,
      '24h',
      'How long the outcome of a call is remembered, unless the caller specifies it.',
    ),
    max_ttl: setting(durationSchema, '7d', 'The longest time that a caller may specify.'),
    max_keys: setting(
      { type: 'integer', minimum: 1, maximum: 1_000_000, errorMessage: 'must be a whole number from 1' },
      1000,
      'How many keys are remembered for each caller; further keys are refused.',
    ),
    max_bytes: setting(
      { ...sizeSchema, 'x-least': 1024 },
      '64MB',
      'How many bytes are remembered for each caller.',
    ),
    lost_answers: setting(
      {
        ...durationSchema,
        pattern: `^off$|${durationSchema.pattern}`,
        errorMessage: 'must be off, or a duration such as 60s',
      },
      '60s',
      'How long the outcome of a call is kept whose answer did not reach its client, so that an equal call of the same caller, without a key or with a new one, gets it instead of running again. For tools that change something and are not idempotent. See [Lost answers](safe-actions-reference.md#lost-answers).',
    ),
    compat: flag(true, 'Whether facts about the key are also sent at `idempotency` of a result.'),
  },
})

/** The settings of idempotency keys. Times are milliseconds, sizes bytes. */
export type IdempotencySettings = SettingsIn<typeof idempotencySchema>

/** The settings of pauses, and where they are. */
export const pauseWritesSchema = defineSettings({
  name: 'pause_writes',
  description:
    'Whether `gatehouse pause` stops the calls of all servers, or of this one, that may change something. See [Pausing writes](operating.md#pausing-writes).',
})

/** The settings of lost contexts, and where they are. */
export const contextSchema = defineSettings({
  name: 'context',
  place: 'top',
  choice: 'mode',
  isLeftToGateway: true,
  default: 'auto',
  description:
    'Whether a server keeps something in memory for a session, such as the page of a browser, that is lost when it restarts: then the next result says so, and the first call that may write is refused once. `auto`: if the session called a tool whose name says it, such as `navigate` or `use_database`, or the server has `isolation: per_client`; `keeps`: if the session changed anything; `off`: never. See [Servers that restart](operating.md#servers-that-restart).',
  properties: { mode: { enum: ['auto', 'keeps'] } },
})

/** The settings of lost contexts. */
export type ContextSettings = SettingsIn<typeof contextSchema>

/** The settings of transactions, and where they are. */
export const transactionsSchema = defineSettings({
  name: 'transactions',
  description: 'Calls that are undone together.',
  isLeftToGateway: true,
  default: {},
  properties: {
    timeout: setting(
      durationSchema,
      '5m',
      'How long a transaction may be idle before it is rolled back, unless its caller specifies it.',
    ),
    max_lifetime: setting(
      durationSchema,
      '1h',
      'The longest duration of a transaction; after that it is rolled back.',
    ),
    uncompensable: {
      enum: ['reject', 'allow'],
      default: 'reject',
      description:
        'How steps without a known compensation are handled: rejected, or executed and reported when the others are undone.',
    },
    auto_undo: flag(
      false,
      'Undo tools without an undo rule with another tool of their server, if names and schemas are unambiguous: what gatehouse plan calls sure.',
    ),
    on_step_failure: {
      enum: ['keep', 'rollback'],
      default: 'keep',
      description:
        'What happens to a transaction when a step fails: nothing, or it is rolled back immediately.',
    },
    retention: setting(
      durationSchema,
      '24h',
      'How long the status of an ended transaction is kept, and its id reserved.',
    ),
    max_active: count(10_000, 100, 'How many transactions each caller may have at a time.'),
    max_steps: count(1000, 100, 'How many steps a transaction may have.'),
    compat: flag(true, 'Whether facts about a step are also sent at `transaction` of its result.'),
  },
})

/** The settings of transactions. Times are milliseconds. */
export type TransactionSettings = SettingsIn<typeof transactionsSchema>

function count(maximum: number, fallback: number, description: string) {
  const errorMessage = `must be a number from 1 to ${maximum}`
  return setting({ type: 'integer', minimum: 1, maximum, errorMessage }, fallback, description)
}

const MINUTE_MS = 60_000
/** The lengths of the periods of budgets, in milliseconds; each starts at a full minute, hour, day or week, UTC. */
export const PERIOD_MS = {
  minute: MINUTE_MS,
  hour: 60 * MINUTE_MS,
  day: 1440 * MINUTE_MS,
  week: 7 * 1440 * MINUTE_MS,
} as const

/** The settings of costs. */
export const costSchema = defineSettings({
  name: 'cost',
  description: 'The costs of calls, as `cost` of a tool states them, and a budget for each caller.',
  properties: {
    budget: {
      type: 'object',
      required: ['units', 'per'],
      additionalProperties: false,
      errorMessage: 'must be a mapping such as { units: 100, per: day }',
      properties: {
        units: { type: 'number', minimum: 0, errorMessage: 'must be a number', description: 'How many.' },
        per: {
          enum: ['minute', 'hour', 'day', 'week'],
          errorMessage: 'must be one of minute, hour, day, week',
          description: 'The period; it starts at the full minute, hour, day or week, UTC.',
        },
        label: {
          type: 'string',
          minLength: 1,
          errorMessage: 'must be text',
          description: 'Only costs with this label count; without it, all costs in units.',
        },
      },
      description:
        'How many `units` each caller may spend `per` `minute`, `hour`, `day` or `week`, of one `label` or of all: `{ units: 100, per: day }`.',
      examples: [{ units: 100, per: 'day' }],
    },
  },
})

/** The settings of costs. */
export type CostSettings = SettingsIn<typeof costSchema>

/** How many units each caller may spend per period. */
export type Budget = NonNullable<CostSettings['budget']>

const amount = {
  type: ['number', 'string'],
  pattern: '^\\d{1,30}(?:\\.\\d{1,30})?(?:/(?:minute|hour|day|week))?$',
  minimum: 0,
  errorMessage: 'must be an amount for each call such as 20, or for a period such as 500/day or 0.5/hour',
} as const
const argumentPath = {
  type: 'string',
  minLength: 2,
  errorMessage: 'must be a path in the arguments such as $.amount or $.items[*].price',
} as const

/** The settings of limits that arguments decide, and where they are. */
export const argumentLimitsSchema = defineSettings({
  name: 'argument_limits',
  place: 'limits',
  properties: {
    arguments: {
      type: 'array',
      default: [],
      errorMessage: 'must be a list such as [{ tool: "pay_*", sum: "$.amount", most: 500/day }]',
      description:
        'How much the arguments of calls may add up to, in exact decimals, else `QUOTA_EXHAUSTED`. Replays of a key do not count, and calls that were not made are given back. Those of a server replace those for all servers.',
      examples: [
        [
          { tool: 'pay_*', sum: '$.amount', most: '500/day', in_all: '5000/day' },
          { tool: 'delete_*', count: '$.ids[*]', most: 20 },
        ],
      ],
      items: {
        type: 'object',
        required: ['tool'],
        additionalProperties: false,
        errorMessage: 'must be a mapping such as { tool: "delete_*", count: "$.ids[*]", most: 20 }',
        properties: {
          tool: {
            type: 'string',
            minLength: 1,
            'x-names': 'tool',
            errorMessage: 'must be the name of a tool, or a glob',
            description: 'The tools whose calls count, by name or glob.',
          },
          sum: { ...argumentPath, description: 'The numbers that are added: a path in the arguments.' },
          count: { ...argumentPath, description: 'The values that are counted, in place of `sum`.' },
          most: { ...amount, description: 'What one call, or each caller in a period, may have.' },
          in_all: { ...amount, description: 'What all callers together may have in a period.' },
        },
      },
    },
  },
})

/** The settings of limits that arguments decide. */
export type ArgumentLimitSettings = SettingsIn<typeof argumentLimitsSchema>

/** The settings of confirmations, and where they are. */
export const confirmSchema = defineSettings({
  name: 'confirm',
  description: 'Which calls a person confirms, and how the person is asked.',
  isLeftToGateway: true,
  default: {},
  properties: {
    level: {
      enum: ['destructive', 'reversible', 'all', 'none'],
      default: 'destructive',
      description: 'The lowest risk that requires confirmation, unless the tool has its own setting.',
    },
    unannotated: {
      enum: ['confirm', 'derive'],
      default: 'derive',
      description:
        'How tools without annotations are treated: always confirmed, or classified by name and description.',
    },
    fallback: {
      enum: ['page', 'two_step', 'deny'],
      description:
        'What happens if the client does not support elicitation: approval on a page or by a command of the gateway, a token with which the host repeats the call, or refusal. By default `page`, and `deny` in the corporate profile.',
      default: 'page',
    },
    exact_undo: {
      enum: ['ask', 'skip'],
      default: 'skip',
      description:
        'Whether calls are confirmed that only overwrite something, and whose undo restores it exactly, as it was proved for exactly these tools. `skip`, for servers with `trust`: such a call runs once what restores it is in the store. By default `skip`, and `ask` in the corporate profile.',
    },
    ttl: setting(durationSchema, '5m', 'How long the caller has to confirm a call.'),
    approval_ttl: setting(durationSchema, '1h', 'How long others have to approve a call out of band.'),
    wait: {
      ...durationSchema,
      'x-least': 0,
      pattern: `^off$|${durationSchema.pattern}`,
      errorMessage: 'must be off, or a duration such as 15s',
      description:
        'How long a call waits for its approval on a page before it has to be repeated. By default 15 s, and longer for clients that are known to wait longer. See [Calls that wait](safe-actions-reference.md#calls-that-wait).',
      examples: ['15s'],
    },
    remember: setting(
      rememberSchema,
      { for: '1h', max: 100, offer: true },
      'Confirm several calls of a tool in one session at once: always, or with `offer: on` if the person chooses so. By default it is offered, and `off` in the corporate profile.',
    ),
    edit: flag(
      true,
      'Whether the person who approves a call on its page may change its arguments. See [Changing a call](safe-actions-reference.md#changing-a-call).',
    ),
    rollbacks: flag(false, 'Whether undoing an action requires confirmation too.'),
    accept_bare_flag: flag(
      false,
      'Accept `user_confirmed: true` without a token as a confirmation, with `inject_arguments` also as an argument. Only for development: any program can send it.',
    ),
    approve_by_command: {
      enum: ['terminal', 'script'],
      default: 'terminal',
      'x-gateway': true,
      description:
        'Whether `gatehouse approvals approve` needs a terminal, in which it shows the call and a person types the code that the gateway printed when it started, or scripts may approve too. An agent that can run commands is a script.',
    },
    model_may_confirm: flag(
      false,
      'Whether models receive the token of a call and may confirm it with the argument `_confirmation_token`, with `inject_arguments`. Nothing then forces them to ask the user first.',
    ),
    compat: flag(
      true,
      'Whether confirmation members are also sent outside of `_meta`. See [Descriptions](descriptions.md).',
    ),
  },
})

/** The settings of confirmations. Durations are milliseconds. */
export type ConfirmSettings = SettingsIn<typeof confirmSchema>

const webhooksSchema = {
  type: 'object',
  'x-gateway': true,
  default: {},
  additionalProperties: false,
  description:
    'How events are delivered to the webhooks of clients, for all servers. See [Webhooks](events-reference.md#webhooks).',
  properties: {
    allow: {
      type: 'array',
      default: [],
      items: {
        type: 'string',
        pattern: '^https?://[^/?#@\\s]+$',
        errorMessage: 'must be an origin such as http://127.0.0.1:8080',
      },
      description:
        'Origins of receivers that may use http, and addresses of this machine or a private network. Others must use https, at public addresses. See [Webhooks](events-reference.md#webhooks).',
    },
    give_up: setting(
      durationSchema,
      '15m',
      'How long the delivery of an event is attempted until it is a dead letter.',
    ),
    webhook_id: {
      enum: ['event', 'message'],
      default: 'event',
      errorMessage: 'must be event or message',
      description:
        'The header `webhook-id`: the id of the event (`event`), which receivers of 2026 expect, or one of its own for each message (`message`).',
    },
  },
} as const

/** The settings of events, and where they are. */
export const eventsSchema = defineSettings({
  name: 'events',
  isLeftToGateway: true,
  isLeftToPersonal: true,
  description:
    'Events of servers: changes that they notify, and successes of their tools that write. See [Events](events.md).',
  properties: {
    writes: {
      enum: ['own', 'all', 'off'],
      default: 'own',
      errorMessage: 'must be own, all or off',
      description:
        'Whose successful calls of tools that write are events for a caller: its own (`own`), or those of all callers, with their arguments, if the caller may make the same call (`all`).',
    },
    keep: setting(durationSchema, '24h', 'How long events are kept for callers that request them later.'),
    max_ttl: setting(
      { ...durationSchema, 'x-gateway': true },
      '24h',
      'How long a subscription lasts at most until it is renewed, for all servers. In a store that survives restarts, a client may also subscribe without an expiry.',
    ),
    webhooks: webhooksSchema,
  },
})

/** The settings of events. */
export type EventSettings = SettingsIn<typeof eventsSchema>

/** Whose successful calls a caller receives as events: its own, those of all callers, or none. */
export type Writes = EventSettings['writes']
