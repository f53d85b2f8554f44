// The sizes that lists announce for tools that take bytes: a file of exactly that size passes.
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { connect } from '../../support/fake-client.ts'
import { localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { scriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { isObject, objectAt, type Json } from '../../support/server/json.ts'

const base64 = { type: 'string', contentEncoding: 'base64', contentMediaType: 'image/png' }
const tools = [
  { name: 'measure_image', inputSchema: { type: 'object', properties: { image: base64 } } },
  { name: 'measure_small_image', inputSchema: { type: 'object', properties: { image: base64 } } },
  // Its name alone says that it takes bytes: a reference would become text.
  { name: 'measure_named_image', inputSchema: { type: 'object', properties: { image: { type: 'string' } } } },
]
const MEDIA = 'dev.gatehouse/multimodal'
const UPLOAD = 2_000_000

let server: ScriptedServer
let gateway: LocalGateway
let plain: LocalGateway
beforeAll(async () => {
  server = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({ tools }),
      'tools/call': ({ params }) => {
        const image = String(objectAt(params ?? {}, 'arguments')['image'])
        return { content: [{ type: 'text', text: String(Buffer.from(image, 'base64').length) }] }
      },
    },
  )
  const one = { url: server.url, tools: { measure_small_image: { max_input: 1_500_000 } } }
  const features = { references: { upload: UPLOAD, argument: '3MB' }, multimodal: { compat: 'always' } }
  gateway = await localGateway({ upstreams: { one }, features })
  plain = await localGateway({ upstreams: { one } })
})
afterAll(async () => {
  await Promise.all([gateway.close(), plain.close()])
  await server.close()
})

async function listed(of: LocalGateway, name: string): Promise<Json> {
  const client = await connect({ transport: 'http', url: of.url, revision: '2025-11-25' })
  const { result } = await client.request('tools/list')
  await client.close()
  const entries: unknown = result?.['tools']
  const found = Array.isArray(entries) ? entries.find((each: Json) => each['name'] === name) : undefined
  return isObject(found) ? found : {}
}

/** The text of the result; undefined if the call is refused. */
async function call(of: LocalGateway, name: string, image: string): Promise<unknown> {
  const client = await connect({ transport: 'http', url: of.url, revision: '2025-11-25' })
  const { result } = await client.request('tools/call', { name, arguments: { image } })
  await client.close()
  const content: unknown = result?.['content']
  return result?.['isError'] === true || !Array.isArray(content)
    ? undefined
    : objectAt({ content: content[0] }, 'content')['text']
}

async function upload(url: unknown, size: number): Promise<{ readonly status: number; readonly id: string }> {
  const form = new FormData()
  form.set('file', new Blob([new Uint8Array(size)], { type: 'image/png' }), 'a.png')
  const response = await fetch(String(url), { method: 'POST', body: form })
  const json: unknown = await response.json()
  return { status: response.status, id: isObject(json) ? String(json['ref_id']) : '' }
}

describe('without an upload path', () => {
  it('a file of exactly the announced size passes in a call', async () => {
    const media = objectAt(objectAt(await listed(plain, 'measure_image'), '_meta'), MEDIA)
    expect(media).toEqual({ input_types: ['image/png'], max_input_size_bytes: 774_144 })
    const image = Buffer.alloc(774_144).toString('base64')
    expect(await call(plain, 'measure_image', image)).toBe(String(774_144))
    const large = await call(plain, 'measure_image', Buffer.alloc(900_000).toString('base64'))
    expect(large).toBeUndefined()
  })
})

describe('with references', () => {
  it('a file of exactly the announced size passes as a form, and one more byte is refused', async () => {
    const media = objectAt(objectAt(await listed(gateway, 'measure_image'), '_meta'), MEDIA)
    expect(media).toEqual({
      input_types: ['image/png'],
      max_input_size_bytes: 774_144,
      binary_transport: 'multipart',
      upload_url: `${gateway.origin}/uploads`,
      max_upload_size_bytes: UPLOAD,
    })
    const { status, id } = await upload(media['upload_url'], UPLOAD)
    expect(status).toBe(201)
    expect(await call(gateway, 'measure_image', `ref://${id}`)).toBe(String(UPLOAD))
    expect((await upload(media['upload_url'], UPLOAD + 1)).status).toBe(413)
  })

  it('the largest file of a tool with `max_input` is that size', async () => {
    const limited = await listed(gateway, 'measure_small_image')
    expect(limited).toMatchObject({ binary_transport: 'multipart', max_upload_size_bytes: 1_500_000 })
    const [fits, large] = await Promise.all(
      [1_500_000, 1_500_001].map((size) => upload(limited['upload_url'], size)),
    )
    expect(await call(gateway, 'measure_small_image', `ref://${fits?.id}`)).toBe(String(1_500_000))
    expect(await call(gateway, 'measure_small_image', `ref://${large?.id}`)).toBeUndefined()
  })

  it('a server that alone has references takes what is uploaded', async () => {
    const one = { url: server.url, features: { references: { argument: '1MB' } } }
    const alone = await localGateway({ upstreams: { one, other: server.url } })
    onTestFinished(() => alone.close())
    const media = objectAt(objectAt(await listed(alone, 'one_measure_image'), '_meta'), MEDIA)
    expect(media).toMatchObject({ binary_transport: 'multipart', max_upload_size_bytes: 1_048_576 })
    const { id } = await upload(media['upload_url'], 1_048_576)
    expect(await call(alone, 'one_measure_image', `ref://${id}`)).toBe('1048576')
    const other = objectAt(objectAt(await listed(alone, 'other_measure_image'), '_meta'), MEDIA)
    expect(other).not.toHaveProperty('binary_transport')
  })

  it('only a tool whose argument takes the reference as it is announces the form', async () => {
    const named = await listed(gateway, 'measure_named_image')
    expect(named).toMatchObject({ input_types: ['image/*'], max_input_size_bytes: 774_144 })
    expect(named).not.toHaveProperty('binary_transport')
  })
})
