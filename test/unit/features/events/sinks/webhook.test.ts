import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Attempt,
  decisionOn as decideAfter,
  type AttemptDecision,
} from '../../../../../src/durable/dispatcher.ts'
import type { DialOutcome } from '../../../../../src/features/dialer.ts'
import { sentOf, WEBHOOK_RETRIES } from '../../../../../src/features/events/sinks/webhook.ts'
import { response } from '../../../../support/webhooks.ts'

const NOW = 1_771_516_800_000
const GIVE_UP_MS = 15 * 60_000
const first = { attempts: 1, firstAt: NOW, now: NOW, random: 1 }

/** What follows a response. */
function decisionOn(outcome: DialOutcome, attempt: Attempt): AttemptDecision {
  return decideAfter(sentOf(outcome, attempt.now), attempt, { ...WEBHOOK_RETRIES, giveUpMs: GIVE_UP_MS })
}

function failed(reason: Extract<DialOutcome, { kind: 'failed' }>['reason']): DialOutcome {
  return { kind: 'failed', reason }
}

describe('webhook attempts: what follows an outcome', () => {
  it.each([
    ['200', response(200), { kind: 'delivered' }],
    ['204', response(204), { kind: 'delivered' }],
    ['301', response(301), { kind: 'retry', failure: 'http_4xx' }],
    ['400', response(400), { kind: 'retry', failure: 'http_4xx' }],
    ['401', response(401), { kind: 'retry', failure: 'http_4xx' }],
    ['404', response(404), { kind: 'retry', failure: 'http_4xx' }],
    ['410', response(410), { kind: 'refused', failure: 'http_4xx' }],
    ['413', response(413), { kind: 'refused', failure: 'http_4xx' }],
    ['425', response(425), { kind: 'retry', failure: 'http_4xx' }],
    ['429', response(429), { kind: 'retry', failure: 'http_4xx' }],
    ['500', response(500), { kind: 'retry', failure: 'http_5xx' }],
    ['503', response(503), { kind: 'retry', failure: 'http_5xx' }],
    ['a failed connection', failed('connection'), { kind: 'retry', failure: 'connection_refused' }],
    ['an unknown host', failed('dns'), { kind: 'retry', failure: 'connection_refused' }],
    ['a forbidden address', failed('address'), { kind: 'retry', failure: 'connection_refused' }],
    ['a timeout', failed('timeout'), { kind: 'retry', failure: 'timeout' }],
    ['failed TLS', failed('tls'), { kind: 'retry', failure: 'tls_error' }],
    ['a forbidden URL', failed('url'), { kind: 'refused', failure: 'connection_refused' }],
  ])('%s', (_title, outcome, decision) => expect(decisionOn(outcome, first)).toMatchObject(decision))
})

describe('webhook attempts: when the next one is made', () => {
  it.each([
    [1, 10_000],
    [2, 40_000],
    [3, 160_000],
    [4, 640_000],
  ])('after attempt %d: at most %d ms, at least half of it', (attempts, delay) => {
    const at = (random: number) => decisionOn(response(500), { ...first, attempts, random })
    expect(at(1)).toEqual({ kind: 'retry', failure: 'http_5xx', at: NOW + delay })
    expect(at(0)).toEqual({ kind: 'retry', failure: 'http_5xx', at: NOW + delay / 2 })
  })

  it.each([
    ['60', NOW + 60_000],
    ['Thu, 19 Feb 2026 16:02:00 GMT', NOW + 120_000],
    ['1', NOW + 10_000],
    ['0', NOW + 10_000],
    ['soon', NOW + 10_000],
  ])('a Retry-After of %s delays it, and never makes it earlier', (retryAfter, at) =>
    expect(decisionOn(response(429, retryAfter), first)).toMatchObject({ kind: 'retry', at }),
  )

  it('a Retry-After pauses the subscription, not only this delivery', () => {
    expect(decisionOn(response(503, '60'), first)).toMatchObject({ pausedUntil: NOW + 60_000 })
    expect(decisionOn(response(503), first)).not.toHaveProperty('pausedUntil')
  })

  it('a delivery that could only be tried after the time to give up is abandoned', () => {
    const last = { ...first, attempts: 5, now: NOW + 850_000 }
    expect(decisionOn(response(500), last)).toEqual({ kind: 'abandoned', failure: 'http_5xx' })
    expect(decisionOn(response(503, '901'), first)).toEqual({ kind: 'abandoned', failure: 'http_5xx' })
  })

  it('five attempts are made within 15 minutes, whatever the jitter, and then it ends', () => {
    fc.assert(
      fc.property(fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })), (jitter) => {
        let [now, attempts] = [NOW, 1]
        for (;;) {
          const [random = 0] = jitter.take(1)
          const decision = decisionOn(response(500), { ...first, attempts, now, random })
          if (decision.kind !== 'retry') break
          expect(decision.at).toBeGreaterThan(now)
          now = decision.at
          attempts++
        }
        expect(now).toBeLessThanOrEqual(NOW + GIVE_UP_MS)
        expect(attempts).toBe(5)
      }),
    )
  })
})
