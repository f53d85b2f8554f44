// Each message of a client may have a connection of its own, so a cancellation can arrive before its request.
import { expect, test } from 'vitest'
import { post } from '../../support/client/raw.ts'
import { callsOf, gatewayTo, httpServer } from '../../support/journey.ts'
import { messageOf, openSession, toolCall } from '../../support/raw-session.ts'

async function session() {
  const server = await httpServer()
  const { url } = await gatewayTo({ one: { url: server.url } })
  const { headers } = await openSession(url, '2025-06-18')
  const send = (message: object) => post(url, JSON.stringify(message), headers)
  const cancel = (requestId: number) =>
    send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } })
  return { server, send, cancel }
}

test('a request that was cancelled before it arrived is not made', async () => {
  const { server, send, cancel } = await session()
  expect((await cancel(7)).status).toBe(202)
  const { events, text } = await send(toolCall(7, 'echo', { text: 'late' }))
  expect([...events.flatMap(({ data }) => data ?? []), text].join('')).not.toContain('late')
  expect(callsOf(server, 'echo')).toBe(0)
  // Its id is not spent.
  const again = await send(toolCall(7, 'echo', { text: 'again' }))
  const last = again.events.at(-1)
  expect(last ? messageOf(last) : JSON.parse(again.text)).toHaveProperty('result')
})

test('a cancellation that came too late cancels nothing that has the same id later', async () => {
  const { server, send, cancel } = await session()
  for (let count = 1; count <= 2; count++) {
    await send(toolCall(7, 'echo', { text: 'a' }))
    await cancel(7)
    expect(callsOf(server, 'echo')).toBe(count)
  }
})
