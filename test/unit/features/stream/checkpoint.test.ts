import { afterEach, describe, expect, it, vi } from 'vitest'
import { createSeal } from '../../../../src/core/seal.ts'
import {
  about,
  collecting,
  idsIn,
  listener,
  paged,
  pagesTo,
  range,
  refusalOf,
  STREAM,
  tool,
} from './bench.ts'

afterEach(() => void vi.useRealTimers())

const alice = { principal: { id: 'alice' } }
const query = { query: 'q' }

/** A token after two of five pages, of alice and the query `q`. */
async function tokenOf(server = paged(pagesTo(5)).server, stubs = {}): Promise<string> {
  const outcome = await collecting({ server, stubs })({ [STREAM]: { max_pages: 2 } }, alice, query)
  const { checkpoint_token: token } = about(outcome)
  if (token === undefined) throw new TypeError('there is no token')
  return token
}

describe('a checkpoint token', () => {
  it('yields exactly the remaining pages, any number of times', async () => {
    const { server, cursors } = paged(pagesTo(5))
    const token = await tokenOf(server)
    for (let time = 0; time < 2; time++) {
      const rest = await collecting({ server })({ [STREAM]: { checkpoint_token: token } }, alice, query)
      expect(idsIn(rest)).toEqual(range(10, 4))
      expect(about(rest)).toEqual({ pages: 3, items: 6, complete: true })
    }
    expect(cursors()).toEqual([undefined, '1', '2', '3', '4', '2', '3', '4'])
  })

  it('yields them in parts, which together are everything', async () => {
    const { server } = paged(pagesTo(7))
    const make = collecting({ server })
    const ids: unknown[] = []
    let token: string | undefined
    for (let part = 0; part < 10; part++) {
      const request = { max_pages: 2, ...(token !== undefined && { checkpoint_token: token }) }
      const outcome = await make({ [STREAM]: request })
      ids.push(...idsIn(outcome))
      token = about(outcome).checkpoint_token
      if (about(outcome).complete) break
    }
    expect(ids).toEqual(range(14))
  })

  it('of a chunk yields what follows it, and the numbers of chunks go on', async () => {
    const { server } = paged(pagesTo(5))
    const first = listener()
    const meta = { progressToken: 'p' }
    await collecting({ server })({ ...meta, [STREAM]: true }, { emit: first.emit })
    const token = first.chunks()[2]?.checkpoint_token
    const second = listener()
    const rest = await collecting({ server })(
      { ...meta, [STREAM]: { checkpoint_token: token } },
      { emit: second.emit },
    )
    expect(idsIn(rest)).toEqual(range(10, 6))
    expect(second.chunks().map(({ sequence }) => sequence)).toEqual([3, 4])
  })

  it('does not show the cursor, and two for the same place differ', async () => {
    const [one, other] = [await tokenOf(), await tokenOf()]
    expect(one).not.toBe(other)
    expect(Buffer.from(one, 'base64url').toString('latin1')).not.toContain('cursor')
  })

  const foreign = createSeal(Date.now).close(
    { tool: 't', argument: 'cursor', cursor: '2', sequence: 2 },
    { purpose: 'checkpoint', binding: '["alice","one"]' },
    0,
  )

  it.each<[string, (make: ReturnType<typeof collecting>, token: string) => Promise<unknown>]>([
    [
      'another caller',
      (make, token) => make({ [STREAM]: { checkpoint_token: token } }, { principal: { id: 'bob' } }, query),
    ],
    [
      'other arguments',
      (make, token) => make({ [STREAM]: { checkpoint_token: token } }, alice, { query: 'r' }),
    ],
    [
      'more arguments',
      (make, token) => make({ [STREAM]: { checkpoint_token: token } }, alice, { ...query, limit: 1 }),
    ],
    [
      'another server',
      (make, token) =>
        make(
          { [STREAM]: { checkpoint_token: token } },
          { ...alice, target: { method: 'tools/call', upstream: 'two', name: 't' } },
          query,
        ),
    ],
    [
      'another tool',
      (make, token) =>
        make(
          { [STREAM]: { checkpoint_token: token } },
          { ...alice, target: { method: 'tools/call', upstream: 'one', name: 'u' } },
          query,
        ),
    ],
    [
      'a tool without pages',
      (_make, token) =>
        collecting({ server: paged(pagesTo(5)).server, entry: tool({ query: {} }) })(
          { [STREAM]: { checkpoint_token: token } },
          alice,
          query,
        ),
    ],
    [
      'a changed token',
      (make, token) => make({ [STREAM]: { checkpoint_token: `${token.slice(0, -2)}AA` } }, alice, query),
    ],
    [
      'a part of it',
      (make, token) => make({ [STREAM]: { checkpoint_token: token.slice(0, 40) } }, alice, query),
    ],
    ['no token', (make) => make({ [STREAM]: { checkpoint_token: '' } }, alice, query)],
    ['a text', (make) => make({ [STREAM]: { checkpoint_token: 'checkpoint-2' } }, alice, query)],
    ['a long text', (make) => make({ [STREAM]: { checkpoint_token: 'A'.repeat(100_000) } }, alice, query)],
    ['a token of another gateway', (make) => make({ [STREAM]: { checkpoint_token: foreign } }, alice, query)],
  ])('with %s is not found, in the same words, before the server is called', async (_name, attempt) => {
    const { server, calls } = paged(pagesTo(5))
    const token = await tokenOf()
    const make = collecting({ server })
    const { code, message, extra } = await refusalOf(attempt(make, token) as never)
    expect({ code, message, reason: extra.reason, suggestion: extra.suggestion }).toEqual({
      code: 'RESOURCE_NOT_FOUND',
      message: 'Checkpoint not found.',
      reason: 'unknown',
      suggestion: 'Send a checkpoint_token with the tool and the arguments that it was given for.',
    })
    expect(calls).toHaveLength(0)
  })

  it('that has expired says to start again', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    const token = await tokenOf()
    vi.setSystemTime(Date.now() + 3_601_000)
    const { server, calls } = paged(pagesTo(5))
    const error = await refusalOf(
      collecting({ server })({ [STREAM]: { checkpoint_token: token } }, alice, query),
    )
    expect(error).toMatchObject({ code: 'RESOURCE_NOT_FOUND', message: 'Checkpoint not found.' })
    expect(error.extra.suggestion).toContain('from the first page on')
    expect(calls).toHaveLength(0)
  })

  it('a failed page can be requested again with it', async () => {
    let isDown = true
    const { server } = paged((cursor, call) => {
      if (cursor === '1' && isDown) throw new Error('down')
      return pagesTo(3)(cursor, call)
    })
    const make = collecting({ server })
    const outcome = await make()
    expect(about(outcome)).toMatchObject({ pages: 1, stopped_by: 'page_failed' })
    isDown = false
    const rest = await make({ [STREAM]: { checkpoint_token: about(outcome).checkpoint_token } })
    expect([...idsIn(outcome), ...idsIn(rest)]).toEqual(range(6))
  })
})
