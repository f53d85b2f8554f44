// Content and descriptions of tools are converted to what the revision of the client has.
import { expect, it } from 'vitest'
import { type Reply, textOf } from '../../support/client/options.ts'
import { subject } from '../../support/matrix.ts'
import { pixel } from '../../support/server/content-tools.ts'
import { isObject, type Json } from '../../support/server/json.ts'

const text = { type: 'text', text: 'text', annotations: { audience: ['user'], priority: 0.5 } }
const image = { type: 'image', data: pixel, mimeType: 'image/png' }
const texts = { type: 'resource', resource: { uri: 'fake://static', mimeType: 'text/plain', text: 'static' } }
const bytes = { type: 'resource', resource: { uri: 'fake://pixel', mimeType: 'image/png', blob: pixel } }
const link = { type: 'resource_link', uri: 'fake://static', name: 'static', mimeType: 'text/plain' }
const chart = { type: 'com.example/chart', points: [1, 2] }

export const projection = subject('matrix/projection', (meeting) => {
  const { client, server } = meeting
  const audio = client.audio
    ? { type: 'audio', data: expect.any(String), mimeType: 'audio/wav' }
    : {
        type: 'resource',
        resource: { uri: expect.any(String), mimeType: 'audio/wav', blob: expect.any(String) },
      }
  const linked = client.resourceLink
    ? link
    : { type: 'text', text: expect.stringMatching(/static.*fake:\/\/static/) }
  const content = [
    text,
    image,
    ...(server.audio ? [audio] : []),
    texts,
    bytes,
    ...(server.resourceLink ? [linked] : []),
  ]

  it("converts every kind of content to a kind that the client's revision has", async () => {
    expect(contentOf(await meeting.call('all_content'))).toEqual(content)
  })

  it('keeps content of an unknown kind unchanged', async () => {
    expect(contentOf(await meeting.call('all_content', { unknown: true }))).toEqual([...content, chart])
  })

  it('keeps the titles, icons, annotations and vendor fields of a tool', async () => {
    const { result } = await meeting.request('tools/list')
    const tools = result?.['tools']
    const tool = Array.isArray(tools)
      ? tools.find((each) => isObject(each) && each['name'] === 'vendor')
      : undefined
    expect(tool).toEqual({
      name: 'vendor',
      ...(server.titles && { title: 'The vendor tool' }),
      description: expect.any(String),
      inputSchema: { type: 'object', properties: {} },
      ...(server.toolAnnotations && { annotations: { readOnlyHint: true, 'x-hint': 'kept' } }),
      ...(server.icons && { icons: [{ src: 'https://example.com/icon.png', mimeType: 'image/png' }] }),
      ...(client.coreTasks && { execution: { taskSupport: 'optional' } }),
      'x-tool': { kept: true },
      _meta: { 'com.example/tool': [1, 2] },
    })
  })

  it('forwards structured content that is an object, beside its text', async () => {
    const reply = await meeting.call('structured')
    expect(textOf(reply)).toBe('{"city":"Paris","degrees":21.5}')
    const value = server.structured ? { city: 'Paris', degrees: 21.5 } : undefined
    expect(reply.result?.['structuredContent']).toEqual(value)
  })

  if (!server.modern) return
  it('wraps structured content that is not an object, and its schema, for clients that require an object', async () => {
    const reply = await meeting.call('structured_list')
    expect(reply.result?.['structuredContent']).toEqual(client.modern ? [1, 2, 3] : { result: [1, 2, 3] })
    expect(textOf(reply)).toBe('[1,2,3]')
    const { result } = await meeting.request('tools/list')
    const list = { type: 'array', items: { type: 'integer' } }
    const wrapped = { type: 'object', properties: { result: list }, required: ['result'] }
    const outputSchema = client.modern ? list : wrapped
    expect(result?.['tools']).toContainEqual(
      expect.objectContaining({ name: 'structured_list', outputSchema }),
    )
  })
})

function contentOf({ result }: Reply): readonly Json[] {
  const content = result?.['content']
  return Array.isArray(content) ? content : []
}
