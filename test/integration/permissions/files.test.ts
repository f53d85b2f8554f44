import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { tokenHash } from '../../support/auth/token-hash.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import { clientOf, folder, gatewayTo, httpServer, stdioServer } from '../../support/journey.ts'
import { type RunningGateway, runCommand, startGateway } from '../../support/gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import type { Json } from '../../support/server/json.ts'
import { plainFeatures } from '../../support/undescribed.ts'

const TOKENS = { reader: 'reader-token-of-the-test', writer: 'writer-token-of-the-test' }

/** A gateway in front of the published file system server, with a secret in its folder. */
interface Files {
  readonly gateway: RunningGateway
  readonly root: string
  close(): Promise<void>
}

async function startFiles(more: (root: string) => Json = () => ({}), features: Json = {}): Promise<Files> {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-files-')))
  mkdirSync(join(root, 'private'))
  writeFileSync(join(root, 'private', 'secret.txt'), 'the secret')
  writeFileSync(join(root, 'open.txt'), 'for all')
  const command = publishedServer('@modelcontextprotocol/server-filesystem', root)
  const gateway = await startGateway({
    auth: { opaque: { tokens: holders() } },
    features: plainFeatures(features),
    upstreams: { files: { command, ...more(root) } },
  })
  const close = async (): Promise<void> => {
    await gateway.close()
    rmSync(root, { recursive: true, force: true })
  }
  return { gateway, root, close }
}

/** A gateway with its own settings, until the end of the test. */
async function files(...settings: Parameters<typeof startFiles>): Promise<Files> {
  const started = await startFiles(...settings)
  onTestFinished(() => started.close())
  return started
}

/** The gateway of every test that is not about settings. */
let usual: Files
beforeAll(async () => void (usual = await startFiles()))
afterAll(() => usual.close())

function holders(): Json[] {
  const scopes = { reader: ['read:files'], writer: ['read:files', 'write:files', 'delete:files'] }
  return (['reader', 'writer'] as const).map((id) => ({
    hash: tokenHash(TOKENS[id]),
    id,
    scopes: scopes[id],
  }))
}

function bearer(who: keyof typeof TOKENS): Record<string, string> {
  return { authorization: `Bearer ${TOKENS[who]}` }
}

function as(gateway: RunningGateway, who: keyof typeof TOKENS, revision = '2025-11-25'): Promise<FakeClient> {
  return clientOf(gateway, { headers: bearer(who), revision: revision as '2025-11-25' })
}

