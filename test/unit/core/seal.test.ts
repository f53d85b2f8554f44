import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createSeal } from '../../../src/core/seal.ts'

const use = { purpose: 'task', binding: 'alice /mcp' }

describe('a sealed text', () => {
  it('opens to the value that was sealed, any number of times', () => {
    const seal = createSeal(() => 0)
    fc.assert(
      fc.property(fc.jsonValue(), fc.string(), fc.string(), (value, purpose, binding) => {
        const text = seal.close(value, { purpose, binding }, 0)
        const same: unknown = JSON.parse(JSON.stringify(value))
        const open = () => seal.open(text, { purpose, binding })
        expect([open(), open()]).toMatchObject([
          { kind: 'valid', value: same },
          { kind: 'valid', value: same },
        ])
      }),
    )
  })

  it('does not show its value, and differs each time it is sealed', () => {
    const seal = createSeal(() => 0)
    const [one, other] = [seal.close('hunter2', use, 0), seal.close('hunter2', use, 0)]
    expect(one).not.toBe(other)
    expect(Buffer.from(one, 'base64url').toString('latin1')).not.toContain('hunter2')
  })

  it('is invalid for another purpose, another binding, and where the two change places', () => {
    const seal = createSeal(() => 0)
    const text = seal.close(1, use, 0)
    for (const other of [
      { ...use, purpose: 'checkpoint' },
      { ...use, binding: 'bob /mcp' },
      { purpose: use.binding, binding: use.purpose },
      { purpose: `${use.purpose}","alice`, binding: '/mcp' },
    ]) {
      expect(seal.open(text, other).kind).toBe('invalid')
    }
  })

  it('is invalid once any byte of it is changed, or any part of it is missing', () => {
    const seal = createSeal(() => 0)
    const bytes = Buffer.from(seal.close({ a: 1 }, use, 0), 'base64url')
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), (at, mask) => {
        const forged = Buffer.from(bytes)
        forged[at] = (forged[at] ?? 0) ^ mask
        expect(seal.open(forged.toString('base64url'), use).kind).toBe('invalid')
        expect(seal.open(bytes.subarray(0, at).toString('base64url'), use).kind).toBe('invalid')
      }),
    )
    for (const junk of ['', 'x', '%%%', 'A'.repeat(100)]) expect(seal.open(junk, use).kind).toBe('invalid')
  })

  it('expires after its time, and never where it has none', () => {
    let now = 1000
    const seal = createSeal(() => now)
    const [bounded, endless] = [seal.close(1, use, 2000), seal.close(1, use, 0)]
    now = 2000
    expect(seal.open(bounded, use).kind).toBe('valid')
    now = 2001
    expect(seal.open(bounded, use).kind).toBe('expired')
    now = 2 ** 45
    expect(seal.open(endless, use).kind).toBe('valid')
  })

  it('that expired and belongs to another caller is invalid, as if it had never been sealed', () => {
    let now = 0
    const seal = createSeal(() => now)
    const text = seal.close(1, use, 10)
    now = 11
    expect(seal.open(text, { ...use, binding: 'bob /mcp' }).kind).toBe('invalid')
  })

  it('is sealed with the first of several keys, and opened by any', () => {
    const [shared, own] = [randomBytes(32), randomBytes(32)]
    const sealWith = (...keys: Buffer[]) =>
      createSeal(
        () => 0,
        () => keys,
      )
    expect(sealWith(shared).open(sealWith(shared, own).close('a', use, 0), use).kind).toBe('valid')
    expect(sealWith(shared, own).open(sealWith(own).close('a', use, 0), use).kind).toBe('valid')
    expect(sealWith(shared).open(sealWith(own).close('a', use, 0), use).kind).toBe('invalid')
  })
})
