import { expect, it } from 'vitest'
import { Payload } from '../../../../src/core/payload.ts'
import type { Approval } from '../../../../src/records/approvals.ts'
import { bench, plain, TOOL } from './bench.ts'

async function askedFor(text: string): Promise<Approval | undefined> {
  const { call, approvals } = bench()
  await call({ client: plain, params: Payload.text(`{"name":"${TOOL}","arguments":${text}}`) })
  return (await approvals.list())[0]
}

it.each([
  ['digits a double cannot represent', '{"id":9007199254740993}'],
  ['a duplicate key', '{"path":"/srv/a","path":"/srv/b"}'],
])('the approval shows the JSON text of arguments with %s', async (_name, text) => {
  expect((await askedFor(text))?.sent).toBe(text)
})

it.each([
  ['plain', '{"id":1,"note":"a \\" b"}'],
  ['spaced', '{ "id" : 1,\n"note": "a  \\\\" }'],
])('the approval omits JSON text that equals the values, such as %s text', async (_name, text) => {
  const found = await askedFor(text)
  expect(found).toMatchObject({ arguments: JSON.parse(text) })
  expect(found?.sent).toBeUndefined()
})
