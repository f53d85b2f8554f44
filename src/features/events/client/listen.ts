/**
 * Subscriptions of clients of 2026-07-28: they name them in the filter of `subscriptions/listen`, and get their events on
 * that stream. The acknowledgement says which ones it has, before the first event.
 */
import type { Call, ClientStream, Middleware, Notification } from '../../../core/call.ts'
import { Payload } from '../../../core/payload.ts'
import { NS } from '../../../protocol/meta-keys.ts'
import { ACKNOWLEDGED } from '../../../protocol/subscription-filter.ts'
import type { ClientParts } from './delivery.ts'
import { invalid } from './filter.ts'
import type { OpenPush } from './methods.ts'
import { findOwn, type Subscription } from './subscription.ts'

/** The member of a filter with the ids of subscriptions, and the name of the extension that has it. */
export const EVENTS_KEY = `${NS}/events`

/** How many subscriptions one stream can have. */
const MAX_IDS = 100

/** Adds the events of subscriptions to the streams that name them. */
export function listening(parts: ClientParts, open: OpenPush): Middleware {
  return (next) => async (call) => {
    const ids = call.client.era === 'modern' ? idsIn(call) : undefined
    if (!ids) return next(call)
    const known = await Promise.all(ids.map((id) => findOwn(call, parts.subscriptions, id)))
    const found = known.filter((each) => each !== undefined)
    const stream = streamOf(call)
    const emit = (note: Notification): void => {
      if (note.method !== ACKNOWLEDGED) return call.emit(note)
      const sent = found.filter(({ record, positions }) => {
        const { id, expiresAt } = record
        return open({ id, stream, call, positions, expiresAt })
      })
      call.emit(acknowledging(note, sent))
    }
    try {
      return await next({ ...call, params: withoutIds(call), emit })
    } finally {
      parts.pushes.leave(stream)
    }
  }
}

/** @throws INVALID_INPUT */
function idsIn(call: Call): readonly string[] | undefined {
  const ids = call.params.at('notifications')?.fields[EVENTS_KEY]
  if (ids === undefined) return undefined
  const texts = Array.isArray(ids) ? ids.filter((id) => typeof id === 'string') : []
  if (!Array.isArray(ids) || texts.length < ids.length || texts.length > MAX_IDS)
    throw invalid(`notifications.${EVENTS_KEY}`, `must be a list of at most ${MAX_IDS} ids of subscriptions`)
  return [...new Set(texts)]
}

function withoutIds({ params }: Call): Payload {
  const notifications = params.at('notifications') ?? Payload.of({})
  return params.with({ notifications: notifications.with({ [EVENTS_KEY]: undefined }) })
}

/** The acknowledgement with the ids; those that the caller does not have are left out. */
function acknowledging(note: Notification, sent: readonly Subscription[]): Notification {
  const params = note.params ?? Payload.of({})
  const notifications = params.at('notifications') ?? Payload.of({})
  const ids = sent.map(({ record }) => record.id)
  return { ...note, params: params.with({ notifications: notifications.with({ [EVENTS_KEY]: ids }) }) }
}

function streamOf(call: Call): ClientStream {
  return {
    isOpen: () => !call.signal.aborted,
    closed: call.signal,
    emit: (note) => call.emit(note),
    drained: async () => call.drained?.(),
  }
}
