import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bindingOf, createRequestStateCodec } from '../../../src/protocol/request-state.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { anonymous } from '../../../src/core/principal.ts'
import type { Target } from '../../../src/core/call.ts'

describe('sealed request state', () => {
  it('request state round-trips', () => {
    const property = fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.string(),
      (state, binding) => {
        const seal = createRequestStateCodec(() => 0)
        expect(seal.open(seal.close(state, binding), binding)).toEqual(JSON.parse(JSON.stringify(state)))
      },
    )
    fc.assert(property)
  })

  it('request state is not readable', () => {
    const text = createRequestStateCodec(() => 0).close({ secret: 'hunter2' }, 'b')
    expect(Buffer.from(text, 'base64url').toString('latin1')).not.toContain('hunter2')
  })

  it('request state can be used once', () => {
    const seal = createRequestStateCodec(() => 0)
    const text = seal.close({ a: 1 }, 'b')
    seal.open(text, 'b')
    expect(codeOf(() => seal.open(text, 'b'))).toBe('STATE_INVALID')
    // The same bytes in another encoding are the same state.
    expect(codeOf(() => seal.open(`${text}=`, 'b'))).toBe('STATE_INVALID')
  })

  it('request state with any modified byte is refused', () => {
    const seal = createRequestStateCodec(() => 0)
    const text = seal.close({ a: 1 }, 'b')
    const bytes = Buffer.from(text, 'base64url')
    const property = fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), (at, mask) => {
      const forged = Buffer.from(bytes)
      forged[at] = (forged[at] ?? 0) ^ mask
      expect(codeOf(() => seal.open(forged.toString('base64url'), 'b'))).toBe('STATE_INVALID')
    })
    fc.assert(property)
    expect(seal.open(text, 'b')).toEqual({ a: 1 })
  })

  it('request state is refused for another call, another key and other text', () => {
    const seal = createRequestStateCodec(() => 0)
    const text = seal.close({ a: 1 }, 'b')
    expect(codeOf(() => seal.open(text, 'c'))).toBe('STATE_INVALID')
    expect(codeOf(() => createRequestStateCodec(() => 0).open(text, 'b'))).toBe('STATE_INVALID')
    for (const junk of ['', 'x', '%%%', 'A'.repeat(100)]) {
      expect(codeOf(() => seal.open(junk, 'b'))).toBe('STATE_INVALID')
    }
  })

  it('request state is encrypted with the first of several keys and decrypted with any', () => {
    const [shared, own] = [randomBytes(32), randomBytes(32)]
    const sealWith = (...keys: Buffer[]) =>
      createRequestStateCodec(
        () => 0,
        undefined,
        () => keys,
      )
    expect(sealWith(shared).open(sealWith(shared, own).close({ a: 1 }, 'b'), 'b')).toEqual({ a: 1 })
    expect(sealWith(shared, own).open(sealWith(own).close({ a: 1 }, 'b'), 'b')).toEqual({ a: 1 })
  })

  it('request state expires', () => {
    let now = 0
    const seal = createRequestStateCodec(() => now, 1000)
    const text = seal.close({ a: 1 }, 'b')
    now = 1001
    expect(codeOf(() => seal.open(text, 'b'))).toBe('STATE_EXPIRED')
  })
})

describe('the binding of request state', () => {
  const call = (params: unknown, principal = anonymous, target: Partial<Target> = {}) =>
    bindingOf({
      principal,
      target: { method: 'tools/call', upstream: 'one', ...target },
      params: Payload.of(params),
    })

  it('the binding of a retry with input responses is the same', () => {
    const retry = {
      arguments: { b: 2, a: 1 },
      name: 't',
      inputResponses: { q: {} },
      requestState: 's',
      _meta: {},
    }
    expect(call(retry)).toBe(call({ name: 't', arguments: { a: 1, b: 2 } }))
  })

  it('the binding of another server or method is different', () => {
    const one = call({ name: 't' })
    expect(call({ name: 't' }, anonymous, { upstream: 'two' })).not.toBe(one)
    expect(call({ name: 't' }, anonymous, { method: 'prompts/get' })).not.toBe(one)
  })

  it('the binding of other arguments, another tool or another caller is different', () => {
    const one = call({ name: 't', arguments: { a: 1 } })
    expect(call({ name: 't', arguments: { a: 2 } })).not.toBe(one)
    expect(call({ name: 'u', arguments: { a: 1 } })).not.toBe(one)
    expect(call({ name: 't', arguments: { a: 1 } }, { ...anonymous, id: 'ada' })).not.toBe(one)
  })
})

function codeOf(run: () => unknown): string | undefined {
  try {
    run()
    return undefined
  } catch (error) {
    return error instanceof GatewayError ? error.code : String(error)
  }
}
