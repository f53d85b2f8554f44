import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernTransport,
} from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { caller, corporate, localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'

const folder = mkdtempSync(join(tmpdir(), 'gatehouse-published-'))
let gateway: LocalGateway
beforeAll(async () => {
  writeFileSync(join(folder, 'a.txt'), 'alpha')
  const command = publishedServer('@modelcontextprotocol/server-filesystem', folder)
  gateway = await localGateway({ ...corporate, upstreams: { files: { command } } })
})
afterAll(async () => {
  await gateway.close()
  rmSync(folder, { recursive: true, force: true })
})

const read = { name: 'read_text_file', arguments: { path: join(folder, 'a.txt') } }

it('C120 C153 C167 a client of SDK 1.x reads the completed and published texts, and calls tools as before', async () => {
  const client = new Client({ name: 'test', version: '1.0.0' })
  const url = new URL(gateway.url)
  const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers: caller } })
  await client.connect(transport)
  const { tools } = await client.listTools()
  const writing = tools.find(({ name }) => name === 'write_file')
  expect(writing).toMatchObject({
    title: expect.any(String),
    description: expect.stringMatching(/^Risk: high/m),
  })
  expect(await client.callTool(read)).toMatchObject({ structuredContent: { content: 'alpha' } })
  const brief = await client.getPrompt({ name: 'agent_brief' })
  expect(brief.messages).toHaveLength(1)
  const { contents } = await client.readResource({ uri: 'use://auth' })
  expect(contents[0]).toMatchObject({ mimeType: 'text/markdown' })
  await client.close()
})

it('C120 C154 C169 a client of SDK 2.x reads the completed and published texts, and calls tools as before', async () => {
  const client = new ModernClient({ name: 'test', version: '1.0.0' })
  await client.connect(new ModernTransport(new URL(gateway.url), { requestInit: { headers: caller } }))
  const { tools } = await client.listTools()
  expect(tools.find(({ name }) => name === 'write_file')?.description).toMatch(/^Risk: high/m)
  expect(await client.callTool(read)).toMatchObject({ structuredContent: { content: 'alpha' } })
  expect((await client.getPrompt({ name: 'agent_prompt' })).messages).toHaveLength(1)
  expect((await client.readResource({ uri: 'doc://readme' })).contents).toHaveLength(1)
  await client.close()
})
