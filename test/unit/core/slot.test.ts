import { describe, expect, it } from 'vitest'
import { Slot, type Slots } from '../../../src/core/slot.ts'

interface Held {
  readonly name: string
  readonly slots?: Slots | undefined
}

describe('the slots of a call', () => {
  const count = new Slot<number>('count')
  const word = new Slot<string>('word')
  const plain: Held = { name: 'a' }

  it('have no value at first', () => {
    expect(count.of(plain)).toBeUndefined()
  })

  it('keep one value for each slot, and the call otherwise as it is', () => {
    const call = word.set(count.set(plain, 1), 'x')
    expect([call.name, count.of(call), word.of(call)]).toEqual(['a', 1, 'x'])
  })

  it('have the latest value', () => {
    expect(count.of(count.set(count.set(plain, 1), 2))).toBe(2)
  })

  it('can lose a value', () => {
    const call = count.set(word.set(count.set(plain, 1), 'x'), undefined)
    expect([count.of(call), word.of(call)]).toEqual([undefined, 'x'])
  })

  it('change nothing of the call that they are copied from', () => {
    const before = count.set(plain, 1)
    const after = { ...before, slots: word.put('x', before.slots) }
    expect([word.of(before), word.of(after), count.of(after), plain.slots]).toEqual([
      undefined,
      'x',
      1,
      undefined,
    ])
  })

  it('are not confused by slots of the same name', () => {
    expect(new Slot<number>('count').of(count.set(plain, 1))).toBeUndefined()
  })
})
