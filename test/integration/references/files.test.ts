// Data as files: a screenshot of one published server is saved by another, rows of a table reach a third, and both without
// passing through the client.
import { createHash } from 'node:crypto'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { chromiumProgram, needsChromium } from '../../support/chromium.ts'
import { foreignFile } from '../../support/foreign.ts'
import { gatewayProgram } from '../../support/gateway-process.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { peerKinds } from '../../support/peers/clients.ts'
import type { PeerClient } from '../../support/peers/client.ts'
import { everything, publishedServer } from '../../support/peers/servers.ts'
import type { Json } from '../../support/server/json.ts'

const filesystem = '@modelcontextprotocol/server-filesystem'
const memory = '@modelcontextprotocol/server-memory'

let root = ''
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-reference-files-')))
  for (const name of ['saved', 'data', 'references']) mkdirSync(join(root, name), { mode: 0o700 })
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

const sum = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex')

function kindOf(title: string) {
  const found = peerKinds.find((kind) => kind.title === title)
  if (!found) throw new Error(`There is no client ${title}.`)
  return found
}

/** The configuration of servers that work with files and JSON. */
function config(more: Json = {}): Json {
  return {
    features: { references: { folder: join(root, 'references') }, confirm: 'off', validate: 'on' },
    upstreams: {
      data: { command: publishedServer(filesystem, join(root, 'data')) },
      disk: { command: publishedServer(filesystem, join(root, 'saved'), join(root, 'references')) },
      graph: {
        command: publishedServer(memory),
        env: { MEMORY_FILE_PATH: join(root, 'memory.jsonl') },
      },
      ...more,
    },
  }
}

async function idOf(client: PeerClient, tool: string, args: Json): Promise<{ uri: string; sha256: string }> {
  const { structured } = await client.call('export_result_ref', { tool, arguments: args })
  const { ref_id: id, checksum } = structured as { ref_id: string; checksum: { value: string } }
  return { uri: `ref://${id}`, sha256: checksum.value }
}

describe('a screenshot of the published browser server', needsChromium, () => {
  let web: Server
  let site = ''
  beforeAll(async () => {
    web = createServer((_request, response) => {
      response.setHeader('content-type', 'text/html').end('<h1 style="font-size: 99px">Hello</h1>')
    })
    await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
    site = `http://127.0.0.1:${(web.address() as AddressInfo).port}`
  })
  afterAll(() => web.close())

  it('is moved into a folder by the published file server, byte for byte', async () => {
    const options = ['--headless', '--isolated', '--no-sandbox', '--executable-path', chromiumProgram]
    const browser = { command: [process.execPath, foreignFile('@playwright/mcp/cli.js'), ...options] }
    const gateway = await localGateway(config({ browser }))
    const client = await kindOf('SDK 2.x (pinned) over http').connect({ transport: 'http', url: gateway.url })
    try {
      await client.call('browser_browser_navigate', { url: site })
      const shot = { type: 'png', scale: 'css' }
      const { uri, sha256 } = await idOf(client, 'browser_browser_take_screenshot', shot)
      const destination = join(root, 'saved/shot.png')
      const moved = await client.call('disk_move_file', { source: `${uri}?as=path`, destination })
      expect(moved).toMatchObject({ isError: false })
      expect(sum(destination)).toBe(sha256)
      expect(readFileSync(destination).subarray(1, 4).toString()).toBe('PNG')
      expect(readdirSync(join(root, 'references'))).toEqual([])
    } finally {
      await client.close()
      await gateway.close()
    }
  }, 120_000)
})

