// A file that a person sends, as the argument of a tool: by unchanged clients of the official SDKs.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { bothEras } from '../../support/peers/clients.ts'
import { type ScriptedServer, scriptedServer } from '../../support/scripted-server.ts'
import { objectAt } from '../../support/server/json.ts'

const image = Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), Buffer.alloc(100_000, 7)])

let server: ScriptedServer
let gateway: LocalGateway

beforeAll(async () => {
  const data = { type: 'string', contentEncoding: 'base64', contentMediaType: 'image/png' }
  const inputSchema = { type: 'object', properties: { data }, required: ['data'] }
  server = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({
        tools: [{ name: 'measure', annotations: { readOnlyHint: true }, inputSchema }],
      }),
      'tools/call': ({ params }) => {
        const bytes = Buffer.from(String(objectAt(params, 'arguments')['data']), 'base64')
        const isSame = bytes.equals(image)
        return {
          content: [{ type: 'text', text: `${bytes.byteLength} bytes, ${isSame ? 'the same' : 'others'}` }],
        }
      },
    },
  )
  gateway = await localGateway({
    features: { references: 'on' },
    upstreams: { images: { url: server.url } },
  })
})
afterAll(async () => {
  await gateway.close()
  await server.close()
})

describe.each(bothEras)('an uploaded image with $title', ({ connect }) => {
  it('reaches a tool that takes base64, without passing through the client', async () => {
    const client = await connect({ transport: 'http', url: gateway.url })
    try {
      const requested = await client.call('request_upload', { name: 'photo.png', types: ['image/*'] })
      const { url, ref } = requested.structured as { url: string; ref: string }
      expect(requested.text).toContain(url)
      // These clients open URLs.
      expect(client.asked).toEqual(['elicitation/create'])
      const before = await client.call('measure', { data: ref })
      expect(before).toMatchObject({
        isError: true,
        text: expect.stringContaining('Nothing has been uploaded'),
      })
      const form = new FormData()
      form.set('file', new File([image], 'photo.png', { type: 'image/png' }))
      const sent = await fetch(url, { method: 'POST', body: form })
      expect(sent.status).toBe(201)
      const measured = await client.call('measure', { data: ref })
      expect(measured).toMatchObject({
        isError: false,
        text: '100008 bytes, the same',
      })
      expect(JSON.stringify([requested, before, measured]).length).toBeLessThan(10_000)
      expect(await client.tools()).toEqual(expect.arrayContaining(['request_upload', 'read_reference']))
    } finally {
      await client.close()
    }
  })
})
