import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Notification } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import type { Spool } from '../../../src/core/spool.ts'
import { type OutgoingRequest, JsonRpcPeer } from '../../../src/protocol/json-rpc-peer.ts'
import { anyText, mutated } from '../../support/mutations.ts'

function peer(): {
  peer: JsonRpcPeer
  sent: string[]
  noise: string[]
  notes: Notification[]
  requests: string[]
} {
  const sent: string[] = []
  const noise: string[] = []
  const notes: Notification[] = []
  const requests: string[] = []
  const made = new JsonRpcPeer(
    { send: (message) => (sent.push(message), Promise.resolve()) },
    {
      request: (request) => requests.push(request.method),
      notification: (note) => notes.push(note),
      noise: (text) => noise.push(text),
    },
  )
  return { peer: made, sent, noise, notes, requests }
}

const ask = (to: JsonRpcPeer, options = {}): Promise<string> =>
  to
    .request('m', () => Payload.of({}), options)
    .then(
      (result) => result.text,
      (error: unknown) => (error instanceof GatewayError ? error.code : String(error)),
    )
const answer = (id: unknown, text: string): string => JSON.stringify({ jsonrpc: '2.0', id, result: { text } })

describe('a message with a key that occurs twice', () => {
  const twice = '"method":"roots/list","params":{"a":{"x":1,"x":2}}'

  test.each([
    [`{"jsonrpc":"2.0","id":"q",${twice}}`, '"q"'],
    [`{"jsonrpc":"2.0","id":9007199254740993,${twice}}`, '9007199254740993'],
    [`{"jsonrpc":"2.0","method":"ping","method":"roots/list","id":3}`, '3'],
    [`{"jsonrpc":"2.0","id":4,"id":4,"method":"roots/list"}`, '4'],
    [`[{"jsonrpc":"2.0","id":5,${twice}}]`, '5'],
    ['{"jsonrpc":"2.0","id":6,"method":7}', '6'],
  ])('is answered with an error, if it is the request %s', (text, id) => {
    const { peer: to, sent, requests, noise } = peer()
    to.receive(text)
    expect(requests).toEqual([])
    expect(noise).toHaveLength(1)
    expect(sent).toHaveLength(1)
    expect(sent[0]).toContain(`"id":${id},"error":{"code":-32600,`)
  })

  test.each([
    `{"jsonrpc":"2.0",${twice}}`,
    `{"jsonrpc":"2.0","id":1,"id":2,"method":"roots/list"}`,
    `{"jsonrpc":"2.0","id":null,${twice}}`,
    '{"jsonrpc":"2.0","id":1,',
  ])('is not answered, if it is %s', (text) => {
    const { peer: to, sent, requests, notes, noise } = peer()
    to.receive(text)
    expect([sent, requests, notes]).toEqual([[], [], []])
    expect(noise).toHaveLength(1)
  })

  test('ends its request, if it is a response', async () => {
    const { peer: to } = peer()
    const asked = ask(to)
    to.receive('{"jsonrpc":"2.0","id":1,"id":1,"result":{}}')
    expect(await asked).toBe('UPSTREAM_ERROR')
  })
})

