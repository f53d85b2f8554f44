import { describe, expect, it, onTestFinished } from 'vitest'
import type { DialOutcome } from '../../../../../src/features/dialer.ts'
import { ReceiverVerifier } from '../../../../../src/features/events/sinks/receivers.ts'
import { verifySigned } from '../../../../../src/core/standard-webhooks.ts'
import { replaceSecret } from '../../../../../src/features/events/sinks/subscription-secrets.ts'
import { MemoryStore } from '../../../../../src/store/memory.ts'
import {
  FakeReceivers,
  idle,
  ManualClock,
  MemoryQueue,
  response,
  secretOf,
  sending,
} from '../../../../support/webhooks.ts'

const NOW = 1_771_516_800_000
const MINUTE = 60_000

/** Records, receivers and a clock that outlive the dispatchers started on them. */
function world() {
  const clock = new ManualClock(NOW)
  const dialer = new FakeReceivers(clock)
  const queue = new MemoryQueue()
  const store = new MemoryStore(() => clock.now())
  const start = async (options: { readonly webhookId?: 'event' | 'message' } = {}) => {
    const worker = sending({ queue, dialer, clock, store, random: 1, ...options })
    onTestFinished(() => worker.close())
    await idle()
    return worker
  }
  return { clock, dialer, queue, store, start }
}

describe('webhook worker: verification', () => {
  it('the first delivery follows a signed challenge that the receiver echoes', async () => {
    const { dialer, queue, start } = world()
    queue.subscribe('sub_1')
    queue.add('sub_1', 'evt_1', 'evt_2')
    await start()
    const [challenge, ...events] = dialer.requests
    expect(challenge?.json).toEqual({ type: 'verification', challenge: expect.stringMatching(/^[\w-]{43}$/) })
    expect(challenge?.headers).toMatchObject({
      'content-type': 'application/json',
      'x-mcp-subscription-id': 'sub_1',
      'webhook-id': expect.stringMatching(/^msg_verification_[0-9a-f]{24}$/),
    })
    expect(events.map(({ json }) => json.eventId)).toEqual(['evt_1', 'evt_2'])
    for (const { headers, body } of dialer.requests)
      expect(verifySigned(headers, body, { secrets: [secretOf(1)], now: NOW }).kind).toBe('valid')
  })

  it.each([
    ['another challenge', '{"challenge":"x"}'],
    ['no JSON', 'ok'],
    ['no object', '"x"'],
    ['nothing', ''],
  ])('no event is sent where the receiver answers %s', async (_title, body) => {
    const { clock, dialer, queue, start } = world()
    queue.subscribe('sub_1')
    queue.add('sub_1', 'evt_1')
    dialer.post = (request) => {
      dialer.requests.push({ ...request, at: clock.now(), json: JSON.parse(request.body) })
      return Promise.resolve({ kind: 'response', status: 200, retryAfter: undefined, body })
    }
    await start()
    await clock.advance(16 * MINUTE)
    expect(dialer.requests.length).toBe(5)
    expect(dialer.events).toEqual([])
    expect(queue.settled).toMatchObject([{ id: 'evt_1', kind: 'abandoned', failure: 'challenge_failed' }])
  })

  it('a receiver is verified for a caller and a URL, not for each subscription and not for other callers', async () => {
    const { dialer, queue, start } = world()
    const url = 'https://shared.example/hook'
    queue.subscribe('sub_1', { url })
    queue.subscribe('sub_2', { url })
    queue.subscribe('sub_3', { url, owner: 'bob' })
    for (const subscription of ['sub_1', 'sub_2', 'sub_3']) queue.add(subscription, `evt_of_${subscription}`)
    await start()
    expect(dialer.events).toHaveLength(3)
    expect(dialer.requests).toHaveLength(5)
  })

  it('a receiver that is verified already gets no challenge', async () => {
    const { clock, dialer, queue, store, start } = world()
    const other = new ReceiverVerifier(new FakeReceivers(clock), store, () => clock.now())
    expect(await other.verify(queue.subscribe('sub_1'))).toEqual({ kind: 'verified' })
    queue.add('sub_1', 'evt_1')
    await start()
    expect(dialer.requests.map(({ json }) => json)).toEqual([{ eventId: 'evt_1' }])
  })

  it('after ten failed challenges within a minute a host gets no more of them', async () => {
    const { clock, dialer, queue, store } = world()
    const verifier = new ReceiverVerifier(dialer, store, () => clock.now())
    dialer.post = (request) => {
      dialer.requests.push({ ...request, at: clock.now(), json: {} })
      return Promise.resolve({ kind: 'failed', reason: 'connection' })
    }
    const check = (port: number) =>
      verifier.verify(queue.subscribe(`sub_${port}`, { url: `https://victim.example/${port}` }))
    for (let port = 0; port < 10; port++)
      expect(await check(port)).toEqual({ kind: 'failed', failure: 'connection_refused' })
    expect(await check(10)).toEqual({ kind: 'failed', failure: 'throttled' })
    expect(dialer.requests).toHaveLength(10)
    await clock.advance(MINUTE)
    expect(await check(11)).toEqual({ kind: 'failed', failure: 'connection_refused' })
  })
})

