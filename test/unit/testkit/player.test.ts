import { describe, expect, it } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import type { TransportReceiver, UpstreamTransport } from '../../../src/upstream/transport/transport.ts'
import { parseCassette } from '../../../src/testkit/cassette.ts'
import { createPlayer } from '../../../src/testkit/player.ts'
import { until } from '../../support/condition.ts'

type Entry = readonly [dir: 'c2s' | 's2c', frame: Readonly<Record<string, unknown>>]

const handshake: readonly Entry[] = [
  ['c2s', { id: 1, method: 'initialize', params: { capabilities: {} } }],
  ['s2c', { id: 1, result: { protocolVersion: '2025-06-18', capabilities: {} } }],
]
const asking: readonly Entry[] = [
  ['c2s', { id: 2, method: 'tools/call', params: { name: 'ask', _meta: { progressToken: 2 } } }],
  ['s2c', { method: 'notifications/progress', params: { progressToken: 2, progress: 1 } }],
  ['s2c', { id: 0, method: 'elicitation/create', params: { message: 'Sure?' } }],
  ['c2s', { id: 0, result: { action: 'accept', content: { sure: true } } }],
  ['s2c', { id: 2, result: { content: [] } }],
]

/** A connection to a recording, and what it sends. */
async function play(...entries: readonly Entry[]) {
  const head = { type: 'header', cassetteVersion: 2, transport: 'stdio', era: 'legacy' }
  const frames = [...handshake, ...entries].map(([dir, frame]) => ({ type: 'frame', t: 0, dir, frame }))
  const text = [head, ...frames].map((line) => JSON.stringify(line)).join('\n')
  const { intercept, revision } = createPlayer(parseCassette(text, 'a.jsonl'))
  const received: Record<string, unknown>[] = []
  const receiver: TransportReceiver = {
    receive: (message) => void received.push(JSON.parse(message)),
    spool: () => undefined,
    isWaiting: () => true,
    reject: () => undefined,
    closed: () => undefined,
    sessionLost: () => undefined,
  }
  const { settings } = loadSettings('{"upstreams":{"one":"true"}}', { file: 'test', env: {} })
  const [server] = settings.upstreams
  if (!server) throw new Error('no server')
  const neverOpened = (): Promise<UpstreamTransport> => Promise.reject(new Error('a server was started'))
  const transport = await intercept(neverOpened, { settings: server, era: 'legacy' })(receiver)
  const send = (message: unknown): void => void transport.send(JSON.stringify(message), {})
  const receivedMessages = async (count: number) => {
    await until(() => received.length >= count, `${count} messages`)
    return received
  }
  return { revision, transport, send, receivedMessages, received }
}

