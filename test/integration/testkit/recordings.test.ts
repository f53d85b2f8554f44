// A published server, recorded through an official client, takes part in tests without itself.
import { mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { Canaries } from '../../support/canary.ts'
import {
  commandOnStdio,
  gatewayProgram,
  runCommandProcess,
  servedAt,
  startCommandProcess,
} from '../../support/gateway-process.ts'
import { runCommand } from '../../support/gateway.ts'
import { until } from '../../support/condition.ts'
import { peerKinds } from '../../support/peers/clients.ts'
import { connectSdk1 } from '../../support/peers/sdk1.ts'
import { connectSdk2 } from '../../support/peers/sdk2.ts'
import type { PeerClient, Way } from '../../support/peers/client.ts'
import { everything, publishedServer } from '../../support/peers/servers.ts'
import type { Json } from '../../support/server/json.ts'
import { scriptedServer } from '../../support/scripted-server.ts'

const root = mkdtempSync(join(tmpdir(), 'gatehouse-recordings-'))
const file = join(root, 'everything.jsonl')

/** What a client of a recorded conversation does, and what it learns. */
async function converse(client: PeerClient): Promise<unknown> {
  const progress: number[] = []
  const results = {
    tools: await client.tools(),
    echo: await client.call('echo', { message: 'hello' }),
    sum: await client.call('get-sum', { a: 2, b: 3 }),
    structured: await client.call('get-structured-content', { location: 'Chicago' }),
    long: await client.call('trigger-long-running-operation', { duration: 0.4, steps: 8 }, (done) =>
      progress.push(done),
    ),
    asked: await client.call('trigger-elicitation-request'),
    sampled: await client.call('trigger-sampling-request', { prompt: 'answer?', maxTokens: 10 }),
    prompt: await client.prompt('simple-prompt'),
    resource: await client.read('demo://resource/static/document/features.md'),
  }
  // The last one may be dropped by clients that read the response from the same bytes.
  return { ...results, firstProgress: progress[0] }
}

let live: unknown

beforeAll(async () => {
  const client = await connectSdk1(commandOnStdio('record', '-o', file, '--', ...publishedServer(everything)))
  live = await converse(client)
  await client.close()
  await until(() => readFileSync(file, 'utf8').endsWith('\n'), 'the last line of the recording')
})
afterAll(() => rmSync(root, { recursive: true, force: true }))

describe('a recording of server-everything', () => {
  it.each(peerKinds.filter(({ transport }) => transport === 'stdio'))(
    'is the server to $title, with its questions',
    async ({ connect }) => {
      const client = await connect(commandOnStdio('replay', file))
      try {
        expect(await converse(client)).toEqual(live)
        expect(client.asked).toEqual(expect.arrayContaining(['elicitation/create', 'sampling/createMessage']))
      } finally {
        await client.close()
      }
    },
  )

  it.each(peerKinds.filter(({ transport }) => transport === 'http'))(
    'is the server to $title',
    async ({ connect }) => {
      const server = startCommandProcess(['replay', file, '--port', '0'])
      try {
        const url = await servedAt(server)
        const client = await connect({ transport: 'http', url })
        expect(await converse(client)).toEqual(live)
        await client.close()
        server.signal('SIGTERM')
        expect(await server.ended).toMatchObject({ code: 0, stderr: '' })
      } finally {
        await server.close()
      }
    },
  )

  it('says what is nearest to a request that it does not have', async () => {
    const client = await connectSdk1(commandOnStdio('replay', file))
    try {
      await expect(client.call('echo', { message: 'other' })).rejects.toThrow(
        /no tools\/call of "echo" with these parameters\. The nearest, in line \d+, differs: arguments\.message is hello/,
      )
      await expect(client.call('ecco', {})).rejects.toThrow(/no tools\/call of "ecco"\. It has: echo/)
    } finally {
      await client.close()
    }
  })

  it('has no difference to its server, and shows one that the server did not have before', async () => {
    const server = publishedServer(everything)
    const same = await runCommand(['diff', file, '--allow-writes', '--', ...server])
    expect(same.stdout).toContain('the server asks the client during it')
    expect(same.stdout).toMatch(/No difference in [1-9]\d* compared requests/)
    expect(same.code).toBe(0)
    const careful = await runCommand(['diff', file, '--', ...server])
    expect(careful.stdout).toContain('does not declare readOnlyHint')
    const changed = join(root, 'changed.jsonl')
    writeFileSync(changed, readFileSync(file, 'utf8').replace('Echo: hello', 'Echo: goodbye'))
    expect(await runCommand(['diff', file, file])).toMatchObject({ code: 0, stderr: '' })
    const { code, stdout } = await runCommand(['diff', file, changed, '--json'])
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({
      differences: [
        {
          kind: 'changed',
          method: 'tools/call',
          params: { name: 'echo', arguments: { message: 'hello' } },
          values: [{ path: 'result.content[0].text', before: 'Echo: hello', after: 'Echo: goodbye' }],
        },
      ],
    })
  })

  it('is compared with a server of the configuration', async () => {
    const config = join(root, 'live.config.yaml')
    writeFileSync(
      config,
      JSON.stringify({
        upstreams: { live: { command: publishedServer(everything), revision: '2025-11-25' } },
      }),
    )
    const { code, stdout } = await runCommand(['diff', file, '--live', 'live', '--config', config])
    expect(stdout).toMatch(/No difference in [1-9]\d* compared requests/)
    expect(code).toBe(0)
  })

  it('becomes a test that runs without the gateway', async () => {
    const listed = await runCommand(['replay', file, '--list'])
    const folder = mkdtempSync(join(root, 'test-'))
    symlinkSync(join(import.meta.dirname, '../../../node_modules'), join(folder, 'node_modules'))
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
    for (const name of ['get-sum', 'trigger-elicitation-request']) {
      const [, number = ''] = new RegExp(`^(\\d+)  tools/call .*"${name}"`, 'm').exec(listed.stdout) ?? []
      const output = join(folder, `${name}.test.js`)
      expect(await runCommand(['replay', file, '--to-test', number, '-o', output])).toMatchObject({ code: 0 })
    }
    const sum = readFileSync(join(folder, 'get-sum.test.js'), 'utf8')
    writeFileSync(join(folder, 'wrong-sum.test.js'), sum.replaceAll('is 5', 'is 6'))
    const vitest = join(folder, 'node_modules/vitest/vitest.mjs')
    const { code, stdout, stderr } = await runCommandProcess(['run', '--root', folder], {
      env: { MCP_SERVER: JSON.stringify(publishedServer(everything)), NO_COLOR: '1' },
      program: [process.execPath, vitest],
      cwd: folder,
    })
    expect(stdout).toMatch(/^ +Tests +1 failed \| 2 passed \(3\)$/m)
    expect(stderr).toContain('FAIL  wrong-sum.test.js')
    expect(code).toBe(1)
  })
})

/** A recording of one request. */
function recordingOf(method: string, params: Json, result: Json): string {
  const entries = [
    { type: 'header', cassetteVersion: 2, transport: 'http' },
    { type: 'frame', t: 0, dir: 'c2s', frame: { id: 1, method, params } },
    { type: 'frame', t: 0, dir: 's2c', frame: { id: 1, result } },
  ]
  const path = join(mkdtempSync(join(root, 'one-')), 'one.jsonl')
  writeFileSync(path, entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''))
  return path
}

