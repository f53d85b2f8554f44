// A cancelled call is cancelled at the server in the way of its own revision and transport, and no other call is.
import { expect, it, vi } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import { subject } from '../../support/matrix.ts'
import { mark, type Meeting } from '../../support/meeting.ts'
import { type Id, type Json, objectAt } from '../../support/server/json.ts'

export const cancel = subject('matrix/cancel', (meeting) => {
  const { client, server, kinds } = meeting

  it('C107 C110 cancels a call at the server in its own protocol, and sends the client no response', async () => {
    const { connected } = meeting
    const late = connected.late.length
    const call = await hang(meeting, connected)
    await connected.cancel(call.id, 'not needed')
    await expect(call.reply).rejects.toThrow('not needed')
    await cancelledAt(call)
    if (meeting.isHttp) {
      const sides = client.modern ? 0 : 1
      await vi.waitFor(() => expect(connected.link).toHaveProperty('openStreams', sides), 10_000)
    }
    expect(textOf(await meeting.call('echo', { still: 'here' }))).toBe('{"still":"here"}')
    expect(connected.late.slice(late)).toEqual([])
  })

  it('does not affect other calls when one is cancelled', async () => {
    const { connected } = meeting
    const call = await hang(meeting, connected)
    const other = meeting.call('slow', { ms: 60, steps: 2 })
    await connected.cancel(call.id)
    await expect(call.reply).rejects.toThrow('cancelled')
    expect(textOf(await other)).toBe('took 2 steps')
  })

  if (!client.modern && kinds.client.transport === 'http') {
    it('does not treat a lost connection as a cancellation', async () => {
      const other = await meeting.connect()
      const word = mark()
      const first = Promise.withResolvers<void>()
      const heard: unknown[] = []
      const onProgress = ({ progress }: Json): void => {
        heard.push(progress)
        first.resolve()
      }
      const from = meeting.seen().length
      const params = { name: 'slow', arguments: { ms: 200, steps: 4, word } }
      const { reply } = other.start('tools/call', params, { progressToken: word, onProgress })
      await first.promise
      const last = other.dropStream()
      await other.resume(String(last))
      expect(textOf(await reply)).toBe('took 4 steps')
      expect(heard).toEqual([1, 2, 3, 4])
      expect(
        meeting
          .seen()
          .slice(from)
          .map(({ kind }) => kind),
      ).not.toContain('cancelled')
    })
  }

  if (kinds.client.transport !== 'sse') return
  it('cancels the calls of a client whose only stream ended', async () => {
    const other = await meeting.connect()
    const call = await hang(meeting, other)
    call.reply.catch(() => undefined)
    other.dropStream()
    await cancelledAt(call)
  })

  /** Waits until the server received the cancellation as its revision and transport define it. */
  async function cancelledAt({ serverId, from }: Hanging): Promise<void> {
    await meeting.until(({ kind, text }) => kind === 'cancelled' && text === JSON.stringify(serverId), from)
    const told = meeting
      .seen()
      .slice(from)
      .filter(({ message }) => {
        const isCancel = message?.['method'] === 'notifications/cancelled'
        return isCancel && objectAt(message, 'params')['requestId'] === serverId
      })
    // Over HTTP, closing the stream is how a 2026-07-28 request is cancelled.
    expect(told).toHaveLength(server.modern && kinds.server.transport === 'http' ? 0 : 1)
  }
})

interface Hanging {
  readonly id: Id
  readonly serverId: unknown
  readonly reply: Promise<unknown>
  /** The position of the call in the server's journal. */
  readonly from: number
}

/** Makes a call that lasts until it is cancelled, and waits until the server received it. */
async function hang(meeting: Meeting, client: FakeClient): Promise<Hanging> {
  const word = mark()
  const from = meeting.seen().length
  const { id, reply } = client.start('tools/call', { name: 'hang', arguments: { word } })
  reply.catch(() => undefined)
  const { message } = await meeting.until(({ text }) => text.includes(word), from)
  return { id, serverId: message?.['id'], reply, from }
}
