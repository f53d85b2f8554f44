import { mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { connect } from '../../support/fake-client.ts'
import { gatewayProgram } from '../../support/gateway-process.ts'
import { type RunningGateway, runCommand, startGateway } from '../../support/gateway.ts'
import { clientOf } from '../../support/journey.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { type ConfirmingClient, connectFallenBack, eras } from '../../support/peers/confirming.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

const STAMP = 'dev.gatehouse/provenance'
const RECEIPT = 'dev.gatehouse/receipt'

const callers = [...eras, { title: 'SDK 2.x of an older revision', connect: connectFallenBack }]

let folder: string
let gateway: RunningGateway
let files: Json
beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'gatehouse-test-')))
  files = { command: publishedServer('@modelcontextprotocol/server-filesystem', folder) }
  const memory = { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') }
  await writeFile(join(folder, 'hello.txt'), 'hello')
  gateway = await startGateway({
    store: join(folder, 'store'),
    features: { confirm: { level: 'none' }, provenance: { always: true, hash: true } },
    upstreams: {
      files: { ...files, tools: { 'read_*': { provenance: { source: 'file:{path}' }, cost: 'free' } } },
      memory: { command: publishedServer('@modelcontextprotocol/server-memory'), env: memory },
    },
  })
})
afterAll(async () => {
  await gateway.close()
  await rm(folder, { recursive: true, force: true })
})

describe.each(callers)('a client of the official $title', ({ connect: dial }) => {
  const reach = async (url: string): Promise<ConfirmingClient> => {
    const client = await dial({ transport: 'http', url })
    onTestFinished(() => client.close())
    // It validates results against the output schemas of the listed tools.
    await client.tools()
    return client
  }

  it('reads the provenance of results from tools that all have an output schema', async () => {
    const client = await reach(`${gateway.url}/files`)
    const path = join(folder, 'hello.txt')
    const read = await client.call('read_text_file', { path })
    expect(read).toMatchObject({
      structuredContent: { content: 'hello' },
      provenance: { source: `file:${path}`, confidence: 'exact', content_hash: expect.any(String) },
      _meta: { [STAMP]: { source: `file:${path}` }, 'dev.gatehouse/usage': { units: 0 } },
    })
    const listed = await client.call('list_directory', { path: folder })
    expect(listed['provenance']).toMatchObject({ source: 'files:list_directory' })
    const missing = await client.call('read_text_file', { path: join(folder, 'none.txt') })
    expect(missing).toMatchObject({ isError: true })
    expect(missing).not.toHaveProperty('provenance')
  })

  it('reads the provenance of results from a server that keeps a graph', async () => {
    const client = await reach(`${gateway.url}/memory`)
    const entities = [{ name: 'a', entityType: 'b', observations: ['c'] }]
    expect(await client.call('create_entities', { entities })).toHaveProperty('provenance')
    const graph = await client.call('read_graph', {})
    expect(graph).toMatchObject({ provenance: { source: 'memory:read_graph' } })
    expect(JSON.stringify(graph['structuredContent'])).toContain('"a"')
  })

  it('gets a replay with the original provenance and time', async () => {
    const client = await reach(`${gateway.url}/files`)
    const path = join(folder, 'kept.txt')
    const meta = { idempotency_key: crypto.randomUUID() }
    const first = await client.call('write_file', { path, content: 'x' }, meta)
    const again = await client.call('write_file', { path, content: 'x' }, meta)
    expect(again['_meta']).toMatchObject({ was_replay: true })
    expect(again['provenance']).toEqual(first['provenance'])
  })

  it('gets a receipt that any holder of the public keys can verify, with the content as it received it', async () => {
    const client = await reach(`${gateway.url}/files`)
    const result = await client.call(
      'read_text_file',
      { path: join(folder, 'hello.txt') },
      { [RECEIPT]: true },
    )
    const verdict = await verified(
      JSON.stringify(result),
      '--jwks',
      `${gateway.origin}/.well-known/jwks.json`,
    )
    expect([verdict.code, verdict.stderr]).toEqual([0, ''])
    expect(verdict.stdout).toContain('read_text_file of the server files')
  })
})

it('the receipts extension names the URL of the keys to clients that can fetch it', async () => {
  const revision = '2026-07-28'
  const [command, ...args] = [...gatewayProgram(), 'stdio', '--config', gateway.configFile]
  const overHttp = await connect({ transport: 'http', url: gateway.url, revision })
  const overStdio = await connect({ transport: 'stdio', command, args, revision })
  const told: unknown[] = []
  for (const client of [overHttp, overStdio]) {
    onTestFinished(() => client.close())
    const { result } = await client.request('server/discover')
    const { extensions } = objectAt(result, 'capabilities')
    told.push(objectAt(extensions, RECEIPT))
  }
  expect(told).toEqual([{ alg: 'ES256', jwks: '/.well-known/jwks.json' }, { alg: 'ES256' }])
})

