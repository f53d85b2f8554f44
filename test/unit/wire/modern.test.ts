import { describe, expect, it } from 'vitest'
import type { Call } from '../../../src/core/call.ts'
import { Payload } from '../../../src/core/payload.ts'
import { modernResult } from '../../../src/wire/modern.ts'

const client = { era: 'modern', revision: '2026-07-28', capabilities: {} } as const
const big = '"n":9007199254740993,"one":1.0'

function textOf(method: string, outcome: Parameters<typeof modernResult>[1]): string {
  return modernResult({ method, client } as unknown as Call, outcome, () => 'sealed').text
}

describe('for a client of 2026-07-28 the very text is kept', () => {
  it('of questions', () => {
    const params = Payload.text(`{"message":"m","requestedSchema":{${big}}}`)
    const questions = { q1: { method: 'elicitation/create', params } }
    expect(textOf('tools/call', { kind: 'ask', questions, state: {} })).toContain(params.text)
  })

  it('of tools, without what the revision has no more', () => {
    const tools = `[{"name":"a","execution":{},"inputSchema":{${big}}},{"name":"b","x":{${big}}}]`
    const result = textOf('tools/list', { kind: 'result', result: Payload.text(`{"tools":${tools}}`) })
    expect(result).toContain(`[{"name":"a","inputSchema":{${big}}},{"name":"b","x":{${big}}}]`)
  })
})
