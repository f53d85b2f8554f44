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
  ['drafts up to 6', { 'ratelimit-remaining': '4', 'ratelimit-reset': '60' }, 4, now + 60_000],
  ['draft 7', { ratelimit: 'limit=10, remaining=4, reset=60' }, 4, now + 60_000],
  ['draft 8', { ratelimit: '"default";r=4;t=60' }, 4, now + 60_000],
  ['GitHub', { 'x-ratelimit-remaining': '4', 'x-ratelimit-reset': String(now / 1000 + 60) }, 4, now + 60_000],
  [
    'in milliseconds',
    { 'x-ratelimit-remaining': '4', 'x-ratelimit-reset': String(now + 60_000) },
    4,
    now + 60_000,
  ],
  ['without a time', { 'x-ratelimit-remaining': '0' }, 0, undefined],
])('rate limit headers are parsed: %s', (_what, headers, remaining, resetsAt) => {
  expect(heard(headers).last).toEqual({ remaining, ...(resetsAt !== undefined && { resetsAt }) })
})

it.each([
  ['none', {}],
  ['words', { 'ratelimit-remaining': 'many' }],
  ['a negative number', { 'ratelimit-remaining': '-1' }],
  ['a number of a thousand digits', { 'ratelimit-remaining': '9'.repeat(1000) }],
  ['only a limit', { ratelimit: 'limit=10' }],
])('rate limit headers are ignored: %s', (_what, headers) => {
  expect(heard(headers).last).toBeUndefined()
})

it('the quota is kept until its reset time and then unknown', () => {
  const quota = heard({ 'ratelimit-remaining': '4', 'ratelimit-reset': '60' })
  quota.read(() => undefined)
  expect(quota.last?.remaining).toBe(4)
  vi.setSystemTime(now + 60_000)
  expect(quota.last).toBeUndefined()
})
