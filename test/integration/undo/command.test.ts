import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, type TestOptions } from 'vitest'
import { until } from '../../support/condition.ts'
import { connect } from '../../support/fake-client.ts'
import { type Finished, type RunningGateway, runCommand, startGateway } from '../../support/gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { needsRedis, startRedis } from '../../support/redis-server.ts'
import type { Json } from '../../support/server/json.ts'
import { undoableFiles } from '../../support/undoable-files.ts'

/** Real servers of files and of a graph, with the undo rules of their tools. */
function upstreamsIn(home: string): Json {
  return {
    files: {
      command: publishedServer('@modelcontextprotocol/server-filesystem', join(home, 'files')),
      revision: '2025-11-25',
      tools: undoableFiles,
    },
    graph: {
      command: publishedServer('@modelcontextprotocol/server-memory'),
      revision: '2025-11-25',
      env: { MEMORY_FILE_PATH: join(home, 'graph.jsonl') },
      tools: {
        create_entities: { undo: 'delete_entities(entityNames=[$.result.entities[0].name])' },
        add_observations: {
          undo: {
            call: 'delete_observations(deletions=[{"entityName": $.result.results[0].entityName, "observations": $.result.results[0].addedObservations}])',
            exact: false,
          },
        },
      },
    },
  }
}

/** Opens a store that a gateway and the commands beside it share. */
type Open = (home: string) => Promise<{ readonly url: string; stop?(): Promise<void> }>

/** A gateway in front of the servers, with a store and a folder of its own. */
interface Place {
  readonly gateway: RunningGateway
  inFiles(name: string): string
  call(upstream: string, name: string, args: Json): Promise<unknown>
  undo(...args: string[]): Promise<Finished>
  /** Waits until actions are in the history, which is written after the responses. */
  recorded(since: string, count: number): Promise<unknown>
  close(): Promise<void>
}

async function openPlace(open: Open): Promise<Place> {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'undo-')))
  mkdirSync(join(home, 'files'))
  const store = await open(home)
  const gateway = await startGateway({
    store: store.url,
    features: { confirm: { level: 'none' } },
    upstreams: upstreamsIn(home),
  })
  const client = await connect({ transport: 'http', url: gateway.url, revision: '2025-11-25' })
  const undo = (...args: string[]): Promise<Finished> =>
    runCommand(['undo', '--config', gateway.configFile, ...args])
  return {
    gateway,
    inFiles: (name) => join(home, 'files', name),
    call: (upstream, name, args) =>
      client.request('tools/call', { name: `${upstream}_${name}`, arguments: args }),
    undo,
    recorded: (since, count) =>
      until(async () => {
        const { stdout } = await undo('--since', since, '--dry-run', '--json')
        return (JSON.parse(stdout) as { readonly deeds: readonly unknown[] }).deeds.length === count
      }, 'the actions to be recorded'),
    close: async () => {
      await client.close().catch(() => undefined)
      await gateway.close()
      await store.stop?.()
      rmSync(home, { recursive: true, force: true })
    },
  }
}

const stores: readonly { title: string; options: TestOptions; open: Open }[] = [
  { title: 'a folder', options: {}, open: async (home) => ({ url: join(home, 'store') }) },
  { title: 'Redis', options: needsRedis, open: () => startRedis() },
]

for (const { title, options, open } of stores)
  describe(`gatehouse undo with a store in ${title}`, options, () => {
    undoTests(open)
  })

