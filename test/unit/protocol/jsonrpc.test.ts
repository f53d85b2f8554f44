import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import {
  checkNesting,
  encodeError,
  encodeNotification,
  encodeRequest,
  encodeResult,
  idOf,
  parseMessage,
} from '../../../src/protocol/jsonrpc.ts'
import { badMessages } from '../../support/bad-messages.ts'
import { anyText, mutated } from '../../support/mutations.ts'

/** The result of parsing: a message, or the code of the refusal. */
function verdict(text: string): string {
  try {
    const { kind } = parseMessage(text)
    checkNesting(text)
    return kind
  } catch (error) {
    if (error instanceof GatewayError) return error.code
    throw error
  }
}

const call = {
  jsonrpc: '2.0',
  id: 7,
  method: 'tools/call',
  params: { name: 'echo', arguments: { n: 1 }, _meta: { progressToken: 'p' } },
}
const kinds = ['request', 'notification', 'response', 'PARSE_ERROR', 'INVALID_REQUEST']

describe('a JSON-RPC message', () => {
  test.each(badMessages.filter(({ bytes }) => typeof bytes === 'string'))(
    'a message that is $name is refused',
    ({ bytes, error }) => {
      expect(verdict(bytes.toString())).toBe(error)
    },
  )

  test('any text is either parsed or refused', () => {
    fc.assert(
      fc.property(fc.oneof(anyText, mutated(call)), (text) => {
        expect(kinds).toContain(verdict(text))
        expect(() => JSON.parse(idOf(text))).not.toThrow()
      }),
      { numRuns: 1000 },
    )
  })

  test('a message is forwarded with its exact text', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(0, 1, '\t'), (value, indent) => {
        const params = JSON.stringify({ value }, null, indent)
        const message = parseMessage(encodeRequest('9007199254740993', 'tools/call', Payload.text(params)))
        expect(message).toMatchObject({ kind: 'request', id: '9007199254740993', method: 'tools/call' })
        expect(message.kind === 'request' && message.params.text).toBe(params)
      }),
    )
  })

  test('large integers, fractions and member order are preserved', () => {
    const params = '{"b":12345678901234567890,"a":1.0,"c":1e400,"d":-0}'
    const message = parseMessage(`{"method":"x", "params" : ${params} ,"jsonrpc":"2.0","id":"7"}`)
    expect(message).toMatchObject({ kind: 'request', id: '"7"' })
    expect(message.kind === 'request' && message.params.text).toBe(params)
    expect(message.kind === 'request' && message.params.with({ e: 1 }).text).toContain(
      '"b":12345678901234567890,"a":1.0',
    )
  })

  test.each(['7', '"7"', '-1', '9007199254740993', '""', '"a\\u0000b"', '1.0', '1e3'])(
    'the id is accepted: %s',
    (id) => {
      expect(parseMessage(`{"jsonrpc":"2.0","id":${id},"method":"m"}`)).toMatchObject({ kind: 'request', id })
      expect(idOf(`{"jsonrpc":"2.0","id":${id}}`)).toBe(id)
    },
  )

  test.each(['null', '1.5', '{}', '[]', 'true'])('the id is refused: %s', (id) => {
    expect(verdict(`{"jsonrpc":"2.0","id":${id},"method":"m"}`)).toBe('INVALID_REQUEST')
    expect(idOf(`{"jsonrpc":"2.0","id":${id}}`)).toBe('null')
  })

  test('null params are absent params', () => {
    expect(parseMessage('{"jsonrpc":"2.0","id":1,"method":"m","params":null}')).toMatchObject({
      params: { text: '{}' },
    })
  })

  test('members named like Object.prototype members are parsed', () => {
    const text = '{"jsonrpc":"2.0","id":1,"method":"m","params":{"__proto__":{"x":1},"constructor":2}}'
    const message = parseMessage(text)
    expect(message.kind === 'request' && message.params.with({ y: 1 }).text).toBe(
      '{"__proto__":{"x":1},"constructor":2,"y":1}',
    )
    expect(Object.hasOwn(Object.prototype, 'x')).toBe(false)
  })

  test.each([
    ['{"code":"E","message":7,"data":{"n":1.0}}', '{"code":-32603,"message":"7","data":{"n":1.0}}'],
    ['{"code":5}', '{"code":5,"message":""}'],
    ['{"code":5,"message":null}', '{"code":5,"message":""}'],
    ['{"code":5,"message":{"en":"No."}}', '{"code":5,"message":"{\\"en\\":\\"No.\\"}"}'],
  ])('the invalid error object %s receives a code and a message', (odd, sound) => {
    const message = parseMessage(`{"jsonrpc":"2.0","id":1,"error":${odd}}`)
    expect(message.kind === 'response' && message.error?.text).toBe(sound)
  })

  test('an error response may have an unreadable id', () => {
    for (const id of ['', '"id":null,', '"id":1.5,']) {
      const message = parseMessage(`{"jsonrpc":"2.0",${id}"error":{"code":1,"message":"m"}}`)
      expect(message.kind === 'response' && message.id).toBeUndefined()
    }
  })
})

