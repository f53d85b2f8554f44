import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { post } from '../../support/client/raw.ts'
import { modern } from '../../support/fronts.ts'
import type { Json } from '../../support/server/json.ts'

const token = 'the-token-of-a-reader-0123456789'
const tokens = [{ id: 'reader', hash: tokenHash(token), scopes: ['read:files'] }]
const guarded = [
  '/capabilities',
  '/capabilities/files',
  '/ai-help',
  '/ai-help/files',
  '/llms.txt',
  '/.well-known/llms.txt',
  '/llms-full.txt',
  '/skills/files/SKILL.md',
  '/mcp/server-card',
  '/mcp/files/server-card',
]

let folder = ''
let gateway: LocalGateway | undefined

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'gatehouse-documents-'))
})
afterEach(async () => {
  await gateway?.close()
  gateway = undefined
  await rm(folder, { recursive: true, force: true })
})

async function start(config: Json = {}): Promise<string> {
  const [command = '', ...args] = publishedServer('@modelcontextprotocol/server-filesystem', folder)
  gateway = await localGateway({
    upstreams: { files: { command, args, env: { API_TOKEN: 'sesame-0123456789', MODE: 'directory' } } },
    ...config,
  })
  return gateway.origin
}

async function statuses(origin: string, paths: readonly string[], headers = {}): Promise<number[]> {
  const all = await Promise.all(paths.map((path) => fetch(`${origin}${path}`, { headers })))
  return all.map(({ status }) => status)
}

const bearer = { authorization: `Bearer ${token}` }

describe('with authentication', () => {
  const auth = { opaque: { tokens } }

  test('documents require a token, and the catalog shows the addresses of cards to any client', async () => {
    const origin = await start({ auth })
    expect(await statuses(origin, guarded)).toEqual(guarded.map(() => 401))
    expect(await statuses(origin, guarded, bearer)).toEqual(guarded.map(() => 200))
    const open = ['/.well-known/ai-catalog.json', '/.well-known/mcp/catalog.json', '/', '/health']
    expect(await statuses(origin, open)).toEqual(open.map(() => 200))
    const kept = await fetch(`${origin}/capabilities`, { headers: bearer })
    expect(kept.headers.get('cache-control')).toBe('private, max-age=60')
  })

  test('the short and the full guide can be made public', async () => {
    const origin = await start({ auth, features: { help: { public: 'on' } } })
    expect(await statuses(origin, guarded)).toEqual(
      guarded.map((path) => (path.includes('llms') ? 200 : 401)),
    )
  })

  test('the documents contain nothing that is hidden from the caller in lists', async () => {
    const features = { permissions: { hide_unpermitted: 'on' }, help: { public: 'on' } }
    const origin = await start({ auth, features })
    const read = async (path: string, headers = {}): Promise<string> =>
      (await fetch(`${origin}${path}`, { headers })).text()
    for (const path of ['/capabilities', '/ai-help', '/skills/files/SKILL.md']) {
      const text = await read(path, bearer)
      expect([path, text.includes('read_text_file')]).toEqual([path, true])
      expect([path, text.includes('write_file')]).toEqual([path, false])
    }
    const open = await read('/llms-full.txt')
    expect(open).not.toContain('read_text_file')
  })
})

test('the access level is informational: it neither grants nor denies a call', async () => {
  const [command = '', ...args] = publishedServer('@modelcontextprotocol/server-filesystem', folder)
  const params = { name: 'create_directory', arguments: { path: join(folder, 'made') } }
  const made = async (access: string, config: Json = {}, headers: Record<string, string> = {}) => {
    const origin = await start({ upstreams: { files: { command, args, access } }, ...config })
    const text = await ask(origin, 'tools/call', params, headers)
    await gateway?.close()
    return text
  }
  expect(await made('read')).toContain('Successfully created')
  // The token has the scope `read:files` alone.
  expect(await made('full', { auth: { opaque: { tokens } } }, bearer)).toContain('SCOPE_INSUFFICIENT')
})

describe('a feature that is off', () => {
  test('adds nothing to documents, discovery or lists', async () => {
    const origin = await start({ features: 'none' })
    expect(await statuses(origin, guarded)).toEqual(guarded.map(() => 404))
    expect(await ask(origin, 'tools/list')).not.toMatch(/dashdash|dev.gatehouse/)
    expect(await ask(origin, 'server/discover')).not.toMatch(/dashdash|manifest|skills|ai_help|"resources"/)
  })

  test('does not affect other features', async () => {
    const features = { dashdash: 'off', skills: 'off', help: 'off' }
    const origin = await start({ features })
    expect(await statuses(origin, ['/capabilities', '/llms.txt', '/skills/files/SKILL.md'])).toEqual([
      200, 404, 404,
    ])
    const said = await ask(origin, 'server/discover')
    expect(said).toContain('dev.gatehouse/manifest')
    expect(said).not.toMatch(/dashdash|io.modelcontextprotocol.skills|ai_help|"resources"/)
  })
})

test('a secret that a server lists is redacted, and a plain word of its settings is not', async () => {
  const origin = await start({
    upstreams: {
      files: {
        command: publishedServer('@modelcontextprotocol/server-filesystem', folder)[0] ?? '',
        args: publishedServer('@modelcontextprotocol/server-filesystem', folder).slice(1),
        env: { API_TOKEN: 'line-based', MODE: 'directory' },
      },
    },
  })
  const manifest = await (await fetch(`${origin}/capabilities`)).json()
  const { tools } = manifest as { tools: { name: string; description: string; input_schema: Json }[] }
  const described = (name: string): string => tools.find((tool) => tool.name === name)?.description ?? ''
  expect(described('edit_file')).toContain('Make *** edits')
  expect(described('list_directory')).toContain('directory')
  expect(JSON.stringify(manifest)).not.toContain('line-based')
})

test('a large manifest is referenced instead of embedded', async () => {
  const origin = await start({ features: { manifest: { inline: '1KB', ttl: '5m', listed: 'on' } } })
  const { result } = JSON.parse(await ask(origin, 'server/discover'))
  expect(result).toMatchObject({
    capabilities: {
      extensions: { 'dev.gatehouse/manifest': { ttlSeconds: 300, url: `${origin}/capabilities/files` } },
    },
  })
  expect(JSON.stringify(result)).not.toContain('manifest_version')
  expect(await ask(origin, 'tools/list')).toContain('"get_manifest"')
})

test('a small manifest is embedded', async () => {
  const origin = await start({ features: { manifest: { inline: '1MB' } } })
  const { result } = JSON.parse(await ask(origin, 'server/discover'))
  expect(result._meta['dev.gatehouse/manifest']).toMatchObject({ manifest_version: '0.1.0' })
  expect(result.dashdash).toEqual(result._meta['dev.gatehouse/dashdash'])
  // The schema of 2026-07-28 does not permit null in capabilities, where clients of the SDK keep it.
  const { alternativeAccess, ...rest } = result.dashdash
  expect(alternativeAccess).toEqual({ cliUrl: null, apiUrl: null, webUrl: null })
  expect(result.capabilities.experimental.dashdash).toEqual({ ...rest, alternativeAccess: {} })
})

/** The text of the response to a 2026-07-28 request. */
async function ask(origin: string, method: string, params: Json = {}, credentials = {}): Promise<string> {
  const { message, headers } = modern(method, params)
  const { text } = await post(`${origin}/mcp`, JSON.stringify(message), { ...headers, ...credentials })
  return text
}
