import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { UpstreamQuota } from '../../../../src/upstream/transport/http-client.ts'

const now = Date.parse('2026-01-01T00:00:00Z')
beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'], now }))
afterEach(() => void vi.useRealTimers())

function heard(headers: Readonly<Record<string, string>>): UpstreamQuota {
  const quota = new UpstreamQuota()
  quota.read((name) => headers[name])
  return quota
}

it.each([
  ['of drafts until 6', { 'ratelimit-remaining': '4', 'ratelimit-reset': '60' }, 4, now + 60_000],
  ['of draft 7', { ratelimit: 'limit=10, remaining=4, reset=60' }, 4, now + 60_000],
  ['of draft 8', { ratelimit: '"default";r=4;t=60' }, 4, now + 60_000],
  [
    'of GitHub',
    { 'x-ratelimit-remaining': '4', 'x-ratelimit-reset': String(now / 1000 + 60) },
    4,
    now + 60_000,
  ],
  [
    'in milliseconds',
    { 'x-ratelimit-remaining': '4', 'x-ratelimit-reset': String(now + 60_000) },
    4,
    now + 60_000,
  ],
  ['without a time', { 'x-ratelimit-remaining': '0' }, 0, undefined],
])('reads headers %s', (_what, headers, remaining, resetsAt) => {
  expect(heard(headers).last).toEqual({ remaining, ...(resetsAt !== undefined && { resetsAt }) })
})

it.each([
  ['none', {}],
  ['words', { 'ratelimit-remaining': 'many' }],
  ['a negative number', { 'ratelimit-remaining': '-1' }],
  ['a number of a thousand digits', { 'ratelimit-remaining': '9'.repeat(1000) }],
  ['only a limit', { ratelimit: 'limit=10' }],
])('makes nothing of %s', (_what, headers) => {
  expect(heard(headers).last).toBeUndefined()
})

it('knows nothing any more once the time is over, and keeps what was said last until then', () => {
  const quota = heard({ 'ratelimit-remaining': '4', 'ratelimit-reset': '60' })
  quota.read(() => undefined)
  expect(quota.last?.remaining).toBe(4)
  vi.setSystemTime(now + 60_000)
  expect(quota.last).toBeUndefined()
})
