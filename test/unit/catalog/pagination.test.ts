import { expect, it } from 'vitest'
import { withPages } from '../../../src/catalog/pagination.ts'
import { type Call, type Handler, resultOf } from '../../../src/core/call.ts'
import { Payload } from '../../../src/core/payload.ts'
import { anonymous } from '../../../src/core/principal.ts'

/** A gateway that lists these tools, and says of each how long it takes there. */
function gateway(names: readonly string[], latency: number): Handler {
  const tools = names.map((name) => ({ name, _meta: { latency } }))
  return withPages(async () => ({ kind: 'result', result: Payload.of({ tools }) }), 2)
}

async function page(handle: Handler, cursor?: unknown): Promise<{ names: string[]; next: unknown }> {
  const call = {
    method: 'tools/list',
    principal: anonymous,
    target: { method: 'tools/list', upstream: 'one' },
    params: Payload.of(cursor === undefined ? {} : { cursor }),
  } as unknown as Call
  const { fields } = resultOf(await handle(call))
  const { tools, nextCursor: next } = fields as { tools: { name: string }[]; nextCursor?: unknown }
  return { names: tools.map(({ name }) => name), next }
}

it('continues a listing at another gateway that says something else of the same tools', async () => {
  const first = await page(gateway(['a', 'b', 'c'], 10), undefined)
  expect(first.names).toEqual(['a', 'b'])
  expect(await page(gateway(['a', 'b', 'c'], 20), first.next)).toEqual({ names: ['c'], next: undefined })
})

it.each([[['a', 'c', 'b']], [['a', 'b', 'c', 'd']], [['b', 'c']]])(
  'refuses a cursor where the tools are %s now',
  async (names) => {
    const { next } = await page(gateway(['a', 'b', 'c'], 10))
    await expect(page(gateway(names, 10), next)).rejects.toMatchObject({ code: 'INVALID_INPUT' })
  },
)

it('continues with the list that the listing began with where that is known', async () => {
  let names = ['a', 'b', 'c']
  const changing = withPages(async () => {
    const result = Payload.of({ tools: names.map((name) => ({ name })) })
    return { kind: 'result', result }
  }, 2)
  const { next } = await page(changing)
  names = ['x']
  expect(await page(changing, next)).toEqual({ names: ['c'], next: undefined })
})