test('an encoded message has no null params, and no null id except in an error', () => {
  expect(encodeNotification('m')).toBe('{"jsonrpc":"2.0","method":"m"}')
  expect(encodeRequest('1', 'm', undefined)).toBe('{"jsonrpc":"2.0","id":1,"method":"m"}')
  expect(encodeResult('"1"', Payload.text('{}'))).toBe('{"jsonrpc":"2.0","id":"1","result":{}}')
  expect(encodeError('null', new GatewayError('PARSE_ERROR', 'no'))).toContain('"id":null')
})

describe('the order of message members', () => {
  const value = fc.oneof(fc.jsonValue(), fc.constant({ id: 1, result: 2 }), fc.constant('"id":9,"result":{}'))
  const body = fc.dictionary(fc.constantFrom('a', 'id', 'result', 'params', 'jsonrpc', 'd'), value)
  const id = fc.oneof(fc.integer(), fc.string(), fc.constant(2 ** 53 + 2))

  test('a message is parsed in any order and spacing', () => {
    const property = fc.property(
      id,
      body,
      fc.boolean(),
      fc.constantFrom(undefined, 1),
      (own, inner, isLast, space) => {
        const envelope = { jsonrpc: '2.0', id: own }
        for (const rest of [{ result: inner }, { method: 'tools/call', params: inner }]) {
          const message = isLast ? { ...rest, ...envelope } : { ...envelope, ...rest }
          const read = parseMessage(JSON.stringify(message, undefined, space))
          expect(read).toMatchObject({ id: JSON.stringify(own) })
          const payload = read.kind === 'response' ? read.result : read.params
          expect(JSON.parse(payload?.text ?? '')).toEqual(JSON.parse(JSON.stringify(inner)))
          expect(payload?.value).toEqual(JSON.parse(JSON.stringify(inner)))
        }
      },
    )
    fc.assert(property)
  })

  test.each([
    ['a second result', '{"jsonrpc":"2.0","id":7,"result":{"a":1},"result":{"b":2}}'],
    ['a second id', '{"jsonrpc":"2.0","id":7,"result":{"a":1},"id":7}'],
    ['a second id with an escape', '{"jsonrpc":"2.0","id":7,"result":{"a":1},"\\u0069d":7}'],
    ['a second result before the envelope', '{"result":{"a":1},"result":{"b":2},"jsonrpc":"2.0","id":7}'],
    ['a second params', '{"jsonrpc":"2.0","id":7,"method":"m","params":{},"params":{"x":1}}'],
    ['a second method', '{"method":"m","params":{},"method":"m","jsonrpc":"2.0","id":7}'],
    ['a second id after a space', '{"jsonrpc":"2.0","id":7,"result":{"a":1},"id" :7}'],
  ])('a message is refused with %s', (_name, text) => {
    expect(verdict(text)).toBe('INVALID_REQUEST')
  })

  test.each([
    '{"jsonrpc":"2.0","id":7,"result":{"a":1.0},"more":{"b":2}}',
    '{"result":{"a":1.0},"more":{"b":2},"jsonrpc":"2.0","id":7}',
    '{"result":{"a":1.0},"jsonrpc":"2.0","id":7,"more":{"b":2}}',
  ])('unknown members are ignored: %s', (text) => {
    const read = parseMessage(text)
    expect(read).toMatchObject({ kind: 'response', id: '7' })
    expect(read.kind === 'response' && read.result?.text).toBe('{"a":1.0}')
  })

  test('an id that is not a plain integer is preserved as written', () => {
    for (const written of ['7.0', '7e0', '-0', '9007199254740993', '"7"']) {
      expect(parseMessage(`{"jsonrpc":"2.0","id":${written},"result":{}}`)).toMatchObject({ id: written })
    }
  })
})
