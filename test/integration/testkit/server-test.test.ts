// `gatehouse test`, as a user runs it: each way of the broken server is found, and published servers have no false finding.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { fixtureCommand, startFixture } from '../../fixtures/conformance-server/start.ts'
import { brokenServer, type Way, ways } from '../../support/broken-server.ts'
import { runCommand } from '../../support/gateway.ts'
import { startEverything, publishedServer } from '../../support/peers/servers.ts'
import { isObject, parse } from '../../support/server/json.ts'

const root = mkdtempSync(join(tmpdir(), 'gatehouse-server-test-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

interface Found {
  readonly code: number | null
  readonly score: unknown
  readonly stdout: string
  /** The ids of the checks with each status. */
  of(status: string): string[]
  message(id: string): unknown
}

async function tested(...args: string[]): Promise<Found> {
  const { code, stdout } = await runCommand(['test', '--json', ...args])
  const report = parse(stdout)
  const { results, score } = isObject(report) ? report : {}
  const all = Array.isArray(results) ? results.filter(isObject) : []
  return {
    code,
    stdout,
    score: isObject(score) ? score['total'] : undefined,
    of: (status) => all.filter((each) => each['status'] === status).map((each) => String(each['test_id'])),
    message: (id) => all.find((each) => each['test_id'] === id)?.['message'],
  }
}

/** The check that finds each way. */
const findings: readonly (readonly [Way, string])[] = [
  ['output-schema', 'tool/get_forecast/output-schema'],
  ['structured-missing', 'tool/get_forecast/output-schema'],
  ['structured-text', 'tool/get_forecast/structured-text'],
  ['malformed-result', 'tool/get_forecast/valid/all'],
  ['accepts-anything', 'tool/get_forecast/wrong-type/city'],
  ['ends-on-long-text', 'tool/get_forecast/survives'],
  ['stack-trace', 'tool/read_note/error-text'],
  ['secret', 'tool/read_note/error-text'],
  ['path', 'tool/read_note/error-text'],
  ['traversal', 'tool/read_note/hostile/id/path'],
  ['random-result', 'tool/get_forecast/repeat'],
  ['hang', 'tool/read_note/survives'],
  ['cursor-loop', 'list/tools/pages'],
  ['duplicate-tools', 'list/tools/unique'],
  ['invalid-schema', 'lint/C121'],
  ['wrong-id', 'protocol/response-ids'],
  ['second-response', 'protocol/response-ids'],
  ['noise', 'protocol/messages'],
  ['unknown-tool', 'unknown/tool/refused'],
  ['unknown-resource', 'unknown/resource/refused'],
  ['unknown-method', 'lint/C100'],
  ['unknown-prompt', 'unknown/prompt/refused'],
  ['undeclared', 'protocol/notifications'],
  ['unimplemented', 'lint/C087'],
  ['ends-on-malformed', 'malformed/not-json/survives'],
]

// The runs wait for silent and slow servers more than they compute, and have nothing in common.
describe.concurrent('a server that is broken on purpose', () => {
  it.each(findings)('%s is found by %s', async (way, id) => {
    const config = configOf(brokenServer(way), { revision: '2025-11-25' })
    const patience = way === 'hang' ? ['--timeout', '2s'] : []
    const found = await tested('server', '--config', config, ...patience)
    expect(found.of('failed')).toContain(id)
    expect(found.code).toBe(1)
    expect(found.score).toBeLessThan(100)
    // The secret of an error is not in the report.
    expect(found.stdout).not.toContain('hunter2secret')
  })

  it('has a finding for each way', () => {
    expect(findings.map(([way]) => way)).toEqual(Object.keys(ways))
  })

  it('has no finding when nothing is broken, and its writes are not called', async () => {
    const found = await tested('--', ...brokenServer())
    expect([...found.of('failed'), ...found.of('error')]).toEqual([])
    expect(found).toMatchObject({ code: 0, score: 100 })
    expect(found.of('skipped')).toEqual(
      expect.arrayContaining(['tool/add_note/calls', 'tool/delete_note/calls']),
    )
    expect(found.of('passed').filter((id) => id.startsWith('tool/get_forecast/')).length).toBeGreaterThan(40)
  })
})

describe.concurrent('published servers', () => {
  it.each([
    ['everything', []],
    ['memory', []],
    ['sequential-thinking', []],
    // Its errors contain the absolute paths that it made of relative ones.
    ['filesystem', [/^tool\/\w+\/error-text$/]],
  ])('%s has no false finding', async (name, known) => {
    const folder = join(root, name)
    mkdirSync(folder)
    const config = configOf(
      publishedServer(`@modelcontextprotocol/server-${name}`, ...(name === 'filesystem' ? [folder] : [])),
      { revision: '2025-11-25', env: { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') } },
    )
    const found = await tested('server', '--timeout', '3s', '--config', config)
    const unknown = found.of('failed').filter((id) => !known.some((pattern) => pattern.test(id)))
    expect([...unknown, ...found.of('error')]).toEqual([])
    expect(found.of('passed').length).toBeGreaterThan(80)
  })

  it('are tested over HTTP too', async () => {
    const server = await startEverything('streamableHttp')
    try {
      const found = await tested(server.url, '--tool', 'echo', '--tool', 'get-sum')
      expect([...found.of('failed'), ...found.of('error')]).toEqual([])
      expect(found.of('passed')).toEqual(
        expect.arrayContaining(['tool/echo/valid/required', 'tool/get-sum/missing/a']),
      )
    } finally {
      await server.close()
    }
  })
})

describe.concurrent('a server of 2026-07-28', () => {
  it.each(['stdio', 'http'] as const)('over %s has no false finding', async (transport) => {
    const modern = fixtureCommand('modern')
    const server = transport === 'http' ? await startFixture('modern') : undefined
    try {
      const config = configOf([modern.command, ...modern.args], { env: modern.env })
      const found = await tested(...(server ? [server.url] : ['server', '--config', config]))
      expect([...found.of('failed'), ...found.of('error')]).toEqual([])
      expect(parse(found.stdout)).toMatchObject({
        revision: '2026-07-28',
        server_version: expect.stringMatching(/^\d/),
      })
      // A text that is repeated in a header, and too long for one.
      expect(found.of('passed')).toContain('tool/test_x_mcp_header/hostile/region/long')
    } finally {
      await server?.close()
    }
  })
})

describe.concurrent('tools that write', () => {
  const undo = { add_note: { undo: 'delete_note(id=$.result.id)' } }
  const revision = '2025-11-25'

  it('are called with --allow-writes if their undo is certain, and undone', async () => {
    const log = join(root, 'notes.log')
    const config = configOf(brokenServer(), { revision, env: { NOTES_FILE: log }, tools: undo })
    const found = await tested('server', '--config', config, '--allow-writes')
    expect(found.code).toBe(0)
    expect(found.of('passed')).toEqual(
      expect.arrayContaining(['tool/add_note/valid/required', 'tool/add_note/wrong-type/id']),
    )
    expect(found.of('skipped')).toContain('tool/delete_note/calls')
    expect(readFileSync(log, 'utf8')).toBe('add text\ndelete text\n')
  })

  it('are left alone after a call that could not be undone', async () => {
    const log = join(root, 'accepted.log')
    const config = configOf(brokenServer('accepts-anything'), {
      revision,
      env: { NOTES_FILE: log },
      tools: undo,
    })
    const found = await tested('server', '--config', config, '--allow-writes')
    expect(found.code).toBe(1)
    expect(found.of('failed')).toContain('tool/add_note/missing/id')
    expect(found.of('error')).toEqual(['tool/add_note/missing/id/undo'])
    expect(found.message('tool/add_note/missing/id/undo')).toContain('could not be undone')
    expect(readFileSync(log, 'utf8').match(/^add/gm)).toHaveLength(2)
  })

  it('without an undo are not called', async () => {
    const log = join(root, 'none.log')
    const config = configOf(brokenServer(), { revision, env: { NOTES_FILE: log } })
    const found = await tested('server', '--config', config, '--allow-writes')
    expect(found.message('tool/delete_note/calls')).toContain('it cannot be undone with certainty')
    expect(() => readFileSync(log)).toThrow('ENOENT')
  })
})

describe.concurrent('the command', () => {
  it('makes the same calls and finds the same for the same seed', async () => {
    const server = publishedServer('@modelcontextprotocol/server-sequential-thinking')
    const runs = await Promise.all([1, 2].map(() => tested('--seed', '7', '--', ...server)))
    const [first = [], second] = runs.map((found) =>
      [...found.of('passed'), ...found.of('failed')].toSorted(),
    )
    expect(first.length).toBeGreaterThan(80)
    expect(second).toEqual(first)
  })

  it('prints what fails and the score as text, and writes JUnit XML', async () => {
    const file = join(root, 'report.xml')
    const { code, stdout, stderr } = await runCommand([
      'test',
      '--junit',
      file,
      '--',
      ...brokenServer('stack-trace'),
    ])
    expect(code).toBe(1)
    expect(stdout).toMatch(/^failed {3}tool\/read_note\/error-text +valid\/required reveals a stack trace: /m)
    expect(stdout).toMatch(/^score \d+ of 100: protocol 100, /m)
    expect(stderr).toContain('tool 1 of 2: get_forecast')
    expect(stdout).toMatch(/^1 of 4 tools answered$/m)
    const xml = readFileSync(file, 'utf8')
    expect(xml).toMatch(/<property name="score" value="\d+"\/>\n.*"tools_called" value="2"/)
    expect(xml).toMatch(
      /^<\?xml version="1.0" encoding="UTF-8"\?>\n<testsuites name="[^"]+" tests="\d+" failures="2"/,
    )
    expect(xml).toContain('<testcase classname="broken.errors" name="tool/read_note/error-text"')
  })

  it.each([
    [['server', '--all'], 'give either one server or --all'],
    [['server', '--jobs', '2'], '--jobs is for several servers'],
    [['--jobs', '0'], '--jobs must be a number from 1 to 64'],
    [['--all', '--tool', 'read_note'], '--tool is for one server'],
    [['--allow-writes', '--sandbox', 'copy', '--', 'node'], 'give either --allow-writes or --sandbox'],
    [['--sandbox', '/', '--', 'node'], 'this folder holds more than a sandbox'],
    [['--'], 'give a command after --'],
    [['--seed', 'x', '--', 'node'], '--seed must be a number'],
    [['--timeout', 'soon', '--', 'node'], '--timeout must be a duration'],
    [['--json', '--junit', 'x.xml', '--', 'node'], 'give either --json or --junit'],
    [['--sed', '1', '--', 'node'], 'did you mean --seed?'],
    [['--tool', 'read_nte', '--', ...brokenServer()], 'did you mean read_note?'],
  ])('with %j ends with 2: %s', async (args, message) => {
    const { code, stderr, stdout } = await runCommand(['test', ...args], { cwd: root })
    expect(stderr).toContain(message)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  })

  it('ends with 1 if the server cannot be reached', async () => {
    const { code, stderr } = await runCommand(['test', '--', process.execPath, join(root, 'missing.js')])
    expect(code).toBe(1)
    expect(stderr).toContain('cannot be reached')
  })
})

function configOf([command = '', ...args]: readonly string[], more: object): string {
  const file = join(mkdtempSync(join(root, 'config-')), 'gateway.config.yaml')
  writeFileSync(file, JSON.stringify({ store: 'memory', upstreams: { server: { command, args, ...more } } }))
  return file
}
