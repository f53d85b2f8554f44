import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { runCommand } from '../../support/gateway.ts'
import { folder, httpServer, stdioServer } from '../../support/journey.ts'
import type { Json } from '../../support/server/json.ts'

function file(content: string | Json): string {
  const path = join(folder(), 'gateway.config.yaml')
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

describe('gatehouse check', () => {
  test('prints the revision of each server, and exits with 0', async () => {
    const server = await httpServer({ revision: '2026-07-28' })
    const path = file({ upstreams: { old: stdioServer({ revision: '2025-06-18' }), recent: server.url } })
    const { code, stdout, stderr } = await runCommand(['check', '--config', path])
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toBe(
      'old: ready, MCP 2025-06-18\nrecent: ready, MCP 2026-07-28\nno problems, 2 of 2 servers ready\n',
    )
  })

  test('names a server that is not tried because it needs the credentials of a caller', async () => {
    const server = await httpServer({ revision: '2026-07-28' })
    const path = file({ upstreams: { calendar: { url: server.url, oauth: {} } } })
    const { code, stdout } = await runCommand(['check', '--config', path])
    expect([code, stdout]).toEqual([
      0,
      'calendar: not tried, because each caller has its own credentials\nno problems, 0 of 1 server ready\n',
    ])
  })

  test('gives the reason why Redis cannot be used as the store, and exits with 1', async () => {
    const server = await httpServer({ revision: '2026-07-28' })
    const path = file({ store: 'redis://127.0.0.1:1', upstreams: { one: server.url } })
    const { code, stdout, stderr } = await runCommand(['check', '--config', path])
    expect([code, stdout]).toEqual([1, 'one: ready, MCP 2026-07-28\n'])
    expect(stderr).toMatch(/gateway\.config\.yaml:1:\d+ store: the store cannot be used: .*ECONNREFUSED/)
  })

  test('prints all mistakes of a file at once, with line and column, and exits with 1', async () => {
    const text = `version: 1
listen:
  prot: 8900
  host: http://here
limits:
  body: much
upstreams:
  Files: echo
  one:
    url: ftp://example.com
  two:
    command: [echo]
    isolation: sometimes
  three:
    command: echo "
  four: \${NOT_SET_ANYWHERE}
`
    const path = file(text)
    const { code, stdout, stderr } = await runCommand(['check', '--config', path])
    expect([code, stdout]).toEqual([1, ''])
    const places = stderr
      .replace(/^gatehouse: /, '')
      .trim()
      .split('\n')
      .flatMap((each) => /:(\d+):\d+ (\S+?):/.exec(each)?.slice(1, 3).join(' ') ?? [])
    expect(places).toEqual([
      '3 listen.prot',
      '4 listen.host',
      '6 limits.body',
      '8 upstreams.Files',
      '10 upstreams.one.url',
      '13 upstreams.two.isolation',
      '15 upstreams.three.command',
      '16 upstreams.four',
    ])
    expect(stderr).toContain(`${path}:3:3 listen.prot`)
    expect(stderr).toMatch(/listen\.prot: .*port/)
    expect(stderr).toContain('NOT_SET_ANYWHERE')
    expect(stderr).toContain('    3 |   prot: 8900\n      |   ^\n')
    expect(stderr).toMatch(/\n8 problems\n$/)
  })

  test('prints the same as JSON, whether or not the file can be read', async () => {
    const server = await httpServer({ revision: '2026-07-28' })
    const path = file({ upstreams: { good: server.url, gone: 'http://127.0.0.1:9/mcp' } })
    const one = await runCommand(['check', '--config', path, '--json'])
    expect([one.code, one.stderr]).toEqual([1, ''])
    expect(JSON.parse(one.stdout)).toMatchObject({
      ok: false,
      problems: [{ file: path, line: 1, path: 'upstreams.gone', message: expect.stringContaining(':9/mcp') }],
      servers: [
        { name: 'good', state: 'ready', revision: '2026-07-28' },
        { name: 'gone', state: 'unavailable', problem: expect.stringContaining('refused') },
      ],
    })
    const broken = await runCommand(['check', '--config', file('listen: { prot: 1 }\n'), '--json'])
    expect([broken.code, broken.stderr]).toEqual([1, ''])
    expect(JSON.parse(broken.stdout)).toMatchObject({ ok: false, servers: [] })
    expect(broken.stdout).toContain('listen.prot')
  })

  test('prints the position of a YAML syntax error', async () => {
    const path = file('upstreams:\n  one: [echo\n')
    const { code, stderr } = await runCommand(['check', '--config', path])
    expect(code).toBe(1)
    expect(stderr).toContain(`${path}:`)
    expect(stderr).toMatch(/:[23]:\d+ /)
  })

  test('reports every unreachable server as well as the reachable ones', async () => {
    const server = await httpServer({ refuseStatus: 401 })
    const path = file({
      upstreams: {
        good: stdioServer(),
        gone: '/nowhere/at-all',
        closed: 'http://127.0.0.1:9/mcp',
        locked: server.url,
      },
    })
    const { code, stdout, stderr } = await runCommand(['check', '--config', path])
    expect(code).toBe(1)
    expect(stdout).toBe('good: ready, MCP 2025-11-25\n')
    const lines = stderr.trim().split('\n')
    expect(lines.flatMap((line) => /^\S+ upstreams\.(\w+):/.exec(line)?.[1] ?? []).toSorted()).toEqual([
      'closed',
      'gone',
      'locked',
    ])
    expect(stderr).toContain('credentials')
  })

  test('gives line and column of each unreachable server', async () => {
    const path = file('upstreams:\n  gone: /nowhere/at-all\n  too: { url: "http://127.0.0.1:9/mcp" }\n')
    const { stderr } = await runCommand(['check', '--config', path])
    expect(stderr).toContain(`${path}:2:3 upstreams.gone: `)
    expect(stderr).toContain(`${path}:3:3 upstreams.too: `)
  })

  test('accepts a command or a URL instead of a file', async () => {
    const server = await httpServer()
    expect(await runCommand(['check', server.url])).toMatchObject({ code: 0, stderr: '' })
    expect((await runCommand(['check', '--', '/nowhere/at-all'])).code).toBe(1)
  })
})

describe('gatehouse explain', () => {
  test('prints its findings as JSON', async () => {
    const path = file({ upstreams: { one: stdioServer() } })
    const { code, stdout, stderr } = await runCommand(['explain', 'one', 'echo', '--config', path, '--json'])
    expect([code, stderr]).toEqual([0, ''])
    expect(JSON.parse(stdout)).toMatchObject({
      server: 'one',
      revision: '2025-11-25',
      tools: [{ name: 'echo', risk: expect.any(String), confirmation: { when: expect.any(String) } }],
      passes: { method: 'tools/call' },
    })
  })

  test('prints how a server is reached, its revision and the middleware of a call', async () => {
    const path = file({ upstreams: { one: stdioServer(), two: 'echo' } })
    const { code, stdout, stderr } = await runCommand(['explain', 'one', 'echo', '--config', path])
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(/^one echo\n/)
    expect(stdout).toMatch(/reached by .*fake-server/)
    expect(stdout).toContain('2025-11-25')
    expect(stdout).toContain('tools/call')
    const chain = ['observe', 'limits', 'the server'].map((word) => stdout.indexOf(word))
    expect(chain).toEqual(chain.toSorted((one, other) => one - other))
    expect(chain.includes(-1)).toBe(false)
  })

  test.each([
    [{}, 'become tasks after 20s for clients that support tasks; an outcome is kept for 10m'],
    [
      { keep: '90s', tasks: { after: '1500ms', answer_within: '50s' } },
      'become tasks after 1500ms for clients that support tasks; other clients are answered after 50s; an outcome is kept for 90s',
    ],
    ['off', 'end with their request (features.progress is off)'],
  ])('prints what becomes of long calls with features.progress: %j', async (progress, shown) => {
    const path = file({ features: { progress }, upstreams: { one: stdioServer() } })
    const { stdout } = await runCommand(['explain', 'one', 'echo', '--config', path])
    expect(stdout).toContain(`long calls   ${shown}\n`)
  })

  test('prints that calls of a tool whose latency is minutes become tasks at once', async () => {
    const one = { ...stdioServer(), tools: { echo: { latency: 'minutes' } } }
    const path = file({ upstreams: { one } })
    const { stdout } = await runCommand(['explain', 'one', 'echo', '--config', path, '--json'])
    expect(JSON.parse(stdout).tools[0].long_calls).toEqual({ task_after_ms: 0, keep_ms: 600_000 })
  })

  test.each([
    ['2025-11-25', '2025-11-25 (as configured)'],
    ['2025-06-18', '2025-06-18 (negotiated; 2025-11-25 is configured)'],
  ] as const)('prints the revision that a server of %s negotiated', async (spoken, shown) => {
    const one = stdioServer({ revision: spoken }, { revision: '2025-11-25' })
    const { stdout } = await runCommand(['explain', 'one', '--config', file({ upstreams: { one } })])
    expect(stdout).toContain(`revision     ${shown}\n`)
  })

  test('lists the known servers if asked for an unknown one, and exits with 2', async () => {
    const path = file({ upstreams: { one: 'echo', two: 'echo' } })
    const { code, stdout, stderr } = await runCommand(['explain', 'three', '--config', path])
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain('one, two')
  })

  test('gives the reason why a server cannot be reached, and exits with 1', async () => {
    const path = file({ upstreams: { one: '/nowhere/at-all' } })
    const { code, stdout } = await runCommand(['explain', 'one', '--config', path])
    expect([code, stdout]).toEqual([1, expect.stringContaining('problem')])
  })

  test('prints the last stderr lines of a server that exited, as check does', async () => {
    const script =
      "console.error('first'); console.error('Set API_KEY to reach the service'); process.exit(3)"
    const path = file({ upstreams: { one: { command: [process.execPath, '-e', script] } } })
    const explained = await runCommand(['explain', 'one', '--config', path])
    expect(explained.stdout).toContain('stderr       Set API_KEY to reach the service')
    const checked = await runCommand(['check', '--config', path])
    expect([checked.code, checked.stderr]).toEqual([
      1,
      expect.stringContaining('    Set API_KEY to reach the service'),
    ])
  })

  test('prints no secret', async () => {
    const path = file({
      upstreams: { one: { url: 'http://127.0.0.1:9/mcp', token: 'sesame', headers: { 'x-key': 'pumpkin' } } },
    })
    const { stdout, stderr } = await runCommand(['explain', 'one', '--config', path])
    expect(stdout + stderr).not.toMatch(/sesame|pumpkin/)
  })
})
