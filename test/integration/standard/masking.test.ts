import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { caller, corporate, localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { scriptedServer, type ScriptedServer, tokenOf } from '../../support/scripted-server.ts'
import type { Json } from '../../support/server/json.ts'

const people = Array.from({ length: 50 }, (_each, index) => ({
  id: index,
  email: `person${index}@example.com`,
  age: 20 + index,
}))
const outputSchema = {
  type: 'object',
  properties: {
    people: {
      type: 'array',
      items: {
        type: 'object',
        properties: {
          id: { type: 'integer' },
          email: { type: 'string' },
          age: { type: ['integer', 'null'] },
        },
        required: ['id', 'email', 'age'],
      },
    },
  },
  required: ['people'],
}
const locked = { type: 'object', properties: { age: { type: 'integer' } }, required: ['age'] }
const tool = (name: string, more: Json = {}): Json => ({
  name,
  description: `Returns ${name}.`,
  inputSchema: { type: 'object' },
  ...more,
})

let server: ScriptedServer
let gateway: LocalGateway
let strict: LocalGateway
const clients: FakeClient[] = []
beforeAll(async () => {
  const answers: Readonly<Record<string, Json>> = {
    people: { content: [{ type: 'text', text: JSON.stringify({ people }) }], structuredContent: { people } },
    age: { content: [{ type: 'text', text: 'done' }], structuredContent: { age: 41 } },
    failing: { isError: true, content: [{ type: 'text', text: 'No account of person1@example.com' }] },
  }
  server = await scriptedServer(
    { tools: {}, resources: {}, prompts: {} },
    {
      'tools/list': () => ({
        tools: [
          tool('people', { outputSchema }),
          tool('age', { outputSchema: locked }),
          tool('failing'),
          tool('refused'),
          tool('slow'),
        ],
      }),
      'tools/call': (asked) => {
        const name = String(asked.params['name'])
        if (name === 'refused') return { error: { code: -32000, message: 'person1@example.com is locked' } }
        if (name !== 'slow') return answers[name]
        const progressToken = tokenOf(asked)
        asked.say({
          method: 'notifications/progress',
          params: { progressToken, progress: 1, message: 'at person1@example.com' },
        })
        asked.finish({ content: [{ type: 'text', text: 'done' }] })
        return undefined
      },
      'resources/read': ({ params }) => ({ contents: [{ uri: params['uri'], text: 'person1@example.com' }] }),
      'prompts/get': () => ({
        messages: [{ role: 'user', content: { type: 'text', text: 'Write to person1@example.com' } }],
      }),
    },
  )
  const rules = [
    { pattern: String.raw`[\w.+-]+@[\w-]+\.[\w.]+`, replace: '[email]' },
    { path: '$.people[*].age' },
    { path: '$.age', tools: 'age' },
  ]
  const config = { upstreams: { one: { url: server.url, features: { mask: { rules } } } } }
  gateway = await localGateway({ ...config, limits: { result: '4KB' } })
  strict = await localGateway({ ...corporate, ...config })
})
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close().catch(() => undefined)))
  await Promise.all([gateway.close(), strict.close()])
  await server.close()
})

async function clientOf(to: LocalGateway, revision: string): Promise<FakeClient> {
  const client = await connect({
    transport: 'http',
    url: to.url,
    revision: revision === '2026-07-28' ? revision : '2025-11-25',
    headers: caller,
  })
  clients.push(client)
  return client
}

describe.each(['2025-11-25', '2026-07-28'])('to a client of %s', (revision) => {
  it('C176 C231 personal data is masked in results, resources, prompts, errors and progress', async () => {
    for (const each of [gateway, strict]) {
      const client = await clientOf(each, revision)
      const uri = each === strict ? 'one://it//1' : 'it://1'
      const asked = [
        ...['people', 'failing', 'refused', 'slow'].map((name) => ['tools/call', { name }] as const),
        ['resources/read', { uri }] as const,
        ['prompts/get', { name: 'p' }] as const,
      ]
      for (const [method, params] of asked) {
        const reply = await client.request(method, params, { onProgress: () => undefined })
        expect(JSON.stringify(reply)).toContain('[email]')
        expect(JSON.stringify([reply, client.notes])).not.toContain('@example.com')
      }
    }
    expect(JSON.stringify([gateway.lines, strict.lines])).not.toContain('@example.com')
  })

  it('C176 a truncated result is masked too', async () => {
    const client = await clientOf(gateway, revision)
    const { result } = await client.request('tools/call', { name: 'people' })
    expect(result?.['_meta']).toMatchObject({
      'dev.gatehouse/masked': 100,
      'dev.gatehouse/truncated': expect.anything(),
    })
    expect(JSON.stringify(result)).not.toMatch(/age\\?":\d/)
    expect(result?.['structuredContent']).toEqual({
      people: expect.arrayContaining([{ id: 0, email: '[email]', age: null }]),
    })
  })

  it('C176 C231 a result that cannot be masked is withheld', async () => {
    const client = await clientOf(gateway, revision)
    const { result } = await client.request('tools/call', { name: 'age' })
    expect(result).toMatchObject({
      isError: true,
      _meta: { 'dev.gatehouse/error': { code: 'UPSTREAM_ERROR' } },
    })
    // The id of the request has digits of its own.
    expect(JSON.stringify(result).replaceAll(/"[0-9a-f]{8}-\d+"/g, '')).not.toContain('41')
  })

  it('C151 structured content is also sent as text, masked alike, in the corporate profile only', async () => {
    const { result } = await (await clientOf(strict, revision)).request('tools/call', { name: 'people' })
    const text = JSON.stringify(result?.['structuredContent'])
    expect(result?.['content']).toEqual([{ type: 'text', text }])
    const other = await (await clientOf(gateway, revision)).request('tools/call', { name: 'failing' })
    expect(other.result?.['content']).toHaveLength(1)
  })
})
