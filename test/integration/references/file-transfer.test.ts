// The draft extension `files` (SEP-2631): who can transfer files, where, and what others see instead.
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { enveloped, mirrorHeaders } from '../../support/client/modern-request.ts'
import { post } from '../../support/client/raw.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { type ScriptedServer, scriptedServer } from '../../support/scripted-server.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

const publicUrl = 'https://gateway.example'
const files = { files: { upload: true, download: true, transports: ['https'] } }
const fileBlock = {
  type: 'file',
  file: { uri: 'mcp-file:1', name: 'report.pdf', mimeType: 'application/pdf', size: 9 },
}

/** A server with a tool that takes files. What it answers to `files/authorizeUpload` is the second argument. */
function fileServer(name: string, upload?: Json): Promise<ScriptedServer> {
  const property = (transferModes?: readonly string[]) => ({
    type: 'string',
    format: 'uri',
    'x-mcp-file': { accept: ['image/*'], ...(transferModes && { transferModes }) },
  })
  const inputSchema = {
    type: 'object',
    properties: {
      any: property(),
      both: property(['inline', 'upload']),
      inline: property(['inline']),
      upload: property(['upload']),
    },
  }
  const annotations = { readOnlyHint: true }
  return scriptedServer(
    { tools: {}, resources: {} },
    {
      'tools/list': () => ({ tools: [{ name: `take_${name}`, annotations, inputSchema }] }),
      'tools/call': ({ params }) => ({
        content: [{ type: 'text', text: JSON.stringify(params['arguments']) }, fileBlock],
      }),
      'resources/read': ({ params }) => ({
        contents: [{ uri: params['uri'], mimeType: 'text/plain', content: { uri: 'mcp-file:2' } }],
      }),
      ...(upload && { 'files/authorizeUpload': () => upload }),
    },
  )
}

const uploadAt = (url: string): Json => ({
  file: { uri: 'mcp-file:3' },
  upload: { transport: 'https', method: 'PUT', url, expiresAt: '2030-01-01T00:00:00Z' },
})

let servers: readonly ScriptedServer[]
let gateway: LocalGateway

beforeAll(async () => {
  servers = await Promise.all([
    fileServer('plain'),
    fileServer('own', uploadAt('https://files.example/up')),
    fileServer('http', uploadAt('http://files.example/up')),
    fileServer('far', uploadAt('https://elsewhere.example/up')),
  ])
  const names = ['plain', 'own', 'http', 'far']
  gateway = await localGateway({
    listen: { public_url: publicUrl },
    features: { confirm: 'off', references: { upload: '1MB', urls: true } },
    upstreams: Object.fromEntries(
      servers.map(({ url }, index) => [
        names[index],
        { url, features: { references: { file_hosts: ['files.example'] } } },
      ]),
    ),
  })
})
afterAll(async () => {
  await gateway.close()
  await Promise.all(servers.map((server) => server.close()))
})

interface Sent {
  readonly capabilities?: Json
  readonly server?: string
}

async function send(method: string, given: Json, { capabilities = files, server }: Sent = {}): Promise<Json> {
  const params = enveloped(given, '2026-07-28', capabilities)
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  const url = server === undefined ? gateway.url : `${gateway.url}/${server}`
  const { text, events } = await post(url, body, mirrorHeaders(method, params, new Map()))
  return JSON.parse(events.flatMap(({ data }) => data ?? []).at(-1) ?? text) as Json
}

async function resultOf(...request: Parameters<typeof send>): Promise<Json> {
  const answer = await send(...request)
  expect(answer).not.toHaveProperty('error')
  return objectAt(answer, 'result')
}

async function errorOf(...request: Parameters<typeof send>): Promise<Json> {
  return objectAt(await send(...request), 'error')
}

/** The URL of a descriptor, at the address where the gateway listens. */
function local(descriptor: Json): string {
  const url = String(descriptor['url'])
  expect(url.startsWith(`${publicUrl}/`)).toBe(true)
  return url.replace(publicUrl, gateway.origin)
}

const png = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex')
const digest = { algorithm: 'sha-256', value: createHash('sha256').update(png).digest('base64url') }
const facts = { name: 'a.png', mimeType: 'image/png', size: png.byteLength, digest }

function put(upload: Json, body: Buffer): Promise<Response> {
  return fetch(local(upload), {
    method: 'PUT',
    body,
    headers: objectAt(upload, 'headers') as Record<string, string>,
  })
}

