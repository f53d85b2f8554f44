import { describe, expect, it } from 'vitest'
import type { Client, InputRequest } from '../../../src/core/call.ts'
import { Payload } from '../../../src/core/payload.ts'
import {
  canAnswer,
  capabilitiesIn,
  readInputResponse,
  encodeInputRequest,
} from '../../../src/protocol/input-requests.ts'
import { findRevision, latestLegacy, revisionNames } from '../../../src/core/revisions.ts'

const everything = { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: {}, 'x-own': {} }

function client(revision: string): Client {
  const era = revision === '2026-07-28' ? 'modern' : 'legacy'
  return { era, revision, capabilities: everything }
}

describe('input requests by revision', () => {
  const one = { role: 'user', content: { type: 'text', text: 'one' } }
  const many = { role: 'user', content: [one.content, one.content] }
  const spoken = { role: 'user', content: { type: 'audio', mimeType: 'audio/wav', data: '' } }
  it.each([
    ['one block', { messages: [one] }, revisionNames],
    ['several blocks', { messages: [one, many] }, ['2025-11-25', '2026-07-28']],
    ['audio', { messages: [one, spoken] }, revisionNames.slice(1)],
    [
      'audio among others',
      { messages: [{ ...many, content: [one.content, spoken.content] }] },
      revisionNames.slice(3),
    ],
    ['tools', { messages: [one], tools: [] }, ['2025-11-25', '2026-07-28']],
  ])('sampling with %s is possible for the right revisions', (_what, params, expected) => {
    const question: InputRequest = { method: 'sampling/createMessage', params: Payload.of(params) }
    expect(revisionNames.filter((name) => canAnswer(client(name), question))).toEqual(expected)
  })

  it.each([
    ['2024-11-05', { roots: {}, 'x-own': {}, sampling: {} }],
    ['2025-03-26', { roots: {}, 'x-own': {}, sampling: {} }],
    ['2025-06-18', { roots: {}, 'x-own': {}, sampling: {}, elicitation: {} }],
    ['2025-11-25', everything],
  ])('client capabilities are sent to servers in the form of %s', (name, expected) => {
    expect(capabilitiesIn(findRevision(name) ?? latestLegacy, everything)).toEqual(expected)
    expect(capabilitiesIn(findRevision(name) ?? latestLegacy, {})).toEqual({})
  })
})

describe('a form with a multiple choice', () => {
  const big = '"n":{"type":"integer","maximum":9007199254740993}'
  const several = '"m":{"type":"array","items":{"type":"string","enum":["a","b"]},"minItems":1}'
  const text = `{"message":"m","requestedSchema":{"type":"object","properties":{${big},${several}}}}`
  const question: InputRequest = { method: 'elicitation/create', params: Payload.text(text) }
  const answer = Payload.text('{"action":"accept","content":{"n":1.0,"m":" a,b ,"}}')

  it('a 2025-06-18 client receives a text field, and its input becomes a list for the server', () => {
    const asked = encodeInputRequest(question, client('2025-06-18')).params?.text ?? ''
    expect(asked).toContain(big)
    expect(JSON.parse(asked).requestedSchema.properties.m).toEqual({
      type: 'string',
      description: 'Choose any of these, separated by commas: a, b',
    })
    const read = readInputResponse(question, client('2025-06-18'), answer)
    expect(read.text).toBe('{"action":"accept","content":{"n":1.0,"m":["a","b"]}}')
  })

  it('a 2025-11-25 client receives the form unchanged', () => {
    expect(encodeInputRequest(question, client('2025-11-25')).params?.text).toBe(text)
    expect(readInputResponse(question, client('2025-11-25'), answer)).toBe(answer)
  })
})
