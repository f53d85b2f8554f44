// Arguments, results and fields that no revision defines pass between any two revisions unchanged.
import { expect, it } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import { subject } from '../../support/matrix.ts'
import { mark } from '../../support/meeting.ts'
import { objectAt, RawJson, textAt } from '../../support/server/json.ts'

const raw =
  '{"big":12345678901234567890, "float":1.0,"exponent":1e2,"negative":-0.0,"b":{"z":1,"a":[2.50,""]},' +
  '"escaped":"\\u00e9\\/\\ud83d\\ude00","plain":"é😀","a":null}'

export const calls = subject('matrix/calls', (meeting) => {
  const { client, server } = meeting

  it('passes arguments and results through byte by byte', async () => {
    const reply = await meeting.call('echo', new RawJson(raw))
    expect(textOf(reply)).toBe(raw)
    expect(textAt(reply.text, ['result', 'structuredContent'])).toBe(server.structured ? raw : undefined)
  })

  it('keeps request fields that no revision defines', async () => {
    const word = mark()
    await meeting.request('tools/call', {
      name: 'echo',
      arguments: { word },
      'x-param': new RawJson('[9007199254740993,1.0]'),
      _meta: {
        'com.example/trace': new RawJson('{"id":12345678901234567890}'),
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      },
    })
    const { text, message } = await meeting.until((entry) => entry.text.includes(word))
    expect(textAt(text, ['params', 'x-param'])).toBe('[9007199254740993,1.0]')
    expect(textAt(text, ['params', '_meta', 'com.example/trace'])).toBe('{"id":12345678901234567890}')
    expect(objectAt(objectAt(message, 'params'), '_meta')['traceparent']).toBe(
      '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    )
  })

  it('keeps result fields that no revision defines', async () => {
    const reply = await meeting.call('vendor')
    expect(textAt(reply.text, ['result', 'x-result'])).toBe('{"big":12345678901234567890,"float":1.0}')
    expect(objectAt(reply.result, '_meta')).toMatchObject({
      'com.example/result': { kept: true },
      plain: 'kept',
    })
    expect(reply.result?.['content']).toEqual([
      { type: 'text', text: 'vendor', 'x-block': 1, annotations: { priority: 1, 'x-annotation': 2 } },
    ])
  })

  it('passes characters of every width and line separators through', async () => {
    expect(textOf(await meeting.call('separators'))).toBe('a\u2028b\u2029c\u0085d é € 😀')
  })

  it('passes large arguments and large results through', async () => {
    const text = 'é'.repeat(50_000)
    expect(textOf(await meeting.call('echo', { text }))).toBe(JSON.stringify({ text }))
    expect(textOf(await meeting.call('big', { bytes: 400_000 }))).toBe('x'.repeat(400_000))
  })

  it('answers many concurrent calls, each with its own result', async () => {
    const words = Array.from({ length: 20 }, () => mark())
    const replies = await Promise.all(words.map((word) => meeting.call('echo', { word })))
    expect(replies.map(textOf)).toEqual(words.map((word) => JSON.stringify({ word })))
  })

  it('returns prompts with their arguments filled in', async () => {
    const reply = await meeting.request('prompts/get', {
      name: 'greet',
      arguments: { name: 'Ada', style: 'warmly' },
    })
    expect(reply.result?.['messages']).toEqual([
      { role: 'user', content: { type: 'text', text: 'Hello Ada, warmly' } },
    ])
  })

  it('reads text and binary resources, and those of a template', async () => {
    const read = async (uri: string) =>
      (await meeting.request('resources/read', { uri })).result?.['contents']
    expect(await read('fake://static')).toEqual([
      { uri: 'fake://static', mimeType: 'text/plain', text: 'static' },
    ])
    expect(await read('fake://pixel')).toMatchObject([{ mimeType: 'image/png', blob: expect.any(String) }])
    expect(await read('fake://item/seven')).toMatchObject([{ uri: 'fake://item/seven', text: 'item seven' }])
  })

  if (!server.modern) return
  it('mirrors the arguments that a tool requires in headers, whatever the client', async () => {
    // A 2026-07-28 client learns from the list which arguments to mirror.
    if (client.modern) await meeting.request('tools/list')
    const word = mark()
    const args = { region: ' zürich ', count: 7, urgent: false, place: { city: 'Genève' }, plain: word }
    expect(textOf(await meeting.call('headers', args))).toBe(JSON.stringify(args))
    if (meeting.kinds.server.transport === 'stdio') return
    const { headers } = await meeting.until(({ text }) => text.includes(word))
    expect(headers).toMatchObject({
      'mcp-method': 'tools/call',
      'mcp-name': 'headers',
      'mcp-param-region': '=?base64?IHrDvHJpY2gg?=',
      'mcp-param-count': '7',
      'mcp-param-urgent': 'false',
      'mcp-param-city': '=?base64?R2Vuw6h2ZQ==?=',
    })
  })
})