describe('a client that transfers files', () => {
  it('uploads one, has a tool take it inline, and downloads it', async () => {
    const { file, upload } = (await resultOf('files/authorizeUpload', facts)) as { file: Json; upload: Json }
    expect(file).toEqual({ uri: expect.stringMatching(/^ref:\/\/upload_/), ...facts })
    expect(upload).toMatchObject({
      transport: 'https',
      method: 'PUT',
      headers: { 'content-type': 'image/png' },
    })
    expect((await put(upload, png)).status).toBe(201)
    const called = await resultOf('tools/call', {
      name: 'plain_take_plain',
      arguments: { both: file['uri'] },
    })
    const text = `data:image/png;base64,${png.toString('base64')}`
    expect(called['content']).toEqual([{ type: 'text', text: JSON.stringify({ both: text }) }, fileBlock])
    const authorized = await resultOf('files/authorizeDownload', { uri: file['uri'] })
    expect(authorized['file']).toEqual(file)
    const response = await fetch(local(objectAt(authorized, 'download')))
    expect(Buffer.from(await response.arrayBuffer()).equals(png)).toBe(true)
  })

  it('cannot upload another file than it announced', async () => {
    const { upload } = (await resultOf('files/authorizeUpload', facts)) as { upload: Json }
    const other = Buffer.from(png)
    other[15] = 1
    const refused = await put(upload, other)
    expect([refused.status, await refused.text()]).toEqual([
      400,
      expect.stringContaining('sha256 of the file is not'),
    ])
    expect((await put(upload, Buffer.concat([png, png]))).status).toBe(413)
    expect((await put(upload, png.subarray(0, 12))).status).toBe(400)
    const jpeg = Buffer.concat([Buffer.from('ffd8ffe0', 'hex'), Buffer.alloc(12)])
    expect((await put(upload, jpeg)).status).toBe(400)
    expect((await put(upload, png)).status).toBe(201)
  })

  it('gets -32602 for a file that is foreign, absent, too large or badly described', async () => {
    const download = (uri: unknown) => errorOf('files/authorizeDownload', { uri })
    for (const uri of ['mcp-file:1', 'ref://absent', 'ref://x?rows=1', 5])
      expect(await download(uri)).toMatchObject({ code: -32602 })
    const { file } = (await resultOf('files/authorizeUpload', {})) as { file: Json }
    expect(await download(file['uri'])).toMatchObject({ code: -32602, data: { reason: 'not_uploaded' } })
    expect(await errorOf('files/authorizeUpload', { size: 2 ** 30 })).toMatchObject({
      code: -32602,
      data: { reason: 'too_large', maxSize: 1024 * 1024, actualSize: 2 ** 30 },
    })
    for (const bad of [
      { digest: { algorithm: 'md5', value: 'x' } },
      { mimeType: 'png' },
      { size: -1 },
      { name: '' },
    ])
      expect(await errorOf('files/authorizeUpload', bad)).toMatchObject({ code: -32602 })
  })

  it('is sent to the server that has the method, at its own address, if the URL is permitted', async () => {
    expect(await resultOf('files/authorizeUpload', {}, { server: 'own' })).toMatchObject({
      file: { uri: 'mcp-file:3' },
    })
    for (const server of ['http', 'far'])
      expect(await errorOf('files/authorizeUpload', {}, { server })).toMatchObject({
        data: { code: 'UPSTREAM_ERROR', reason: 'transfer_url' },
      })
    const { file } = await resultOf('files/authorizeUpload', {}, { server: 'plain' })
    expect(file).toMatchObject({ uri: expect.stringContaining('ref://') })
    const { file: together } = await resultOf('files/authorizeUpload', {})
    expect(together).toMatchObject({ uri: expect.stringContaining('ref://') })
  })

  it('sees how servers take files, except for what only they can receive', async () => {
    expect(await modes(files)).toEqual({ any: 'any', both: ['inline', 'upload'], inline: ['inline'] })
    expect(await modes(files, 'plain')).toMatchObject({ upload: ['upload'] })
  })
})

/** The transfer modes of the arguments that are files. */
async function modes(capabilities: Json, server = 'all'): Promise<Json> {
  const at = server === 'all' ? {} : { server }
  const { tools } = await resultOf('tools/list', {}, { capabilities, ...at })
  const tool = (tools as Json[]).find(({ name }) => String(name).endsWith('take_plain')) ?? {}
  const properties = objectAt(objectAt(tool, 'inputSchema'), 'properties')
  return Object.fromEntries(
    Object.entries(properties).flatMap(([name, property]) => {
      const file = (property as Json)['x-mcp-file'] as Json | undefined
      return file ? [[name, file['transferModes'] ?? 'any']] : []
    }),
  )
}

describe('a client that does not transfer files', () => {
  const capabilities = {}

  it('cannot authorize any', async () => {
    for (const method of ['files/authorizeUpload', 'files/authorizeDownload'])
      expect(await errorOf(method, {}, { capabilities })).toMatchObject({ code: -32601 })
  })

  it('sends them inline', async () => {
    const inline = ['inline']
    for (const server of ['all', 'plain'])
      expect(await modes(capabilities, server)).toEqual({ any: inline, both: inline, inline })
  })

  it('gets links in place of files', async () => {
    const called = await resultOf('tools/call', { name: 'plain_take_plain', arguments: {} }, { capabilities })
    const { file } = fileBlock
    expect(called['content']).toEqual([
      { type: 'text', text: '{}' },
      { type: 'resource_link', ...file },
    ])
    const read = await resultOf('resources/read', { uri: 'x:y' }, { capabilities, server: 'plain' })
    expect(read['contents']).toEqual([
      { uri: 'x:y', mimeType: 'text/plain', text: 'The content is the file mcp-file:2.' },
    ])
  })
})

describe('an argument that takes files inline only', () => {
  it('takes a data: URI or a reference, and no other URI', async () => {
    const call = (inline: string) => send('tools/call', { name: 'plain_take_plain', arguments: { inline } })
    expect(objectAt(await call('data:text/plain,x'), 'result')['isError']).not.toBe(true)
    expect(JSON.stringify(await call('mcp-file:1'))).toContain('inline must be a data: URI')
  })
})
