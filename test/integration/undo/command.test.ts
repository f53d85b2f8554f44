import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { UsageError } from '../../../src/cli/words.ts'
import { undo as undoCommand } from '../../../src/cli/undo.ts'
import { until } from '../../support/condition.ts'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { type Finished, type RunningGateway, runCommand, startGateway } from '../../support/gateway.ts'
import { memoryIo } from '../../support/memory-io.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { hasRedis, type RedisServer, startRedis } from '../../support/redis-server.ts'
import type { Json } from '../../support/server/json.ts'
import { undoableFiles } from '../../support/undoable-files.ts'

/** Real servers of files and of a graph, with the undo rules of their tools. */
function upstreamsIn(home: string): Json {
  return {
    files: {
      command: publishedServer('@modelcontextprotocol/server-filesystem', join(home, 'files')),
      tools: undoableFiles,
    },
    graph: {
      command: publishedServer('@modelcontextprotocol/server-memory'),
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

describe.runIf(hasRedis())('gatehouse undo', () => {
  let redis: RedisServer
  let home: string
  let gateway: RunningGateway
  let client: FakeClient

  const inFiles = (name: string): string => join(home, 'files', name)
  const call = (upstream: string, name: string, args: Json) =>
    client.request('tools/call', { name: `${upstream}_${name}`, arguments: args })
  const undo = (...args: string[]): Promise<Finished> =>
    runCommand(['undo', '--config', gateway.configFile, ...args])
  /** Waits until actions are in the history, which is written after the responses. */
  const recorded = (since: string, count: number): Promise<unknown> =>
    until(async () => {
      const { stdout } = await undo('--since', since, '--dry-run', '--json')
      return (JSON.parse(stdout) as { readonly deeds: readonly unknown[] }).deeds.length === count
    }, 'the actions to be recorded')

  beforeAll(async () => {
    redis = await startRedis()
    home = realpathSync(mkdtempSync(join(tmpdir(), 'undo-')))
    mkdirSync(join(home, 'files'))
    gateway = await startGateway({
      store: redis.url,
      features: { confirm: { level: 'none' } },
      upstreams: upstreamsIn(home),
    })
    client = await connect({ transport: 'http', url: gateway.url, revision: '2025-11-25' })
  })
  afterAll(async () => {
    await client?.close().catch(() => undefined)
    await gateway?.close()
    await redis?.stop()
    rmSync(home, { recursive: true, force: true })
  })

  test('lists actions, the latest first, and undoes them in that order while the gateway runs', async () => {
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
    expect(done.stdout.match(/^undone {6}\S+ {2}\w+ {2}\w+$/gm)).toHaveLength(4)
    expect(readdirSync(join(home, 'files')).toSorted()).toEqual(['a.txt', 'new.txt'])
    expect(readFileSync(inFiles('a.txt'), 'utf8')).toBe('before')
    expect(readFileSync(join(home, 'graph.jsonl'), 'utf8')).toBe('')
  })

  test('undoes nothing twice', async () => {
    const again = await undo('--since', '5m', '--yes', '--upstream', 'graph')
    expect([again.code, again.stdout]).toEqual([0, 'No actions to undo in that time.\n'])
    const left = await undo('--since', '5m', '--json')
    expect(JSON.parse(left.stdout)).toMatchObject({ deeds: [{ tool: 'write_file', undo: 'not_at_all' }] })
  })

  test('reports what could not be undone, and exits with 1', async () => {
    const since = new Date().toISOString()
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
    const since = new Date().toISOString()
    writeFileSync(inFiles('one.txt'), '')
    await call('files', 'move_file', { source: inFiles('one.txt'), destination: inFiles('two.txt') })
    await recorded(since, 1)
    const both = await Promise.all([undo('--since', since, '--yes'), undo('--since', since, '--yes')])
    const lines = both.flatMap(({ stdout }) => stdout.match(/^undone /gm) ?? [])
    expect(lines).toHaveLength(1)
    expect(readdirSync(join(home, 'files'))).toContain('one.txt')
  })

  test('finds no action of another session, or before the given time', async () => {
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
    const asked = undoCommand([...args, '--config', gateway.configFile], memoryIo())
    await expect(asked).rejects.toThrow(UsageError)
    await expect(asked).rejects.toThrow(problem)
  })

  test('undoes actions itself if no gateway runs', async () => {
    const since = new Date().toISOString()
    writeFileSync(inFiles('c.txt'), 'kept')
    await call('files', 'write_file', { path: inFiles('c.txt'), content: 'overwritten' })
    gateway.stop()
    await gateway.ended
    const { code, stdout } = await undo('--since', since, '--yes')
    expect(stdout).toMatch(/^undone {6}\S+ {2}files {2}write_file$/m)
    expect(code).toBe(0)
    expect(readFileSync(inFiles('c.txt'), 'utf8')).toBe('kept')
  })
})
