import { generateKeyPairSync, sign } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Payload } from '../../../src/core/payload.ts'
import { argumentsHash, contentHash, verifyReceipt } from '../../../src/records/receipts.ts'

const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const kid = 'a'
const jwk = { ...publicKey.export({ format: 'jwk' }), kid }

function signed(claims: object, header: object = { alg: 'ES256', kid }): string {
  const text = [header, claims]
    .map((each) => Buffer.from(JSON.stringify(each)).toString('base64url'))
    .join('.')
  const signature = sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' })
  return `${text}.${signature.toString('base64url')}`
}

const text =
  '{"content":[{"type":"text","text":"é 😀 9007199254740993"}],"structuredContent":{"id":9007199254740993,"at":0.1,"list":[1,true,null]}}'
const result = Payload.text(text)
const receipt = signed({ receipt: 1, content_sha256: contentHash(result), tool: 't' })

const hashOf = (json: string): string => contentHash(Payload.text(json))
const around = (value: string): string => hashOf(`{"content":[],"structuredContent":${value}}`)

describe('verification of a receipt', () => {
  it('a receipt is valid for the content it was signed for', () => {
    expect(verifyReceipt(receipt, [jwk], result)).toMatchObject({ claims: { tool: 't' }, key: kid })
    expect(verifyReceipt(receipt, [{ kid: 'b' }, jwk])).toHaveProperty('claims')
  })

  it('a receipt with any changed character is refused', () => {
    const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.'
    for (let at = 0; at < receipt.length; at++) {
      for (const other of [letters[(letters.indexOf(receipt[at] ?? '') + 1) % 65], '!']) {
        const changed = `${receipt.slice(0, at)}${other}${receipt.slice(at + 1)}`
        expect([at, verifyReceipt(changed, [jwk], result)]).toEqual([at, { problem: expect.any(String) }])
      }
    }
  })

  it('a receipt with any changed bit of its content is refused', () => {
    const bytes = Buffer.from(text)
    for (let at = 0; at < bytes.length * 8; at++) {
      const changed = Buffer.from(bytes)
      changed[at >> 3] = (changed[at >> 3] ?? 0) ^ (1 << (at & 7))
      const other = changed.toString()
      if (!isJson(other)) continue
      expect([other, verifyReceipt(receipt, [jwk], Payload.text(other))]).toEqual([
        other,
        { problem: 'the content is not the one that was signed' },
      ])
    }
  })

  it('a receipt is valid for the qualified views of an aggregate', () => {
    const block = (uri: string): unknown => {
      const meta = { ui: { resourceUri: uri, csp: {} }, 'ui/resourceUri': uri, 'openai/outputTemplate': uri }
      const embedded = { type: 'resource', resource: { uri, text: '', _meta: meta } }
      return { content: [{ type: 'text', text: 't', _meta: meta }, embedded] }
    }
    const content = contentHash(Payload.of(block('ui://x/y')))
    const own = signed({ receipt: 1, server: 'a', content_sha256: content })
    for (const valid of ['ui://x/y', 'ui://a+x/y'])
      expect(verifyReceipt(own, [jwk], Payload.of(block(valid)))).toHaveProperty('claims')
    for (const other of ['ui://b+x/y', 'ui://a+x/z'])
      expect(verifyReceipt(own, [jwk], Payload.of(block(other)))).toHaveProperty('problem')
  })

  it('a receipt is valid for the qualified URIs of an aggregate', () => {
    const block = (uri: string, name: string) => ({
      content: [{ type: 'resource', resource: { uri, text: name } }],
    })
    const own = signed({
      receipt: 1,
      server: 'a',
      content_sha256: contentHash(Payload.of(block('f:///x', 'x'))),
    })
    expect(verifyReceipt(own, [jwk], Payload.of(block('a+f:///x', 'x')))).toHaveProperty('claims')
    for (const other of [block('b+f:///x', 'x'), block('a+f:///y', 'x'), block('a+f:///x', 'y')])
      expect(verifyReceipt(own, [jwk], Payload.of(other))).toHaveProperty('problem')
    const read = signed({
      receipt: 1,
      server: 'a',
      content_sha256: hashOf('{"contents":[{"uri":"f:///x"}]}'),
    })
    expect(
      verifyReceipt(read, [jwk], Payload.text('{"contents":[{"uri":"a+f:///x","_meta":{}}]}')),
    ).toHaveProperty('claims')
  })

  it.each([
    ['that is cut off', receipt.slice(0, -40), 'the signature is invalid'],
    ['that is none', 'hello', 'it is not a JWS in compact serialization'],
    ['of four parts', `${receipt}.x`, 'it is not a JWS in compact serialization'],
    [
      'without a signature',
      signed({ receipt: 1 }, { alg: 'none', kid }),
      'it is signed with none, not with ES256',
    ],
    ['of another key', signed({ receipt: 1 }, { alg: 'ES256', kid: 'z' }), 'the gateway has no key z'],
    ['that is an approval', signed({ verdict: 'approved' }), 'the signed content is not a receipt'],
  ])('a receipt %s is refused', (_what, given, problem) => {
    expect(verifyReceipt(given, [jwk])).toEqual({ problem })
  })

  it('a receipt is refused if its key in the set is invalid', () => {
    expect(verifyReceipt(receipt, [{ kid }])).toEqual({ problem: 'the signature is invalid' })
  })
})

describe('the hash of content', () => {
  it('the hash does not depend on JSON formatting', () => {
    expect(around('{"a":1,"b":[1.0,1e2,"é"]}')).toBe(around('{ "b" : [1, 100.00, "\\u00e9"], "a": 10e-1 }'))
    expect(hashOf('{"content":[]}')).toBe(hashOf('{"_meta":{"a":1},"resultType":"complete"}'))
  })

  it.each([
    ['9007199254740993', '9007199254740992'],
    ['0.1', '0.1000000000000000055511151231257827'],
    ['1e999', '1e998'],
    ['1e999', '"1e999"'],
    ['{"rawJSON":"1e999"}', '1e999'],
    ['1', '"1"'],
    ['1', 'null'],
    ['[]', '{}'],
    ['{"__proto__":1}', '{}'],
  ])('the hash of %s differs from that of %s', (one, other) => {
    expect(around(one)).not.toBe(around(other))
  })

  it('the hash excludes what the gateway adds to resource contents', () => {
    const bare = hashOf('{"contents":[{"uri":"a:b","text":"c"}]}')
    expect(hashOf('{"contents":[{"uri":"a:b","text":"c","_meta":{"x":1}}]}')).toBe(bare)
    expect(hashOf('{"contents":[{"uri":"a:b","text":"d"}]}')).not.toBe(bare)
  })

  it('the hash survives parsing and serialization of JSON without large numbers', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const encoded = JSON.stringify({ content: [], structuredContent: value })
        expect(hashOf(JSON.stringify(JSON.parse(encoded), undefined, 2))).toBe(hashOf(encoded))
      }),
    )
  })
})

it('the hash of arguments does not depend on their order', () => {
  expect(argumentsHash({ a: 1, b: 2 })).toBe(argumentsHash({ b: 2, a: 1 }))
  expect(argumentsHash(undefined)).toBe(argumentsHash({}))
  expect(argumentsHash({ a: 1 })).not.toBe(argumentsHash({ a: 2 }))
})

function isJson(given: string): boolean {
  try {
    return JSON.parse(given) !== null
  } catch {
    return false
  }
}
