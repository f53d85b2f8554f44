import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { foreignFile } from '../../support/foreign.ts'
import { type Finished, runCommand } from '../../support/gateway.ts'
import { folder, stdioServer } from '../../support/journey.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import type { Json } from '../../support/server/json.ts'

function file(config: Json): string {
  const path = join(folder(), 'gateway.config.yaml')
  writeFileSync(path, JSON.stringify(config))
  return path
}

function servers(): Record<string, Json> {
  const memory = join(folder(), 'memory.jsonl')
  return {
    files: { command: publishedServer('@modelcontextprotocol/server-filesystem', folder()) },
    memory: {
      command: publishedServer('@modelcontextprotocol/server-memory'),
      env: { MEMORY_FILE_PATH: memory },
    },
    everything: { command: publishedServer('@modelcontextprotocol/server-everything', 'stdio') },
  }
}

function plan(...words: readonly string[]): Promise<Finished> {
  return runCommand(['plan', ...words])
}

describe('gatehouse plan', () => {
  test('prints settings for third-party servers that load when pasted', async () => {
    const upstreams = servers()
    const { code, stdout, stderr } = await plan('--config', file({ upstreams }))
    expect([code, stderr]).toEqual([0, ''])
    const found: Record<string, { tools: Record<string, Json> }> = parse(stdout).upstreams
    expect(found['files']?.tools).toEqual({
      write_file: {
        undo: {
          snapshot: 'read_text_file(path=$.args.path)',
          restore: 'write_file(path=$.args.path, content=$.snapshot.content)',
          absent: 'none',
        },
      },
      edit_file: {
        undo: {
          snapshot: 'read_text_file(path=$.args.path)',
          restore: 'write_file(path=$.args.path, content=$.snapshot.content)',
        },
      },
      // Its effect was seen, and nothing undoes it.
      create_directory: { pivot: true },
      move_file: { undo: 'move_file(source=$.args.destination, destination=$.args.source)' },
    })
    expect(found['memory']?.tools).toMatchObject({
      create_relations: { undo: 'delete_relations(relations=$.result.relations)' },
      delete_entities: { pivot: true, confirm: 'Delete entities {entityNames}?' },
    })
    // What others added since is read before it is deleted: that was proved.
    expect(found['memory']?.tools['create_entities']).toEqual({
      undo: {
        snapshot: 'open_nodes(names=$.args.entities[*].name)',
        restore: 'delete_entities(entityNames=$.result.entities[*].name)',
        exact: true,
      },
    })
    const pasted = Object.entries(upstreams).map(([name, each]) => [name, { ...each, ...found[name] }])
    const check = await runCommand(['check', '--config', file({ upstreams: Object.fromEntries(pasted) })])
    expect([check.code, check.stderr]).toEqual([0, ''])
  })

  test('prints the same as JSON', async () => {
    const { memory } = servers()
    const { code, stdout } = await plan('--json', '--config', file({ upstreams: { memory } }))
    expect(code).toBe(0)
    const [found] = JSON.parse(stdout).servers
    expect(found.name).toBe('memory')
    expect(found.tools).toContainEqual(
      expect.objectContaining({
        tool: 'create_relations',
        settings: { undo: 'delete_relations(relations=$.result.relations)' },
      }),
    )
  })

  test('writes certain findings into the file, which keeps its comments and loads', async () => {
    const path = join(folder(), 'gateway.config.yaml')
    const { memory } = servers()
    const text = `# What stands behind the gateway.
upstreams:
  # Notes of everybody.
  memory: # as published
    command: ${JSON.stringify(memory?.['command'])}
    env: { MEMORY_FILE_PATH: ${JSON.stringify(join(folder(), 'm.jsonl'))} }

  here: ${publishedServer('@modelcontextprotocol/server-filesystem', folder()).join(' ')} # in short
store: memory # for now
`
    writeFileSync(path, text)
    const { code, stdout, stderr } = await plan('--write', '--config', path)
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toContain('  memory create_relations\n')
    const after = readFileSync(path, 'utf8')
    const comments = [
      '# What stands behind the gateway.',
      '# Notes of everybody.',
      '# as published',
      '# for now',
    ]
    for (const comment of [...comments, '# in short']) expect(after).toContain(comment)
    const { upstreams } = parse(after)
    expect(upstreams.memory.tools.create_relations).toEqual({
      undo: 'delete_relations(relations=$.result.relations)',
    })
    expect(upstreams.here.tools.move_file.undo).toContain('move_file(')
    expect((await runCommand(['check', '--config', path])).code).toBe(0)
    const again = await plan('--write', '--config', path)
    expect([again.code, readFileSync(path, 'utf8')]).toEqual([0, after])
  })

  test.each([
    ['without a file', ['--write', '--', 'echo'], 'needs a configuration file'],
    ['with --json', ['--write', '--json', '--config', 'FILE'], 'not both'],
  ])('writes nothing %s', async (_what, words, named) => {
    const path = file({ upstreams: { here: stdioServer() } })
    const { code, stderr } = await plan(...words.map((word) => (word === 'FILE' ? path : word)))
    expect(code).toBe(2)
    expect(stderr).toContain(named)
  })

  test('covers one server if a name or a command is given', async () => {
    const { memory, files } = servers()
    const named = await plan('memory', '--config', file({ upstreams: { memory, files } }))
    expect(Object.keys(parse(named.stdout).upstreams)).toEqual(['memory'])
    const command = publishedServer('@modelcontextprotocol/server-filesystem', folder())
    const given = await plan('--', ...command)
    expect([given.code, given.stderr]).toEqual([0, ''])
    expect(given.stdout).toContain('undo: move_file(')
  })

  test('names the unreachable server, and exits with 1', async () => {
    const path = file({ upstreams: { gone: { command: ['/nowhere/at-all'] }, here: stdioServer() } })
    const { code, stdout, stderr } = await plan('--config', path)
    expect(code).toBe(1)
    expect(stderr).toMatch(/^gone: /m)
    expect(Object.keys(parse(stdout).upstreams)).toEqual(['here'])
  })

  test.each([
    ['an unknown server', ['nobody', '--config', 'FILE'], 'nobody'],
    ['two servers', ['here', 'there', '--config', 'FILE'], 'one server'],
    ['no command', ['--'], 'command'],
  ])('exits with 2 for %s', async (_what, words, named) => {
    const path = file({ upstreams: { here: stdioServer() } })
    const { code, stdout, stderr } = await plan(...words.map((word) => (word === 'FILE' ? path : word)))
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain(named)
  })
})

