import { expect, it } from 'vitest'
import type { Handler } from '../../../src/core/call.ts'
import { Payload } from '../../../src/core/payload.ts'
import { parseCassette } from '../../../src/testkit/cassette.ts'
import { repeatLive } from '../../../src/testkit/diff.ts'

const head = { type: 'header', cassetteVersion: 2, transport: 'stdio' }
const recorded = [
  head,
  { type: 'frame', t: 0, dir: 'c2s', frame: { id: 1, method: 'tools/call', params: { name: 'last' } } },
  { type: 'frame', t: 0, dir: 's2c', frame: { id: 1, result: { content: [] } } },
]
const cassette = parseCassette(recorded.map((line) => JSON.stringify(line)).join('\n'), 'a.jsonl')

it.each([null, '', 'same'])('a list of tools ends whose last cursor is %j', async (cursor) => {
  const pages: readonly (readonly [name: string, nextCursor: unknown])[] = [
    ['first', 'same'],
    ['last', cursor],
  ]
  const made: string[] = []
  const handle: Handler = async ({ method, params }) => {
    made.push(method)
    const [name, nextCursor] = pages[params.fields.cursor === undefined ? 0 : 1] ?? []
    const tools = [{ name, annotations: { readOnlyHint: true } }]
    return { kind: 'result', result: Payload.of({ tools, nextCursor }) }
  }
  const skipped = await repeatLive(cassette, handle, 'one', false)
  expect(skipped).toEqual([])
  expect(made).toEqual(['tools/list', 'tools/list', 'tools/call'])
})
