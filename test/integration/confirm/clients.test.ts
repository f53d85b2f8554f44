import { mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { configFile } from '../../support/gateway-with.ts'
import { gatewayProgram } from '../../support/gateway-process.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import type { Way } from '../../support/peers/client.ts'
import { type ConfirmingClient, eras, type Person } from '../../support/peers/confirming.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { type ScriptedServer, scriptedServer } from '../../support/scripted-server.ts'
import type { Json } from '../../support/server/json.ts'

const schema = { type: 'object', properties: { owner: { type: 'string' }, repo: { type: 'string' } } }
const repo = { owner: 'octo', repo: 'test-repo' }
const agrees: Person = () => ({ action: 'accept', content: { confirm: true } })

let server: ScriptedServer
let gateway: LocalGateway
let folder: string
let stdio: Awaited<ReturnType<typeof configFile>>
beforeAll(async () => {
  server = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({
        tools: [
          { name: 'delete_repo', description: 'Deletes a repository.', inputSchema: schema },
          { name: 'wipe_repo', inputSchema: schema },
          { name: 'get_repo', inputSchema: schema },
        ],
      }),
      'tools/call': ({ params }) => ({ content: [{ type: 'text', text: `did ${String(params['name'])}` }] }),
    },
  )
  folder = await realpath(await mkdtemp(join(tmpdir(), 'confirm-')))
  const tools = { wipe_repo: { confirm: 'Wipe {owner}/{repo}?', type_to_confirm: 'repo' } }
  const upstreams = { hub: { url: server.url, tools, trust: true } }
  const features = { confirm: { wait: 'off' } }
  gateway = await localGateway({ store: 'memory', listen: { aggregate: true }, features, upstreams })
  const files = { command: publishedServer('@modelcontextprotocol/server-filesystem', folder) }
  stdio = await configFile({ upstreams: { files }, features: { confirm: { exact_undo: 'ask' } } })
})
afterAll(async () => {
  await gateway.close()
  await server.close()
  await stdio.remove()
  await rm(folder, { recursive: true, force: true })
})

/** How often a tool of the server was called. */
function calls(name: string): number {
  return server.seen.filter(({ method, params }) => method === 'tools/call' && Object(params).name === name)
    .length
}

function textOf(result: Json): string {
  return JSON.stringify(result['content'])
}

