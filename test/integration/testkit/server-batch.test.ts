// `gatehouse test` of all servers of a configuration: its table and files, what it keeps, and the page that shows it.
import {
  closeSync,
  existsSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { validator } from '../../../src/core/schema/schema.ts'
import { brokenServer, type Way } from '../../support/broken-server.ts'
import { until } from '../../support/condition.ts'
import { type Finished, runCommand, startCommand, startGateway } from '../../support/gateway.ts'
import { startCommandProcess } from '../../support/gateway-process.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { hasSchema, schemaText } from '../../support/published-schemas.ts'
import { isObject, type Json, parse } from '../../support/server/json.ts'
import { parseXml } from '../../support/xml.ts'

const root = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-server-batch-')))
afterAll(() => rmSync(root, { recursive: true, force: true, maxRetries: 5 }))

const serverOf = (way?: Way): Json => {
  const [command, ...args] = brokenServer(way)
  return { command, args, revision: '2025-11-25' }
}
const hostile = join(import.meta.dirname, '../../fixtures/hostile-server/main.ts')
const silent = { command: process.execPath, args: [hostile, 'silent'], start_timeout: '1s' }

function configOf(upstreams: Json, more: Json = {}): string {
  const folder = mkdtempSync(join(root, 'config-'))
  const file = join(folder, 'gateway.config.yaml')
  writeFileSync(file, JSON.stringify({ store: join(folder, 'store'), upstreams, ...more }))
  return file
}

const upstreams = { sound: serverOf(), broken: serverOf('stack-trace'), silent }
const patience = ['--timeout', '3s']

describe('a batch of a sound, a broken and a silent server', () => {
  const config = configOf(upstreams)
  const junit = join(root, 'batch.xml')
  let ran: Finished
  beforeAll(async () => {
    ran = await runCommand(['test', '--all', '--config', config, '--junit', junit, ...patience])
  })

  it('prints a table with the score, the coverage and what failed first of each', () => {
    expect(ran.code).toBe(1)
    expect(ran.stdout).toMatch(/^SERVER +SCORE +TOOLS +PASSED +FAILED +WHAT FAILED FIRST$/m)
    expect(ran.stdout).toMatch(/^sound +100 +1 of 4 tools answered +\d+ +0$/m)
    expect(ran.stdout).toMatch(
      /^broken +\d\d +1 of 4 tools answered +\d+ +2 +Errors of get_forecast reveal nothing of its inside, but: /m,
    )
    expect(ran.stdout).toMatch(/^silent +0 +tools could not be listed +0 +1 +silent cannot be reached: /m)
    expect(ran.stdout).toContain('3 servers: 1 without a failure, 2 with failures; 2 of 8 tools answered')
    expect(ran.stderr).toMatch(/^\[3 of 3\] \w+: /m)
  })

  it('writes JUnit XML with a suite for each server, with score and coverage as properties', () => {
    const suites = parseXml(readFileSync(junit, 'utf8')).children
    expect(suites.map(({ attributes }) => attributes['name'])).toEqual(['sound', 'broken', 'silent'])
    const properties = suites.map(({ children }) =>
      (children[0]?.children ?? []).map(({ attributes }) => [attributes['name'], attributes['value']]),
    )
    expect(properties[0]).toEqual([
      ['score', '100'],
      ['tools_called', '2'],
      ['tools_answered', '1'],
      ['tools_listed', '4'],
      ['server_version', '1.0.0'],
    ])
    expect(suites[2]?.attributes).toMatchObject({ tests: '1', errors: '1' })
  })

  it('leaves the scores in the store, for the page, its JSON, its badges and the next run', async () => {
    await runCommand(['test', 'broken', '--config', config, ...patience])
    // A part of the tools is no score of the server.
    await runCommand(['test', 'sound', '--tool', 'read_note', '--config', config, ...patience])
    const gateway = await startGateway({
      store: join(config, '../store'),
      upstreams: { sound: serverOf(), broken: serverOf('stack-trace'), silent: serverOf() },
    })
    onTestFinished(() => gateway.close())
    const get = async (path: string, accept = '*/*') =>
      (await fetch(`${gateway.origin}/conformance${path}`, { headers: { accept } })).text()
    const page = await get('', 'text/html')
    expect(page).toContain('100/100 · 1 of 4 tools answered')
    expect(page).toContain(
      '3 tools were not called, or failed all valid calls: the score says little about them.',
    )
    expect(page).toMatch(/Score of the last 2 runs: (\d+), \1"/)
    expect(page).toContain('gatehouse test broken --timeout 3s --tool get_forecast')
    expect(await get('/sound/badge.svg')).toContain('server test: 100/100 · 1 of 4 tools answered')
    expect(await get('/silent/badge.svg')).toContain('server test: unavailable')
    expect(await get('/badge.svg')).toContain('server test: lowest 0/100')
    const report = parse(await get('/broken', 'application/json'))
    const test = isObject(report) ? report['server_test'] : undefined
    expect(report).toMatchObject({ server_name: 'broken', results: [] })
    expect(test).toMatchObject({
      coverage: { called: 2, answered: 1, listed: 4 },
      history: [{ listed: 4 }, { listed: 4 }],
    })
    if (!hasSchema('proposals/conformance.schema.json')) return
    const check = validator(JSON.parse(schemaText('proposals/conformance.schema.json')))
    expect([check(report), check(test)]).toEqual([[], []])
  })
})

describe.concurrent('without a server', () => {
  it('the command lists what it would call, and calls nothing', async () => {
    const { code, stdout, stderr } = await runCommand(['test', '--config', configOf(upstreams)])
    expect(code).toBe(2)
    expect(stdout).toMatch(/^sound: 2 of 4 tools only read$/m)
    expect(stdout).toMatch(/^ {2}called: get_forecast, read_note$/m)
    expect(stdout).toMatch(/^ {2}left out, they may change something: add_note \(.+\), delete_note \(.+\)$/m)
    expect(stdout).toMatch(/^silent: cannot be reached: /m)
    expect(stderr).toContain('add --all to test these servers')
  })

  it.each([
    [[], 'y\n', 0, /^SERVER .*\nsound +100 /],
    [[], '\n', 1, /^$/],
    [['--json'], 'y\n', 0, /^\{\n {2}"reports": \[/],
  ])(
    'the command asks in a terminal, with %j, and the answer %j decides',
    async (more, answer, code, output) => {
      const config = configOf({ sound: serverOf() }, { store: 'memory' })
      const command = startCommand(['test', '--config', config, ...more], { isTerminal: true })
      await until(() => command.stderr().includes('[y/N]'), 'the question')
      expect(command.stderr()).toMatch(/^ {2}called: get_forecast, read_note$/m)
      command.stdin.write(answer)
      const ended = await command.ended
      expect(ended.code).toBe(code)
      expect(ended.stdout).toMatch(output)
    },
  )

  it('--watch tests only the servers that were agreed to', async (test) => {
    const config = configOf({ sound: serverOf() }, { store: 'memory' })
    const command = startCommand(['test', '--watch', '--config', config], { isTerminal: true })
    test.onTestFinished(() => command.close())
    const waits = (): number => command.stderr().match(/waiting for a change/g)?.length ?? 0
    await until(() => command.stderr().includes('[y/N]'), 'the question')
    command.stdin.write('y\n')
    await until(() => waits() === 1, 'run 1')
    writeFileSync(
      config,
      JSON.stringify({ store: 'memory', upstreams: { added: serverOf(), sound: serverOf() } }),
    )
    await until(() => waits() === 2, 'run 2')
    expect(command.stderr()).toContain('servers that were added to the configuration are not tested')
    expect(command.stdout()).not.toMatch(/^added /m)
    command.stop()
    await command.ended
  })

  it('servers that cannot be tested have no score, and are not kept', async (test) => {
    const large = mkdtempSync(join(root, 'large-'))
    const sparse = openSync(join(large, 'data'), 'w')
    ftruncateSync(sparse, 200_000_000)
    closeSync(sparse)
    const [command, ...args] = brokenServer()
    const personal = { url: 'https://mcp.example.com/', oauth: { grant: 'authorization_code' } }
    const config = configOf({ large: { command, args: [...args, large] }, personal })
    const ran = await runCommand(['test', '--all', '--sandbox', 'copy', '--config', config])
    expect(ran.code).toBe(1)
    expect(ran.stdout).toMatch(/^large +- +not tested: .* is not copied, because it has over /m)
    expect(ran.stdout).toMatch(/^personal +- +not tested: .*each caller has its own credentials for it$/m)
    expect(ran.stdout).toContain('2 servers: 0 without a failure, 0 with failures, 2 not tested')
    const gateway = await startGateway({ store: join(config, '../store'), upstreams: { large: serverOf() } })
    test.onTestFinished(() => gateway.close())
    expect(await (await fetch(`${gateway.origin}/conformance/badge.svg`)).text()).toContain('not run')
  })

  it('a server that takes too long ends in time, and the others are tested', async () => {
    const config = configOf({ slow: serverOf('hang'), sound: serverOf() }, { store: 'memory' })
    const { stdout } = await runCommand([
      ...['test', '--all', '--json', '--jobs', '1', '--config', config],
      ...['--timeout', '20s', '--max-time', '6s'],
    ])
    const report = parse(stdout)
    const [slow, sound] =
      isObject(report) && Array.isArray(report['reports']) ? report['reports'].filter(isObject) : []
    expect(slow?.['results']).toContainEqual(
      expect.objectContaining({
        test_id: 'server/available',
        status: 'error',
        message: expect.stringContaining('the time for this server, 12s, is over'),
      }),
    )
    expect(sound).toMatchObject({ score: { total: 100 } })
  })
})

describe.concurrent('examples', () => {
  it('are called, and have to give what they show', async () => {
    const tools = {
      get_forecast: {
        examples: [
          { input: { city: 'Bern' }, output: { city: 'Bern' } },
          { input: { city: 'Bern' }, output: { city: 'Rome' } },
        ],
      },
      read_note: { examples: [{ input: { id: 'none' } }] },
      add_note: { examples: [{ input: { id: 'first' }, output: { id: 'first' } }] },
    }
    const config = configOf({ server: { ...serverOf(), tools } }, { store: 'memory' })
    const { stdout, code } = await runCommand(['test', 'server', '--config', config, '--json'])
    const statuses = statusesIn(stdout)
    expect(code).toBe(1)
    expect(statuses).toMatchObject({
      'tool/get_forecast/example-1': 'passed',
      'tool/get_forecast/example-2': 'failed',
      'tool/read_note/example-1': 'failed',
      'tool/add_note/calls': 'skipped',
    })
  })
})

describe.concurrent('tools that write, of published servers', () => {
  it('are called in a folder that is the sandbox, and nowhere else', async () => {
    const folder = mkdtempSync(join(root, 'files-'))
    const sandbox = join(folder, 'scratch')
    mkdirSync(sandbox)
    const [command, ...args] = publishedServer('@modelcontextprotocol/server-filesystem', folder)
    const config = configOf({ files: { command, args } }, { store: 'memory' })
    const { stdout } = await runCommand([
      ...['test', 'files', '--config', config, '--sandbox', sandbox, '--json'],
      ...['--tool', 'write_file', '--tool', 'create_directory'],
    ])
    expect(parse(stdout)).toMatchObject({ coverage: { called: 2, listed: 14 } })
    expect(failuresIn(stdout)).toEqual([])
    expect(statusesIn(stdout)['tool/write_file/valid/example-1']).toBe('passed')
    expect(readdirSync(sandbox).length).toBeGreaterThan(0)
    expect(readdirSync(folder)).toEqual(['scratch'])
  })

  it('are called on copies of the folders and files of the configuration, which stay as they are', async () => {
    const folder = mkdtempSync(join(root, 'copied-'))
    const file = join(folder, 'note.txt')
    const memory = join(mkdtempSync(join(root, 'memory-')), 'memory.jsonl')
    writeFileSync(file, 'before')
    const [command, ...args] = publishedServer('@modelcontextprotocol/server-filesystem', folder)
    const [node, ...script] = publishedServer('@modelcontextprotocol/server-memory')
    const tools = {
      edit_file: { examples: [{ input: { path: file, edits: [{ oldText: 'before', newText: 'b' }] } }] },
    }
    const config = configOf(
      {
        files: { command, args, tools },
        memory: { command: node, args: script, env: { MEMORY_FILE_PATH: memory } },
      },
      { store: 'memory' },
    )
    const sandbox = ['--config', config, '--sandbox', 'copy', '--json']
    const written = ['--tool', 'edit_file', '--tool', 'write_file']
    const edited = await runCommand(['test', 'files', ...written, ...sandbox])
    expect(statusesIn(edited.stdout)['tool/edit_file/example-1']).toBe('passed')
    // A refusal would be its message.
    const generated = resultsIn(edited.stdout).filter(
      ({ test_id: id }) => id === 'tool/write_file/valid/example-1',
    )
    expect(generated).toEqual([expect.not.objectContaining({ message: expect.anything() })])
    // No argument of these tools names a place, so it has to be said that the whole server is there for tests.
    const [bare, whole] = await Promise.all(
      [[], ['--sandbox', 'server']].map((more) =>
        runCommand(['test', 'memory', '--tool', 'create_entities', ...sandbox, ...more]),
      ),
    )
    expect(parse(bare?.stdout ?? '')).toMatchObject({ coverage: { called: 0 } })
    expect(parse(whole?.stdout ?? '')).toMatchObject({ coverage: { called: 1 } })
    expect([readFileSync(file, 'utf8'), existsSync(memory), readdirSync(folder)]).toEqual([
      'before',
      false,
      ['note.txt'],
    ])
  })

  it.each<[string, readonly NodeJS.Signals[]]>([
    ['one signal', ['SIGTERM']],
    ['a second one, which ends the process at once', ['SIGTERM', 'SIGINT']],
  ])('leave no copies behind after %s', async (_what, signals) => {
    const place = mkdtempSync(join(root, 'temporary-'))
    const folder = mkdtempSync(join(root, 'originals-'))
    const config = configOf({ silent: { ...silent, args: [...silent.args, folder], start_timeout: '60s' } })
    const command = startCommandProcess(['test', 'silent', '--config', config, '--sandbox', 'copy'], {
      env: { TMPDIR: place },
    })
    const copies = (): readonly string[] =>
      readdirSync(place).filter((name) => name.startsWith('gatehouse-copy-'))
    try {
      await until(() => copies().length > 0, 'the copies')
      for (const name of signals) command.signal(name)
      const { code, signal } = await command.ended
      expect([code, signal, copies()]).toEqual([1, null, []])
    } finally {
      await command.close()
    }
  })

  it('are called and undone where a proof says how, and what is there stays', async () => {
    const folder = mkdtempSync(join(root, 'undone-'))
    const file = join(folder, 'note.txt')
    writeFileSync(file, 'before')
    const [command, ...args] = publishedServer('@modelcontextprotocol/server-filesystem', folder)
    const tools = { write_file: { examples: [{ input: { path: file, content: 'after' } }] } }
    const config = configOf({ files: { command, args, tools } }, { store: 'memory' })
    const { stdout } = await runCommand([
      ...['test', 'files', '--config', config, '--allow-writes', '--json'],
      ...['--tool', 'write_file', '--tool', 'create_directory'],
    ])
    expect(statusesIn(stdout)).toMatchObject({
      'tool/write_file/valid/example-1': 'passed',
      'tool/write_file/example-1': 'passed',
      'tool/create_directory/calls': 'skipped',
    })
    expect(readFileSync(file, 'utf8')).toBe('before')
  })
})

it('--watch tests again when the configuration or the file of the server changes, until it is stopped', async () => {
  const script = join(root, 'server.mjs')
  writeFileSync(script, `import ${JSON.stringify(brokenServer()[1])}\n`)
  const entry = {
    command: process.execPath,
    args: [brokenServer()[1], 'none', script],
    revision: '2025-11-25',
  }
  const config = configOf({ server: entry }, { store: 'memory' })
  const command = startCommand(['test', '--all', '--watch', '--config', config])
  onTestFinished(() => command.close())
  const runs = (): number => command.stdout().match(/^server +\d+ /gm)?.length ?? 0
  const waits = (): number => command.stderr().match(/waiting for a change/g)?.length ?? 0
  await until(() => waits() === 1, 'run 1')
  writeFileSync(script, '// changed\n')
  await until(() => waits() === 2, 'run 2')
  writeFileSync(config, '{"upstreams": 7}')
  await until(() => waits() === 3, 'run 3')
  expect(command.stderr()).toContain('the settings before the change are tested')
  writeFileSync(config, JSON.stringify({ store: 'memory', upstreams: { server: entry, second: entry } }))
  await until(() => waits() === 4, 'run 4')
  expect(runs()).toBe(4)
  expect(command.stdout()).toMatch(/^second +100 /m)
  command.stop()
  expect((await command.ended).code).toBe(0)
})

function resultsIn(stdout: string): readonly Json[] {
  const report = parse(stdout)
  return isObject(report) && Array.isArray(report['results']) ? report['results'].filter(isObject) : []
}

function statusesIn(stdout: string): Readonly<Record<string, unknown>> {
  return Object.fromEntries(resultsIn(stdout).map(({ test_id, status }) => [test_id, status]))
}

function failuresIn(stdout: string): readonly Json[] {
  return resultsIn(stdout).filter(({ status }) => status === 'failed' || status === 'error')
}
