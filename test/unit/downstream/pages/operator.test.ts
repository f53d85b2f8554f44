import { expect, it } from 'vitest'
import { createOperator } from '../../../../src/downstream/pages/visitors.ts'

it('the code is accepted in any case and spacing, and nothing else is', () => {
  const operator = createOperator(() => 0)
  expect(operator.code).toMatch(/^[2-9A-HJ-NP-Z]{4}-[2-9A-HJ-NP-Z]{4}$/)
  expect(operator.isKnown(operator.enter(` ${operator.code.toLowerCase().replace('-', ' ')} `))).toBe(true)
  expect(operator.enter('')).toBeUndefined()
  expect(operator.enter(operator.code.slice(0, -1))).toBeUndefined()
})

it('a cookie is valid for twelve hours, unmodified and in this process only', () => {
  let now = 0
  const operator = createOperator(() => now)
  const cookie = operator.enter(operator.code)
  const [end = '', signature = ''] = (cookie ?? '').split('.')
  expect(operator.isKnown(undefined)).toBe(false)
  expect(operator.isKnown('')).toBe(false)
  expect(operator.isKnown('.')).toBe(false)
  expect(operator.isKnown(`${Number(end) + 1}.${signature}`)).toBe(false)
  expect(createOperator(() => 0).isKnown(cookie)).toBe(false)
  now = 12 * 3_600_000 - 1
  expect(operator.isKnown(cookie)).toBe(true)
  now = 12 * 3_600_000
  expect(operator.isKnown(cookie)).toBe(false)
})

it('after five wrong codes in a minute the right code is refused', () => {
  let now = 0
  const operator = createOperator(() => now)
  for (let tries = 0; tries < 5; tries++) expect(operator.enter('AAAA-AAAA')).toBeUndefined()
  expect(() => operator.enter(operator.code)).toThrow('Wait a minute')
  now = 60_001
  expect(operator.enter(operator.code)).toBeDefined()
})