describe('webhook worker: retries', () => {
  it('each attempt has the same id, and a time and a signature of its own', async () => {
    const { clock, dialer, queue, start } = world()
    const { url } = queue.subscribe('sub_1')
    queue.add('sub_1', 'evt_1')
    dialer.answers.set(url, () => response(dialer.events.length < 3 ? 503 : 204))
    await start()
    await clock.advance(MINUTE)
    expect(dialer.events.map(({ at }) => at - NOW)).toEqual([0, 10_000, 50_000])
    expect(new Set(dialer.events.map(({ headers }) => headers['webhook-id']))).toEqual(new Set(['evt_1']))
    expect(new Set(dialer.events.map(({ headers }) => headers['webhook-signature'])).size).toBe(3)
    for (const { headers, body, at } of dialer.events)
      expect(verifySigned(headers, body, { secrets: [secretOf(1)], now: at })).toMatchObject({
        kind: 'valid',
        at,
      })
    expect(queue.settled).toMatchObject([{ id: 'evt_1', kind: 'delivered', at: NOW + 50_000 }])
  })

  it('after the time to give up a delivery is a dead letter, and nothing more is sent', async () => {
    const { clock, dialer, queue, start } = world()
    const { url } = queue.subscribe('sub_1')
    queue.add('sub_1', 'evt_1')
    dialer.answers.set(url, () => ({ kind: 'failed', reason: 'timeout' }))
    await start()
    await clock.advance(24 * 60 * MINUTE)
    expect(dialer.events).toHaveLength(5)
    expect(queue.settled).toMatchObject([{ id: 'evt_1', kind: 'abandoned', failure: 'timeout' }])
  })

  it.each([410, 413])(
    'after %d a delivery is not repeated, and the next event is delivered',
    async (status) => {
      const { clock, dialer, queue, start } = world()
      const { url } = queue.subscribe('sub_1')
      queue.add('sub_1', 'evt_1', 'evt_2')
      dialer.answers.set(url, ({ json }) => response(json.eventId === 'evt_1' ? status : 204))
      await start()
      await clock.advance(60 * MINUTE)
      expect(dialer.idsAt(url)).toEqual(['evt_1', 'evt_2'])
      expect(queue.settled).toMatchObject([
        { id: 'evt_1', kind: 'refused', failure: 'http_4xx' },
        { id: 'evt_2', kind: 'delivered' },
      ])
    },
  )

  it('an event that fails does not hold up the ones after it', async () => {
    const { dialer, queue, start } = world()
    const { url } = queue.subscribe('sub_1')
    queue.add('sub_1', 'evt_1', 'evt_2', 'evt_3')
    dialer.answers.set(url, ({ json }) => response(json.eventId === 'evt_1' ? 500 : 204))
    await start()
    expect(queue.settled.map(({ id }) => id)).toEqual(['evt_2', 'evt_3'])
  })

  it('Retry-After holds back everything for this subscription', async () => {
    const { clock, dialer, queue, start } = world()
    const { url } = queue.subscribe('sub_1')
    queue.add('sub_1', 'evt_1')
    dialer.answers.set(url, () => (dialer.events.length === 1 ? response(429, '120') : response(204)))
    const worker = await start()
    queue.add('sub_1', 'evt_2')
    worker.wake('sub_1')
    await clock.advance(119_000)
    expect(dialer.idsAt(url)).toEqual(['evt_1'])
    await clock.advance(1000)
    expect(dialer.idsAt(url)).toEqual(['evt_1', 'evt_1', 'evt_2'])
  })
})

