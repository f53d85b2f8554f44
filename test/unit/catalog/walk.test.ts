import { listAllPages } from '../../../src/protocol/listing.ts'
import { expect, it } from 'vitest'
import type { Call, Handler } from '../../../src/core/call.ts'
import { Payload } from '../../../src/core/payload.ts'
import { toolCall } from '../../support/tool-call.ts'

/** A server with these list pages, each with its next cursor; records the requested cursors. */
function paged(next: (page: number) => unknown) {
  const asked: unknown[] = []
  const server: Handler = async ({ params }: Call) => {
    asked.push(params.fields['cursor'])
    const page = asked.length
    const result = Payload.of({ tools: [{ name: `t${page}` }], nextCursor: next(page) })
    return { kind: 'result', result }
  }
  return {
    asked,
    names: async () =>
      (await listAllPages(server, toolCall(), 'tools/list')).map(({ fields }) => fields['name']),
  }
}

it.each([
  ['is missing', undefined],
  ['is empty', ''],
  ['is not a string', 3],
])('pagination ends when the next cursor %s', async (_what, end) => {
  const { asked, names } = paged((page) => (page < 3 ? `c${page}` : end))
  expect(await names()).toEqual(['t1', 't2', 't3'])
  expect(asked).toEqual([undefined, 'c1', 'c2'])
})

it('pagination stops at a cursor that repeats', async () => {
  const { asked, names } = paged((page) => `c${page % 2}`)
  expect(await names()).toEqual(['t1', 't2', 't3'])
  expect(asked).toEqual([undefined, 'c1', 'c0'])
})

it('pagination does not use up the input responses of the call it is for', async () => {
  const received: Call[] = []
  const server: Handler = async (call) => {
    received.push(call)
    return { kind: 'result', result: Payload.of({ tools: [] }) }
  }
  const retry = toolCall({
    requestState: { park: 'token' },
    inputResponses: { q: { result: Payload.of({ action: 'accept' }) } },
  })
  await listAllPages(server, retry, 'tools/list')
  expect(received.map(({ method, requestState }) => [method, requestState])).toEqual([['tools/list', {}]])
  expect(received[0]).not.toHaveProperty('inputResponses')
})
