import { describe, expect, it } from 'vitest'
import { parseCassette } from '../../../src/testkit/cassette.ts'
import { conversationsOf, testFile } from '../../../src/testkit/conversations.ts'

const question = { method: 'elicitation/create', params: { message: 'Name?' } }
const answer = { action: 'accept', content: { name: 'Ada' } }
const call = { name: 'ask', arguments: { key: '***' } }
const messages = [
  ['c2s', { id: 1, method: 'tools/call', params: call }],
  [
    's2c',
    { id: 1, result: { resultType: 'input_required', inputRequests: { a: question }, requestState: 's' } },
  ],
  [
    'c2s',
    {
      id: 2,
      method: 'tools/call',
      params: { ...call, inputResponses: { a: answer }, requestState: 's', _meta: { b: 1 } },
    },
  ],
  [
    's2c',
    { id: 2, result: { resultType: 'complete', content: [{ type: 'text', text: 'a [redacted] (c)' }] } },
  ],
  ['c2s', { id: 3, method: 'tools/call', params: { name: 'fail' } }],
  ['s2c', { id: 3, error: { code: -32602, message: 'no' } }],
  ['c2s', { id: 4, method: 'logging/setLevel', params: { level: 'debug' } }],
  ['s2c', { id: 4, result: {} }],
] as const
const header = { type: 'header', cassetteVersion: 2, transport: 'stdio', era: 'modern' }
const frames = messages.map(([dir, frame], t) => ({ type: 'frame', t, dir, frame }))
const cassette = parseCassette([header, ...frames].map((line) => JSON.stringify(line)).join('\n'), 'a.jsonl')

describe('a test made from a recording', () => {
  it('imports nothing of this program', () => {
    const [first] = conversationsOf(cassette)
    const imports = first ? testFile(first, cassette).match(/from '[^']+'/g) : []
    expect(imports).toEqual([
      "from '@modelcontextprotocol/client'",
      "from '@modelcontextprotocol/client/stdio'",
      "from 'vitest'",
    ])
  })

  it('has a call of 2026-07-28 with its answers as one request', () => {
    const [first, ...others] = conversationsOf(cassette)
    expect(others).toHaveLength(2)
    expect(first).toMatchObject({ params: call, answers: [{ method: question.method, result: answer }] })
    expect(first?.response).toMatchObject({ id: 2 })
  })

  it('answers questions, expects any text for removed ones, and says what to fill in', () => {
    const [first, failed, level] = conversationsOf(cassette)
    if (!first || !failed || !level) throw new Error('a conversation is missing')
    const text = testFile(first, cassette)
    expect(text).toContain('// Fill in what was removed from the recording: ***')
    expect(text).toContain('"elicitation": { "form": {}, "url": {} }')
    expect(text).toContain(String.raw`expect.stringMatching(new RegExp("^a [^]* \\(c\\)$"))`)
    expect(testFile(failed, cassette)).toMatch(/callTool.*rejects\.toMatchObject\(\{ "code": -32602 \}\)/)
    expect(testFile(failed, cassette)).not.toContain('Fill in')
    expect(() => testFile(level, cassette)).toThrow(
      'a.jsonl:8: a request logging/setLevel cannot become a test',
    )
  })

  it.each(['\n', '\r', '\u2028', '\u2029'])(
    'runs nothing that a mark of the recording has after %j',
    (end) => {
      const marks = ['*', `*${end}process.exit(7)//`]
      const { redaction } = cassette.header
      const [first] = conversationsOf(cassette)
      if (!first) throw new Error('a conversation is missing')
      const text = testFile(first, {
        ...cassette,
        header: { ...cassette.header, redaction: { ...redaction, marks } },
      })
      expect(text).toContain('// Fill in what was removed from the recording: * *')
      expect(text).not.toMatch(/^process/m)
    },
  )
})
