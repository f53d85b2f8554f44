// What the log of calls keeps of the calls of a gateway, and what `gatehouse log` prints of it.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../support/condition.ts'
import { type RunningGateway, runCommand, startCommand, startGateway } from '../../support/gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import type { Json } from '../../support/server/json.ts'

const root = mkdtempSync(join(tmpdir(), 'gatehouse-call-log-'))
const data = join(root, 'data')
mkdirSync(data)
writeFileSync(join(data, 'a.txt'), 'content xyzzy')
const store = join(root, 'store')
const odd = '<b>bold</b> \u{202e}\u{1b}[31mred \u{d800}'
let gateway: RunningGateway
let client: Client

function config(keep: string): Json {
  return {
    store,
    observe: { calls: { keep } },
    features: { confirm: false, mask: { rules: [{ pattern: 'xyzzy', replace: '[masked]' }] } },
    upstreams: {
      files: {
        command: publishedServer('@modelcontextprotocol/server-filesystem', data),
        deny: { read_text_file: { path: '**/secret*' } },
      },
    },
  }
}

async function call(name: string, given: Json): Promise<void> {
  await client.callTool({ name, arguments: given }).catch(() => undefined)
}

async function logged(...args: readonly string[]): Promise<readonly Json[]> {
  const { stdout } = await runCommand(['log', ...args, '--config', gateway.configFile, '--json'])
  const lines = stdout.split('\n').filter((line) => line !== '')
  return lines.map((line) => JSON.parse(line) as Json)
}

beforeAll(async () => {
  gateway = await startGateway(config('results'))
  client = new Client({ name: 'trier', version: '1.0.0' }, { capabilities: {} })
  await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url)))
  await call('read_text_file', { path: join(data, 'a.txt') })
  await call('write_file', { path: join(data, 'b.txt'), content: 'xyzzy', password: 'hunter2' })
  await call('read_text_file', { path: join(data, 'secret.txt') })
  await call('read_text_file', { path: join(data, 'missing.txt') })
  await call(odd, { path: 'x' })
  await until(async () => (await logged()).length >= 5, 'the calls in the log')
})

afterAll(async () => {
  await client.close()
  await gateway.close()
  rmSync(root, { recursive: true, force: true })
})

describe('the log of calls', () => {
  it('has who called what, how it ended, how long it took, and how large it was', async () => {
    const calls = await logged()
    expect(calls[0]).toMatchObject({
      end: 'ok',
      who: 'anonymous',
      client: 'trier 1.0.0',
      server: 'files',
      method: 'tools/call',
      name: 'read_text_file',
      op: 'read',
      ms: expect.any(Number) as number,
      in: expect.any(Number) as number,
      out: expect.any(Number) as number,
      spans: [['server', expect.any(Number), expect.any(Number)]],
    })
    expect(calls[0]).not.toHaveProperty('layer')
  })

  it('distinguishes what was denied, by which feature, from what failed', async () => {
    expect(await logged('status:denied')).toMatchObject([{ code: 'PERMISSION_DENIED', layer: 'permissions' }])
    const failed = await logged('status:failed', 'tool:read_text_file')
    expect(failed).toMatchObject([
      { end: 'failed', spans: [['server', expect.any(Number), expect.any(Number)]] },
    ])
  })

  it('finds calls by words, and shows one with its arguments and its result, without secrets', async () => {
    const [read] = await logged('tool:read_text_file', 'status:ok')
    const { stdout } = await runCommand([
      'log',
      '--show',
      String(read?.['id']),
      '--config',
      gateway.configFile,
    ])
    expect(stdout).toContain('files read_text_file')
    expect(stdout).toContain('content [masked]')
    expect(stdout).not.toContain('xyzzy')
    const [write] = await logged('tool:write_file')
    const shown = await runCommand(['log', '--show', String(write?.['id']), '--config', gateway.configFile])
    expect(shown.stdout).toContain('b.txt')
    expect(shown.stdout).not.toMatch(/xyzzy|hunter2/)
  })

  it('prints names of others without their control characters', async () => {
    const { stdout } = await runCommand(['log', '--config', gateway.configFile])
    expect(stdout).toContain('<b>bold</b>')
    for (const hidden of ['\u{1b}', '\u{202e}', '\u{d800}']) expect(stdout).not.toContain(hidden)
  })

  it('goes on with new calls, and survives a restart of the gateway', async () => {
    const following = startCommand(['log', 'tool:list_directory', '--follow', '--config', gateway.configFile])
    await call('list_directory', { path: data })
    await until(() => following.stdout().includes('list_directory'), 'the new call')
    await following.close()
    const before = await logged()
    await client.close()
    await gateway.close()
    gateway = await startGateway(config('metadata'))
    client = new Client({ name: 'trier', version: '1.0.0' }, { capabilities: {} })
    await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url)))
    expect(await logged()).toEqual(before)
    await call('list_directory', { path: data })
    await until(async () => (await logged('tool:list_directory')).length === 2, 'the call after the restart')
    const [last] = (await logged('tool:list_directory')).slice(-1)
    const shown = await runCommand([
      'log',
      '--show',
      String(last?.['id']),
      '--json',
      '--config',
      gateway.configFile,
    ])
    expect(JSON.parse(shown.stdout)).toMatchObject({ content: {} })
  })

  it('says what is wrong with a query, and which call is not there', async () => {
    const wrong = await runCommand(['log', 'status:gone', '--config', gateway.configFile])
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining('status: is one of') as string })
    const unknown = await runCommand(['log', '--show', 'nothing', '--config', gateway.configFile])
    expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining('no call nothing') as string })
  })

  it('can be off', async () => {
    const other = await startGateway({
      ...config('metadata'),
      store: join(root, 'other'),
      observe: { calls: false },
    })
    const second = new Client({ name: 'trier', version: '1.0.0' }, { capabilities: {} })
    await second.connect(new StreamableHTTPClientTransport(new URL(other.url)))
    await second.callTool({ name: 'list_directory', arguments: { path: data } })
    await second.close()
    const { stdout } = await runCommand(['log', '--config', other.configFile])
    await other.close()
    expect(stdout.trim()).toBe('No calls.')
  })
})
