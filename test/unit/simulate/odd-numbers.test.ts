import { expect, it } from 'vitest'
import { digitsOf, OddNumbers, ROUND, ROUNDED } from '../../simulate/odd-numbers.ts'

const COUNT = 2000

it('each number is given once, as the only JSON of its value, and the same ones each time', () => {
  const [numbers, again] = [new OddNumbers(), new OddNumbers()]
  const all = Array.from({ length: COUNT }, () => numbers.next())
  expect(new Set(all).size).toBe(COUNT)
  expect(all).toEqual(all.map(() => again.next()))
  for (const each of all) expect(digitsOf(each)).toMatch(/^-?[1-9]\d*(?:\.\d*[1-9])?$/)
})

it('doubles confuse most of them, and as texts some are the same digits as a number', () => {
  const numbers = new OddNumbers()
  const all = Array.from({ length: COUNT }, () => numbers.next())
  const parsed = all.map((each): unknown => JSON.parse(each))
  expect(new Set(parsed).size).toBeLessThan(COUNT * 0.7)
  expect(new Set(all.map(digitsOf)).size).toBeLessThan(COUNT * 0.8)
})

it('a neighbour is another number that a double cannot distinguish, or the next one', () => {
  const numbers = new OddNumbers()
  for (const one of Array.from({ length: 8 }, () => numbers.next())) {
    const other = numbers.next(one)
    expect(other).not.toBe(one)
    expect(other.length).toBe(one.length)
    expect(other.startsWith('"')).toBe(one.startsWith('"'))
  }
})

it('the denied numbers are given, and doubles confuse them', () => {
  const numbers = new OddNumbers()
  const all = Array.from({ length: 100 }, () => numbers.next())
  for (const denied of [ROUNDED, ROUND])
    expect(all.filter((each) => digitsOf(each) === denied)).toHaveLength(2)
  expect(String(Number(ROUNDED))).toBe(ROUND)
  expect(String(Number(ROUND))).toBe(ROUND)
})
