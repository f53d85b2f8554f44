import { describe, expect, it } from 'vitest'
import { completeEntry, completeResult } from '../../../src/catalog/strict-names.ts'
import { Payload } from '../../../src/core/payload.ts'
import { toolCall } from '../../support/tool-call.ts'

const png = 'iVBORw0KGgoAAAANSUhEUg=='

function read(contents: readonly unknown[], uri = 'fake://notes.md'): unknown {
  const call = toolCall({ method: 'resources/read', target: { method: 'resources/read', name: uri } })
  return completeResult(call, Payload.of({ contents })).fields.contents
}

describe('completion of list entries', () => {
  it('C170 a resource without a name is named after the last segment of its URI', () => {
    const entry = completeEntry('resources', Payload.of({ uri: 'file:///srv/notes.md' }))
    expect(entry.fields).toEqual({ uri: 'file:///srv/notes.md', name: 'notes.md' })
    const named = Payload.of({ uri: 'file:///srv/notes.md', name: 'Notes' })
    expect(completeEntry('resources', named)).toBe(named)
  })

  it('C172 a template without a name is named after the last segment of its URI template', () => {
    const entry = completeEntry('resourceTemplates', Payload.of({ uriTemplate: 'demo://item/{id}' }))
    expect(entry.fields.name).toBe('{id}')
  })

  it('C158 prompt arguments receive the missing description and required flag', () => {
    const wanted = [{ name: 'code' }, { name: 'style', title: 'Style', required: true }]
    const entry = completeEntry('prompts', Payload.of({ name: 'review', arguments: wanted }))
    expect(entry.fields.arguments).toEqual([
      { name: 'code', description: 'code', required: false },
      { name: 'style', title: 'Style', description: 'Style', required: true },
    ])
    const whole = Payload.of({ name: 'p', arguments: [{ name: 'a', description: 'A', required: true }] })
    expect(completeEntry('prompts', whole)).toBe(whole)
  })
})

describe('completion of read results', () => {
  it('C171 a resource receives a media type derived from its bytes, its name or its kind', () => {
    expect(
      read([
        { uri: 'fake://a.json', text: '{}' },
        { uri: 'fake://plain', text: 'x' },
        { uri: 'fake://bytes', blob: 'AAAA' },
        { uri: 'fake://picture', blob: png },
        { uri: 'fake://b.pdf?page=1', blob: 'AAAA' },
        { text: 'x' },
      ]),
    ).toEqual([
      { uri: 'fake://a.json', mimeType: 'application/json', text: '{}' },
      { uri: 'fake://plain', mimeType: 'text/plain', text: 'x' },
      { uri: 'fake://bytes', mimeType: 'application/octet-stream', blob: 'AAAA' },
      { uri: 'fake://picture', mimeType: 'image/png', blob: png },
      { uri: 'fake://b.pdf?page=1', mimeType: 'application/pdf', blob: 'AAAA' },
      { uri: 'fake://notes.md', mimeType: 'text/markdown', text: 'x' },
    ])
  })

  it('C171 a media type set by the server is kept', () => {
    const result = Payload.of({ contents: [{ uri: 'fake://a', mimeType: 'x/y', text: 'x' }] })
    expect(completeResult(toolCall({ method: 'resources/read' }), result)).toBe(result)
  })

  it('C177 content of tools and prompts without a media type receives the type of its bytes', () => {
    const call = toolCall({ method: 'tools/call' })
    const content = [
      { type: 'image', data: png },
      { type: 'audio', data: 'UklGRiQAAABXQVZFZm10' },
      { type: 'text', text: 'x' },
    ]
    expect(completeResult(call, Payload.of({ content })).fields.content).toEqual([
      { type: 'image', data: png, mimeType: 'image/png' },
      { type: 'audio', data: 'UklGRiQAAABXQVZFZm10', mimeType: 'audio/wav' },
      { type: 'text', text: 'x' },
    ])
    const messages = [{ role: 'user', content: { type: 'resource', resource: { uri: 'a://b', blob: png } } }]
    expect(
      completeResult(toolCall({ method: 'prompts/get' }), Payload.of({ messages })).fields.messages,
    ).toEqual([
      {
        role: 'user',
        content: { type: 'resource', resource: { uri: 'a://b', blob: png, mimeType: 'image/png' } },
      },
    ])
  })

  it.each([
    ['resources/read', '{"contents":[{"uri":"a:b","text":"t","n":9007199254740993,"one":1.0}]}'],
    [
      'tools/call',
      `{"content":[{"type":"text","n":9007199254740993,"one":1.0},{"type":"image","data":"${png}"}]}`,
    ],
    [
      'prompts/get',
      `{"messages":[{"content":{"type":"image","data":"${png}","n":9007199254740993,"one":1.0}}]}`,
    ],
  ])('the JSON text of all other members is preserved in the result of %s', (method, text) => {
    const whole = completeResult(toolCall({ method }), Payload.text(text)).text
    expect(whole).toContain('"n":9007199254740993,"one":1.0')
    expect(whole).toContain('"mimeType"')
  })
})