describe('gatehouse explain', () => {
  test('lists every tool with its risk, its confirmation and its compensation', async () => {
    const { files } = servers()
    const tools = { move_file: { undo: 'none' }, create_directory: { approval: 'out_of_band' } }
    const path = file({ upstreams: { files: { ...files, tools } } })
    const { stdout } = await runCommand(['explain', 'files', '--config', path])
    const row = (name: string): string[] =>
      stdout
        .split('\n')
        .find((line) => line.startsWith(`  ${name} `))
        ?.trim()
        .split(/\s{2,}/) ?? []
    expect(row('tool')).toEqual(['tool', 'risk', 'idempotent', 'confirmation', 'undo'])
    expect(row('write_file')).toEqual([
      'write_file',
      'destructive',
      'yes',
      'unless undoable',
      'by write_file',
    ])
    expect(row('move_file')).toEqual(['move_file', 'destructive', 'no', 'inline', 'none'])
    expect(row('create_directory')).toEqual(['create_directory', 'write', 'yes', 'out of band', 'none'])
    expect(row('list_directory')).toEqual(['list_directory', 'safe', 'yes', 'no'])
  })

  test('prints the setting that turns off confirmation of a tool, and the setting works', async () => {
    const { files } = servers()
    const asked = await runCommand([
      'explain',
      'files',
      'write_file',
      '--config',
      file({ upstreams: { files } }),
    ])
    expect(asked.stdout).toContain(
      'to stop      write tools: { write_file: { confirm: never } } under upstreams.files',
    )
    const tools = { write_file: { confirm: 'never' } }
    const path = file({ upstreams: { files: { ...files, tools } } })
    const { stdout } = await runCommand(['explain', 'files', 'write_file', '--config', path])
    expect(stdout).toContain('confirmation none')
    expect(stdout).not.toContain('to stop')
  })

  test('requires confirmation for a well-known server only if a tool runs programs or reads files', async () => {
    const program = foreignFile('@playwright/mcp/cli.js')
    const upstreams = { browser: { command: [process.execPath, program, '--headless'] } }
    const { stdout } = await runCommand(['explain', 'browser', '--config', file({ upstreams })])
    const rows = stdout.split('\n').filter((line) => line.startsWith('  browser_'))
    const asked = rows.filter((line) => /\binline\b/.test(line))
    expect(rows.length).toBeGreaterThan(20)
    const names = asked.map((line) => line.trim().split(' ', 1)[0] ?? '')
    expect(new Set(names)).toEqual(
      new Set(['browser_drop', 'browser_evaluate', 'browser_file_upload', 'browser_run_code_unsafe']),
    )
  })

  test('prints for one tool why confirmation is required, its question, and its compensation', async () => {
    const { memory } = servers()
    const tools = {
      'delete_*': { confirm: 'Forget {entityNames}?', pivot: true },
      create_relations: { undo: { call: 'delete_relations(relations=$.args.relations)', exact: false } },
    }
    const path = file({ upstreams: { memory: { ...memory, tools } } })
    const asked = await runCommand(['explain', 'memory', 'delete_entities', '--config', path])
    expect(asked.stdout).toMatch(/confirmation by the user of the client, inline/)
    expect(asked.stdout).toContain('message: Forget {entityNames}?')
    expect(asked.stdout).toContain('the configuration has confirm: Forget {entityNames}? for delete_*')
    const undone = await runCommand(['explain', 'memory', 'create_relations', '--config', path])
    expect(undone.stdout).toMatch(/undo {9}approximately, as configured\n +call: delete_relations/)
    expect(undone.stdout).toContain('configured for create_relations')
  })

  test('names undo rules that are inferred from schemas without configuration', async () => {
    const { files } = servers()
    const config = { features: { transactions: { auto_undo: true } }, upstreams: { files } }
    const { stdout } = await runCommand(['explain', 'files', 'move_file', '--config', file(config)])
    expect(stdout).toContain('exactly, as proved (see features.undo.proved)')
  })

  test('needs no configuration for a server given on the command line', async () => {
    const command = publishedServer('@modelcontextprotocol/server-filesystem', folder())
    const { code, stdout } = await runCommand(['explain', 'move_file', '--', ...command])
    expect(code).toBe(0)
    expect(stdout).toContain('exactly, as proved (see features.undo.proved)')
    expect(stdout).toContain('move_file(source=$.args.destination, destination=$.args.source)')
  })
})
