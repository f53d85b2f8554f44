import { expect, it } from 'vitest'
import { rounds } from '../../../src/bridge/ask.ts'
import type { Call, Handler, Outcome } from '../../../src/core/call.ts'
import { Payload } from '../../../src/core/payload.ts'

const call = { method: 'tools/call' } as unknown as Call

function asking(url: string): Outcome {
  const question = { method: 'elicitation/create', params: Payload.of({ mode: 'url', url }) }
  return { kind: 'ask', questions: { page: question }, state: {} }
}

async function timeOf(outcomes: Outcome[]): Promise<number> {
  const next: Handler = () => Promise.resolve(outcomes.shift() ?? { kind: 'result', result: Payload.of({}) })
  const since = performance.now()
  await rounds(asking('https://a.example/'), call, next, () => Promise.resolve({}))
  return performance.now() - since
}

it('asks for the same again only after a while, and for something else at once', async () => {
  expect(await timeOf([asking('https://b.example/'), asking('https://c.example/')])).toBeLessThan(240)
  expect(await timeOf([asking('https://a.example/')])).toBeGreaterThan(240)
})
