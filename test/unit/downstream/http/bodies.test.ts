import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { IncomingHttpHeaders } from 'node:http'
import { Bodies } from '../../../../src/downstream/http/body.ts'

const MB = 1024 * 1024
/** How many bodies of the largest size are read at the same time. */
const AT_ONCE = 8

/** A request with a body of which nothing has arrived. */
class Request extends PassThrough {
  readonly headers: IncomingHttpHeaders
  readonly body: Promise<string>

  constructor(
    bodies: Bodies,
    length: number | 'unknown',
    { limit = MB, id }: { limit?: number; id?: string } = {},
  ) {
    super()
    this.headers =
      length === 'unknown' ? { 'transfer-encoding': 'chunked' } : { 'content-length': `${length}` }
    this.body = bodies.text(this as never, { limit, ...(id !== undefined && { principal: { id } }) })
    this.body.catch(() => undefined)
  }

  get isRead(): boolean {
    return this.listenerCount('data') > 0
  }
}

function requests(count: number, create: () => Request): readonly Request[] {
  return Array.from({ length: count }, create)
}

const isRead = (each: Request): boolean => each.isRead

describe('bodies that arrive at the same time', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  it('of unknown senders are read up to one bound; what does not fit waits unread', async () => {
    const bodies = new Bodies()
    const all = requests(AT_ONCE + 3, () => new Request(bodies, MB))
    expect(all.filter(isRead)).toHaveLength(AT_ONCE)
    all[0]?.end('x')
    await expect(all[0]?.body).resolves.toBe('x')
    // The newest is next.
    expect(all.slice(AT_ONCE).map(isRead)).toEqual([false, false, true])
  })

  it('of unknown length count as what has arrived, and are refused beyond the bound', async () => {
    const bodies = new Bodies()
    const all = requests(100, () => new Request(bodies, 'unknown'))
    expect(all.every(isRead)).toBe(true)
    for (const each of all) each.write(Buffer.alloc(MB - 1, 'x'))
    await vi.advanceTimersByTimeAsync(1)
    for (const each of all) each.end('x')
    const settled = await Promise.allSettled(all.map((each) => each.body))
    const whole = settled.filter((each) => each.status === 'fulfilled')
    expect(whole.map(({ value }) => value.length)).toEqual(whole.map(() => MB))
    expect(whole.length).toBeGreaterThan(0)
    expect(whole.length).toBeLessThanOrEqual(AT_ONCE)
    const refused = settled.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
    expect(refused).toEqual(refused.map(() => expect.objectContaining({ code: 'OVERLOADED' })))
  })

  it('of a known caller do not wait for those of others', () => {
    const bodies = new Bodies()
    requests(AT_ONCE + 1, () => new Request(bodies, MB))
    expect(new Request(bodies, MB, { id: 'token:one' }).isRead).toBe(true)
    expect(new Request(bodies, MB, { id: 'anonymous' }).isRead).toBe(false)
  })

  it('make way for a newer one once they have been arriving for long', async () => {
    const bodies = new Bodies()
    const stalled = requests(AT_ONCE, () => new Request(bodies, MB))
    for (const each of stalled) each.write('x'.repeat(MB - 1))
    const waiting = new Request(bodies, 100)
    expect(waiting.isRead).toBe(false)
    await vi.advanceTimersByTimeAsync(2000)
    expect(waiting.isRead).toBe(true)
    await expect(stalled[0]?.body).rejects.toMatchObject({
      code: 'OVERLOADED',
      extra: { retryAfterSeconds: 1 },
    })
    // No longer than necessary: there is room again.
    const later = new Request(bodies, MB / 2)
    expect(later.isRead).toBe(true)
    stalled[1]?.end('x')
    await expect(stalled[1]?.body).resolves.toBe(`${'x'.repeat(MB - 1)}x`)
    waiting.end('x'.repeat(100))
    await expect(waiting.body).resolves.toHaveLength(100)
  })

  it('wait in a bounded number: the oldest of those that wait is refused', async () => {
    const bodies = new Bodies()
    const all = requests(AT_ONCE + 65, () => new Request(bodies, MB))
    await expect(all[AT_ONCE]?.body).rejects.toMatchObject({ code: 'OVERLOADED' })
    for (const each of all) each.end('x')
    const [, ...others] = all.slice(AT_ONCE)
    expect(await Promise.all(others.map((each) => each.body))).toEqual(others.map(() => 'x'))
  })

  it('and whose clients disconnect, or that are too large, take no room', async () => {
    const bodies = new Bodies()
    const all = requests(AT_ONCE + 2, () => new Request(bodies, MB))
    all.at(-1)?.destroy()
    await expect(all.at(-1)?.body).rejects.toMatchObject({ code: 'CANCELLED' })
    for (const each of all.slice(0, AT_ONCE)) each.destroy(new Error('aborted'))
    await expect(all[0]?.body).rejects.toMatchObject({ code: 'CANCELLED' })
    const large = requests(AT_ONCE - 2, () => new Request(bodies, 'unknown'))
    for (const each of large) each.write(Buffer.alloc(MB + 1))
    expect(new Request(bodies, MB).isRead).toBe(true)
    await vi.advanceTimersByTimeAsync(1000)
    await expect(large[0]?.body).rejects.toMatchObject({
      code: 'PAYLOAD_TOO_LARGE',
      extra: { details: { limit: MB } },
    })
  })

  it('can be larger than the bound, one at a time', async () => {
    const bodies = new Bodies()
    const limit = 100 * MB
    const [one, other] = [new Request(bodies, limit, { limit }), new Request(bodies, limit, { limit })]
    expect([one.isRead, other.isRead]).toEqual([true, false])
    one.end('one')
    other.end('other')
    expect(await Promise.all([one.body, other.body])).toEqual(['one', 'other'])
  })

  it('take no more memory in small pieces than whole', async () => {
    const request = new Request(new Bodies(), 3000)
    const text = Array.from({ length: 1000 }, (_, i) => String.fromCharCode(0x4e00 + i)).join('')
    // Pieces that split characters.
    for (const byte of Buffer.from(text)) request.write(Buffer.of(byte))
    request.end()
    await expect(request.body).resolves.toBe(text)
  })
})