describe('a replayed recording', () => {
  it('has the revision of its server', async () => {
    expect((await play()).revision).toBe('2025-06-18')
  })

  it('asks its questions in order, with ids and tokens of the new request', async () => {
    const { send, receivedMessages } = await play(...asking)
    send({ id: 9, method: 'tools/call', params: { name: 'ask', _meta: { progressToken: 'mine' } } })
    const [progress, question] = await receivedMessages(2)
    expect(progress).toMatchObject({ params: { progressToken: 'mine', progress: 1 } })
    expect(question).toMatchObject({ method: 'elicitation/create', params: { message: 'Sure?' } })
    send({ id: question?.id, result: { action: 'accept', content: { sure: true } } })
    const [, , result] = await receivedMessages(3)
    expect(result).toMatchObject({ id: 9, result: { content: [] } })
  })

  it('sends no progress to a request without a token', async () => {
    const { send, receivedMessages } = await play(...asking)
    send({ id: 9, method: 'tools/call', params: { name: 'ask' } })
    expect((await receivedMessages(1))[0]).toMatchObject({ method: 'elicitation/create' })
  })

  it('does not go on after another answer than the recorded one', async () => {
    const { send, receivedMessages } = await play(...asking)
    send({ id: 9, method: 'tools/call', params: { name: 'ask' } })
    const [question] = await receivedMessages(1)
    send({ id: question?.id, result: { action: 'decline' } })
    const [, refused] = await receivedMessages(2)
    expect(refused).toMatchObject({ id: 9, error: { code: -32602 } })
    expect(JSON.stringify(refused)).toContain('after another answer to elicitation/create')
  })

  it.each([
    ['sampling/createMessage', { model: 'm', content: { type: 'text', text: 'red' } }, { model: 'n' }],
    ['roots/list', { roots: [{ uri: 'file:///recorded' }] }, { roots: [] }],
  ])('goes on after any answer to %s', async (method, recorded, given) => {
    const { send, receivedMessages } = await play(
      ['c2s', { id: 2, method: 'tools/call', params: { name: 'ask' } }],
      ['s2c', { id: 0, method }],
      ['c2s', { id: 0, result: recorded }],
      ['s2c', { id: 2, result: { content: [] } }],
    )
    send({ id: 9, method: 'tools/call', params: { name: 'ask' } })
    const [question] = await receivedMessages(1)
    send({ id: question?.id, result: given })
    expect((await receivedMessages(2))[1]).toMatchObject({ id: 9, result: { content: [] } })
  })

  it('answers equal requests in order, and then as the last one', async () => {
    const read = { method: 'resources/read', params: { uri: 'a:b' } }
    const { send, receivedMessages } = await play(
      ['c2s', { id: 2, ...read }],
      ['s2c', { id: 2, result: { n: 1 } }],
      ['c2s', { id: 3, ...read }],
      ['s2c', { id: 3, result: { n: 2 } }],
    )
    for (const id of [5, 6, 7]) send({ id, ...read })
    expect((await receivedMessages(3)).map(({ result }) => result)).toEqual([{ n: 1 }, { n: 2 }, { n: 2 }])
  })

  it('fails a request whose answer was not recorded, and answers a ping', async () => {
    const { send, receivedMessages } = await play(['c2s', { id: 2, method: 'tools/list' }])
    send({ id: 5, method: 'tools/list' })
    send({ id: 6, method: 'ping' })
    const [unanswered, pong] = await receivedMessages(2)
    expect(JSON.stringify(unanswered)).toContain('ended before this request, in its line 4')
    expect(pong).toMatchObject({ id: 6, result: {} })
  })

  it('sends what came after a response, and nothing once it is closed', async () => {
    const changed = { method: 'notifications/tools/list_changed' }
    const { send, receivedMessages, transport, received } = await play(
      ['c2s', { id: 2, method: 'tools/list' }],
      ['s2c', { id: 2, result: { tools: [] } }],
      ['s2c', changed],
    )
    send({ id: 5, method: 'tools/list' })
    expect((await receivedMessages(2))[1]).toMatchObject(changed)
    send({ id: 6, method: 'tools/list' })
    await transport.close()
    await new Promise((resolve) => setImmediate(resolve))
    expect(received).toHaveLength(2)
  })

  it('waits for no answer of a cancelled request', async () => {
    const { send, receivedMessages, received } = await play(...asking)
    send({ id: 9, method: 'tools/call', params: { name: 'ask' } })
    const [question] = await receivedMessages(1)
    send({ method: 'notifications/cancelled', params: { requestId: 9 } })
    send({ id: question?.id, result: { action: 'accept', content: { sure: true } } })
    await new Promise((resolve) => setImmediate(resolve))
    expect(received).toHaveLength(1)
  })

  it('does not answer a request that was cancelled at once', async () => {
    const { send, receivedMessages } = await play(
      ['c2s', { id: 2, method: 'tools/list' }],
      ['s2c', { id: 2, result: { tools: [] } }],
    )
    send({ id: 8, method: 'tools/list' })
    send({ method: 'notifications/cancelled', params: { requestId: 8 } })
    send({ id: 9, method: 'ping' })
    expect((await receivedMessages(1)).map(({ id }) => id)).toEqual([9])
  })
})
