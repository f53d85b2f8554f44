import { expect, test } from 'vitest'
import { casUpdate } from '../../../src/durable/cas-update.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

const HOUR = 3_600_000
const busy = (): never => {
  throw new Error('busy')
}
const counted = (text: string | undefined) => {
  const result = Number(text ?? 0) + 1
  return { result, write: { text: String(result), ttl: HOUR } }
}

test('casUpdate creates a value and then changes it', async () => {
  const store = new MemoryStore()
  expect(await casUpdate(store, 'key', counted, busy)).toBe(1)
  expect(await casUpdate(store, 'key', counted, busy)).toBe(2)
  expect(await store.get('key')).toBe('2')
})

test('casUpdate loses none of many concurrent changes', async () => {
  const store = new MemoryStore()
  const result = await Promise.all(Array.from({ length: 50 }, () => casUpdate(store, 'key', counted, busy)))
  expect(result.toSorted((one, other) => one - other)).toEqual(Array.from({ length: 50 }, (_, at) => at + 1))
  expect(await store.get('key')).toBe('50')
})

test('casUpdate writes nothing if there is no change or the callback throws', async () => {
  const store = new MemoryStore()
  await store.put('key', 'as it was', HOUR)
  expect(await casUpdate(store, 'key', (text) => ({ result: text }), busy)).toBe('as it was')
  await expect(casUpdate(store, 'key', busy, () => undefined)).rejects.toThrow('busy')
  expect(await store.get('key')).toBe('as it was')
})

test('casUpdate fails after repeated conflicts', async () => {
  const store = new MemoryStore()
  let looks = 0
  const late = (text: string | undefined) => {
    void store.put('key', `of another ${++looks}`, HOUR)
    return counted(text)
  }
  await expect(casUpdate(store, 'key', late, busy)).rejects.toThrow('busy')
  expect(looks).toBe(100)
  expect(await store.get('key')).toBe('of another 100')
})