function undoTests(open: Open): void {
  let place: Place
  beforeAll(async () => void (place = await openPlace(open)))
  afterAll(() => place.close())

  test('lists actions, the latest first, and undoes them in that order while the gateway runs', async () => {
    const { call, inFiles, undo, recorded } = place
    const home = dirname(dirname(inFiles('a.txt')))
    writeFileSync(inFiles('a.txt'), 'before')
    await call('files', 'write_file', { path: inFiles('a.txt'), content: 'after' })
    await call('files', 'move_file', { source: inFiles('a.txt'), destination: inFiles('b.txt') })
    await call('files', 'write_file', { path: inFiles('new.txt'), content: 'new' })
    await call('files', 'read_text_file', { path: inFiles('b.txt') })
    await call('graph', 'create_entities', {
      entities: [{ name: 'ada', entityType: 'person', observations: ['x'] }],
    })
    await call('graph', 'add_observations', { observations: [{ entityName: 'ada', contents: ['y'] }] })

    await recorded('5m', 5)
    const dry = await undo('--since', '5m', '--dry-run')
    expect([dry.code, dry.stderr]).toEqual([0, ''])
    expect(
      dry.stdout.split('\n').map((line) => line.replaceAll(home, '').replace(/^\d{4}\S+/, 'AT')),
    ).toEqual([
      'AT  anonymous  graph  add_observations(observations=[{"entityName":"ada","contents":["y"]}])',
      '    approximately: delete_observations(deletions=[{"entityName":"ada","observations":["y"]}])',
      expect.stringMatching(/^AT {2}anonymous {2}graph {2}create_entities\(/),
      '    exactly: delete_entities(entityNames=["ada"])',
      expect.stringMatching(/^AT {2}anonymous {2}files {2}write_file\(.*new\.txt/),
      '    not at all: nothing existed before the call, and no undo is configured for that case',
      expect.stringMatching(/^AT {2}anonymous {2}files {2}move_file\(/),
      expect.stringMatching(/^ {4}exactly: move_file\(source=.*b\.txt", destination=.*a\.txt"\)/),
      expect.stringMatching(/^AT {2}anonymous {2}files {2}write_file\(.*a\.txt/),
      expect.stringMatching(/^ {4}exactly: write_file\(.*content="before"\)/),
      '',
      'Of 5, 3 can be undone exactly, 1 approximately, 1 not at all.',
      '',
    ])
    expect(readFileSync(inFiles('b.txt'), 'utf8')).toBe('after')

    const unsure = await undo('--since', '5m')
    expect(unsure.code).toBe(2)
    expect(unsure.stderr).toContain('add --yes')

    const done = await undo('--since', '5m', '--yes')
    expect([done.code, done.stderr]).toEqual([0, ''])
    expect(done.stdout.match(/^undone {6}\S+ {2}\w+ {2}\w+: /gm)).toHaveLength(4)
    expect(done.stdout).toMatch(/write_file: the state is the old one again$/m)
    expect(done.stdout).toMatch(/move_file: cannot tell whether the state is the old one$/m)
    expect(readdirSync(join(home, 'files')).toSorted()).toEqual(['a.txt', 'new.txt'])
    expect(readFileSync(inFiles('a.txt'), 'utf8')).toBe('before')
    expect(readFileSync(join(home, 'graph.jsonl'), 'utf8')).toBe('')
  })

  test('undoes nothing twice', async () => {
    const { call, inFiles, undo, recorded } = place
    const since = new Date().toISOString()
    await call('graph', 'create_entities', {
      entities: [{ name: 'bob', entityType: 'person', observations: ['x'] }],
    })
    await call('files', 'write_file', { path: inFiles('twice.txt'), content: 'new' })
    await recorded(since, 2)
    expect((await undo('--since', since, '--yes', '--upstream', 'graph')).stdout).toMatch(/^undone /m)
    const again = await undo('--since', since, '--yes', '--upstream', 'graph')
    expect([again.code, again.stdout]).toEqual([0, 'No actions to undo in that time.\n'])
    const left = await undo('--since', since, '--json')
    expect(JSON.parse(left.stdout)).toMatchObject({ deeds: [{ tool: 'write_file', undo: 'not_at_all' }] })
  })

  test('reports what could not be undone, and exits with 1', async () => {
    const { call, inFiles, undo, recorded } = place
    const since = new Date().toISOString()
    writeFileSync(inFiles('new.txt'), 'new')
    await call('files', 'move_file', { source: inFiles('new.txt'), destination: inFiles('moved.txt') })
    writeFileSync(inFiles('new.txt'), 'in the way')
    await recorded(since, 1)
    const { code, stdout } = await undo('--since', since, '--yes', '--json')
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({
      deeds: [{ tool: 'move_file', undo: 'exactly', undone: false, error: expect.stringContaining('exist') }],
    })
  })

  test('undoes an action once if two commands run at the same time', async () => {
    const { call, inFiles, undo, recorded } = place
    const since = new Date().toISOString()
    writeFileSync(inFiles('one.txt'), '')
    await call('files', 'move_file', { source: inFiles('one.txt'), destination: inFiles('two.txt') })
    await recorded(since, 1)
    const both = await Promise.all([undo('--since', since, '--yes'), undo('--since', since, '--yes')])
    const lines = both.flatMap(({ stdout }) => stdout.match(/^undone /gm) ?? [])
    expect(lines).toHaveLength(1)
    expect(existsSync(inFiles('one.txt'))).toBe(true)
  })

  test('finds no action of another session, or before the given time', async () => {
    const { call, inFiles, undo, recorded } = place
    const since = new Date().toISOString()
    await call('files', 'write_file', { path: inFiles('found.txt'), content: 'new' })
    await recorded(since, 1)
    const other = await undo('--since', '5m', '--session', 'other', '--dry-run')
    const before = await undo('--since', '2h', '--until', '1h', '--dry-run')
    for (const { code, stdout } of [other, before])
      expect([code, stdout]).toEqual([0, 'No actions to undo in that time.\n'])
  })

  test.each([
    [[], '--since is required'],
    [['--since', 'yesterday'], '--since must be a duration such as 10m'],
    [['--since', '2999-01-01T00:00Z'], '--since is in the future'],
    [['--since', '1m', '--until', '2m'], '--until is before --since'],
    [['--since', '1m', '--upstream', 'nobody'], 'no server is named "nobody"'],
    [['--since', '1m', 'now'], 'unexpected argument "now"'],
    [['--since', '1m', '--often'], "Unknown option '--often'"],
  ])('%j is a usage error', async (args, problem) => {
    const { code, stdout, stderr } = await place.undo(...args)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain(problem)
  })

  test('undoes actions itself if no gateway runs', async () => {
    const own = await openPlace(open)
    onTestFinished(() => own.close())
    const { gateway, call, inFiles, undo, recorded } = own
    const since = new Date().toISOString()
    writeFileSync(inFiles('c.txt'), 'kept')
    await call('files', 'write_file', { path: inFiles('c.txt'), content: 'overwritten' })
    await recorded(since, 1)
    gateway.stop()
    await gateway.ended
    const { code, stdout } = await undo('--since', since, '--yes')
    expect(stdout).toMatch(/^undone {6}\S+ {2}files {2}write_file: the state is the old one again$/m)
    expect(code).toBe(0)
    expect(readFileSync(inFiles('c.txt'), 'utf8')).toBe('kept')
  })
}
