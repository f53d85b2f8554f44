import { expect, it } from 'vitest'
import { Secret } from '../../../../src/core/text/secret.ts'
import { createOperator, pageUserNamed } from '../../../../src/downstream/pages/page-users.ts'

it('the code is accepted in any case and spacing, and nothing else is', () => {
  const operator = createOperator(() => 0)
  expect(operator.code).toMatch(/^[2-9A-HJ-NP-Z]{4}-[2-9A-HJ-NP-Z]{4}$/)
  expect(operator.isValid(operator.createSession(` ${operator.code.toLowerCase().replace('-', ' ')} `))).toBe(
    true,
  )
  expect(operator.createSession('')).toBeUndefined()
  expect(operator.createSession(operator.code.slice(0, -1))).toBeUndefined()
})

it('a cookie is valid for twelve hours, unmodified and in this process only', () => {
  let now = 0
  const operator = createOperator(() => now)
  const cookie = operator.createSession(operator.code)
  const [end = '', signature = ''] = (cookie ?? '').split('.')
  expect(operator.isValid(undefined)).toBe(false)
  expect(operator.isValid('')).toBe(false)
  expect(operator.isValid('.')).toBe(false)
  expect(operator.isValid(`${Number(end) + 1}.${signature}`)).toBe(false)
  expect(createOperator(() => 0).isValid(cookie)).toBe(false)
  now = 12 * 3_600_000 - 1
  expect(operator.isValid(cookie)).toBe(true)
  now = 12 * 3_600_000
  expect(operator.isValid(cookie)).toBe(false)
})

it('after five wrong codes in a minute the right code is refused', () => {
  let now = 0
  const operator = createOperator(() => now)
  for (let tries = 0; tries < 5; tries++) expect(operator.createSession('AAAA-AAAA')).toBeUndefined()
  expect(() => operator.createSession(operator.code)).toThrow('Wait a minute')
  now = 60_001
  expect(operator.createSession(operator.code)).toBeDefined()
})

it('a person with a password makes calls in the name in which the person approves them', () => {
  const user = {
    name: 'desk',
    passwordHash: new Secret('x'),
    approvesAs: 'user:bo',
    roles: ['operator'],
  } as const
  expect(pageUserNamed({ id: 'service:desk' }, { users: [user] })).toMatchObject({
    by: 'user:bo',
    principal: { id: 'user:bo' },
  })
})
