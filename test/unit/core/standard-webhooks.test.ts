import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Secret } from '../../../src/core/text/secret.ts'
import {
  isWebhookId,
  isWebhookSecret,
  signedHeaders,
  verifySigned,
} from '../../../src/core/standard-webhooks.ts'

const SECRET = 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8='
const AT = 1_771_516_800_000
const BODY =
  '{"eventId":"evt_789","name":"incident.created","timestamp":"2026-02-19T16:00:00Z","data":{"incidentId":"INC-1"},"cursor":"c42"}'

// The reference library, standardwebhooks 1.1.1 of npm, computes the same signatures.
const vectors = [
  {
    title: 'the published vector of the specification',
    secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    at: 1_614_265_330_000,
    body: '{"test": 2432232314}',
    signature: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  },
  {
    title: 'an event of MCP',
    secret: SECRET,
    id: 'evt_789',
    at: AT,
    body: BODY,
    signature: 'v1,zn3BhAaYtAUmPOxAgCs0SVtr7W2IBz76HC0iIeaUOQM=',
  },
  {
    title: 'a body outside of ASCII',
    secret: SECRET,
    id: 'evt_u',
    at: AT,
    body: '{"text":"naïve 😀"}',
    signature: 'v1,tE+CQxiTmV9HFA1t+q4PkHDx8h0rqsGFiSq5Vveb4kU=',
  },
]

function secretOf(bytes: number): string {
  return `whsec_${Buffer.alloc(bytes, 7).toString('base64')}`
}

describe('Standard Webhooks: signing', () => {
  it.each(vectors)('$title has the expected signature', ({ secret, id, at, body, signature }) => {
    expect(signedHeaders({ id, at, body }, [new Secret(secret)])).toEqual({
      'webhook-id': id,
      'webhook-timestamp': String(at / 1000),
      'webhook-signature': signature,
    })
  })

  it('two secrets give two signatures, either of which is enough', () => {
    const [old, latest] = [new Secret(secretOf(24)), new Secret(secretOf(64))]
    const headers = signedHeaders({ id: 'evt_1', at: AT, body: '{}' }, [latest, old])
    expect(headers['webhook-signature']?.split(' ')).toHaveLength(2)
    for (const secret of [old, latest])
      expect(verifySigned(headers, '{}', { secrets: [secret], now: AT }).kind).toBe('valid')
    expect(verifySigned(headers, '{}', { secrets: [new Secret(SECRET)], now: AT })).toEqual({
      kind: 'invalid',
      reason: 'signature',
    })
  })

  it('nothing is signed without a secret, with a malformed one, or with an id that no header can carry', () => {
    const message = { id: 'evt_1', at: AT, body: '{}' }
    expect(() => signedHeaders(message, [])).toThrow(TypeError)
    expect(() => signedHeaders(message, [new Secret('whsec_short')])).toThrow(TypeError)
    expect(() => signedHeaders({ ...message, id: 'é' }, [new Secret(SECRET)])).toThrow(TypeError)
  })

  it('an error about a secret does not contain it', () => {
    const secret = new Secret('whsec_not base64 but private')
    expect(() => signedHeaders({ id: 'e', at: AT, body: '' }, [secret])).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('private') }),
    )
  })
})

describe('Standard Webhooks: secrets and ids', () => {
  it.each([
    ['24 bytes', secretOf(24), true],
    ['64 bytes', secretOf(64), true],
    ['23 bytes', secretOf(23), false],
    ['65 bytes', secretOf(65), false],
    ['no prefix', secretOf(32).slice(6), false],
    ['another prefix', secretOf(32).replace('whsec_', 'whsk_'), false],
    ['characters outside of base64', `${secretOf(32).slice(0, -4)}*&^=`, false],
    ['base64url', `whsec_${Buffer.alloc(32, 0xfb).toString('base64url')}`, false],
    ['no padding', secretOf(32).replaceAll('=', ''), false],
    ['white space', ` ${secretOf(32)}`, false],
    ['nothing', '', false],
  ])('a secret with %s is accepted or not', (_title, text, isGood) =>
    expect(isWebhookSecret(text)).toBe(isGood),
  )

  it.each([
    ['evt_1', true],
    ['', false],
    ['two words', false],
    ['line\nbreak', false],
    ['é', false],
    ['x'.repeat(257), false],
  ])('the id %j is accepted or not', (id, isGood) => expect(isWebhookId(id)).toBe(isGood))
})