async function verified(text: string, ...args: string[]) {
  const file = join(folder, `receipt-${crypto.randomUUID()}.json`)
  await writeFile(file, text)
  return runCommand(['verify', file, ...args])
}

describe('gatehouse verify', () => {
  let result: Json
  let jwks: string
  beforeAll(async () => {
    const at = { transport: 'http', url: `${gateway.url}/files`, revision: '2025-11-25' } as const
    const client = await connect(at)
    const params = { name: 'read_text_file', arguments: { path: join(folder, 'hello.txt') }, receipt: true }
    result = objectAt({ ...(await client.request('tools/call', params)) }, 'result')
    await client.close()
    jwks = join(folder, 'jwks.json')
    const answer = await fetch(`${gateway.origin}/.well-known/jwks.json`)
    await writeFile(jwks, await answer.text())
  })

  it('accepts a result, a complete response, or a receipt alone', async () => {
    const receipt = String(objectAt(result, '_meta')[RECEIPT])
    for (const text of [
      JSON.stringify(result, null, 2),
      JSON.stringify({ jsonrpc: '2.0', id: 1, result }),
      receipt,
    ]) {
      const verdict = await verified(text, '--jwks', jwks)
      expect([text, verdict.code, verdict.stderr]).toEqual([text, 0, ''])
    }
    const { stdout } = await verified(receipt, '--jwks', jwks)
    expect(stdout).toContain('No content was given')
  })

  it('finds the key in the store of a running gateway', async () => {
    const verdict = await verified(JSON.stringify(result), '--config', gateway.configFile, '--json')
    expect([verdict.code, verdict.stderr]).toEqual([0, ''])
    expect(JSON.parse(verdict.stdout)).toMatchObject({
      valid: true,
      content: 'fits',
      claims: {
        tool: 'read_text_file',
        server: 'files',
        was_replay: false,
        retrieved_at: expect.any(String),
      },
    })
    expect(verdict.stdout).not.toContain('"d"')
  })

  it('refuses modified content, and prints the reason', async () => {
    const text = JSON.stringify({ ...result, structuredContent: { content: 'hellO' } })
    const verdict = await verified(text, '--jwks', jwks)
    expect(verdict.code).toBe(1)
    expect(verdict.stderr).toContain('the content is not the one that was signed')
    expect(verdict.stdout).toBe('')
  })

  it.each([
    ['a result without a receipt', '{"content":[]}', 'the file contains no receipt'],
    ['no JSON', '{', 'not valid JSON'],
    ['something else', 'hello', 'it is not a JWS in compact serialization'],
  ])('says what is wrong with %s', async (_what, text, words) => {
    const verdict = await verified(text, '--jwks', jwks)
    expect([verdict.code, verdict.stderr]).toEqual([1, expect.stringContaining(words)])
  })

  it('prints its usage', async () => {
    const none = await runCommand(['verify'])
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('gatehouse verify FILE')])
    const gone = await runCommand(['verify', join(folder, 'gone'), '--jwks', jwks])
    expect([gone.code, gone.stderr]).toEqual([1, expect.stringContaining('does not exist')])
  })
})

describe('provenance metadata', () => {
  it('states that a result was truncated', async () => {
    await writeFile(join(folder, 'long.txt'), 'x'.repeat(20_000))
    const small = await localGateway({
      features: { confirm: 'off' },
      limits: { result: '8KB' },
      upstreams: { files },
    })
    onTestFinished(() => small.close())
    const client = await clientOf(small)
    const ask = async (name: string) => {
      const { result } = await client.request('tools/call', {
        name: 'read_text_file',
        arguments: { path: join(folder, name) },
      })
      return Object(Object(result)['_meta'])[STAMP]
    }
    expect(await ask('long.txt')).toMatchObject({
      confidence: 'derived',
      transformation: 'shortened to the limit of results',
    })
    expect(await ask('hello.txt')).toBeUndefined()
  })

  it('does not exist if all features are off', async () => {
    const bare = await localGateway({ features: 'none', upstreams: { files } })
    onTestFinished(() => bare.close())
    const client = await clientOf(bare)
    const { result } = await client.request('tools/call', {
      name: 'read_text_file',
      arguments: { path: join(folder, 'hello.txt') },
      _meta: { [RECEIPT]: true },
    })
    expect(Object.keys(result ?? {}).toSorted()).toEqual(['content', 'structuredContent'])
    expect(await readFile(join(folder, 'hello.txt'), 'utf8')).toBe('hello')
  })
})
