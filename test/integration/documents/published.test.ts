import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { isObject } from '../../../src/core/json/json.ts'
import { canary, fiveServers, names } from '../../support/five-servers.ts'
import type { RunningGateway } from '../../support/gateway.ts'
import { hasSchema, schemaText } from '../../support/published-schemas.ts'

const schema = 'proposals/service-manifest.schema.json'
const everywhere = [undefined, ...names] as const
const DASHDASH = 'dev.gatehouse/dashdash'
const MANIFEST = 'dev.gatehouse/manifest'

let folder = ''
let gateway: RunningGateway
let origin = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'gatehouse-documents-'))
  gateway = await fiveServers(folder)
  origin = new URL(gateway.url).origin
}, 60_000)
afterAll(async () => {
  await gateway.close()
  await rm(folder, { recursive: true, force: true })
})

const sections = [
  ...['When to Use', 'Quick Reference', 'Installation', 'Authentication', 'Rate Limits', 'Error Handling'],
  ...['Tool Reference', 'Best Practices'],
]

const at = (name: string | undefined): string => (name === undefined ? '' : `/${name}`)

async function read(path: string, headers: Readonly<Record<string, string>> = {}) {
  const response = await fetch(`${origin}${path}`, { headers })
  const text = await response.text()
  return { response, text, status: response.status }
}

describe.each(everywhere)('the documents of %s', (name) => {
  test.skipIf(!hasSchema(schema))('include a manifest that fits its schema', async () => {
    const { text } = await read(`/capabilities${at(name)}`)
    const fits = new Ajv2020({ strict: false, formats: { uri: true, 'date-time': true } }).compile(
      JSON.parse(schemaText(schema)),
    )
    const manifest = JSON.parse(text)
    expect([fits(manifest), fits.errors]).toEqual([true, null])
    expect(manifest.server.name).toBe(name ?? 'gatehouse')
    const known = new Set(manifest.tools.map((tool: { name: string }) => tool.name))
    const granted = (manifest.auth.scopes ?? []).flatMap((scope: { grants: string[] }) => scope.grants)
    expect(granted.filter((tool: string) => !known.has(tool))).toEqual([])
    expect(known.size).toBeGreaterThan(5)
  })

  test('include a guide with its front matter and required sections', async () => {
    const { text, response } = await read(`/ai-help${at(name)}`)
    expect(response.headers.get('content-type')).toBe('text/markdown; charset=utf-8')
    const [, matter = ''] = /^---\n([\s\S]*?)\n---\n/.exec(text) ?? []
    const front = parse(matter)
    expect(front).toMatchObject({ name: name ?? 'gatehouse', 'spec-version': '0.2.0' })
    for (const key of ['description', 'spec-url', 'access-level', 'cli-url', 'api-url', 'web-url'])
      expect([key, front[key]]).toEqual([key, expect.stringMatching(/\S/)])
    for (const heading of sections) expect(text).toContain(`\n## ${heading}\n`)
  })

  test('include the guide as JSON, complete and by section', async () => {
    const whole = JSON.parse((await read(`/ai-help${at(name)}?format=json`)).text)
    expect(whole.metadata.specVersion).toBe('0.2.0')
    expect(whole.sections.whenToUse.length).toBeGreaterThan(0)
    const part = JSON.parse((await read(`/ai-help${at(name)}?format=json&section=Quick%20Reference`)).text)
    expect(Object.keys(part.sections)).toEqual(['quickReference'])
  })

  test('include a SKILL.md that names its folder', async () => {
    const { text, status } = await read(`/skills/${name ?? 'gatehouse'}/SKILL.md`)
    expect(status).toBe(200)
    const [, matter = ''] = /^---\n([\s\S]*?)\n---\n/.exec(text) ?? []
    expect(parse(matter).name).toBe(name ?? 'gatehouse')
  })

  test('include a card that names the endpoint and no tool', async () => {
    const { text, response } = await read(`/mcp${at(name)}/server-card`)
    expect(response.headers.get('content-type')).toBe('application/mcp-server-card+json')
    const card = JSON.parse(text)
    expect(card.remotes[0].url).toBe(`${origin}/mcp${at(name)}`)
    expect(card).not.toHaveProperty('tools')
  })
})