describe.each(eras)('a client of the $title over HTTP', ({ connect }) => {
  const clients: ConfirmingClient[] = []
  const open = async (person?: Person, path = 'mcp/hub'): Promise<ConfirmingClient> => {
    const way: Way = { transport: 'http', url: `${gateway.origin}/${path}` }
    const client = await connect(way, person)
    clients.push(client)
    return client
  }
  afterAll(() => Promise.all(clients.map((client) => client.close())))

  it.each(['mcp/hub', 'mcp'])('runs the call once its user agrees, at %s', async (path) => {
    const before = calls('delete_repo')
    const client = await open(agrees, path)
    const result = await client.call('delete_repo', repo)
    expect(textOf(result)).toContain('did delete_repo')
    expect(client.asked).toHaveLength(1)
    expect(client.asked[0]).toMatchObject({
      message: 'Run delete_repo on hub with owner: octo, repo: test-repo? Deletes a repository.',
    })
    expect(calls('delete_repo')).toBe(before + 1)
  })

  it.each([
    ['declines', { action: 'decline' }, 1],
    ['cancels', { action: 'cancel' }, 1],
    ['submits the form without agreeing, twice', { action: 'accept', content: { confirm: false } }, 2],
  ] as const)('does not reach the server if its user %s', async (_what, said, times) => {
    const before = calls('delete_repo')
    const client = await open(() => said)
    const result = await client.call('delete_repo', repo)
    expect(result['isError']).toBe(true)
    expect(result['_meta']).toMatchObject({ 'dev.gatehouse/error': { code: 'CONFIRMATION_DECLINED' } })
    expect(client.asked).toHaveLength(times)
    expect(calls('delete_repo')).toBe(before)
  })

  it('requires its user to type what is wiped', async () => {
    const typing: Person = ({ requestedSchema }) => {
      expect(requestedSchema).toMatchObject({ properties: { confirm: { type: 'string' } } })
      return { action: 'accept', content: { confirm: 'test-repo' } }
    }
    const client = await open(typing)
    expect(textOf(await client.call('wipe_repo', repo))).toContain('did wipe_repo')
    const before = calls('wipe_repo')
    await client.call('wipe_repo', { owner: 'octo', repo: 'production-db' })
    expect(calls('wipe_repo')).toBe(before)
  })

  it('receives no confirmation request for a read-only tool', async () => {
    const client = await open(agrees)
    expect(textOf(await client.call('get_repo', repo))).toContain('did get_repo')
    expect(client.asked).toHaveLength(0)
  })

  it('without elicitation is refused with a made-up confirmation', async () => {
    const before = calls('delete_repo')
    const client = await open()
    for (const meta of [
      undefined,
      { user_confirmed: true },
      { user_confirmed: true, confirmation_token: '0'.repeat(32) },
    ]) {
      expect(await client.call('delete_repo', repo, meta)).toMatchObject({
        isError: true,
        status: 'confirmation_required',
      })
    }
    const inArguments = { ...repo, user_confirmed: true }
    expect(await client.call('delete_repo', inArguments)).toMatchObject({ isError: true })
    expect(calls('delete_repo')).toBe(before)
  })

  it('without elicitation confirms with the token, once and for the same call', async () => {
    const before = calls('delete_repo')
    const client = await open()
    const own = { ...repo, owner: connect.name }
    const gate = await client.call('delete_repo', own)
    const { confirmation_token: token } = gate
    expect(textOf(gate)).not.toContain(String(token))
    const meta = { user_confirmed: true, confirmation_token: token }
    expect(await client.call('delete_repo', { ...own, repo: 'production-db' }, meta)).toMatchObject({
      error: { code: 'CONFIRMATION_TOKEN_INVALID' },
    })
    expect(calls('delete_repo')).toBe(before)
    expect(textOf(await client.call('delete_repo', own, meta))).toContain('did delete_repo')
    expect(await client.call('delete_repo', own, meta)).toMatchObject({
      isError: true,
      error: { code: 'CONFIRMATION_TOKEN_INVALID' },
    })
    expect(calls('delete_repo')).toBe(before + 1)
  })

  it('receives no confirmation request for a replayed call', async () => {
    const before = calls('delete_repo')
    const client = await open(agrees)
    const meta = { idempotency_key: `once-${connect.name}` }
    await client.call('delete_repo', repo, meta)
    const again = await client.call('delete_repo', repo, meta)
    expect(again['_meta']).toMatchObject({ was_replay: true })
    expect(client.asked).toHaveLength(1)
    expect(calls('delete_repo')).toBe(before + 1)
  })

  it('sees in the tool list what will be confirmed, if that is configured', async () => {
    const client = await open()
    for (const tool of await client.tools())
      expect(Object(tool['_meta'])).not.toHaveProperty(['dev.gatehouse/confirmation'])
    const tools = await client.tools({ 'dev.gatehouse/confirmation': true })
    const meta = tools.map((tool) => [tool['name'], Object(tool['_meta'])['dev.gatehouse/confirmation']])
    expect(Object.fromEntries(meta)).toEqual({
      delete_repo: {
        requires_confirmation: true,
        confirmation_message: 'Run delete_repo on hub? Deletes a repository.',
        risk_level: 'destructive',
      },
      wipe_repo: {
        requires_confirmation: true,
        confirmation_message: 'Wipe {owner}/{repo}?',
        risk_level: 'destructive',
      },
      get_repo: undefined,
    })
  })
})

describe.each(eras)('a client of the $title over stdio', ({ title, connect }) => {
  it('overwrites a file of the published server only if its user agrees', async () => {
    const path = join(folder, `${title}.txt`)
    await writeFile(path, 'before')
    const way: Way = { transport: 'stdio', command: [...gatewayProgram(), 'stdio', '--config', stdio.path] }
    let isAgreed = false
    const client = await connect(way, () => (isAgreed ? agrees({}) : { action: 'decline' }))
    try {
      const refused = await client.call('write_file', { path, content: 'after' })
      expect(refused['isError']).toBe(true)
      expect(await readFile(path, 'utf8')).toBe('before')
      isAgreed = true
      await client.call('write_file', { path, content: 'after' })
      expect(await readFile(path, 'utf8')).toBe('after')
      expect(client.asked).toHaveLength(2)
    } finally {
      await client.close()
    }
  })
})
