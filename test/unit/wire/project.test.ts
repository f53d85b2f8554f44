import { describe, expect, it } from 'vitest'
import { Payload } from '../../../src/core/payload.ts'
import { lowerNote, lowerResult } from '../../../src/wire/project.ts'
import { findRevision, latestLegacy, type Revision, revisionNames } from '../../../src/wire/revisions.ts'
import { wrapSchema } from '../../../src/wire/wrap.ts'

function revision(name: string): Revision {
  const found = findRevision(name)
  if (!found) throw new TypeError(name)
  return found
}

const audio = { type: 'audio', data: 'AA==', mimeType: 'audio/wav' }
const link = { type: 'resource_link', uri: 'file:///a', name: 'a', description: 'the a' }
const text = { type: 'text', text: 't' }

describe('a result for an older client', () => {
  it('keeps its text where nothing has to change', () => {
    const result = Payload.text('{"content":[{"type":"text","text":"t"}],"n":1.0,"isError":false}')
    for (const name of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
      expect(lowerResult('tools/call', result, revision(name)).text).toBe(result.text)
    }
  })

  it('loses what only 2026-07-28 says', () => {
    const meta = { 'io.modelcontextprotocol/serverInfo': {}, kept: 1 }
    const result = Payload.of({
      tools: [],
      resultType: 'complete',
      ttlMs: 1,
      cacheScope: 'private',
      _meta: meta,
    })
    expect(lowerResult('tools/list', result, latestLegacy).value).toEqual({ tools: [], _meta: { kept: 1 } })
  })

  it.each([
    ['2024-11-05', ['text', 'resource', 'text']],
    ['2025-03-26', ['text', 'audio', 'text']],
    ['2025-06-18', ['text', 'audio', 'resource_link']],
    ['2025-11-25', ['text', 'audio', 'resource_link']],
  ])('of %s has content of the types %j', (name, types) => {
    const { content } = lowerResult(
      'tools/call',
      Payload.of({ content: [text, audio, link] }),
      revision(name),
    ).fields
    expect(Array.isArray(content) && content.map((each: { type: string }) => each.type)).toEqual(types)
    const prompt = Payload.of({
      messages: [
        { role: 'user', content: audio },
        { role: 'user', content: link },
      ],
    })
    const { messages } = lowerResult('prompts/get', prompt, revision(name)).fields
    const found =
      Array.isArray(messages) && messages.map((each: { content: { type: string } }) => each.content.type)
    expect(found).toEqual(types.slice(1))
  })

  it('has structured content as an object, and as text', () => {
    const list = lowerResult(
      'tools/call',
      Payload.text('{"content":[],"structuredContent":[1.0]}'),
      latestLegacy,
    )
    expect(list.value).toEqual({
      content: [{ type: 'text', text: '[1.0]' }],
      structuredContent: { result: [1] },
    })
    const object = Payload.of({ content: [text], structuredContent: { a: 1 } })
    expect(lowerResult('tools/call', object, latestLegacy).value).toEqual(object.value)
  })

  it('says of structured content what it wraps it as', () => {
    const schema = { type: 'array', items: { $ref: '#/$defs/item' }, $defs: { item: { type: 'string' } } }
    const { tools } = lowerResult(
      'tools/list',
      Payload.of({ tools: [{ name: 'a', outputSchema: schema }] }),
      latestLegacy,
    ).fields
    expect(tools).toEqual([{ name: 'a', outputSchema: wrapSchema(schema) }])
    expect(wrapSchema(schema)).toEqual({
      type: 'object',
      properties: { result: { ...schema, items: { $ref: '#/properties/result/$defs/item' } } },
      required: ['result'],
    })
  })

  it('leaves references alone that are not of the old root', () => {
    const schema = { enum: ['#'], items: { $id: 'https://x.example/', $ref: '#/a' }, anyOf: [{ $ref: '#' }] }
    expect(wrapSchema(schema)).toMatchObject({
      properties: { result: { ...schema, anyOf: [{ $ref: '#/properties/result' }] } },
    })
  })
})

it('progress for 2024-11-05 has no message', () => {
  const note = { method: 'notifications/progress', params: Payload.of({ progress: 1, message: 'm' }) }
  expect(lowerNote(note, revision('2024-11-05'))?.params?.value).toEqual({ progress: 1 })
  expect(lowerNote(note, latestLegacy)).toBe(note)
})

it.each(['notifications/elicitation/complete', 'notifications/tasks/status'])(
  '%s is for clients of the one revision that has it',
  (method) => {
    const heard = revisionNames.filter((name) => lowerNote({ method }, revision(name)))
    expect(heard).toEqual(['2025-11-25'])
  },
)
