import { createHmac } from 'node:crypto'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { Secret } from '../../../../../src/core/text/secret.ts'
import {
  type ArrivingRequest,
  type HookForm,
  HookReceiver,
  type HookRequest,
  verifyHook,
} from '../../../../../src/features/events/sources/hook-receiver.ts'
import { signedHeaders } from '../../../../../src/core/standard-webhooks.ts'
import { until } from '../../../../support/condition.ts'
import { guardedFront } from '../../../../support/auth/guarded-front.ts'
import { secretOf } from '../../../../support/webhooks.ts'

const NOW = 1_771_516_800_000
const SECONDS = String(NOW / 1000)
const STRIPE_SECRET = 'whsec_test_secret'

function github(body: string, secret: string): HookRequest['headers'] {
  return { 'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}` }
}

function stripe(body: string, secret: string, seconds = SECONDS): HookRequest['headers'] {
  const signature = createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex')
  return { 'stripe-signature': `t=${seconds},v1=${signature},v0=00` }
}

function check(form: HookForm, headers: HookRequest['headers'], body: string, secrets: readonly Secret[]) {
  return verifyHook(form, { headers, body }, { secrets, now: NOW })
}

describe('webhooks of other services: signatures', () => {
  it('the example of the documentation of GitHub is valid', () => {
    const signature = '757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'
    const headers = { 'x-hub-signature-256': `sha256=${signature}` }
    const secrets = [new Secret("It's a Secret to Everybody")]
    expect(check('github', headers, 'Hello, World!', secrets)).toEqual({
      kind: 'valid',
      replayKey: signature,
    })
  })

  it('a header that the library of Stripe generated is valid', () => {
    const signature = '48caec02257793bc1f50c7734d3a5b5cd53ac783a505bc340542ec9f74765da9'
    const headers = { 'stripe-signature': `t=1771516800,v1=${signature}` }
    expect(check('stripe', headers, '{"id":"evt_1"}', [new Secret(STRIPE_SECRET)])).toEqual({
      kind: 'valid',
      replayKey: `1771516800.${signature}`,
    })
  })

  it('Standard Webhooks are valid, and identified by their id', () => {
    const secrets = [secretOf(1)]
    const headers = signedHeaders({ id: 'evt_1', at: NOW, body: '{}' }, secrets)
    expect(check('standard', headers, '{}', secrets)).toEqual({ kind: 'valid', replayKey: 'evt_1' })
  })

  const good = String(github('{}', 'one')['x-hub-signature-256'])
  it.each([
    ['no header', undefined, 'headers'],
    ['a repeated header', [good, good], 'headers'],
    ['SHA-1', `sha1=${'0'.repeat(40)}`, 'headers'],
    ['another algorithm', good.replace('sha256', 'sha512'), 'headers'],
    ['upper case', good.toUpperCase(), 'headers'],
    ['half of the signature', good.slice(0, 40), 'headers'],
    ['more than the signature', `${good}00`, 'headers'],
    ['another signature', `sha256=${'0'.repeat(64)}`, 'signature'],
  ])('GitHub: %s is refused', (_title, header, reason) =>
    expect(check('github', { 'x-hub-signature-256': header }, '{}', [new Secret('one')])).toEqual({
      kind: 'invalid',
      reason,
    }),
  )

  const written = String(stripe('{}', STRIPE_SECRET)['stripe-signature'])
  it.each([
    ['no header', undefined, 'headers'],
    ['no time', written.replace(/^t=\d+,/, ''), 'headers'],
    ['two times', `t=${SECONDS},${written}`, 'headers'],
    ['a time that is no number', written.replace(SECONDS, 'now'), 'headers'],
    ['no signature', `t=${SECONDS}`, 'headers'],
    ['only a signature of the test scheme', written.replace('v1=', 'v0='), 'headers'],
    ['a header without end', written + ',v1=00'.repeat(1000), 'headers'],
    ['another time', written.replace(SECONDS, String(Number(SECONDS) + 1)), 'signature'],
    ['another signature', `t=${SECONDS},v1=${'0'.repeat(64)}`, 'signature'],
  ])('Stripe: %s is refused', (_title, header, reason) =>
    expect(check('stripe', { 'stripe-signature': header }, '{}', [new Secret(STRIPE_SECRET)])).toEqual({
      kind: 'invalid',
      reason,
    }),
  )

  it('Stripe: one of several signatures is enough', () => {
    const headers = { 'stripe-signature': written.replace(',v1=', `,v1=${'0'.repeat(64)}, v1=`) }
    expect(check('stripe', headers, '{}', [new Secret(STRIPE_SECRET)]).kind).toBe('valid')
  })

  it.each([
    ['stripe', stripe('{}', secretOf(1).reveal())],
    ['standard', signedHeaders({ id: 'evt_1', at: NOW, body: '{}' }, [secretOf(1)])],
  ] as const)('%s: a time is accepted within five minutes in both directions', (form, headers) => {
    const at = (age: number) =>
      verifyHook(form, { headers, body: '{}' }, { secrets: [secretOf(1)], now: NOW + age })
    expect([at(300_000).kind, at(-300_000).kind]).toEqual(['valid', 'valid'])
    expect(at(301_000)).toEqual({ kind: 'invalid', reason: 'time' })
    expect(at(-301_000)).toEqual({ kind: 'invalid', reason: 'time' })
  })

  it.each([
    ['github', (body: string) => github(body, secretOf(1).reveal())],
    ['stripe', (body: string) => stripe(body, secretOf(1).reveal())],
    ['standard', (body: string) => signedHeaders({ id: 'evt_1', at: NOW, body }, [secretOf(1)])],
  ] as const)('%s: the bytes count, and any secret of several', (form, sign) => {
    const body = '{"text": "naïve 😀", "n": 1.0}'
    expect(check(form, sign(body), body, [secretOf(2), secretOf(1)]).kind).toBe('valid')
    expect(check(form, sign(body), body, [secretOf(2)])).toMatchObject({ reason: 'signature' })
    expect(check(form, sign(body), body, [])).toMatchObject({ reason: 'signature' })
    for (const other of [body.replace('1.0', '1'), `${body}\n`, `\uFEFF${body}`, ''])
      expect(check(form, sign(body), other, [secretOf(1)])).toMatchObject({ reason: 'signature' })
  })
})

/** A receiver with the hook `files/push` of GitHub, and what it stored. */
function receiver() {
  const stored: string[] = []
  const world = { now: NOW, store: () => Promise.resolve() }
  const hooks = new HookReceiver({
    hook: (server, name) =>
      server === 'files' && name === 'push' ? { form: 'github', secrets: [new Secret('one')] } : undefined,
    store: async ({ body }) => {
      await world.store()
      stored.push(body)
    },
    now: () => world.now,
  })
  const receive = (body: string, given: Partial<ArrivingRequest> = {}) =>
    hooks.receive({
      server: 'files',
      name: 'push',
      headers: github(body, 'one'),
      body: async () => body,
      ...given,
    })
  return { world, hooks, stored, receive }
}

describe('webhooks of other services: a receiver', () => {
  it('stores a webhook once, and answers replays alike', async () => {
    const { stored, receive } = receiver()
    for (let i = 0; i < 3; i++) await receive('{"n":1}')
    await receive('{"n":2}')
    expect(stored).toEqual(['{"n":1}', '{"n":2}'])
  })

  it('a replay while the first one is being stored waits for it', async () => {
    const { world, stored, receive } = receiver()
    let finish: (() => void) | undefined
    world.store = () => new Promise((resolve) => (finish = resolve))
    const both = [receive('{}'), receive('{}')]
    await until(() => finish, 'the first one to be stored')
    expect(stored).toEqual([])
    finish?.()
    await Promise.all(both)
    expect(stored).toEqual(['{}'])
  })

  it('what could not be stored is refused, and accepted when it is sent again', async () => {
    const { world, stored, receive } = receiver()
    world.store = () => Promise.reject(new Error('disk full'))
    await expect(receive('{}')).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE', httpStatus: 503 })
    world.store = () => Promise.resolve()
    await receive('{}')
    expect(stored).toEqual(['{}'])
  })

  it('remembers webhooks for a day, and the last ten thousand', async () => {
    const { world, stored, receive } = receiver()
    await receive('first')
    world.now += 24 * 60 * 60_000 - 1
    await receive('first')
    expect(stored).toHaveLength(1)
    world.now += 1
    await receive('first')
    expect(stored).toHaveLength(2)
    for (let i = 0; i < 10_000; i++) await receive(`${i}`)
    await receive('9999')
    expect(stored).toHaveLength(10_002)
    await receive('first')
    expect(stored).toHaveLength(10_003)
  })

  it('refuses more than a hundred webhooks of one hook at a time', async () => {
    const { world, receive } = receiver()
    world.store = () => new Promise(() => undefined)
    for (let i = 0; i < 100; i++) void receive(`${i}`)
    await expect(receive('100')).rejects.toMatchObject({ code: 'OVERLOADED', httpStatus: 503 })
  })

  it.each([
    ['an unknown server', { server: 'other' }, 404],
    ['an unknown hook', { name: 'pull' }, 404],
    ['no signature', { headers: {} }, 401],
    ['the signature of another secret', { headers: github('{}', 'two') }, 401],
    ['another body', { body: async () => '{ }' }, 401],
  ])('%s is refused, and nothing is stored', async (_title, given, httpStatus) => {
    const { stored, receive } = receiver()
    await expect(receive('{}', given)).rejects.toMatchObject({ httpStatus })
    expect(stored).toEqual([])
  })

  it.each([
    ['is not known', { name: 'pull' }],
    ['has no signature', { headers: {} }],
    ['has several signatures', { headers: { 'x-hub-signature-256': ['sha256=1', 'sha256=2'] } }],
    ['has a malformed signature', { headers: { 'x-hub-signature-256': 'sha256=short' } }],
  ])('reads no body of a webhook that %s', async (_title, given) => {
    const body = vi.fn<() => Promise<string>>(async () => '{}')
    await expect(receiver().receive('{}', { ...given, body })).rejects.toMatchObject({
      category: expect.any(String),
    })
    expect(body).not.toHaveBeenCalled()
  })
})

describe('webhooks of other services: POST /hooks/<server>/<name>', () => {
  const issuer = 'https://login.example'
  const json = { 'content-type': 'application/json' }

  async function front() {
    const { world, hooks, stored } = receiver()
    const made = await guardedFront(
      { auth: { jwt: { issuer, audience: 'gateway' } }, limits: { body: '1KB' } },
      async (hook) => {
        await hooks.receive(hook)
        return undefined
      },
    )
    onTestFinished(() => made.close())
    const post = (body: string | Uint8Array<ArrayBuffer>, headers: object, path = '/hooks/files/push') =>
      made.send(path, { method: 'POST', headers: { ...json, ...headers }, body })
    return { ...made, world, stored, post }
  }

  it('needs a signature, no token, and answers 202 once the webhook is stored', async () => {
    const { world, stored, post } = await front()
    let isAnswered = false
    let finish: (() => void) | undefined
    world.store = () => new Promise((resolve) => (finish = resolve))
    const body = '{"text": "naïve 😀"}'
    const answer = post(body, github(body, 'one')).then((each) => {
      isAnswered = true
      return each
    })
    await expect.poll(() => finish).toBeDefined()
    expect(isAnswered).toBe(false)
    finish?.()
    expect((await answer).status).toBe(202)
    expect(stored).toEqual([body])
  })

  it('refuses what is not signed, unknown, too large, or no JSON in UTF-8, and stores nothing', async () => {
    const { stored, refused, post } = await front()
    const large = `"${'x'.repeat(1023)}"`
    const latin = Uint8Array.from([0x22, 0xe9, 0x22])
    const answers = [
      await post('{}', {}),
      await post('{}', github('{}', 'two')),
      await post('{}', github('{}', 'one'), '/hooks/files/pull'),
      await post(large, github(large, 'one')),
      await post('a=b', { ...github('a=b', 'one'), 'content-type': 'application/x-www-form-urlencoded' }),
      await post(latin, github('"é"', 'one')),
    ]
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 404, 413, 415, 400])
    expect(refused).toHaveLength(6)
    expect(stored).toEqual([])
  })

  it('says nothing of secrets or of causes', async () => {
    const { world, log, post } = await front()
    world.store = () => Promise.reject(new Error('redis://user:password@inner'))
    const answers = [await post('{}', github('{}', 'two')), await post('{}', github('{}', 'one'))]
    expect(answers.map(({ status }) => status)).toEqual([401, 503])
    expect(JSON.stringify([answers, log])).not.toMatch(/password|whsec|"one"/)
  })

  it('exists only if webhooks are received', async () => {
    const made = await guardedFront({ auth: { jwt: { issuer, audience: 'gateway' } } })
    onTestFinished(() => made.close())
    const init = {
      method: 'POST',
      headers: { ...json, ...github('{}', 'one') } as Record<string, string>,
      body: '{}',
    }
    expect((await made.send('/hooks/files/push', init)).status).toBe(404)
  })
})
