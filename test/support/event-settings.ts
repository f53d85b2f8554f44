import type { EventSettings } from '../../src/features/settings/effect.ts'

/** The settings of events, as the schema completes them. */
export function eventSettings(given: Partial<EventSettings> = {}): EventSettings {
  const webhooks = { allow: [], give_up: 900_000, webhook_id: 'event' } as const
  return { writes: 'own', keep: 86_400_000, max_ttl: 86_400_000, webhooks, ...given }
}
