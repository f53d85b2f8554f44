import { describe, expect, it, vi } from 'vitest'
import type { SpooledMessage, SpooledString } from '../../../src/core/spool.ts'
import { StoreSpool } from '../../../src/records/spool.ts'
import { MemoryBlobs } from '../../../src/store/memory.ts'

const limits = { over: 10, total: 1000, restored: 1000 }

function world(given: Partial<typeof limits> = {}, now: () => number = Date.now) {
  const blobs = new MemoryBlobs()
  const spool = new StoreSpool(blobs, { ...limits, ...given }, now)
  const keep = (text: string): string => {
    const message = spool.open()
    const string = begun(message)
    string.write(Buffer.from(text))
    string.end()
    message.end()
    return string.placeholder
  }
  const deleted = vi.spyOn(blobs, 'delete')
  /** Waits until this many strings are deleted. */
  const deletions = (count: number) => vi.waitFor(() => expect(deleted).toHaveBeenCalledTimes(count))
  return { blobs, spool, keep, deletions }
}

function begun(message: SpooledMessage): SpooledString {
  const string = message.begin()
  if (!string) throw new TypeError('there is no room')
  return string
}

describe('a spool', () => {
  it('keeps strings as blobs', async () => {
    const { blobs, spool, keep } = world()
    const placeholder = keep('the string')
    const { blob, size } = await spool.find(placeholder)
    expect(size).toBe(10)
    expect((await blobs.list()).map(({ id }) => id)).toEqual([blob])
    spool.take(placeholder)
    await expect(spool.find(placeholder)).rejects.toThrow('taken')
    expect(await blobs.list()).toHaveLength(1)
  })

  it('puts strings back into JSON, also into JSON within JSON', async () => {
    const { blobs, deletions, spool, keep } = world()
    const [one, two] = [keep('a "quoted"\nline\\'), keep('é😀')]
    const inner = JSON.stringify({ one, deep: JSON.stringify([two]) })
    const json = JSON.stringify({ one, two, inner, deepest: JSON.stringify(inner) })
    expect(spool.isIn(json)).toBe(true)
    const strings = { one: 'a "quoted"\nline\\', two: 'é😀' }
    const restored = JSON.stringify({ one: strings.one, deep: JSON.stringify([strings.two]) })
    expect(JSON.parse(await spool.restored(json))).toEqual({
      ...strings,
      inner: restored,
      deepest: JSON.stringify(restored),
    })
    await deletions(2)
    expect(await blobs.list()).toEqual([])
  })

  it('deletes strings that no request waits for', async () => {
    const { blobs, deletions, spool, keep } = world()
    const json = JSON.stringify([keep('one'), keep('two')])
    spool.discard(json)
    await deletions(2)
    expect(await blobs.list()).toEqual([])
    expect(spool.placeholders(json)).toEqual([])
  })

  it('keeps nothing of a message that does not arrive whole', async () => {
    const { blobs, deletions, spool } = world({ total: 100 })
    const message = spool.open()
    const first = begun(message)
    first.write(Buffer.from('x'.repeat(60)))
    first.end()
    begun(message).write(Buffer.from('begin'))
    message.abort()
    await deletions(1)
    expect(await blobs.list()).toEqual([])
    expect(spool.placeholders(first.placeholder)).toEqual([])
    const next = begun(spool.open())
    next.write(Buffer.from('y'.repeat(90)))
    next.end()
    expect(await spool.find(next.placeholder)).toMatchObject({ size: 90 })
  })

  it('fails the string that exceeds its limit, and no other', async () => {
    const { blobs, spool, keep } = world({ total: 100 })
    const first = keep('x'.repeat(60))
    const string = begun(spool.open())
    for (let n = 0; n < 50; n++) expect(string.write(Buffer.from('y'.repeat(30)))).toBe(true)
    string.end()
    await expect(spool.find(string.placeholder)).rejects.toMatchObject({
      code: 'QUOTA_EXHAUSTED',
      message: 'There is no room to keep this part of the result.',
    })
    expect(await spool.find(first)).toMatchObject({ size: 60 })
    expect(await spool.find(keep('z'.repeat(30)))).toMatchObject({ size: 30 })
    expect(await blobs.list()).toHaveLength(2)
    spool.discard(first)
  })

  it('holds no more in memory than fits into a message', async () => {
    const { spool } = world({ total: 100, restored: 250 })
    const message = spool.open()
    const failed = Array.from({ length: 5 }, (_none, n) => {
      const string = begun(message)
      string.write(Buffer.from(String(n).repeat(101)))
      string.end()
      return string.placeholder
    })
    const whole = new Set<string>()
    for (const placeholder of failed) {
      const restored = await spool.restoredInPart(JSON.stringify(placeholder))
      if (/^"(\d)\1{100}"$/.test(restored)) whole.add(restored)
      else expect(restored).toMatch(/^"\[Left out/)
    }
    expect(whole.size).toBe(2)
  })

  it('puts back the strings that it can, and leaves out the others', async () => {
    const { blobs, spool, keep } = world({ total: 10_000, restored: 10_000 })
    const [one, two] = [keep('first'), keep('second')]
    const { blob } = await spool.find(two)
    await blobs.delete(blob)
    const restored = await spool.restoredInPart(JSON.stringify({ one, two }))
    expect(JSON.parse(restored)).toEqual({ one: 'first', two: expect.stringMatching(/^\[Left out/) })
  })

  it('leaves strings in their messages while there is no room', () => {
    const { spool, keep } = world({ total: 50 })
    keep('x'.repeat(50))
    expect(spool.open().begin()).toBeUndefined()
  })

  it('loses no string that is not very long if the store fails, and lets the next ones be', async () => {
    const { blobs, spool, keep } = world({ restored: 100_000_000, total: 100_000_000 })
    blobs.put = async (_id, bytes) => {
      await bytes[Symbol.asyncIterator]().next()
      throw new Error('The disk is full.')
    }
    const placeholder = keep('the "string"')
    await expect(spool.find(placeholder)).rejects.toThrow('disk is full')
    expect(JSON.parse(await spool.restored(JSON.stringify({ placeholder })))).toEqual({
      placeholder: 'the "string"',
    })
    expect(spool.open().begin()).toBeUndefined()
  })

  it('puts back no more than fits into a message', async () => {
    const { blobs, deletions, spool, keep } = world({ restored: 50 })
    await expect(spool.restored(JSON.stringify([keep('x'.repeat(60))]))).rejects.toThrow('more than 50 bytes')
    await deletions(1)
    expect(await blobs.list()).toEqual([])
  })

  it('stops its source while the store is busy', async () => {
    const { spool } = world({ total: 10_000_000 })
    const string = begun(spool.open())
    let drained = 0
    string.onDrain = () => drained++
    expect(string.write(Buffer.alloc(500_000))).toBe(true)
    expect(string.write(Buffer.alloc(600_000))).toBe(false)
    string.end()
    await spool.find(string.placeholder)
    expect(drained).toBeGreaterThan(0)
  })

  it('forgets strings that were not taken', async () => {
    let time = 0
    const { blobs, deletions, spool, keep } = world({}, () => time)
    const open = begun(spool.open())
    const placeholder = keep('old')
    time = 3_600_000
    keep('new')
    await expect(spool.find(placeholder)).rejects.toThrow('taken')
    open.write(Buffer.from('late'))
    open.end()
    expect(await spool.find(open.placeholder)).toMatchObject({ size: 4 })
    await deletions(1)
    expect(await blobs.list()).toHaveLength(2)
  })

  it('knows only its own placeholders', () => {
    const { spool, keep } = world()
    const placeholder = keep('x')
    expect(world().spool.isIn(placeholder)).toBe(false)
    expect(spool.placeholders(placeholder.replace(/.$/, 'x'))).toEqual([])
  })
})