describe('webhook worker: messages', () => {
  it('during a change of the secret both sign, and afterwards only the current one', async () => {
    const { clock, dialer, queue, start } = world()
    const { secrets, ...receiver } = queue.subscribe('sub_1')
    queue.subscribe('sub_1', { ...receiver, secrets: replaceSecret(secrets, secretOf(2), NOW) })
    queue.add('sub_1', 'evt_1')
    const worker = await start()
    await clock.advance(15 * MINUTE)
    queue.add('sub_1', 'evt_2')
    worker.wake('sub_1')
    await idle()
    const verifies = (index: number, seed: number) => {
      const { headers = {}, body = '', at = 0 } = dialer.events[index] ?? {}
      return verifySigned(headers, body, { secrets: [secretOf(seed)], now: at }).kind
    }
    expect([verifies(0, 1), verifies(0, 2)]).toEqual(['valid', 'valid'])
    expect([verifies(1, 1), verifies(1, 2)]).toEqual(['invalid', 'valid'])
  })

  it('the same secret again changes nothing', () => {
    const held = replaceSecret({ current: secretOf(1) }, secretOf(2), NOW)
    expect(replaceSecret(held, secretOf(2), NOW + 1)).toBe(held)
  })

  it.each([
    [256 * 1024, 'delivered'],
    [256 * 1024 + 1, 'too_large'],
  ])('a body of %d bytes is %s', async (size, kind) => {
    const { dialer, queue, start } = world()
    queue.subscribe('sub_1')
    queue.add('sub_1', 'evt_1')
    const empty = JSON.stringify({ eventId: 'evt_1', text: 'é' })
    const text = `é${'x'.repeat(size - Buffer.byteLength(empty))}`
    queue.messageOf = (eventId) => ({ kind: 'event', body: JSON.stringify({ eventId, text }) })
    await start()
    expect(queue.settled).toMatchObject([{ kind }])
    expect(dialer.events).toHaveLength(kind === 'delivered' ? 1 : 0)
  })

  it('a message is made for each attempt, and withheld from who lost the right to it', async () => {
    const { clock, dialer, queue, start } = world()
    const { url } = queue.subscribe('sub_1')
    queue.add('sub_1', 'evt_1')
    dialer.answers.set(url, () => response(503))
    await start()
    queue.messageOf = () => 'withheld'
    await clock.advance(MINUTE)
    expect(dialer.events).toHaveLength(1)
    expect(queue.settled).toMatchObject([{ id: 'evt_1', kind: 'withheld' }])
  })

  it('an id that no header can carry is not sent, unless messages have ids of their own', async () => {
    const { dialer, queue, start } = world()
    queue.subscribe('sub_1')
    queue.add('sub_1', 'Ereignis für 1')
    const worker = await start()
    expect(queue.settled).toMatchObject([{ kind: 'no_id' }])
    await worker.close()
    queue.add('sub_1', 'Ereignis für 1', 'evt_2')
    await start({ webhookId: 'message' })
    const ids = dialer.events.map(({ headers }) => headers['webhook-id'])
    expect(ids).toEqual([expect.stringMatching(/^msg_[\w-]{32}$/), expect.stringMatching(/^msg_[\w-]{32}$/)])
    expect(new Set(ids).size).toBe(2)
  })

  it('an id of a message stays the same in another process, and that of a control message is kept', async () => {
    const { clock, dialer, queue, start } = world()
    const { url } = queue.subscribe('sub_1')
    queue.add('sub_1', 'evt_1', 'msg_gap_7')
    queue.messageOf = (eventId) => ({
      kind: eventId.startsWith('msg_') ? 'control' : 'event',
      body: JSON.stringify({ eventId }),
    })
    dialer.answers.set(url, () => response(503))
    await (await start({ webhookId: 'message' })).close()
    await start({ webhookId: 'message' })
    await clock.advance(10_000)
    const ids = dialer.events.map(({ headers }) => headers['webhook-id'])
    expect(ids).toEqual([ids[0], 'msg_gap_7', ids[0], 'msg_gap_7'])
  })
})