describe('a table', () => {
  let gateway: LocalGateway
  beforeEach(async () => {
    const entities = Array.from({ length: 300 }, (_none, index) => ({
      name: `entity ${index + 1}`,
      entityType: 'row',
      observations: [`number ${index + 1}`],
    }))
    writeFileSync(join(root, 'data/table.json'), JSON.stringify(entities))
    gateway = await localGateway(config())
  })
  afterEach(() => gateway.close())

  it('is given in part to a tool that takes JSON, and as a file to one that reads a path', async () => {
    const client = await kindOf('SDK 1.x over http').connect({ transport: 'http', url: gateway.url })
    try {
      const path = join(root, 'data/table.json')
      const { uri, sha256 } = await idOf(client, 'data_read_text_file', { path })
      expect(sha256).toBe(sum(path))
      const created = await client.call('graph_create_entities', { entities: `${uri}?rows=100-200` })
      expect(created).toMatchObject({ isError: false })
      const graph = readFileSync(join(root, 'memory.jsonl'), 'utf8')
      const names = graph.split('\n').map((line) => (JSON.parse(line) as { name: string }).name)
      expect(names).toEqual(Array.from({ length: 101 }, (_none, index) => `entity ${index + 100}`))
      // No form was chosen: the argument of this tool is a path that it reads.
      const read = await client.call('disk_read_text_file', { path: `${uri}?bytes=0-99` })
      expect(read).toMatchObject({ isError: false, text: readFileSync(path, 'utf8').slice(0, 100) })
      const info = await client.call('disk_get_file_info', { path: uri })
      expect(info.text).toContain(`size: ${readFileSync(path).byteLength}`)
      expect(readdirSync(join(root, 'references'))).toEqual([])
    } finally {
      await client.close()
    }
  })
})

it('a published server downloads data once from the gateway, and what it returns is a file for another', async () => {
  writeFileSync(join(root, 'data/note.txt'), 'a note\n'.repeat(500))
  const gateway = await localGateway(config({ all: { command: publishedServer(everything) } }))
  const client = await kindOf('SDK 2.x (pinned) over http').connect({ transport: 'http', url: gateway.url })
  try {
    const { uri } = await idOf(client, 'data_read_text_file', { path: join(root, 'data/note.txt') })
    const args = { name: 'note.gz', data: `${uri}?as=url`, outputType: 'resource' }
    const { uri: packed, sha256 } = await idOf(client, 'all_gzip-file-as-resource', args)
    const destination = join(root, 'saved/note.gz')
    await client.call('disk_move_file', { source: `${packed}?as=path`, destination })
    expect(sum(destination)).toBe(sha256)
    expect(gunzipSync(readFileSync(destination)).toString()).toBe('a note\n'.repeat(500))
    expect(JSON.stringify(gateway.lines)).not.toContain('sig=')
  } finally {
    await client.close()
    await gateway.close()
  }
})

it('over stdio, a note is moved as a file, and what another process left behind is deleted', async () => {
  const file = join(root, 'gateway.config.yaml')
  writeFileSync(join(root, 'data/note.txt'), 'a note\n'.repeat(50))
  writeFileSync(file, JSON.stringify({ ...config(), store: join(root, 'store') }))
  chmodSync(file, 0o600)
  const [program = process.execPath, ...args] = gatewayProgram()
  const command = [program, ...args, 'stdio', '--config', file]
  const leftover = join(root, 'references/gatehouse-00000000000000000000000000000000')
  mkdirSync(leftover)
  writeFileSync(join(leftover, '.owner'), 'another process')
  utimesSync(leftover, 1, 1)
  const client = await kindOf('SDK 2.x (pinned) over stdio').connect({ transport: 'stdio', command })
  try {
    const { uri, sha256 } = await idOf(client, 'data_read_text_file', { path: join(root, 'data/note.txt') })
    const destination = join(root, 'saved/note.txt')
    const moved = await client.call('disk_move_file', { source: `${uri}?as=path`, destination })
    expect(moved).toMatchObject({ isError: false })
    expect(sum(destination)).toBe(sha256)
    await expect.poll(() => readdirSync(join(root, 'references'))).toEqual([])
  } finally {
    await client.close()
  }
})
