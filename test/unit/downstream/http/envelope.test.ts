import { expect, it } from 'vitest'
import { createSeal } from '../../../../src/core/seal.ts'
import { createEnvelopes, type Decision, FORWARDED } from '../../../../src/downstream/http/hop/envelope.ts'

const decision: Decision = {
  principal: { id: 'ada', scopes: new Set(['read']) },
  token: undefined,
  upstream: 'one',
  requestId: 'r1',
  peer: { httpVersion: '1.1', socket: {} },
}

it('a request about a server at its receiver is told from one of a client by its envelope alone', () => {
  const keys = [Buffer.alloc(32, 1)]
  const [one, other] = ['one', 'other'].map((id) =>
    createEnvelopes(
      createSeal(Date.now, () => keys),
      id,
    ),
  )
  const opened = (given: Decision): unknown =>
    other?.open({ [FORWARDED]: one?.close(given, 'other'), path: '/placed' })
  expect(opened({ ...decision, isPlaced: true })).toMatchObject({ principal: { id: 'ada' }, isPlaced: true })
  expect(opened(decision)).not.toHaveProperty('isPlaced')
})
