import { afterAll, beforeAll, expect, test } from 'vitest'
import { connect } from '../../support/fake-client.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { scriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { isObject, type Json } from '../../support/server/json.ts'

// A server that describes its entries itself, and a configuration that describes its resources.
const create = {
  name: 'create_project',
  inputSchema: { type: 'object' },
  annotations: { idempotentHint: false },
  dashdash: {
    category: 'planning',
    apiEquivalent: 'POST /api/projects',
    // Not said by a server that is not trusted.
    operationType: 'read',
    rateLimit: '1000000/second',
  },
}
const uri = 'acme://projects/prj_1'

let server: ScriptedServer
let gateway: LocalGateway
beforeAll(async () => {
  server = await scriptedServer(
    {
      tools: {},
      resources: {},
      experimental: { dashdash: { accessLevel: 'full', install: { npm: 'acme' } } },
    },
    {
      'tools/list': () => ({ tools: [create] }),
      'resources/list': () => ({ resources: [{ uri, name: 'one', dashdash: { resourceType: 'own' } }] }),
      'resources/templates/list': () => ({
        resourceTemplates: [{ uriTemplate: 'acme://projects/{id}', name: 'each' }],
      }),
    },
  )
  const resources = {
    'acme://projects/*': {
      type: 'project',
      refreshable: false,
      cache: '5m',
      web: 'https://acme.com/app/projects/{1}',
      api: 'GET /api/projects/{1}',
    },
  }
  const tools = { create_project: { undo: 'none', category: 'projects', cli: 'acme project create' } }
  gateway = await localGateway({ upstreams: { acme: { url: server.url, tools, resources } } })
})
afterAll(async () => {
  await gateway.close()
  await server.close()
})

test.each(['2025-11-25', '2026-07-28'] as const)(
  'entries have the words of the server, of the configuration, and of the gateway, in this order, in %s',
  async (revision) => {
    const client = await connect({ transport: 'http', url: gateway.url, revision })
    const objectIn = async (method: string, key: string): Promise<Json> => {
      const { result } = await client.request(method)
      const entries: unknown = result?.[key]
      const [entry] = Array.isArray(entries) ? entries.filter(isObject) : []
      return isObject(entry?.['dashdash']) ? entry['dashdash'] : {}
    }
    expect(await objectIn('tools/list', 'tools')).toEqual({
      category: 'planning',
      operationType: 'write',
      idempotent: false,
      idempotentWithKey: true,
      sideEffects: ['creates a project in acme'],
      reversible: false,
      cliEquivalent: 'acme project create',
      apiEquivalent: 'POST /api/projects',
    })
    const described = { refreshable: false, cacheDuration: 300 }
    expect(await objectIn('resources/list', 'resources')).toEqual({
      ...described,
      resourceType: 'own',
      webEquivalent: 'https://acme.com/app/projects/prj_1',
      apiEquivalent: 'GET /api/projects/prj_1',
    })
    expect(await objectIn('resources/templates/list', 'resourceTemplates')).toEqual({
      ...described,
      resourceType: 'project',
      webEquivalent: 'https://acme.com/app/projects/{id}',
      apiEquivalent: 'GET /api/projects/{id}',
    })
    await client.close()
  },
)

test('a client of the gateway reads what a server says of itself, and installs the gateway', async () => {
  const client = await connect({ transport: 'http', url: gateway.url, revision: '2025-11-25' })
  const { experimental } = Object(client.initialized['capabilities'])
  expect(experimental).toMatchObject({
    dashdash: { accessLevel: 'full', identity: { name: 'acme' }, install: { url: gateway.url } },
  })
  expect(client.initialized['dashdash']).toMatchObject({ accessLevel: 'interact' })
  await client.close()
})
