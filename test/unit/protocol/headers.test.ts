import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import {
  checkMirror,
  checkStandardHeaders,
  decodeHeader,
  encodeHeader,
  mirrorHeaders,
  readMirror,
  standardHeaders,
} from '../../../src/protocol/headers.ts'

const plain = /^[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?$/

function refusal(check: () => void): string {
  try {
    check()
    return 'accepted'
  } catch (error) {
    return error instanceof GatewayError ? error.code : String(error)
  }
}

describe('encoding of a header value', () => {
  test('any text round-trips as plain ASCII', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.constantFrom('', ' ', '\t'), (text, padding) => {
        const value = encodeHeader(text)
        expect(text === '' ? value : plain.test(value)).toBeTruthy()
        expect(decodeHeader(padding + value + padding)).toBe(text)
      }),
      { numRuns: 500 },
    )
  })

  test.each([' padded ', 'a\nb', 'é', '=?base64?YQ==?=', '\u0000', 'a\r\nx-evil: 1'])(
    '%j is encoded in base64',
    (text) => {
      expect(encodeHeader(text)).toMatch(/^=\?base64\?[A-Za-z0-9+/]+=*\?=$/)
      expect(decodeHeader(encodeHeader(text))).toBe(text)
    },
  )

  test.each(['=?base64?YQ=?=', '=?base64?Y?=', '=?base64?YQ*=?=', '=?base64?YR==?=x=?=', '=?base64?/w==?='])(
    '%s is malformed',
    (value) => {
      expect(decodeHeader(value)).toBeUndefined()
    },
  )

  test.each(['=?base64?YQ==', 'YQ==?=', '=?BASE64?YQ==?=', '=?base64?'])('%s is a literal', (value) => {
    expect(decodeHeader(value)).toBe(value)
  })
})

describe('the standard headers of a request', () => {
  const params = Payload.of({ name: 'délete', arguments: {} })
  const sound = standardHeaders('tools/call', params)

  test('the headers repeat the method and the name', () => {
    expect(sound).toEqual({ 'mcp-method': 'tools/call', 'mcp-name': '=?base64?ZMOpbGV0ZQ==?=' })
    expect(refusal(() => checkStandardHeaders(sound, 'tools/call', params))).toBe('accepted')
  })

  test.each([
    [{ ...sound, 'mcp-method': undefined }],
    [{ ...sound, 'mcp-method': 'TOOLS/CALL' }],
    [{ ...sound, 'mcp-method': ['tools/call', 'tools/call'] }],
    [{ ...sound, 'mcp-name': undefined }],
    [{ ...sound, 'mcp-name': 'delete' }],
    [{ ...sound, 'mcp-name': '=?base64?ZMOpbGV0Z?=' }],
  ])('the headers %o are refused', (headers) => {
    expect(refusal(() => checkStandardHeaders(headers, 'tools/call', params))).toBe('HEADER_MISMATCH')
  })

  test.each(['tasks/get', 'tasks/update', 'tasks/cancel'])(
    'may be without Mcp-Name for %s, yet not with the name of another task',
    (name) => {
      const task = Payload.of({ taskId: 'one' })
      const check = (more: object) => () => checkStandardHeaders({ 'mcp-method': name, ...more }, name, task)
      expect(check({})).not.toThrow()
      expect(check({ 'mcp-name': 'one' })).not.toThrow()
      expect(check({ 'mcp-name': 'two' })).toThrow('Mcp-Name differs from the body')
      expect(check({ 'mcp-name': '' })).toThrow('Mcp-Name differs from the body')
    },
  )

  test('an encoded header is compared by its decoded text', () => {
    const literal = Payload.of({ name: '=?base64?YQ==?=' })
    const sent = { ...sound, 'mcp-name': '=?base64?YQ==?=' }
    expect(refusal(() => checkStandardHeaders(sent, 'tools/call', literal))).toBe('HEADER_MISMATCH')
    const encoded = standardHeaders('tools/call', literal)
    expect(refusal(() => checkStandardHeaders(encoded, 'tools/call', literal))).toBe('accepted')
  })

  test('the headers are made from the renamed name', () => {
    expect(standardHeaders('tools/call', params.with({ name: 'other' }))['mcp-name']).toBe('other')
  })
})

describe('mirrored arguments', () => {
  const schema = {
    type: 'object',
    properties: {
      region: { type: 'string', 'x-mcp-header': 'Region' },
      count: { type: 'integer', 'x-mcp-header': 'Count' },
      place: { type: 'object', properties: { city: { type: 'string', 'x-mcp-header': 'City' } } },
    },
  }
  const mirror = readMirror(schema) ?? []
  const params = Payload.of({ arguments: { region: 'eu', count: 7, place: { city: 'Åre' } } })
  const headers = mirrorHeaders(mirror, params)

  test('mirrored arguments are read from the schema at any depth', () => {
    expect(headers).toEqual({
      'mcp-param-region': 'eu',
      'mcp-param-count': '7',
      'mcp-param-city': '=?base64?w4VyZQ==?=',
    })
    expect(refusal(() => checkMirror(mirror, headers, params))).toBe('accepted')
  })

  test('a null or absent argument has no header', () => {
    expect(mirrorHeaders(mirror, Payload.of({ arguments: { region: null } }))).toEqual({})
    expect(mirrorHeaders(mirror, Payload.of({ arguments: 'text' }))).toEqual({})
  })

  test.each([
    { 'mcp-param-region': undefined },
    { 'mcp-param-region': 'us' },
    { 'mcp-param-count': '7.5' },
    { 'mcp-param-city': 'Are' },
  ])('arguments that differ from their headers are refused: %o', (change) => {
    expect(refusal(() => checkMirror(mirror, { ...headers, ...change }, params))).toBe('HEADER_MISMATCH')
  })

  test('an absent argument may lack its header', () => {
    expect(refusal(() => checkMirror(mirror, headers, Payload.of({ arguments: {} })))).toBe('HEADER_MISMATCH')
  })

  test('numbers are compared by value and strings exactly', () => {
    expect(refusal(() => checkMirror(mirror, { ...headers, 'mcp-param-count': '007' }, params))).toBe(
      'accepted',
    )
    const text = Payload.of({ arguments: { region: '7' } })
    expect(refusal(() => checkMirror(mirror, { 'mcp-param-region': '007' }, text))).toBe('HEADER_MISMATCH')
    expect(
      refusal(() =>
        checkStandardHeaders(
          { 'mcp-method': 'tools/call', 'mcp-name': '07' },
          'tools/call',
          Payload.of({ name: '7' }),
        ),
      ),
    ).toBe('HEADER_MISMATCH')
  })

  test.each([
    [
      'a duplicate name',
      { a: { type: 'string', 'x-mcp-header': 'X' }, b: { type: 'string', 'x-mcp-header': 'x' } },
    ],
    ['a name that is not a token', { a: { type: 'string', 'x-mcp-header': 'a b' } }],
    ['an empty name', { a: { type: 'string', 'x-mcp-header': '' } }],
    ['a name that is not a string', { a: { type: 'string', 'x-mcp-header': 7 } }],
    ['a number', { a: { type: 'number', 'x-mcp-header': 'A' } }],
    ['a list', { a: { type: 'array', items: { type: 'string', 'x-mcp-header': 'A' } } }],
    ['an enum', { a: { oneOf: [{ type: 'string', 'x-mcp-header': 'A' }] } }],
  ])('a tool with %s in its mirror is not offered', (_name, properties) => {
    expect(readMirror({ type: 'object', properties })).toBeUndefined()
  })
})