describe('a recording', () => {
  it('has no secrets, and still replays', async () => {
    const canaries = new Canaries()
    const config = join(root, 'gateway.config.yaml')
    const recorded = join(root, 'secrets.jsonl')
    const mail = 'ada@example.com'
    writeFileSync(
      config,
      JSON.stringify({
        features: { mask: { rules: [{ pattern: '[a-z]+@example\\.com' }] } },
        upstreams: {
          everything: { command: publishedServer(everything), env: { SERVER_KEY: canaries.of('env') } },
          other: { url: 'https://other.example/mcp', token: canaries.of('token') },
        },
      }),
    )
    const ambient = canaries.of('variable')
    const [command = '', ...args] = gatewayProgram()
    const way: Way = {
      transport: 'stdio',
      command: [
        '/usr/bin/env',
        `DEPLOY_TOKEN=${ambient}`,
        command,
        ...args,
        ...['record', 'everything', '--config', config, '-o', recorded],
      ],
    }
    const secrets = ['env', 'token', 'variable'].map((slot) => canaries.of(slot))
    const message = (prefix: string): string => `${prefix} ${secrets.join(' ')} ${mail} password=hunter22222`
    const client = await connectSdk2(way, 'legacy')
    // The server returns its environment, in which the gateway masks what it gave, and what it is sent.
    const environment = await client.call('get-env')
    expect(environment.text).toContain('"SERVER_KEY": "***"')
    await client.call('echo', { message: message('a') })
    await client.close()
    await until(() => readFileSync(recorded, 'utf8').includes('Echo: a'), 'the recorded call')
    const text = readFileSync(recorded, 'utf8')
    expect(canaries.in(text)).toEqual([])
    expect(text).not.toContain(mail)
    expect(text).not.toContain('hunter22222')
    expect(statSync(recorded).mode & 0o77).toBe(0)
    // Any text is equal to one that was removed.
    const again = await connectSdk1(commandOnStdio('replay', recorded))
    const { text: replayed } = await again.call('echo', { message: message('a') })
    expect(replayed).toMatch(/^Echo: a \*\*\*/)
    await expect(again.call('echo', { message: message('b') })).rejects.toThrow(/nearest/)
    await again.close()
  })

  it('is compared with a server at a URL', async () => {
    const server = await scriptedServer(
      { tools: {} },
      { 'tools/list': () => ({ tools: [{ name: 'new', inputSchema: { type: 'object' } }] }) },
    )
    onTestFinished(() => server.close())
    const tools = [{ name: 'old', inputSchema: { type: 'object' } }]
    const listed = recordingOf('tools/list', {}, { tools })
    const { code, stdout } = await runCommand(['diff', listed, '--live', server.url])
    expect(stdout).toContain('~ tools/list {} (line 2 and')
    expect(stdout).toContain('result.tools[0].name: "old" → "new"')
    expect(code).toBe(1)
  })

  it('is compared with a server of which nothing of it is requested', async () => {
    const server = await scriptedServer({}, {})
    onTestFinished(() => server.close())
    const subscribed = recordingOf('resources/subscribe', { uri: 'a:b' }, {})
    const { code, stdout, stderr } = await runCommand(['diff', subscribed, '--live', server.url])
    expect(stderr).toBe('')
    expect(stdout).toContain('not made: resources/subscribe a:b (line 2)')
    expect(stdout).toContain('No difference in 0 compared requests')
    expect(code).toBe(0)
  })

  it('is replaced with --force', async () => {
    const replaced = join(root, 'replaced.jsonl')
    writeFileSync(replaced, 'what was there before\n'.repeat(10_000))
    const words = ['record', '--force', '-o', replaced, '--', ...publishedServer(everything)]
    const client = await connectSdk1(commandOnStdio(...words))
    await client.call('echo', { message: 'hello' })
    await client.close()
    await until(() => readFileSync(replaced, 'utf8').includes('Echo: hello'), 'the recorded call')
    const text = readFileSync(replaced, 'utf8')
    expect(text).toMatch(/^\{"type":"header"/)
    expect(text).not.toContain('what was there before')
  })

  it('is not overwritten, and says what is wrong with it', async () => {
    const broken = join(root, 'broken.jsonl')
    const header = '{"type":"header","cassetteVersion":2,"transport":"stdio"}'
    const problems = [
      ['{"type":"header","cassetteVersion":3}\n', 'broken.jsonl:1: cassetteVersion is 3'],
      [`${header}\n{"type":\n{}\n`, 'broken.jsonl:2: the line is not JSON'],
      [`${header}\n{"type":"frame","t":1,"dir":"up","frame":{}}\n`, 'broken.jsonl:2: dir must be'],
      [`${header}\n`, 'no answered initialize request'],
    ]
    for (const [text = '', message = ''] of problems) {
      writeFileSync(broken, text)
      const { code, stderr } = await runCommand(['replay', broken])
      expect(stderr).toContain(message)
      expect(code).toBe(1)
    }
    const over = await runCommand(['record', '-o', broken, '--', 'true'])
    expect(over.stderr).toContain('exists. Give another file, or --force')
    const none = await runCommand(['replay', join(root, 'none.jsonl')])
    expect(none.stderr).toContain('does not exist')
  })
})