test('no secret of the configuration is in any document', async () => {
  const paths = everywhere.flatMap((name) => [
    `/capabilities${at(name)}`,
    `/ai-help${at(name)}`,
    `/ai-help${at(name)}?format=json`,
    `/skills/${name ?? 'gatehouse'}/SKILL.md`,
    `/mcp${at(name)}/server-card`,
  ])
  const texts = await Promise.all([...paths, '/llms.txt', '/llms-full.txt'].map(read1))
  expect(texts.filter((text) => text.includes(canary))).toEqual([])
  expect(texts.join('')).not.toContain('NOTION_TOKEN')
})

async function read1(path: string): Promise<string> {
  return (await read(path)).text
}

test('llms.txt and its alias are the same bytes, and the front page links to them', async () => {
  const [short, twin, full] = await Promise.all(
    ['/llms.txt', '/.well-known/llms.txt', '/llms-full.txt'].map((path) => read(path)),
  )
  expect(short?.text).toBe(twin?.text)
  expect(short?.response.headers.get('content-type')).toBe('text/markdown; charset=utf-8')
  // By llmstxt.org: a title, a quoted summary, and sections.
  expect(short?.text).toMatch(
    /^---\n[^]*?\n---\n\n# \S.*\n\n> \S[^]*\n## When to Use\n[^]*\n## Quick Reference\n/,
  )
  for (const name of names) expect(short?.text).toContain(`**${name}**`)
  expect(full?.text.length).toBeGreaterThan(short?.text.length ?? 0)
  const { response } = await read('/')
  expect(response.headers.get('link')).toBe('</llms.txt>; rel="llms-help"')
})

test('an unchanged document is answered with 304', async () => {
  const { response, text } = await read('/capabilities/files')
  const etag = response.headers.get('etag') ?? ''
  expect(response.headers.get('cache-control')).toBe('public, max-age=60')
  expect(response.headers.get('vary')).toBe('Origin, Authorization, Cookie, X-MCP-Session-Token')
  expect(await read('/capabilities/files', { 'if-none-match': etag })).toMatchObject({
    status: 304,
    text: '',
  })
  expect((await read('/capabilities/files', { 'if-none-match': '"other"' })).status).toBe(200)
  expect((await read('/capabilities?upstream=files')).text).toBe(text)
})

test('a request for an unknown section is refused with the known sections', async () => {
  const { status, text } = await read('/ai-help?section=nonsense')
  expect(status).toBe(400)
  expect(JSON.parse(text).error).toMatchObject({ code: -32602 })
  expect(text).toContain('quickReference')
  expect((await read('/ai-help/nobody')).status).toBe(404)
})

test.each([
  ['/.well-known/ai-catalog.json', 'application/ai-catalog+json'],
  ['/.well-known/mcp/catalog.json', 'application/json'],
])('the catalog at %s links to a card of each server', async (path, type) => {
  const { text, response } = await read(path)
  expect(response.headers.get('content-type')).toBe(type)
  const { specVersion, entries } = JSON.parse(text)
  expect(specVersion).toBe('1.0')
  expect(entries).toHaveLength(6)
  const cards = await Promise.all(entries.map((entry: { url: string }) => fetch(entry.url)))
  expect(cards.map(({ status }) => status)).toEqual(cards.map(() => 200))
})

const modes = ['legacy', { pin: '2026-07-28' }] as const

async function connected(mode: (typeof modes)[number], path: string): Promise<Client> {
  // The SDK drops top-level extension members; _meta contains them for clients that request it.
  const capabilities = { extensions: { [DASHDASH]: {} } }
  const client = new Client(
    { name: 'reader', version: '1.0.0' },
    { capabilities, versionNegotiation: { mode } },
  )
  await client.connect(new StreamableHTTPClientTransport(new URL(`${origin}${path}`)))
  return client
}

