import type { Channel } from './call.ts'
import { isObject, type Json } from './json.ts'
import type { ServerOptions } from './options.ts'

/** Makes the replies of a channel late, disordered or wrong, as the options say. */
export type Pace = (channel: Channel) => Channel

/** Builds the pacing that all channels of one server share. */
export function pacing(options: ServerOptions): Pace {
  const { coerceIds = false, delayMs = 0, outOfOrder = false } = options
  if (!coerceIds && delayMs === 0 && !outOfOrder) return (channel) => channel
  const hold = holder(outOfOrder)
  const pace = (channel: Channel): Channel => ({
    ...channel,
    finish: (reply, status) => {
      const send = () => channel.finish(coerceIds ? withTextId(reply) : reply, status)
      if (reply === undefined || isHandshake(reply)) return send()
      setTimeout(() => hold(send), delayMs)
    },
  })
  return pace
}

function withTextId(reply: unknown): unknown {
  return isObject(reply) && typeof reply['id'] === 'number' ? { ...reply, id: String(reply['id']) } : reply
}

function isHandshake(reply: unknown): boolean {
  const result: Json = isObject(reply) && isObject(reply['result']) ? reply['result'] : {}
  return 'protocolVersion' in result || 'supportedVersions' in result
}

/** Holds every first reply of a pair until the second went out, or a moment passed. */
function holder(outOfOrder: boolean): (send: () => void) => void {
  if (!outOfOrder) return (send) => send()
  let held: (() => void) | undefined
  return (send) => {
    const earlier = held
    held = undefined
    if (earlier) {
      send()
      return earlier()
    }
    held = send
    setTimeout(() => {
      if (held !== send) return
      held = undefined
      send()
    }, 150)
  }
}