describe('webhook worker: independence', () => {
  it('a receiver that never answers costs the others nothing', async () => {
    const { clock, dialer, queue, start } = world()
    const never = () => new Promise<DialOutcome>(() => undefined)
    const slow = queue.subscribe('slow')
    dialer.answers.set(slow.url, never)
    queue.add('slow', ...Array.from({ length: 100 }, (_, index) => `evt_${index}`))
    const fast = Array.from({ length: 50 }, (_, index) =>
      queue.subscribe(`fast_${index}`, { owner: `o${index}` }),
    )
    const worker = await start()
    for (const { subscription } of fast) {
      queue.add(subscription, 'evt_1', 'evt_2')
      worker.wake(subscription)
    }
    await idle()
    expect(queue.settled.filter(({ kind }) => kind === 'delivered')).toHaveLength(100)
    expect(clock.now()).toBe(NOW)
    expect(dialer.idsAt(slow.url)).toHaveLength(16)
  })

  it('a caller whose receivers all hang leaves places for others', async () => {
    const { dialer, queue, start } = world()
    for (let index = 0; index < 100; index++) {
      const { url } = queue.subscribe(`slow_${index}`, { owner: 'mallory' })
      dialer.answers.set(url, () => new Promise(() => undefined))
      queue.add(`slow_${index}`, 'evt_1', 'evt_2')
    }
    const worker = await start()
    expect(dialer.events).toHaveLength(64)
    queue.subscribe('other', { owner: 'bob' })
    queue.add('other', 'evt_1')
    worker.wake('other')
    await idle()
    expect(queue.settled).toMatchObject([{ subscription: 'other', kind: 'delivered' }])
  })

  it('a place that becomes free goes to a subscription that waits for it', async () => {
    const { dialer, queue, start } = world()
    const url = 'https://shared.example/hook'
    queue.subscribe('sub_1', { url })
    queue.subscribe('sub_2', { url })
    const answers: ((outcome: DialOutcome) => void)[] = []
    dialer.answers.set(url, () => new Promise((resolve) => answers.push(resolve)))
    const ids = Array.from({ length: 18 }, (_none, index) => `a${index}`)
    queue.add('sub_1', ...ids)
    const worker = await start()
    queue.add('sub_2', 'b1')
    worker.wake('sub_2')
    await idle()
    expect(dialer.idsAt(url)).toEqual(ids.slice(0, 16))
    answers[0]?.(response(204))
    await idle()
    expect(dialer.idsAt(url)).toEqual([...ids.slice(0, 16), 'b1'])
  })
})

describe('webhook worker: life cycle', () => {
  it('what a closed worker left is delivered by the next one, at once', async () => {
    const { dialer, queue, start } = world()
    const { url } = queue.subscribe('sub_1')
    queue.add('sub_1', 'evt_1')
    dialer.answers.set(url, () => new Promise(() => undefined))
    const worker = await start()
    await worker.close()
    expect(queue.settled).toEqual([])
    dialer.answers.delete(url)
    await start()
    expect(dialer.idsAt(url)).toEqual(['evt_1', 'evt_1'])
    expect(queue.settled).toMatchObject([{ kind: 'delivered' }])
  })

  it('a message whose rights cannot be checked waits, and is no attempt', async () => {
    const { clock, dialer, queue, start } = world()
    queue.subscribe('sub_1')
    queue.add('sub_1', 'evt_1')
    const { messageOf } = queue
    queue.messageOf = () => 'unknown'
    await start()
    await clock.advance(20 * MINUTE)
    expect([dialer.requests, queue.settled]).toEqual([[], []])
    queue.messageOf = messageOf
    await clock.advance(5000)
    expect(queue.settled).toMatchObject([{ id: 'evt_1', kind: 'delivered' }])
  })

  it('a subscription that ended or is suspended gets nothing, and goes on when it is active again', async () => {
    const { dialer, queue, start } = world()
    const receiver = queue.subscribe('sub_1')
    queue.add('sub_1', 'evt_1')
    queue.receivers.clear()
    const worker = await start()
    expect(dialer.requests).toEqual([])
    queue.receivers.set('sub_1', receiver)
    worker.wake('sub_1')
    await idle()
    expect(dialer.events).toHaveLength(1)
  })

  it('a store that fails for a time only delays deliveries', async () => {
    const { clock, dialer, queue, start } = world()
    queue.subscribe('sub_1')
    const worker = await start()
    const open = queue.open.bind(queue)
    queue.open = () => Promise.reject(new Error('no store'))
    queue.add('sub_1', 'evt_1')
    worker.wake('sub_1')
    await clock.advance(10_000)
    expect(dialer.requests).toEqual([])
    queue.open = open
    await clock.advance(5000)
    expect(dialer.events).toHaveLength(1)
  })
})
