import { describe, expect, it } from 'vitest'
import type { Call } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { modernError, modernResult } from '../../../src/protocol/modern.ts'

const client = { era: 'modern', revision: '2026-07-28', capabilities: {} } as const
const big = '"n":9007199254740993,"one":1.0'

function textOf(method: string, outcome: Parameters<typeof modernResult>[1]): string {
  return modernResult({ method, client } as unknown as Call, outcome, () => 'sealed').text
}

describe('JSON text for a 2026-07-28 client', () => {
  it('the text of input requests is preserved', () => {
    const params = Payload.text(`{"message":"m","requestedSchema":{${big}}}`)
    const questions = { q1: { method: 'elicitation/create', params } }
    expect(
      textOf('tools/call', { kind: 'input_required', inputRequests: questions, requestState: {} }),
    ).toContain(params.text)
  })

  it('the text of tools is preserved without removed members', () => {
    const tools = `[{"name":"a","execution":{},"inputSchema":{${big}}},{"name":"b","x":{${big}}}]`
    const result = textOf('tools/list', { kind: 'result', result: Payload.text(`{"tools":${tools}}`) })
    expect(result).toContain(`[{"name":"a","inputSchema":{${big}}},{"name":"b","x":{${big}}}]`)
  })
})

it.each([
  ['{"code":-32021,"message":"m","data":{"requiredCapabilities":{"sampling":{}}}}', -32021],
  ['{"code":-32021,"message":"m","data":{"n":9007199254740993}}', -32603],
  ['{"code":-32050,"message":"m","data":{"n":9007199254740993}}', -32603],
])('an error code of a server is forwarded only if 2026-07-28 defines it alike: %s', (text, code) => {
  const error = modernError(new GatewayError('UPSTREAM_ERROR', 'm', { relayed: Payload.text(text) }))
  expect(error.fields['code']).toBe(code)
  expect(error.text).toContain(text.slice(text.indexOf('"data"'), -1))
})
