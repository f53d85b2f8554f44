import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernHttp,
} from '@modelcontextprotocol/client'
import { StdioClientTransport as ModernStdio } from '@modelcontextprotocol/client/stdio'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { gatewayProgram } from '../../support/gateway-process.ts'
import { type RunningGateway, runCommand, startGateway } from '../../support/gateway.ts'
import { configFile } from '../../support/gateway-with.ts'
import { idsOf, PAGES, pagingServer } from '../../support/paging-server.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'

const STREAM = 'dev.gatehouse/stream'
const CHUNK = 'dev.gatehouse/chunk'
const OPERATION = 'dev.gatehouse/operation_id'

interface Caller {
  /** Calls a tool, with progress if a listener is given. */
  call(name: string, args: Json, meta?: Json, onProgress?: (params: Json) => void): Promise<Json>
  close(): Promise<void>
}

type Way = { readonly url: string; readonly isSse?: true } | { readonly command: readonly string[] }

async function first(way: Way): Promise<Caller> {
  const client = new Client({ name: 'peer', version: '1.0.0' })
  const transport = transportTo(way)
  await client.connect(transport)
  // It validates results against the listed output schemas.
  await client.listTools()
  const wire = isSynchronous(way) ? progressOf(transport) : undefined
  return callerOf(client, wire, (params, options) => client.callTool(params, CallToolResultSchema, options))
}

/** A caller by a client of either SDK. */
function callerOf(
  client: Pick<Caller, 'close'>,
  wire: Wire | undefined,
  callTool: (params: { name: string; arguments: Json; _meta?: Json }, options: object) => Promise<object>,
): Caller {
  return {
    call: async (name, args, meta, onProgress) => {
      const params = { name, arguments: args, ...(meta && { _meta: meta }) }
      return Object(await callTool(params, progressOptions(onProgress, wire)))
    },
    close: () => client.close(),
  }
}

function transportTo(way: Way): Transport {
  if ('command' in way) return new StdioClientTransport({ ...commandOf(way.command), stderr: 'ignore' })
  const url = new URL(way.url)
  return way.isSse ? new SSEClientTransport(url) : new StreamableHTTPClientTransport(url)
}

function second(mode: 'legacy' | { readonly pin: string }): (way: Way) => Promise<Caller> {
  return async (way) => {
    const client = new ModernClient({ name: 'peer', version: '1.0.0' }, { versionNegotiation: { mode } })
    const transport =
      'url' in way
        ? new ModernHttp(new URL(way.url))
        : new ModernStdio({ ...commandOf(way.command), stderr: 'ignore' })
    await client.connect(transport)
    await client.listTools()
    const wire = isSynchronous(way) ? progressOf(transport) : undefined
    return callerOf(client, wire, (params, options) => client.callTool(params, options))
  }
}

type OnProgress = (params: Json) => void

/**
 * Whether the SDK takes several messages in one turn. It then forgets the listener of a call whose response comes with
 * its last progress, so that the test reads progress before the SDK gets it.
 */
function isSynchronous(way: Way): boolean {
  return 'command' in way || way.isSse === true
}

/** The listener for the progress that a transport receives. */
interface Wire {
  listener?: OnProgress | undefined
}

function progressOf(transport: { onmessage?: unknown }): Wire {
  const wire: Wire = {}
  const { onmessage } = transport
  transport.onmessage = (message: unknown, ...rest: unknown[]) => {
    const isProgress = isObject(message) && message['method'] === 'notifications/progress'
    if (isProgress) wire.listener?.(objectAt(message, 'params'))
    if (typeof onmessage === 'function') onmessage.call(transport, message, ...rest)
  }
  return wire
}

/** The options of a call with a listener for progress. */
function progressOptions(
  onProgress: OnProgress | undefined,
  wire: Wire | undefined,
): { onprogress?: (params: object) => void } {
  if (wire) wire.listener = onProgress
  if (!onProgress) return {}
  return {
    onprogress: (params) => {
      if (!wire) onProgress({ ...params })
    },
  }
}

function commandOf([command = '', ...args]: readonly string[]) {
  return { command, args: [...args] }
}

