import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { runCommand } from '../../support/gateway.ts'
import { clientOf, folder, gatewayTo, httpServer, shellServer, stdioServer } from '../../support/journey.ts'
import { alone } from '../../support/scattered.ts'
import type { Json } from '../../support/server/json.ts'

describe('/metrics', () => {
  it('C206 C207 counts calls by tool and outcome', async () => {
    const server = await httpServer()
    const gateway = await gatewayTo({ one: { url: server.url }, two: stdioServer() })
    const client = await clientOf(gateway)
    await client.request('tools/call', { name: 'one_echo' })
    await client.request('tools/call', { name: 'two_echo' })
    await client.request('tools/call', { name: 'two_made_up' }).catch(() => undefined)
    const answer = await fetch(`${gateway.origin}/metrics`)
    expect(answer.headers.get('content-type')).toContain('text/plain')
    const text = await answer.text()
    for (const upstream of ['one', 'two'])
      expect(text).toContain(
        `gatehouse_calls_total{method="tools/call",upstream="${upstream}",tool="echo",outcome="ok"} 1`,
      )
    expect(text).not.toContain('made_up')
    expect(text).toContain('gatehouse_upstream_up{upstream="two"} 1')
    expect(text).toMatch(/gatehouse_sessions 1\n/)
    expect(text).toMatch(/gatehouse_build_info\{version="[\d.]+",node="[\d.]+"\} 1/)
    const checked = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' })
    if (checked.error && process.env['CI'] === undefined) return
    expect(`${checked.stdout}${checked.stderr}`).toBe('')
    expect(checked.status).toBe(0)
  })

  it('reports a server as up or down once it was tried', async () => {
    alone('the other workers start once the first one has tried its servers')
    const gateway = await gatewayTo(
      { slow: shellServer('sleep 60'), bad: { command: ['/nowhere/at-all'] } },
      { warm: false },
    )
    const told = async (): Promise<string[]> =>
      (await (await fetch(`${gateway.origin}/metrics`)).text()).match(/^gatehouse_upstream_up.*$/gm) ?? []
    await expect.poll(told).toEqual(['gatehouse_upstream_up{upstream="bad"} 0'])
  })

  it('does not exist if it is off', async () => {
    const gateway = await gatewayTo({ one: stdioServer() }, { config: { observe: { metrics: false } } })
    const answer = await fetch(`${gateway.origin}/metrics`)
    expect(answer.status).toBe(404)
    await answer.body?.cancel()
  })
})

describe('/health and /ready', () => {
  it('C209 C210 C211 report the state of each part, and nothing else', async () => {
    alone('each gateway answers for itself')
    const gateway = await gatewayTo({ one: stdioServer(), bad: { command: ['/nowhere/at-all'] } })
    const health = await fetch(`${gateway.origin}/health`)
    expect([health.status, await health.json()]).toEqual([
      200,
      { status: 'ok', version: expect.any(String), uptime: expect.any(Number) },
    ])
    const ready = await fetch(`${gateway.origin}/ready`)
    const body = (await ready.json()) as Json
    expect(body).toMatchObject({
      status: 'ready',
      checks: { upstreams: { one: 'ok', bad: 'failing' }, store: 'ok' },
    })
    expect(JSON.stringify(body)).not.toContain('nowhere')
  })
})

describe('the log', () => {
  it('C063 C205 contains no configured secret, not even if a server logs it', async () => {
    const secret = 'canary-7c1e55'
    const gateway = await gatewayTo({
      one: shellServer('echo "my key is $API_KEY" >&2', {}, { env: { API_KEY: secret } }),
    })
    const line = await gateway.logged((each) => each['event'] === 'upstream.stderr')
    expect(line['line']).toBe('my key is ***')
    const client = await clientOf(gateway)
    await client.request('tools/call', { name: secret }).catch(() => undefined)
    await gateway.logged((each) => each['method'] === 'tools/call')
    expect(gateway.stderr()).not.toContain(secret)
  })

  it('uses the level of the file if the command line has none', async () => {
    const gateway = await gatewayTo(
      { one: stdioServer() },
      { config: { observe: { log: { level: 'error' } } } },
    )
    const client = await clientOf(gateway)
    await client.request('tools/call', { name: 'echo' })
    expect(gateway.stderr()).toBe('')
  })
})

describe('the audit log', () => {
  async function written(): Promise<{ file: string; lines: string[] }> {
    const file = join(folder(), 'audit.jsonl')
    const gateway = await gatewayTo({ one: stdioServer() }, { config: { observe: { audit: file } } })
    const client = await clientOf(gateway)
    for (const n of [1, 2, 3]) await client.request('tools/call', { name: 'echo', arguments: { n } })
    await client.request('tools/list')
    await fetch(`${gateway.origin}/mcp`).then((answer) => answer.body?.cancel())
    gateway.stop()
    await gateway.ended
    return { file, lines: readFileSync(file, 'utf8').trim().split('\n') }
  }

  it('records each tool call and each refusal, and verifies as unbroken', async () => {
    alone('it is about the audit log of one gateway')
    const { file, lines } = await written()
    const events = lines.map((line) => JSON.parse(line) as Json)
    expect(events.map(({ event }) => event)).toEqual(['started', 'call', 'call', 'call', 'refused'])
    expect(events[1]).toMatchObject({ method: 'tools/call', tool: 'echo', upstream: 'one', outcome: 'ok' })
    const verified = await runCommand(['audit', 'verify', file])
    const head = String(events.at(-1)?.['hash'])
    const words = `${file}: 5 lines, intact; head ${head}`
    expect(verified.code).toBe(0)
    expect(verified.stdout.startsWith(`${words}; the end is not anchored: `)).toBe(true)
    const named = await runCommand(['audit', 'verify', file, '--head', head])
    expect([named.code, named.stdout]).toEqual([0, `${words}\n`])
  })

  it('is verified up to the first broken line, whose number is printed, and the command exits with 1', async () => {
    alone('it is about the audit log of one gateway')
    const { file, lines } = await written()
    const manipulated: readonly (readonly [string[], string])[] = [
      [lines.toSpliced(2, 1), ':3: comes after line(s) 3 of the log, which are missing\n'],
      [lines.with(1, (lines[1] ?? '').replace('echo', 'ohce')), ':2: was altered\n'],
      [lines.with(1, lines[2] ?? '').with(2, lines[1] ?? ''), ':2: comes after'],
      [lines.slice(0, 4), ': line(s) 5 of the log are missing at the end\n'],
      [[...lines.slice(0, 4), (lines[4] ?? '').slice(0, 30)], ':5: is cut off'],
    ]
    for (const [changed, reason] of manipulated) {
      writeFileSync(file, changed.map((line) => `${line}\n`).join(''))
      const { code, stderr } = await runCommand(['audit', 'verify', file])
      expect(code).toBe(1)
      expect(stderr).toContain(file + reason)
    }
  })

  it('keeps the gateway from starting if it cannot be written', async () => {
    const place = folder()
    const config = join(place, 'gateway.config.yaml')
    writeFileSync(config, JSON.stringify({ observe: { audit: config }, upstreams: { one: stdioServer() } }))
    const { code, stderr } = await runCommand(['serve', '--config', config, '--port', '0'])
    expect(code).toBe(1)
    expect(stderr).toContain('not an audit log')
  })

  it('is verified only if files are given', async () => {
    for (const words of [['audit'], ['audit', 'verify'], ['audit', 'show', 'x']])
      expect((await runCommand(words)).code).toBe(2)
    expect((await runCommand(['audit', 'verify', '/nowhere'])).code).toBe(1)
  })
})
