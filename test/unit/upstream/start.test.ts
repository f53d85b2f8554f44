import { randomUUID } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it, test } from 'vitest'
import { noProxy } from '../../../src/core/proxy.ts'
import { Secret } from '../../../src/core/text/secret.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import { createUpstream, type Upstream } from '../../../src/upstream/upstream.ts'
import { ownCall } from '../../../src/protocol/lift.ts'
import { serverSettings } from '../../support/server-settings.ts'
import { silentLog } from '../../support/silent-log.ts'

const store = new MemoryStore()
const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
const opened: Upstream[] = []
afterAll(async () => {
  await Promise.all(opened.map((upstream) => upstream.close()))
  rmSync(folder, { recursive: true })
})

/** The longest start of a server in these tests, in milliseconds: nothing waits for its end. */
const LONG = 45_000

interface Scripted {
  readonly startTimeout?: number
  /** Servers of one name have the same command. */
  readonly name?: string
}

/** A server process, without authentication, and the number of times that it was started. */
function scripted(script: string, { startTimeout = LONG, name }: Scripted = {}) {
  const starts = join(folder, name ?? randomUUID())
  const counting = `fs.appendFileSync(${JSON.stringify(starts)}, '.')\n`
  const reach = {
    kind: 'command',
    command: process.execPath,
    args: ['-e', counting + script],
    env: { TOKEN: new Secret('a-secret-of-its-own') },
  } as const
  const oauth = {} as Parameters<typeof createUpstream>[1]['oauth']
  const settings = serverSettings({ reach, startTimeout })
  const upstream = createUpstream(settings, {
    variables: process.env,
    proxies: noProxy,
    store,
    oauth,
    log: silentLog,
  })
  opened.push(upstream)
  return { upstream, starts: () => readFileSync(starts, 'utf8').length }
}

/** Handles each message with \`m\`; \`say\` sends one. */
function handling(code: string): string {
  return `
    const say = (body, m) => console.log(JSON.stringify({ jsonrpc: '2.0', ...(m && { id: m.id }), ...body }))
    const hello = (protocolVersion = '2025-11-25') =>
      ({ result: { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'one', version: '1' } } })
    const unknown = { error: { code: -32601, message: 'Method not found' } }
    require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const m = JSON.parse(line)
      ${code}
    })`
}

const ordinary = handling(`if (m.id !== undefined) say(m.method === 'initialize' ? hello() : unknown, m)`)
const stayAlive = 'setInterval(() => {}, 1000)'

describe.concurrent('a server of an older revision', () => {
  it.each([
    ['prints a banner, and refuses the probe', `console.log('Listening on stdio')\n${ordinary}`],
    [
      'speaks 2024-10-07',
      handling(`if (m.id !== undefined) say(m.method === 'initialize' ? hello('2024-10-07') : unknown, m)`),
    ],
  ])('that %s is started once', async (_what, script) => {
    const { upstream, starts } = scripted(script)
    await upstream.start(ownCall())
    expect([upstream.status.era, starts()]).toEqual(['legacy', 1])
  })

  it('that ends when it is probed is started twice, and once where that is remembered', async () => {
    const script = handling(`
      if (m.method === 'server/discover') process.exit(1)
      if (m.method === 'initialize') say(hello(), m)`)
    for (const expected of [2, 3]) {
      const { upstream, starts } = scripted(script, { name: 'ending' })
      await upstream.start(ownCall())
      expect(starts()).toBe(expected)
    }
  })
})

test('a server that the probe makes deaf works at the second attempt, and then at the first', async () => {
  const script = handling(`
    if (m.method === 'server/discover') globalThis.isDeaf = true
    if (m.method === 'initialize' && !globalThis.isDeaf) say(hello(), m)`)
  const first = scripted(script, { name: 'deaf', startTimeout: 1500 }).upstream
  await expect(first.start(ownCall())).rejects.toThrow('time')
  await first.start(ownCall())
  const { upstream, starts } = scripted(script, { name: 'deaf' })
  await upstream.start(ownCall())
  expect([upstream.status.era, starts()]).toEqual(['legacy', 3])
})

describe.concurrent('a command that is no server is reported at once', () => {
  it.each([
    [
      'prints a page',
      `console.log('<!DOCTYPE html><html>'); ${stayAlive}`,
      'printed "<!DOCTYPE html><html>"',
    ],
    [
      'prints text, and ends',
      `console.log('\\u001b[31musage:\\u001b[0m one ' + process.env.TOKEN)`,
      'exited with code 0. Its output is not JSON: it printed "usage: one ***"',
    ],
    ['closes its output', `fs.closeSync(1); ${stayAlive}`, 'closed its output'],
  ])('if it %s', async (_what, script, reason) => {
    const { upstream } = scripted(script)
    const told = await upstream.start(ownCall()).catch(String)
    expect(told).toContain(reason)
    expect(upstream.status.problem).toContain(reason)
  })
})

test('a server that does not respond is stopped after start_timeout in total', async () => {
  const { upstream } = scripted(`process.on('SIGTERM', () => {}); ${stayAlive}`, { startTimeout: 2000 })
  const start = performance.now()
  await expect(upstream.start(ownCall())).rejects.toThrow('time')
  expect(performance.now() - start).toBeLessThan(3500)
})

test('the last lines of a server that exited are reported without colours and secrets', async () => {
  const script = `
    for (const line of ['one', 'two', '', '\\u001b[31mError:\\u001b[0m no\\u0007 database', 'token is ' + process.env.TOKEN])
      console.error(line)
    process.exitCode = 3`
  const { upstream } = scripted(script, { startTimeout: 20_000 })
  await expect(upstream.start(ownCall())).rejects.toThrow('exited with code 3')
  expect(upstream.status.stderr).toEqual([
    'two',
    'Error: no\\u0007 database',
    expect.stringMatching(/^token is \*\*\*|redacted/),
  ])
  expect(upstream.status.problem).not.toContain('database')
})