describe.each(['2025-11-25', '2026-07-28'])('the filesystem server for a client of %s', (revision) => {
  test('C082 allows each caller what its scopes permit', async () => {
    const { gateway, root } = usual
    const path = join(root, 'made.txt')
    const reader = await as(gateway, 'reader', revision)
    const read = { name: 'read_text_file', arguments: { path: join(root, 'open.txt') } }
    const write = { name: 'write_file', arguments: { path, content: 'x' } }
    expect(JSON.stringify(await reader.request('tools/call', read))).toContain('for all')
    const refused = JSON.stringify(await reader.request('tools/call', write))
    expect(refused).toContain('SCOPE_INSUFFICIENT')
    expect(refused).toContain('"missing_scopes":["delete:files"]')
    const writer = await as(gateway, 'writer', revision)
    expect(JSON.stringify(await writer.request('tools/call', write))).toContain('Successfully wrote')
  })

  test('C083 lists every tool with its missing scopes, or hides the tools without permission', async () => {
    const { gateway } = usual
    const reader = await as(gateway, 'reader', revision)
    const { result } = await reader.request('tools/list')
    const tools = (result as { tools: { name: string; _meta: Json }[] }).tools
    const missing = tools.filter((tool) => tool._meta['dev.gatehouse/missing_scopes'] !== undefined)
    expect(missing.map(({ name }) => name)).toEqual([
      'write_file',
      'edit_file',
      'create_directory',
      'move_file',
    ])
    expect(tools.every((tool) => tool._meta['dev.gatehouse/required_scopes'] !== undefined)).toBe(true)

    const strict = await files(undefined, { permissions: { hide_unpermitted: true } })
    const narrow = await as(strict.gateway, 'reader', revision)
    const shown = JSON.stringify(await narrow.request('tools/list'))
    expect(shown).toContain('read_text_file')
    expect(shown).not.toContain('write_file')
    const called = await narrow.request('tools/call', { name: 'write_file', arguments: {} })
    expect(JSON.stringify(called)).toContain('Unknown tool: write_file')
  })

  test('is closed to every caller for a path that a rule denies, however the path is written', async () => {
    const { gateway, root } = await files((at) => ({
      deny: { '*': { path: `${at}/private/**`, paths: `${at}/private/**` } },
    }))
    const writer = await as(gateway, 'writer', revision)
    const name = root.slice(root.lastIndexOf('/') + 1)
    const spellings = [
      `${root}/private/secret.txt`,
      `${root}/private/../private/secret.txt`,
      `${root}//private/./secret.txt`,
      `${root}/x/../private/secret.txt`,
      `${root}/../${name}/private/secret.txt`,
      ` ${root}/private/secret.txt `,
      `"${root}/private/secret.txt"`,
      'private/secret.txt',
      './private/secret.txt',
      `../${name}/private/secret.txt`,
      `file://${root}/private/secret.txt`,
      `/proc/self/root${root}/private/secret.txt`,
    ]
    for (const path of spellings) {
      const one = await writer.request('tools/call', { name: 'read_text_file', arguments: { path } })
      expect(path + JSON.stringify(one)).toContain('PERMISSION_DENIED')
      const args = { paths: [`${root}/open.txt`, path] }
      const many = await writer.request('tools/call', { name: 'read_multiple_files', arguments: args })
      expect(path + JSON.stringify(many)).not.toContain('the secret')
    }
    const listing = { name: 'list_directory', arguments: { path: `${root}/private` } }
    expect(JSON.stringify(await writer.request('tools/call', listing))).not.toContain('secret.txt')
    const open = { name: 'read_text_file', arguments: { path: 'open.txt' } }
    expect(JSON.stringify(await writer.request('tools/call', open))).toContain('for all')
  })

  test('is restricted by the session token in the header of each request', async () => {
    const { gateway, root } = usual
    const writer = await as(gateway, 'writer', revision)
    const { result } = await writer.request('permissions/negotiate', { requested_scopes: ['read:files'] })
    const { token } = (result as { session: { token: string } }).session
    const write = { name: 'write_file', arguments: { path: join(root, 'a.txt'), content: 'x' } }
    const narrowed = await writer.request('tools/call', write, { headers: { 'x-mcp-session-token': token } })
    expect(JSON.stringify(narrowed)).toContain('SCOPE_INSUFFICIENT')
    const wrong = await writer.request('tools/call', write, { headers: { 'x-mcp-session-token': 'x.y' } })
    expect(JSON.stringify(wrong)).toContain('TOKEN_EXPIRED')
    expect(JSON.stringify(await writer.request('tools/call', write))).toContain('Successfully wrote')
  })

  test('answers permission checks in advance, as a method and as a tool', async () => {
    const { gateway } = usual
    const reader = await as(gateway, 'reader', revision)
    const asked = { tool: 'move_file', parameters: {} }
    const expected = { allowed: false, missing_scopes: ['delete:files'] }
    expect((await reader.request('permissions/check', asked)).result).toMatchObject(expected)
    const called = await reader.request('tools/call', { name: 'check_permissions', arguments: asked })
    expect(called.result).toMatchObject({ structuredContent: expected })
    expect(JSON.stringify(await reader.request('tools/list'))).not.toContain('check_permissions')
  })
})

