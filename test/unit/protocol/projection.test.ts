import { describe, expect, it } from 'vitest'
import { Payload } from '../../../src/core/payload.ts'
import { validator } from '../../../src/core/schema/schema.ts'
import { lowerNote, lowerResult, wrapSchema } from '../../../src/protocol/projection.ts'
import { findRevision, latestLegacy, type Revision, revisionNames } from '../../../src/core/revisions.ts'

function revision(name: string): Revision {
  const found = findRevision(name)
  if (!found) throw new TypeError(name)
  return found
}

const audio = { type: 'audio', data: 'AA==', mimeType: 'audio/wav' }
const link = { type: 'resource_link', uri: 'file:///a', name: 'a', description: 'the a' }
const text = { type: 'text', text: 't' }

describe('a result for an older client', () => {
  it('the text is preserved if nothing changes', () => {
    const result = Payload.text('{"content":[{"type":"text","text":"t"}],"n":1.0,"isError":false}')
    for (const name of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
      expect(lowerResult('tools/call', result, revision(name)).text).toBe(result.text)
    }
  })

  it.each([
    ['tools/call', '{"content":[],"ttlMs":60,"cacheScope":"all"}'],
    ['tools/call', '{"content":"text"}'],
    ['tools/list', '{"tools":[],"ttlMs":60,"cacheScope":"all"}'],
    ['completion/complete', '{"completion":{"values":[]},"ttlMs":1.0}'],
  ])('what a server adds to the result of %s stays: %s', (method, result) => {
    expect(lowerResult(method, Payload.text(result), latestLegacy).text).toBe(result)
  })

  it('members specific to 2026-07-28 are removed', () => {
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
  ])('a %s client receives content of the types %j', (name, types) => {
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

  it('malformed messages are unchanged', () => {
    const odd = { messages: [7, { role: 'user', content: 'hi' }, { role: 'user', content: audio }] }
    const { messages } = lowerResult('prompts/get', Payload.of(odd), revision('2024-11-05')).fields
    expect(messages).toMatchObject([7, { content: 'hi' }, { content: { type: expect.any(String) } }])
  })

  it('marks no tool as one that only runs as a task', () => {
    const tools = ['required', 'optional', 'forbidden'].map((taskSupport) => ({
      name: taskSupport,
      execution: { taskSupport },
    }))
    const listed = Payload.of({ tools })
    for (const name of ['2025-06-18', '2025-11-25'] as const) {
      const { fields } = lowerResult('tools/list', listed, revision(name))
      expect(fields.tools).toEqual([{ name: 'required' }, ...tools.slice(1)])
    }
  })

  it('structured content is an object, and repeated as text for clients that read nothing else', () => {
    const list = lowerResult(
      'tools/call',
      Payload.text('{"content":[],"structuredContent":[1.0]}'),
      latestLegacy,
    )
    expect(list.value).toEqual({
      content: [],
      structuredContent: { result: [1] },
    })
    const older = lowerResult(
      'tools/call',
      Payload.text('{"structuredContent":[1.0]}'),
      revision('2025-03-26'),
    )
    expect(older.value).toMatchObject({ content: [{ type: 'text', text: '[1.0]' }] })
    const object = Payload.of({ content: [text], structuredContent: { a: 1 } })
    expect(lowerResult('tools/call', object, latestLegacy).value).toEqual(object.value)
  })

  it('all other text is preserved', () => {
    const big = '"n":9007199254740993,"one":1.0'
    const block = `{"type":"text","text":"t",${big}}`
    const linked = `{"type":"resource_link","uri":"file:///a","name":"a"}`
    const first = revision('2024-11-05')
    const call = Payload.text(`{"content":[${linked},${block}],"structuredContent":[9007199254740993,1.0]}`)
    const called = lowerResult('tools/call', call, first).text
    expect(called).toContain(block)
    expect(called).toContain('"structuredContent":{"result":[9007199254740993,1.0]}')
    const prompt = Payload.text(`{"messages":[{"role":"user","content":${linked}},{"content":${block}}]}`)
    expect(lowerResult('prompts/get', prompt, first).text).toContain(`{"content":${block}}`)
    const tool = `{"name":"a","inputSchema":{${big}},"outputSchema":{"type":"array","items":{${big}}}}`
    const listed = lowerResult('tools/list', Payload.text(`{"tools":[${tool}]}`), first).text
    expect(listed.split(big)).toHaveLength(3)
  })

  it.each([
    {
      anyOf: [
        { type: 'object', properties: { a: { $ref: '#/$defs/a' } }, required: ['a'] },
        { type: 'array' },
      ],
    },
    { type: ['object', 'array'], properties: { a: { $ref: '#/$defs/a' } }, required: ['a'] },
  ])(
    'the wrapped result is valid for its wrapped schema, whether or not the root is an object: %j',
    (root) => {
      const outputSchema = { ...root, $defs: { a: { type: 'integer' } } }
      const tools = Payload.of({ tools: [{ name: 'a', outputSchema }] })
      const [tool] = lowerResult('tools/list', tools, latestLegacy).at('tools')?.items ?? []
      const schema = tool?.at('outputSchema')?.fields ?? {}
      expect(schema['type']).toBe('object')
      const fits = (structuredContent: unknown): boolean => {
        const result = lowerResult('tools/call', Payload.of({ content: [], structuredContent }), latestLegacy)
        return validator(schema)(result.fields['structuredContent']).length === 0
      }
      expect([{ a: 1 }, [1], { a: 'no' }, 'no'].map(fits)).toEqual([true, true, false, false])
    },
  )

  it('wrapped structured content names its wrapper', () => {
    const schema = { type: 'array', items: { $ref: '#/$defs/item' }, $defs: { item: { type: 'string' } } }
    const { tools } = lowerResult(
      'tools/list',
      Payload.of({ tools: [{ name: 'a', outputSchema: schema }] }),
      latestLegacy,
    ).fields
    expect(tools).toEqual([{ name: 'a', outputSchema: wrapSchema(Payload.of(schema)).value }])
    expect(wrapSchema(Payload.of(schema)).value).toEqual({
      type: 'object',
      properties: { result: { ...schema, items: { $ref: '#/properties/result/$defs/item' } } },
      required: ['result'],
    })
  })

  it('references with another base are unchanged', () => {
    const items = { $id: 'https://x.example/', $ref: '#/a' }
    const schema = { type: 'array', enum: ['#'], items, anyOf: [{ $ref: '#' }] }
    expect(wrapSchema(Payload.of(schema)).value).toMatchObject({
      properties: { result: { ...schema, anyOf: [{ $ref: '#/properties/result' }] } },
    })
  })
})

it('progress for 2024-11-05 has no message', () => {
  const note = { method: 'notifications/progress', params: Payload.of({ progress: 1, message: 'm' }) }
  expect(lowerNote(note, revision('2024-11-05'))?.params?.value).toEqual({ progress: 1 })
  expect(lowerNote(note, latestLegacy)).toBe(note)
})

it.each([
  '{"task":{"taskId":"1","status":"working"},"_meta":{}}',
  '{"task":{"taskId":"1"},"resultType":"task"}',
])('the acceptance of a task receives no content: %s', (text) => {
  for (const revision of revisionNames) {
    const row = findRevision(revision)
    if (row?.era !== 'legacy') continue
    expect(lowerResult('tools/call', Payload.text(text), row).fields).not.toHaveProperty('content')
  }
})

it.each(['notifications/elicitation/complete', 'notifications/tasks/status'])(
  '%s is sent to clients of the only revision that has it',
  (method) => {
    const heard = revisionNames.filter((name) => lowerNote({ method }, revision(name)))
    expect(heard).toEqual(['2025-11-25'])
  },
)
