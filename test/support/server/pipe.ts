import { deliver } from './batch.ts'
import { type Channel, errorReply, RpcError } from './call.ts'
import { type Incoming, sort } from './incoming.ts'
import type { HeaderMap } from './journal.ts'
import { isId } from './json.ts'
import { LegacySession } from './legacy.ts'
import { receiveModern } from './modern.ts'
import { pacing } from './pacing.ts'
import type { World } from './world.ts'

/** The server's end of a connection on which all messages share one way back. */
export interface Pipe {
  receive(text: string, headers?: HeaderMap): void
  close(): void
}

/** How a pipe reaches its client. */
export interface PipeEnd {
  send(message: unknown): void
  crash(): void
}

/** Answers a client over stdio or HTTP+SSE. */
export function openPipe(world: World, end: PipeEnd): Pipe {
  const channel = pacing(world.options)({
    send: end.send,
    finish: (reply) => {
      if (reply !== undefined) end.send(reply)
    },
    crash: end.crash,
    drop: () => {},
  })
  return world.traits.modern ? modernPipe(world, channel) : legacyPipe(world, channel)
}

function legacyPipe(world: World, channel: Channel): Pipe {
  const { discover } = world.options
  const session = new LegacySession(world)
  session.openSide(channel)
  return {
    receive: (text, headers = {}) => {
      const incoming = sort(text, headers, world.journal)
      const isProbe = incoming.kind === 'request' && incoming.method === 'server/discover'
      if (isProbe && discover === 'silent') return
      if (isProbe && discover === 'exit' && !session.isOpen) return channel.crash()
      deliver(world, session, incoming, channel)
    },
    close: () => session.close(),
  }
}

function modernPipe(world: World, channel: Channel): Pipe {
  const open = new Map<string, AbortController>()
  return {
    receive: (text, headers = {}) => {
      const incoming = sort(text, headers, world.journal)
      if (incoming.kind !== 'request') return modernOther(world, incoming, channel, open)
      const key = JSON.stringify(incoming.id)
      if (open.has(key)) world.journal.violation(`id reused while in flight: ${key}`)
      const controller = new AbortController()
      open.set(key, controller)
      void receiveModern(world, incoming, channel, controller.signal).finally(() => open.delete(key))
    },
    close: () => world.endListening(),
  }
}

function modernOther(
  { journal, options }: World,
  incoming: Exclude<Incoming, { kind: 'request' }>,
  channel: Channel,
  open: ReadonlyMap<string, AbortController>,
): void {
  if (incoming.kind === 'response') return journal.violation(`a response sent to ${options.revision}`)
  if (incoming.kind === 'junk') {
    if (Array.isArray(incoming.value)) journal.violation(`a batch sent to ${options.revision}`)
    return channel.finish(errorReply(undefined, new RpcError(incoming.code, incoming.reason)))
  }
  if (incoming.method.startsWith('notifications/vendor')) return
  if (incoming.method !== 'notifications/cancelled') {
    return journal.violation(`${incoming.method} sent to ${options.revision}`)
  }
  const id = incoming.params['requestId']
  const key = JSON.stringify(id)
  if (!isId(id)) journal.violation(`cancelled without a request id: ${key}`)
  if (open.has(key)) journal.record({ kind: 'cancelled', text: key, headers: {} })
  open.get(key)?.abort()
}