describe('permissions over HTTP', () => {
  test('are those of the method, with the same authentication', async () => {
    const { gateway } = usual
    const at = (path: string): string => `${gateway.origin}${path}`
    const stranger = await fetch(at('/permissions?tool=move_file'))
    expect(stranger.status).toBe(401)
    const got = await fetch(at('/permissions?tool=move_file&upstream=files'), { headers: bearer('reader') })
    expect([got.status, await got.json()]).toMatchObject([200, { missing_scopes: ['delete:files'] }])
    const post = (path: string, body: Json, headers: Record<string, string>): Promise<Response> =>
      fetch(at(path), {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
    const posted = await post('/permissions', { tool: 'read_file', parameters: {} }, bearer('reader'))
    expect(await posted.json()).toEqual({ allowed: true })
    const body = { requested_scopes: ['read:files', 'admin:files'] }
    const negotiated = (await (await post('/permissions/negotiate', body, bearer('writer'))).json()) as Json
    expect(negotiated).toMatchObject({ granted_scopes: ['read:files'], granted: ['read:files'] })
    expect(negotiated.denied).toEqual(['admin:files'])
    const { token } = negotiated.session as { token: string }
    // A single server is named in the path, as on other routes.
    const ofOne = await fetch(at('/permissions/files?tool=move_file'), { headers: bearer('reader') })
    const said = { missing_scopes: ['delete:files'], missing: ['delete:files'] }
    expect([ofOne.status, await ofOne.json()]).toMatchObject([200, said])
    const asked = await post('/permissions/files', { tool: 'move_file' }, bearer('reader'))
    expect([asked.status, await asked.json()]).toMatchObject([200, said])
    const agreed = await post('/permissions/files/negotiate', body, bearer('writer'))
    expect([agreed.status, await agreed.json()]).toMatchObject([200, { granted: ['read:files'] }])
    for (const [path, status] of [
      ['/permissions/nowhere?tool=x', 404],
      ['/permissions/files?tool=move_file', 401],
    ] as const) {
      const answer = await fetch(at(path), { headers: status === 401 ? {} : bearer('reader') })
      expect([path, answer.status]).toEqual([path, status])
    }
    // Without a tool, what the caller may do at all.
    for (const path of ['/permissions', '/permissions?upstream=files', '/permissions/files']) {
      const all = await fetch(at(path), { headers: bearer('reader') })
      const found = (await all.json()) as Json
      expect([path, all.status, found.is_limited]).toEqual([path, 200, true])
      expect(found.scopes_held).toContain('read:files')
      expect(found.tools).toContain('read_file')
      expect(found.tools).not.toContain('move_file')
    }
    const narrow = { ...bearer('writer'), 'x-mcp-session-token': token }
    const narrowed = await post('/permissions', { tool: 'move_file' }, narrow)
    expect(await narrowed.json()).toMatchObject({ allowed: false, missing_scopes: ['delete:files'] })
    expect((await post('/permissions', { tool: 1 }, bearer('reader'))).status).toBe(400)
    const misspelt = await post('/permissions', { tool: 'read_file', argument: {} }, bearer('reader'))
    expect([misspelt.status, await misspelt.text()]).toEqual([400, expect.stringContaining('INVALID_INPUT')])
    const queried = await fetch(at('/permissions?tool=read_file&arguments={}'), { headers: bearer('reader') })
    expect(queried.status).toBe(400)
    expect(
      (await fetch(at('/permissions?tool=x&upstream=nowhere'), { headers: bearer('reader') })).status,
    ).toBe(404)
  })

  test('do not exist if the feature is off, and reach no server', async () => {
    const server = await httpServer()
    const gateway = await gatewayTo({ one: server.url }, { config: { features: { permissions: 'off' } } })
    expect((await fetch(`${gateway.origin}/permissions?tool=echo`)).status).toBe(404)
    expect(server.received('permissions/check')).toHaveLength(0)
  })
})

test('gatehouse explain prints the operation of a tool, its evidence, and the scopes it requires', async () => {
  const root = folder()
  const path = join(root, 'gateway.config.yaml')
  const command = publishedServer('@modelcontextprotocol/server-filesystem', root)
  const config = { upstreams: { files: { command, tools: { 'move_*': { risk: 'reversible' } } } } }
  writeFileSync(path, JSON.stringify(config))
  const write = await runCommand(['explain', '--config', path, 'files', 'write_file'])
  expect(write.stdout).toMatch(/op +write\n +risk +destructive\n +idempotent +yes\n/)
  expect(write.stdout).toContain('its server says destructiveHint: true')
  expect(write.stdout).toContain('delete:files')
  const move = await runCommand(['explain', '--config', path, 'files', 'move_file'])
  expect(move.stdout).toContain('the configuration sets risk: reversible for move_*')
  expect(move.stdout).toContain('write:files')
  const none = await runCommand(['explain', '--config', path, 'files', 'none'])
  expect(none.stdout).toContain('the server lists no tool with this name')
  expect([move.code, none.code]).toEqual([0, 1])
})

test('meta_tools decides whether the built-in tools are listed', async () => {
  const gateway = await gatewayTo({ one: stdioServer() }, { config: { meta_tools: 'listed' } })
  const client = await clientOf(gateway)
  const listed = JSON.stringify(await client.request('tools/list'))
  expect(listed).toContain('check_permissions')
  expect(listed).toContain('negotiate_scopes')
})