describe.each(modes)('the skills client of the SDK in era %o', (mode) => {
  test.each(everywhere)('lists, gets, reads and verifies the skill of %s', async (name) => {
    const client = await connected(mode, `/mcp${at(name)}`)
    const skills = new SkillsClient(client)
    expect(skills.supported).toBe(true)
    const { skills: listed } = await skills.list()
    expect(listed.map(({ frontmatter }) => frontmatter.name)).toEqual(
      name === undefined ? ['gatehouse', ...names] : [name],
    )
    for (const skill of listed) {
      const file = await skills.read(skill)
      expect(file).toMatchObject({ verified: true, frontmatter: skill.frontmatter })
      const [{ digest } = { digest: '' }] = Array.isArray(skill.resources) ? skill.resources : []
      expect(digest).toBe(`sha256:${createHash('sha256').update(file.bytes).digest('hex')}`)
      expect((await skills.get(skill.uri)).skill).toEqual(skill)
    }
    await expect(skills.get('skill://nobody/SKILL.md')).rejects.toMatchObject({ code: -32602 })
    await client.close()
  })

  test('all descriptions of a server are in the places that SDK clients read', async () => {
    const client = await connected(mode, '/mcp/files')
    const capabilities = client.getServerCapabilities() ?? {}
    expect(capabilities.experimental).toMatchObject({ dashdash: { identity: { name: 'files' } } })
    expect(capabilities.extensions).toMatchObject({
      [DASHDASH]: { specVersion: '0.2.0', aiHelp: true },
      [MANIFEST]: {
        manifestVersion: '0.1.0',
        ttlSeconds: 60,
        tool: 'get_manifest',
        url: `${origin}/capabilities/files`,
      },
    })
    expect(client.getInstructions()).toBe('Tools for files and directories.')
    const { tools } = await client.listTools()
    for (const { _meta: meta } of tools) expect(meta).toHaveProperty([DASHDASH, 'operationType'])
    await client.close()
  })

  test('tools and resources of the aggregate endpoint are described under their aggregate names', async () => {
    const client = await connected(mode, '/mcp')
    const { tools } = await client.listTools()
    const write = tools.find(({ name }) => name === 'files_write_file')
    expect(write?._meta?.[DASHDASH]).toMatchObject({ operationType: 'write', idempotent: true })
    expect(tools.filter(({ _meta: meta }) => !isObject(meta?.[DASHDASH])).map(({ name }) => name)).toEqual([])
    const { resources } = await client.listResources()
    const theirs = resources.filter(({ uri }) => uri.startsWith('everything+'))
    expect(theirs.length).toBeGreaterThan(0)
    for (const { _meta: meta } of theirs) expect(meta).toHaveProperty([DASHDASH, 'resourceType'])
    const { resourceTemplates } = await client.listResourceTemplates()
    expect(resourceTemplates[0]?._meta).toHaveProperty([DASHDASH, 'resourceType'])
    await client.close()
  })

  test('the manifest and the guide are also unlisted tools', async () => {
    const client = await connected(mode, '/mcp/memory')
    const manifest = await client.callTool({ name: 'get_manifest', arguments: {} })
    expect(manifest).toMatchObject({
      server: { name: 'memory' },
      structuredContent: { manifest_version: '0.1.0' },
    })
    const guide = await client.callTool({ name: 'ai_help', arguments: { section: 'read_graph' } })
    expect(JSON.stringify(guide.content)).toContain('read_graph')
    const bad = await client.callTool({ name: 'ai_help', arguments: { section: 'nonsense' } })
    expect(bad.isError).toBe(true)
    await client.close()
  })
})

test('a client of SDK 1.x reads the skill that no list has, and finds tools described in _meta', async () => {
  const capabilities = { extensions: { [DASHDASH]: {} } }
  const client = new OldClient({ name: 'reader', version: '1.0.0' }, { capabilities })
  await client.connect(new OldTransport(new URL(`${origin}/mcp/files`)))
  await expect(client.listResources()).rejects.toThrow('-32601')
  const { contents } = await client.readResource({ uri: 'skill://files/SKILL.md' })
  expect(contents[0]).toMatchObject({
    mimeType: 'text/markdown',
    text: await read1('/skills/files/SKILL.md'),
  })
  await expect(client.readResource({ uri: 'skill://nobody/SKILL.md' })).rejects.toThrow('-32601')
  const { tools } = await client.listTools()
  expect(tools[0]?._meta).toHaveProperty([DASHDASH, 'operationType'])
  expect(client.getServerCapabilities()).toMatchObject({
    experimental: { dashdash: { accessLevel: 'interact' } },
  })
  await client.close()
})
