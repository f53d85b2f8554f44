import { afterEach, describe, expect, it, vi } from 'vitest'
import { validator } from '../../../../src/core/schema/schema.ts'
import { about, CHUNK, collecting, idsIn, listener, paged, pagesTo, range, STREAM } from './bench.ts'

afterEach(() => void vi.useRealTimers())

const wanted = { [STREAM]: true, progressToken: 'p' }

/** The shape of a chunk. */
const isChunk = validator({
  type: 'object',
  required: ['type', 'sequence', 'data', 'is_final'],
  additionalProperties: false,
  properties: {
    type: { const: 'stream_chunk' },
    sequence: { type: 'integer', minimum: 0 },
    data: { type: 'object' },
    is_final: { type: 'boolean' },
    checkpoint_token: { type: 'string' },
  },
})

describe('the chunks of a collection', () => {
  it('are the pages in order, numbered from 0, the last one final and without a token', async () => {
    const { emit, chunks, notes } = listener()
    const outcome = await collecting({ server: paged(pagesTo(4)).server })(wanted, { emit })
    const all = chunks()
    for (const chunk of all) expect(isChunk(chunk)).toEqual([])
    expect(all.map(({ sequence }) => sequence)).toEqual([0, 1, 2, 3])
    expect(all.map(({ is_final: isFinal }) => isFinal)).toEqual([false, false, false, true])
    expect(all.map(({ checkpoint_token: token }) => typeof token)).toEqual([
      'string',
      'string',
      'string',
      'undefined',
    ])
    expect(all.flatMap(({ data }) => data?.items.map(({ id }) => id))).toEqual(idsIn(outcome))
    expect(notes.every(({ mustArrive }) => mustArrive)).toBe(true)
  })

  it('are progress of the call: the token of the caller, and values that grow', async () => {
    const { emit, notes } = listener()
    await collecting({ server: paged(pagesTo(3)).server })(wanted, { emit })
    expect(
      notes.map(({ method, params }) => [
        method,
        params?.fields['progressToken'],
        params?.fields['progress'],
      ]),
    ).toEqual([
      ['notifications/progress', 'p', 1],
      ['notifications/progress', 'p', 2],
      ['notifications/progress', 'p', 3],
    ])
    expect(notes[0]?.params?.fields['message']).toBe('1 page, 2 items')
  })

  it('grow beyond the progress of the server, which never falls back with a new page', async () => {
    const { emit, notes } = listener()
    const { Payload } = await import('../../../../src/core/payload.ts')
    const { server } = paged((cursor, call) => {
      for (const progress of [10, 50])
        call.emit({
          method: 'notifications/progress',
          params: Payload.of({ progressToken: 'p', progress, total: 100 }),
        })
      return pagesTo(3)(cursor, call)
    })
    await collecting({ server })(wanted, { emit })
    expect(notes.map(({ params }) => params?.fields['progress'])).toEqual([10, 50, 51, 52, 53])
  })

  it('are not sent to a caller without a progress token', async () => {
    const { emit, notes } = listener()
    await collecting({ server: paged(pagesTo(4)).server })({ [STREAM]: true }, { emit })
    expect(notes).toEqual([])
  })

  it('end with a final one without data if a later page fails', async () => {
    const { emit, chunks } = listener()
    const { server } = paged((cursor, call) => {
      if (cursor === '2') throw new Error('down')
      return pagesTo(4)(cursor, call)
    })
    await collecting({ server })(wanted, { emit })
    expect(chunks().map((chunk) => [chunk.sequence, chunk.is_final, 'data' in chunk])).toEqual([
      [0, false, true],
      [1, false, true],
      [2, true, false],
    ])
    expect(chunks().at(-1)?.checkpoint_token).toEqual(expect.any(String))
  })
})

describe('a client that reads slowly', () => {
  it('is waited for: no page is requested before the last chunk is read', async () => {
    const reads: PromiseWithResolvers<void>[] = []
    const drained = (): Promise<void> => {
      const read = Promise.withResolvers<void>()
      reads.push(read)
      return read.promise
    }
    const { emit, chunks } = listener()
    const { server, calls } = paged(pagesTo(3))
    const pending = collecting({ server })(wanted, { emit, drained })
    for (let page = 1; page < 3; page++) {
      await vi.waitFor(() => expect(reads).toHaveLength(page))
      await new Promise(setImmediate)
      expect(calls).toHaveLength(page)
      expect(chunks()).toHaveLength(page)
      reads.at(-1)?.resolve()
    }
    expect(idsIn(await pending)).toEqual(range(6))
  })

  it('is not waited for without chunks', async () => {
    const drained = vi.fn<() => Promise<void>>(() => new Promise(() => undefined))
    expect(
      idsIn(await collecting({ server: paged(pagesTo(3)).server })({ [STREAM]: true }, { drained })),
    ).toEqual(range(6))
    expect(drained).not.toHaveBeenCalled()
  })

  it('that never reads gets what was collected, before the call times out', async () => {
    vi.useFakeTimers()
    const { emit, chunks } = listener()
    const drained = () => new Promise<void>(() => undefined)
    const stubs = { callBounds: () => ({ silence: 30_000, total: 600_000 }) }
    const pending = collecting({ server: paged(pagesTo(3)).server, stubs })(wanted, { emit, drained })
    await vi.advanceTimersByTimeAsync(29_500)
    expect(about(await pending)).toMatchObject({
      pages: 1,
      stopped_by: 'slow_client',
      checkpoint_token: expect.any(String),
    })
    expect(chunks().at(-1)).toMatchObject({ is_final: true })
  })

  it('that cancels is not waited for', async () => {
    const controller = new AbortController()
    const drained = () => new Promise<void>(() => undefined)
    const { server, calls } = paged(pagesTo(3))
    const pending = collecting({ server })(wanted, { drained, signal: controller.signal })
    await vi.waitFor(() => expect(calls).toHaveLength(1))
    controller.abort(new Error('gone'))
    await expect(pending).rejects.toThrow('gone')
    expect(calls).toHaveLength(1)
  })

  it(`the key of the chunk is ${CHUNK}`, () => {
    expect(CHUNK).toBe('dev.gatehouse/chunk')
  })
})