describe('a JSON-RPC peer', () => {
  test('a cancellation is sent in the context of its request', async () => {
    const about: unknown[] = []
    const send = (message: string, exchange: OutgoingRequest): undefined =>
      void about.push(message, exchange.about)
    const to = new JsonRpcPeer({ send }, { request: () => {}, notification: () => {}, noise: () => {} })
    const controller = new AbortController()
    const asked = ask(to, { signal: controller.signal, about: '"call"' })
    controller.abort()
    expect(await asked).toBe('CANCELLED')
    expect(about).toEqual([
      expect.stringContaining('"method":"m"'),
      '"call"',
      expect.stringContaining('"method":"notifications/cancelled"'),
      '"call"',
    ])
  })

  test('responses match requests in any order', async () => {
    const { peer: to } = peer()
    const [one, two, three] = [ask(to), ask(to), ask(to)]
    to.receive(answer(3, 'three'))
    to.receive(answer('1', 'one'))
    to.receive(`[${answer(2, 'two')}]`)
    expect(await Promise.all([one, two, three])).toEqual([
      '{"text":"one"}',
      '{"text":"two"}',
      '{"text":"three"}',
    ])
    expect(to.waiting).toBe(0)
  })

  test('an error without an id belongs to the only request, or to that of its stream', async () => {
    const { peer: to } = peer()
    const only = ask(to)
    to.receive('{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}')
    expect(await only).toBe('UPSTREAM_ERROR')
    const [first, second] = [ask(to), ask(to)]
    to.receive('{"jsonrpc":"2.0","error":{"code":-32000,"message":"no"}}')
    expect(to.waiting).toBe(2)
    to.receive('{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}', 2)
    expect(await first).toBe('UPSTREAM_ERROR')
    to.receive(answer(3, 'second'))
    expect(await second).toBe('{"text":"second"}')
  })

  test.each([
    '{"jsonrpc":"2.0","id":null,"result":{"text":"wrong"}}',
    '{"jsonrpc":"2.0","result":{"text":"wrong"}}',
    '{"level":"info","msg":"a line of a log"}',
    '{}',
  ])('%s belongs to no request, not even to the only one', async (text) => {
    const { peer: to } = peer()
    const only = ask(to)
    to.receive(text)
    expect(to.waiting).toBe(1)
    to.receive(answer(1, 'right'))
    expect(await only).toBe('{"text":"right"}')
  })

  test('a result without an id on its own stream ends the request', async () => {
    const { peer: to } = peer()
    const [first] = [ask(to), ask(to)]
    to.receive('{"jsonrpc":"2.0","id":null,"result":{"text":"wrong"}}', 1)
    expect(await first).toBe('UPSTREAM_ERROR')
    expect(to.waiting).toBe(1)
  })

  test('a response on the stream of another request is ignored', async () => {
    const { peer: to } = peer()
    const [mine, theirs] = [ask(to), ask(to)]
    to.receive(answer(2, 'secret'), 1)
    expect(to.waiting).toBe(2)
    to.receive(answer(1, 'mine'), 1)
    to.receive(answer(2, 'theirs'), 2)
    expect(await Promise.all([mine, theirs])).toEqual(['{"text":"mine"}', '{"text":"theirs"}'])
  })

  test('a malformed response ends its request only', async () => {
    const { peer: to, noise } = peer()
    const [broken, good] = [ask(to), ask(to)]
    to.receive('{"jsonrpc":"2.0","id":1,"result":"text"}')
    expect(await broken).toBe('UPSTREAM_ERROR')
    to.receive('{"jsonrpc":"2.0","id":2,"method":7}')
    expect(to.waiting).toBe(1)
    to.receive(answer(2, 'good'))
    expect(await good).toBe('{"text":"good"}')
    expect(noise).toHaveLength(2)
  })

  test('a batch is processed after an invalid member', async () => {
    const { peer: to } = peer()
    const asked = ask(to)
    to.receive(`[1, {"jsonrpc":"2.0"}, ${answer(1, 'here')}]`)
    expect(await asked).toBe('{"text":"here"}')
  })

  test('a request whose params cannot be built is removed', async () => {
    const { peer: to, sent } = peer()
    const failing = to.request('m', () => {
      throw new GatewayError('INVALID_INPUT', 'no')
    })
    await expect(failing).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    expect([to.waiting, sent.length]).toEqual([0, 0])
  })

  test('progress is passed to its own request only', async () => {
    const { peer: to, notes } = peer()
    const heard: unknown[] = []
    const asked = ask(to, { onProgress: (note: Notification) => heard.push(note.params?.fields.progress) })
    const progress = (token: unknown): string =>
      JSON.stringify({
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken: token, progress: 1 },
      })
    for (const token of [1, 99, 'x', null, undefined]) to.receive(progress(token))
    to.receive(answer(1, 'done'))
    to.receive(progress(1))
    await asked
    expect(heard).toEqual([1])
    expect(notes).toEqual([])
  })

  test('a cancelled request notifies the other side, except for initialize', async () => {
    const { peer: to, sent } = peer()
    const controller = new AbortController()
    const asked = ask(to, { signal: controller.signal })
    const shaking = to.request('initialize', () => Payload.of({}), { signal: controller.signal })
    controller.abort()
    expect(await asked).toBe('CANCELLED')
    await expect(shaking).rejects.toMatchObject({ code: 'CANCELLED' })
    expect(sent.filter((each) => each.includes('cancelled'))).toEqual([
      expect.stringContaining('"requestId":1'),
    ])
    to.receive(answer(1, 'late'))
    expect(to.waiting).toBe(0)
  })

  test('a timeout is distinguished from a cancellation', async () => {
    const { peer: to } = peer()
    expect(await ask(to, { signal: AbortSignal.abort(new DOMException('late', 'TimeoutError')) })).toBe(
      'OPERATION_TIMEOUT',
    )
  })

  test('the peer never throws, and no text settles a request it does not answer', () => {
    const message = { jsonrpc: '2.0', id: 7, result: { content: [] } }
    fc.assert(
      fc.property(fc.array(fc.oneof(anyText, mutated(message)), { maxLength: 10 }), (texts) => {
        const { peer: to } = peer()
        for (let request = 0; request < 2; request++) void ask(to)
        for (const text of texts) to.receive(text, 99)
        expect(to.waiting).toBe(2)
      }),
    )
  })

  describe('strings in a spool', () => {
    const spoolOf = (discarded: string[] = []): Spool => ({
      over: 1,
      open: () => ({ begin: () => undefined, end: () => undefined, abort: () => undefined }),
      isIn: (text) => text.includes('spooled'),
      restored: async (text) => {
        if (text.includes('too long')) throw new GatewayError('UPSTREAM_ERROR', 'It is too long.')
        return text.replace('spooled', 'restored')
      },
      discard: (text) => void discarded.push(text),
    })

    test('stay there for the request that wants that', async () => {
      const { peer: to } = peer()
      const spool = spoolOf()
      const asked = ask(to, { spool })
      expect(to.spool(1)).toBe(spool)
      to.receive(answer(1, 'spooled'))
      expect(await asked).toBe('{"text":"spooled"}')
    })

    test('are put back for every other request, and into other messages', async () => {
      const { peer: to, notes } = peer()
      const [plain, wanting] = [ask(to), ask(to, { spool: spoolOf() })]
      expect(to.spool(1)).toBeUndefined()
      expect(to.spool()).toBeDefined()
      to.receive(answer(1, 'spooled'))
      to.receive('{"jsonrpc":"2.0","method":"notifications/message","params":{"text":"spooled"}}')
      to.receive('{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"spooled"}}')
      expect(await plain).toBe('{"text":"restored"}')
      expect(await wanting).toBe('UPSTREAM_ERROR')
      expect(notes[0]?.params?.fields).toEqual({ text: 'restored' })
    })

    test('fail their request if they cannot be put back', async () => {
      const { peer: to } = peer()
      const asked = [ask(to), ask(to, { spool: spoolOf() })]
      to.spool()
      to.receive(answer(1, 'spooled, too long'))
      expect(await asked[0]).toBe('UPSTREAM_ERROR')
      to.receive(answer(2, 'spooled'))
      await asked[1]
    })

    test('are put back into results that are not final', async () => {
      const { peer: to } = peer()
      const asked = ask(to, { spool: spoolOf() })
      to.spool()
      to.receive('{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","text":"spooled"}}')
      expect(await asked).toBe('{"resultType":"input_required","text":"restored"}')
    })

    test('leave their request answered while they are put back, whatever the transport says', async () => {
      const { peer: to } = peer()
      const asked = ask(to, { spool: spoolOf() })
      to.spool()
      to.receive('{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","text":"spooled"}}', 1)
      expect(to.isWaiting(1)).toBe(false)
      to.reject(1, new GatewayError('OUTCOME_UNKNOWN', 'The stream ended.'))
      to.fail(new GatewayError('SERVER_UNAVAILABLE', 'The connection ended.'))
      expect(await asked).toBe('{"resultType":"input_required","text":"restored"}')
    })

    test('are deleted with a message that is not JSON', async () => {
      const { peer: to } = peer()
      const discarded: string[] = []
      const asked = ask(to, { spool: spoolOf(discarded) })
      to.spool()
      to.receive('spooled')
      to.receive(answer(1, 'end'))
      await asked
      expect(discarded).toEqual(['spooled'])
    })

    test('are deleted if no request waits for them', async () => {
      const { peer: to } = peer()
      const discarded: string[] = []
      const asked = ask(to, { spool: spoolOf(discarded) })
      to.spool()
      to.receive(answer(7, 'spooled'))
      to.receive(answer(1, 'end'))
      await asked
      expect(discarded).toEqual([answer(7, 'spooled')])
    })
  })
})
