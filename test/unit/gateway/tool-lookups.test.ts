// How often a call looks up the tool that it names in the list of its server.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { readJson } from '../../../src/core/json/json.ts'
import { ToolIndex } from '../../../src/upstream/tool-index.ts'
import { localGateway } from '../../support/local-gateway.ts'

const MODERN = '2026-07-28'
const meta = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
}
const serverInfo = { name: 's', version: '1' }
const cacheable = { ttlMs: 0, cacheScope: 'private' }
const results: Readonly<Record<string, object>> = {
  'server/discover': { supportedVersions: [MODERN], capabilities: { tools: {} }, ...cacheable },
  'tools/list': {
    tools: ['get_text', 'get.text'].map((name) => ({
      name,
      inputSchema: { type: 'object', properties: { id: { type: 'string', 'x-mcp-header': 'Id' } } },
      annotations: { readOnlyHint: true },
    })),
    ...cacheable,
  },
  'tools/call': { content: [{ type: 'text', text: 'done' }] },
}

/** A server of 2026-07-28 over HTTP. */
function startServer(): Promise<Server> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { id, method } = readJson(Buffer.concat(chunks).toString()) as { id: number; method: string }
      const found = results[method]
      const result = found && {
        ...found,
        resultType: 'complete',
        _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo },
      }
      response.writeHead(found ? 200 : 404, { 'content-type': 'application/json' })
      response.end(
        JSON.stringify({
          jsonrpc: '2.0',
          id,
          ...(result ? { result } : { error: { code: -32601, message: 'no' } }),
        }),
      )
    })
  })
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)))
}

async function callTool(url: string, tool: string): Promise<unknown> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': MODERN,
      'mcp-method': 'tools/call',
      'mcp-name': tool,
      'mcp-param-id': 'a',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: tool, arguments: { id: 'a' }, _meta: meta },
    }),
  })
  return response.json()
}

describe('how often a call of a client of 2026-07-28 looks its tool up', () => {
  let server: Server
  let url = ''
  beforeAll(async () => {
    server = await startServer()
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
  })
  afterAll(() => void server.close())

  it.each([
    ['once with the features that are on by default', {}, { names: ['one'], expected: 1 }],
    ['once without features', { features: 'none' }, { names: ['one'], expected: 1 }],
    ['once more where the server of the name has to be found', {}, { names: ['one', 'two'], expected: 2 }],
  ])('%s', async (_often, config, { names, expected }) => {
    const upstreams = Object.fromEntries(names.map((name) => [name, { url, trust: true }]))
    const gateway = await localGateway({ ...config, upstreams })
    const [path, prefix] = names.length === 1 ? ['/one', ''] : ['', 'one_']
    const call = (tool: string): Promise<unknown> => callTool(`${gateway.url}${path}`, prefix + tool)
    try {
      await call('get_text')
      const lookup = vi.spyOn(ToolIndex.prototype, 'of')
      for (const tool of ['get_text', 'get.text']) {
        lookup.mockClear()
        expect(await call(tool)).toMatchObject({ result: { content: [{ text: 'done' }] } })
        expect(lookup).toHaveBeenCalledTimes(expected)
      }
      lookup.mockRestore()
    } finally {
      await gateway.close()
    }
  })
})
