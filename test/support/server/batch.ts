import { type Channel, errorReply, RpcError } from './call.ts'
import { type Incoming, sort } from './incoming.ts'
import { isObject } from './json.ts'
import type { LegacySession } from './legacy.ts'
import type { World } from './world.ts'

/** Whether a message, or one of a batch, wants a reply. */
export function wantsReply(incoming: Incoming): boolean {
  if (incoming.kind === 'request') return true
  return incoming.kind === 'junk' && (!Array.isArray(incoming.value) || incoming.value.some(isRequest))
}

/** Gives a session one message, or each message of a batch where its revision has batches. */
export function deliver(world: World, session: LegacySession, incoming: Incoming, channel: Channel): void {
  const batch: unknown = incoming.kind === 'junk' ? incoming.value : undefined
  if (!Array.isArray(batch)) return session.receive(incoming, channel)
  const { journal, options, traits } = world
  const isOpening = batch.some((item) => isObject(item) && item['method'] === 'initialize')
  if (!traits.batch || batch.length === 0 || isOpening) {
    journal.violation(`a batch sent to ${options.revision}`)
    return channel.finish(errorReply(null, new RpcError(-32600, 'Batches are not supported here')), 400)
  }
  const part = joined(channel, batch.filter(isRequest).length)
  for (const item of batch) session.receive(sort(JSON.stringify(item), incoming.headers, journal), part)
}

function isRequest(item: unknown): boolean {
  return isObject(item) && 'method' in item && 'id' in item
}

/** A channel that sends the replies of a batch as one array. */
function joined(channel: Channel, requests: number): Channel {
  let open = requests
  const replies: unknown[] = []
  return {
    ...channel,
    finish: (reply) => {
      if (reply !== undefined) replies.push(reply)
      if (--open === 0) channel.finish(replies.length > 0 ? replies : undefined)
    },
  }
}