let server: Awaited<ReturnType<typeof pagingServer>>
let gateway: RunningGateway
let config: Awaited<ReturnType<typeof configFile>>
let served: Json
beforeAll(async () => {
  server = await pagingServer()
  const upstream = { url: server.url, revision: '2025-11-25', transport: 'streamable' }
  served = {
    store: 'memory',
    listen: { legacy_sse: true },
    features: { mask: { rules: [{ path: '$.items[*].mail' }] }, confirm: { wait: 'off' } },
    upstreams: {
      pages: upstream,
      all: { ...upstream, features: { stream: { collect: 'on', max_pages: 3 } } },
    },
  }
  gateway = await startGateway(served)
  config = await configFile({ ...served, upstreams: { pages: upstream } })
})
afterAll(async () => {
  await gateway.close()
  await config.remove()
  await server.close()
})

/** A listener for chunks, and those it got. */
function chunkListener() {
  const chunks: Json[] = []
  const values: unknown[] = []
  return {
    chunks,
    values,
    hear: (params: Json): void => {
      const chunk = objectAt(params, '_meta')[CHUNK]
      values.push(params['progress'])
      if (isObject(chunk)) chunks.push(chunk)
    },
  }
}

function idsIn(result: Json): unknown[] {
  const { items } = objectAt(result, 'structuredContent')
  return Array.isArray(items) ? items.map((item: Json) => item['id']) : []
}

const about = (result: Json): Json => objectAt(objectAt(result, '_meta'), STREAM)

const stdio = (): Way => ({ command: [...gatewayProgram(), 'stdio', '--config', config.path] })
const sse = (): Way => ({ url: `${gateway.origin}/sse/pages`, isSse: true })
const http = (): Way => ({ url: `${gateway.url}/pages` })

describe.each([
  ['SDK 1.x over HTTP', first, http],
  ['SDK 1.x over HTTP+SSE', first, sse],
  ['SDK 1.x over stdio', first, stdio],
  ['SDK 2.x of an older revision over HTTP', second('legacy'), http],
  ['SDK 2.x of 2026-07-28 over HTTP', second({ pin: '2026-07-28' }), http],
  ['SDK 2.x of 2026-07-28 over stdio', second({ pin: '2026-07-28' }), stdio],
] as const)('a client of the %s', (_title, connect, way) => {
  let client: Caller
  beforeAll(async () => {
    client = await connect(way())
  })
  afterAll(() => client.close())

  it('gets every page as a chunk in order, and all of them as the result', async () => {
    const { chunks, values, hear } = chunkListener()
    const result = await client.call('list_items', {}, { [STREAM]: true }, hear)
    expect(idsIn(result)).toEqual(idsOf())
    expect(objectAt(result, 'structuredContent')['nextCursor']).toBeNull()
    expect(about(result)).toEqual({ pages: PAGES, items: idsOf().length, complete: true })
    expect(chunks.map(({ type, sequence, is_final: isFinal }) => [type, sequence, isFinal])).toEqual(
      Array.from({ length: PAGES }, (_each, index) => ['stream_chunk', index, index === PAGES - 1]),
    )
    expect(chunks.flatMap((chunk) => idsIn({ structuredContent: chunk['data'] }))).toEqual(idsOf())
    expect(new Set(chunks.map((chunk) => chunk['operation_id'])).size).toBe(1)
    expect(typeof chunks[0]?.['operation_id']).toBe('string')
    expect(objectAt(result, '_meta')[OPERATION]).toEqual(expect.any(String))
    expect(values).toEqual(values.toSorted((one, other) => Number(one) - Number(other)))
  })

  it('continues from the token of a chunk, with the call and with its operation', async () => {
    const { chunks, hear } = chunkListener()
    await client.call('list_items', {}, { [STREAM]: true }, hear)
    const { checkpoint_token: token, operation_id: id } = chunks[2] ?? {}
    const rest = await client.call('list_items', {}, { [STREAM]: { checkpoint_token: token } })
    expect(idsIn(rest)).toEqual(idsOf(3))
    const resumed = await client.call('resume_operation', { operation_id: id, checkpoint_token: token })
    expect(idsIn(resumed)).toEqual(idsOf(3))
    expect(about(resumed)).toMatchObject({ pages: 2, complete: true })
    const replayed = await client.call('resume_operation', { operation_id: id })
    expect(idsIn(replayed)).toEqual(idsOf())
    const forged = await client.call('resume_operation', { operation_id: id, checkpoint_token: 'forged' })
    expect(forged).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('Checkpoint not found') }],
    })
  })

  it('gets what there is if a page fails, and the reason', async () => {
    const { chunks, hear } = chunkListener()
    const result = await client.call('list_items', { fail_at: 2 }, { [STREAM]: true }, hear)
    expect(idsIn(result)).toEqual(idsOf(0, 2))
    expect(about(result)).toMatchObject({ stopped_by: 'page_failed', failed_page: 3, complete: false })
    expect(JSON.stringify(result['content'])).toContain('page 3 failed: The index is being rebuilt.')
    expect(chunks.at(-1)).toMatchObject({ sequence: 2, is_final: true, checkpoint_token: expect.any(String) })
  })
})

