// The process of a session stands still for longer than its heartbeat is valid, and then continues.
import { expect, test } from 'vitest'
import { post } from '../../support/client/raw.ts'
import { until } from '../../support/condition.ts'
import { folder, gatewayProcessTo, httpServer } from '../../support/journey.ts'
import { eventsUntil, openSession, toolCall } from '../../support/raw-session.ts'
import { objectAt } from '../../support/server/json.ts'

test('a session of a stopped process is taken over, and no call of it runs twice', async () => {
  const server = await httpServer()
  const config = { store: folder() }
  const start = () => gatewayProcessTo({ one: { url: server.url } }, { config })
  const [one, other] = await Promise.all([start(), start()])
  const session = await openSession(one.url, '2025-11-25')
  const stream = await session.get()
  let last = 0
  const texts: string[] = []
  const call = async (url: string) => {
    const text = `call ${++last}`
    const message = JSON.stringify(toolCall(last, 'echo', { text }))
    const { status, text: answer, headers } = await post(url, message, session.headers)
    if (status === 200) texts.push(text)
    return { status, answer, retry: headers['retry-after'] }
  }
  expect((await call(other.url)).status).toBe(200)
  one.signal('SIGSTOP')
  // Sent to the stopped process, before it is known that it does not answer.
  const unknown = await call(other.url)
  expect(unknown).toMatchObject({ status: 502, answer: expect.stringContaining('OUTCOME_UNKNOWN') })
  await until(async () => (await call(other.url)).status === 200, 'the other process to take over')
  one.signal('SIGCONT')
  // Its own stream of the session ends.
  await expect(eventsUntil(stream.events(), () => false)).rejects.toThrow('the stream ended')
  await one.logged(({ event }) => event === 'session.fenced')
  await other.logged(({ event }) => event === 'session.adopted')
  expect((await call(one.url)).status).toBe(200)
  expect((await call(other.url)).status).toBe(200)
  const ran = server
    .received('tools/call')
    .map(({ message }) => objectAt(objectAt(message, 'params'), 'arguments')['text'])
  expect(new Set(ran).size).toBe(ran.length)
  for (const text of texts) expect(ran).toContain(text)
  expect(other.log().filter(({ event }) => event === 'session.adopted')).toHaveLength(1)
}, 120_000)