describe('Standard Webhooks: verification', () => {
  const expected = { secrets: [new Secret(SECRET)], now: AT }
  const headers = signedHeaders({ id: 'evt_789', at: AT, body: BODY }, expected.secrets)
  const good = headers['webhook-signature'] ?? ''

  it.each(vectors)('$title is valid', ({ secret, id, at, body, signature }) => {
    const sent = { 'webhook-id': id, 'webhook-timestamp': String(at / 1000), 'webhook-signature': signature }
    expect(verifySigned(sent, body, { secrets: [new Secret(secret)], now: at })).toEqual({
      kind: 'valid',
      id,
      at,
    })
  })

  it.each([
    ['no id', { 'webhook-id': undefined }, 'headers'],
    ['no time', { 'webhook-timestamp': undefined }, 'headers'],
    ['no signature', { 'webhook-signature': undefined }, 'headers'],
    ['a repeated header', { 'webhook-id': ['evt_789', 'evt_789'] }, 'headers'],
    ['a time that is no number', { 'webhook-timestamp': '1771516800.0' }, 'headers'],
    ['a negative time', { 'webhook-timestamp': '-1771516800' }, 'headers'],
    ['a signature header without end', { 'webhook-signature': `${good} `.repeat(200) }, 'headers'],
    ['another id', { 'webhook-id': 'evt_790' }, 'signature'],
    ['another time', { 'webhook-timestamp': '1771516801' }, 'signature'],
    ['an unknown version', { 'webhook-signature': good.replace('v1,', 'v2,') }, 'signature'],
    ['an asymmetric signature', { 'webhook-signature': good.replace('v1,', 'v1a,') }, 'signature'],
    ['half of the signature', { 'webhook-signature': good.slice(0, 20) }, 'signature'],
    ['an empty signature', { 'webhook-signature': 'v1,' }, 'signature'],
    ['the signature without padding', { 'webhook-signature': good.replace('=', '') }, 'signature'],
  ])('%s is refused', (_title, change, reason) =>
    expect(verifySigned({ ...headers, ...change }, BODY, expected)).toEqual({ kind: 'invalid', reason }),
  )

  it('signatures of other versions beside a good one do not matter', () => {
    const sent = { ...headers, 'webhook-signature': `v1a,AAAA v1,BBBB ${good}` }
    expect(verifySigned(sent, BODY, expected).kind).toBe('valid')
  })

  it.each([
    ['five minutes old', 300_000, 'valid'],
    ['older', 301_000, 'invalid'],
    ['five minutes ahead', -300_000, 'valid'],
    ['further ahead', -301_000, 'invalid'],
  ])('a message that is %s is valid or not', (_title, age, kind) => {
    const found = verifySigned(headers, BODY, { ...expected, now: AT + age })
    expect(found).toMatchObject(kind === 'valid' ? { kind } : { kind, reason: 'time' })
  })

  it('the body is verified as bytes, and any change of it is found', () => {
    const bytes = Buffer.from(BODY)
    expect(verifySigned(headers, bytes, expected).kind).toBe('valid')
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), (index, flip) => {
        const changed = Buffer.from(bytes)
        changed.writeUInt8(changed.readUInt8(index) ^ flip, index)
        expect(verifySigned(headers, changed, expected)).toMatchObject({ reason: 'signature' })
      }),
    )
  })

  it('what is signed is valid for every id, time, body and secret', () => {
    const ids = fc.stringMatching(/^[\x21-\x7e]{1,256}$/)
    const keys = fc.uint8Array({ minLength: 24, maxLength: 64 })
    fc.assert(
      fc.property(ids, fc.nat(4_000_000_000), fc.string({ unit: 'grapheme' }), keys, (id, at, body, key) => {
        const secrets = [new Secret(`whsec_${Buffer.from(key).toString('base64')}`)]
        const sent = signedHeaders({ id, at: at * 1000, body }, secrets)
        const found = verifySigned(sent, Buffer.from(body), { secrets, now: at * 1000 })
        expect(found).toEqual({ kind: 'valid', id, at: at * 1000 })
      }),
    )
  })
})