describe('pages of a server', () => {
  let client: Caller
  let everywhere: Caller
  beforeAll(async () => {
    client = await first(http())
    everywhere = await first({ url: `${gateway.url}/all` })
  })
  afterAll(async () => {
    await client.close()
    await everywhere.close()
  })
  let before = 0
  beforeEach(() => {
    before = server.calls().length
  })

  it('are collected from texts that are JSON, which keep their form', async () => {
    const result = await client.call('list_texts', {}, { [STREAM]: true })
    const { content } = result as { content: { text: string }[] }
    expect(content).toHaveLength(1)
    expect(JSON.parse(content[0]?.text ?? '')).toMatchObject({ items: idsOf().map((id) => ({ id })) })
  })

  it('are masked, in chunks and in the result', async () => {
    const said: unknown[] = []
    const result = await client.call(
      'list_items',
      { mail: true },
      { [STREAM]: true },
      (each) => void said.push(each),
    )
    expect(idsIn(result)).toEqual(idsOf())
    expect(JSON.stringify([result, said])).not.toContain('@example.com')
  })

  it('are collected for every caller if the server is configured for it, up to its limit', async () => {
    const result = await everywhere.call('list_items', {})
    expect(idsIn(result)).toEqual(idsOf(0, 3))
    expect(about(result)).toMatchObject({
      pages: 3,
      stopped_by: 'max_pages',
      checkpoint_token: expect.any(String),
    })
    expect(idsIn(await client.call('list_items', {}))).toEqual(idsOf(0, 1))
  })

  it('are collected at the address of all servers, too, and resumed there', async () => {
    const together = await first({ url: gateway.url })
    const { chunks, hear } = chunkListener()
    const result = await together.call('pages_list_items', {}, { [STREAM]: true }, hear)
    expect(idsIn(result)).toEqual(idsOf())
    const { operation_id: id, checkpoint_token: token } = chunks[3] ?? {}
    const rest = await together.call('pages_list_items', {}, { [STREAM]: { checkpoint_token: token } })
    const resumed = await together.call('resume_operation', { operation_id: id, checkpoint_token: token })
    expect([idsIn(rest), idsIn(resumed)]).toEqual([idsOf(4), idsOf(4)])
    await together.close()
  })

  it('of a tool that writes are never collected', async () => {
    const result = await client.call('delete_items', {}, { [STREAM]: true, 'dev.gatehouse/confirm': true })
    expect(server.calls().length - before).toBeLessThanOrEqual(1)
    expect(JSON.stringify(result)).not.toContain('"complete":true')
  })

  it('can be collected according to the documents, and only those', async () => {
    const manifest = (await (await fetch(`${gateway.origin}/capabilities?upstream=pages`)).json()) as Json
    const listed = Array.isArray(manifest['tools']) ? (manifest['tools'] as Json[]) : []
    const streaming = listed.filter((tool) => tool['supports_streaming'] === true).map(({ name }) => name)
    expect(streaming).toContain('list_items')
    expect(streaming).not.toContain('delete_items')
  })

  it('are part of what explain prints of a tool that reads', async () => {
    const { stdout } = await runCommand(['explain', 'pages', 'list_items', '--config', config.path])
    expect(stdout).toMatch(
      /^ {2}pages +collected on request \(by cursor\), if a result says that there are more$/m,
    )
    const { stdout: deleting } = await runCommand([
      'explain',
      'pages',
      'delete_items',
      '--config',
      config.path,
    ])
    expect(deleting).not.toContain('collected on request')
  })
})
