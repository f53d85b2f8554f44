/** How events are configured: its settings with their schema and defaults, and where they are. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings, setting } from '../../core/setting-schemas.ts'
import { durationSchema } from '../../core/time/units.ts'

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

/** The schema of the settings. */
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
