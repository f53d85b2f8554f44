// The errors of the official servers and SDKs, as a client of each era receives them at each address.
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { connect } from '../../support/fake-client.ts'
import { errorAnswers } from '../../support/error-texts.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { codeOf } from '../../support/journey.ts'
import { localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { type ScriptedServer, scriptedServer } from '../../support/scripted-server.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

const clients = ['2024-11-05', '2025-11-25', '2026-07-28'] as const
const addresses = [
  ['/one', '', ''],
  ['', 'one_', 'one+'],
] as const
const missing = 'test://missing'

describe.each(errorAnswers)('%s that responds to %s with %j', (_server, method, error, code) => {
  let server: ScriptedServer
  let gateway: LocalGateway
  beforeAll(async () => {
    const schema = { type: 'object' }
    server = await scriptedServer(
      { tools: {}, prompts: {}, resources: {}, completions: {} },
      {
        'tools/list': () => ({
          tools: [{ name: 'nope', description: 'Returns an error', inputSchema: schema }],
        }),
        'prompts/list': () => ({ prompts: [] }),
        'resources/list': () => ({ resources: [] }),
        [method]: () => ({ error }),
      },
    )
    gateway = await localGateway({ upstreams: { one: { url: server.url }, other: { url: server.url } } })
  })
  afterAll(async () => {
    await gateway.close()
    await server.close()
  })

  it.each(clients.flatMap((revision) => addresses.map((at) => [revision, ...at] as const)))(
    `is mapped to ${code} for a client of %s at /mcp%s`,
    async (revision, path, named, prefix) => {
      const client = await connect({ transport: 'http', url: `${gateway.url}${path}`, revision })
      const uri = `${prefix}${missing}`
      const params: Readonly<Record<typeof method, Json>> = {
        'resources/read': { uri },
        'prompts/get': { name: `${named}nope` },
        'tools/call': { name: `${named}nope`, arguments: {} },
        'completion/complete': {
          ref: { type: 'ref/resource', uri: `${prefix}test://{x}` },
          argument: { name: 'x', value: '' },
        },
      }
      const reply = await client.request(method, params[method])
      await client.close()
      const told = { ...reply.error }
      expect(objectAt(told, 'data')).toMatchObject({
        code,
        message: expect.not.stringContaining('MCP error'),
      })
      const isForbidden = revision === '2026-07-28' && error.code === -32002
      expect(told['code']).toBe(isForbidden ? -32602 : error.code)
      if (path === '/one') expect(told['message']).toBe(error.message)
      if (code === 'RESOURCE_NOT_FOUND') expect(objectAt(told, 'data')['uri']).toBe(uri)
      // Names are those that the client knows.
      const words = String(told['message']).replaceAll(uri, '').replaceAll(`${named}nope`, '')
      if (path === '' && method !== 'tools/call' && method !== 'completion/complete')
        expect(words).not.toMatch(/test:\/\/missing|\bnope\b/)
    },
  )
})

describe('the published servers', () => {
  let gateway: RunningGateway
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-test-')))
  beforeAll(async () => {
    writeFileSync(join(root, 'a.txt'), 'hello')
    gateway = await startGateway({
      features: { confirm: { level: 'none' } },
      upstreams: {
        everything: { command: publishedServer('@modelcontextprotocol/server-everything') },
        files: { command: publishedServer('@modelcontextprotocol/server-filesystem', root) },
      },
    })
  })
  afterAll(async () => {
    await gateway.close()
    rmSync(root, { recursive: true, force: true })
  })

  test.each(clients)('have an unknown resource reported as not found to a client of %s', async (revision) => {
    const client = await connect({ transport: 'http', url: gateway.url, revision })
    const uri = 'everything+demo://resource/static/none.md'
    const { error } = await client.request('resources/read', { uri })
    expect(error).toMatchObject({
      code: -32602,
      message: `MCP error -32602: Resource ${uri} not found`,
      data: { code: 'RESOURCE_NOT_FOUND', uri },
    })
    const { error: prompt } = await client.request('prompts/get', { name: 'everything_none' })
    expect(prompt).toMatchObject({
      code: -32602,
      message: 'MCP error -32602: Prompt everything_none not found',
    })
    await client.close()
  })

  test.each([
    ['read_text_file', { path: '/etc/hostname' }, 'PERMISSION_DENIED'],
    ['read_text_file', { path: join(root, 'none.txt') }, 'RESOURCE_NOT_FOUND'],
    ['read_text_file', { path: root }, 'INVALID_INPUT'],
    ['list_directory', { path: join(root, 'a.txt') }, 'INVALID_INPUT'],
    ['create_directory', { path: join(root, 'a.txt') }, 'CONFLICT'],
    ['edit_file', { path: join(root, 'a.txt'), edits: [{ oldText: 'zzz', newText: 'y' }] }, 'INVALID_INPUT'],
    ['read_text_file', { path: join(root, 'a.txt'), head: 1, tail: 1 }, 'INVALID_INPUT'],
  ])('have a failure of %s(%j) mapped to %s', async (name, args, code) => {
    const client = await connect({ transport: 'http', url: `${gateway.url}/files`, revision: '2025-11-25' })
    const reply = await client.request('tools/call', { name, arguments: args })
    expect(codeOf(reply)).toBe(code)
    await client.close()
  })
})
