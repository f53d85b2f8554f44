import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { fakeServerCommand } from '../../support/fake-server.ts'
import { runCommand } from '../../support/gateway.ts'
import { folder } from '../../support/journey.ts'
import type { Json } from '../../support/server/json.ts'

const name = 'gateway.config.yaml'
const { command, args } = fakeServerCommand({ revision: '2025-11-25' })
const fake = { command, args }

describe('gatehouse init', () => {
  test('writes a first configuration and prints the next steps', async () => {
    const cwd = folder()
    const { code, stdout, stderr } = await runCommand(['init'], { cwd })
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toContain(join(cwd, name))
    expect(stdout).toContain('gatehouse check')
    expect(readFileSync(join(cwd, name), 'utf8')).toContain('upstreams:')
    expect(JSON.parse(schemaNamedIn(cwd))).toHaveProperty('properties.upstreams')
  })

  test('overwrites nothing unless --force is given', async () => {
    const cwd = folder()
    writeFileSync(join(cwd, name), 'mine')
    const refused = await runCommand(['init'], { cwd })
    expect([refused.code, refused.stdout, refused.stderr]).toEqual([
      1,
      '',
      expect.stringContaining('--force'),
    ])
    expect(readFileSync(join(cwd, name), 'utf8')).toBe('mine')
    expect((await runCommand(['init', '--force'], { cwd })).code).toBe(0)
    expect(readFileSync(join(cwd, name), 'utf8')).toContain('upstreams:')
  })

  test.each<[string, string, Json]>([
    ['Claude Desktop', 'claude_desktop_config.json', { mcpServers: { fake } }],
    ['Claude Code (project)', '.mcp.json', { mcpServers: { fake: { type: 'stdio', ...fake } } }],
    ['Claude Code (user)', '.claude.json', { projects: { [tmpdir()]: { mcpServers: { fake } } } }],
    ['Cursor', '.cursor/mcp.json', { mcpServers: { fake } }],
    ['VS Code', '.vscode/mcp.json', { servers: { fake: { type: 'stdio', ...fake } } }],
    ['VS Code (user)', 'settings.json', { mcp: { servers: { fake } } }],
  ])('imports working servers from %s', async (_client, file, content) => {
    const cwd = folder()
    mkdirSync(dirname(join(cwd, file)), { recursive: true })
    writeFileSync(join(cwd, file), JSON.stringify(content))
    const written = await runCommand(['init', '--from', file], { cwd })
    expect([written.code, written.stderr]).toEqual([0, ''])
    expect(JSON.parse(schemaNamedIn(cwd))).toHaveProperty('properties.upstreams')
    const checked = await runCommand(['check'], { cwd })
    expect([checked.code, checked.stderr]).toEqual([0, ''])
    expect(checked.stdout).toContain('fake: ready')
  })

  test.each([
    [
      'Codex',
      'config.toml',
      `[mcp_servers.fake]\ncommand = ${JSON.stringify(command)}\nargs = ${JSON.stringify(args)}\n`,
    ],
    ['Goose', 'config.yaml', JSON.stringify({ extensions: { fake: { type: 'stdio', cmd: command, args } } })],
    ['Zed', 'settings.json', `{ // mine\n"context_servers": ${JSON.stringify({ fake })}, }`],
    [
      'opencode',
      'opencode.json',
      JSON.stringify({ mcp: { fake: { type: 'local', command: [command, ...args] } } }),
    ],
  ])('imports working servers from the syntax of %s', async (_client, file, text) => {
    const cwd = folder()
    writeFileSync(join(cwd, file), text)
    expect(await runCommand(['init', '--from', file], { cwd })).toMatchObject({ code: 0, stderr: '' })
    const checked = await runCommand(['check'], { cwd })
    expect([checked.code, checked.stderr]).toEqual([0, ''])
    expect(checked.stdout).toContain('fake: ready')
  })

  test('a file with secrets, headers of the gateway and lists of tools passes `check` as it is', async () => {
    const cwd = folder()
    const entry = {
      ...fake,
      env: { API_KEY: "pump'kin #1", EMPTY: '', N: 1 },
      disabledTools: ['gone'],
      timeout: 60,
    }
    writeFileSync(join(cwd, 'cline_mcp_settings.json'), JSON.stringify({ mcpServers: { 'My Fake': entry } }))
    const written = await runCommand(['init', '--from', 'cline_mcp_settings.json'], { cwd })
    expect([written.code, written.stderr]).toEqual([0, ''])
    expect(written.stdout).toContain(
      `Secrets belong in ${join(cwd, '.env')}: keep that file out of version control.`,
    )
    expect(readFileSync(join(cwd, '.env'), 'utf8')).toBe('API_KEY="pump\'kin #1"\n')
    expect(statSync(join(cwd, '.env')).mode & 0o777).toBe(0o600)
    const checked = await runCommand(['check'], { cwd })
    expect([checked.code, checked.stderr]).toEqual([0, ''])
  })

  test('all files are merged, and what .env has is kept', async () => {
    const cwd = folder()
    writeFileSync(join(cwd, '.env'), 'API_KEY=mine')
    writeFileSync(
      join(cwd, 'a.json'),
      JSON.stringify({ mcpServers: { fake, one: { ...fake, env: { API_KEY: 'pumpkin' } } } }),
    )
    writeFileSync(
      join(cwd, 'b.json'),
      JSON.stringify({ servers: { fake, one: { ...fake, env: { A: '1' } } } }),
    )
    const { code, stdout } = await runCommand(['init', '--from', 'a.json', '--from', 'b.json'], { cwd })
    expect(code).toBe(0)
    expect(stdout).toContain(`${join(cwd, 'b.json')}: "one": is named one-2 here`)
    expect(stdout).toContain(
      `${join(cwd, 'b.json')}: "fake": is the same server as fake of ${join(cwd, 'a.json')}`,
    )
    expect(readFileSync(join(cwd, name), 'utf8').match(/^ {2}[\w-]+:/gm)).toEqual([
      '  fake:',
      '  one:',
      '  one-2:',
    ])
    expect(readFileSync(join(cwd, '.env'), 'utf8')).toBe('API_KEY=mine\nONE_API_KEY=pumpkin\n')
    expect((await runCommand(['check'], { cwd })).code).toBe(0)
  })

  test('the variables of an environment file are imported, with references to the workspace', async () => {
    const cwd = folder()
    mkdirSync(join(cwd, '.vscode'))
    writeFileSync(join(cwd, 'server.env'), 'API_KEY=pumpkin\nMODE=fast\n')
    const entry = { ...fake, envFile: '${workspaceFolder}/server.env', env: { MODE: 'slow' } }
    writeFileSync(join(cwd, '.vscode/mcp.json'), JSON.stringify({ servers: { it: entry } }))
    const { stdout } = await runCommand(['init', '--from', '.vscode/mcp.json'], { cwd })
    expect(stdout).toContain('"it": the variables of its `envFile` were imported')
    expect(readFileSync(join(cwd, name), 'utf8')).toMatch(/API_KEY: \$\{API_KEY\}\n {6}MODE: slow/)
  })

  test.each([
    ['a file that does not exist', 'none.json', 'does not exist: expected the file in which'],
    ['a folder', '.', /is a folder: name the file, such as .*\.mcp\.json/],
  ])('%s is named with what was expected', async (_what, from, message) => {
    const cwd = folder()
    writeFileSync(join(cwd, '.mcp.json'), '{}')
    const { code, stderr } = await runCommand(['init', '--from', from], { cwd })
    expect([code, existsSync(join(cwd, name))]).toEqual([2, false])
    expect(stderr).toMatch(message)
  })

  test('without a server that can be imported nothing is written, and each reason is printed', async () => {
    const cwd = folder()
    const self = { url: 'http://127.0.0.1:8900/mcp' }
    writeFileSync(
      join(cwd, 'x.json'),
      JSON.stringify({ mcpServers: { self, off: { ...fake, disabled: true } } }),
    )
    const { code, stderr } = await runCommand(['init', '--from', 'x.json'], { cwd })
    expect([code, existsSync(join(cwd, name))]).toEqual([1, false])
    expect(stderr).toContain('has no server that can be imported')
    expect(stderr).toContain('"self": is this gateway itself and was skipped')
    expect(stderr).toContain('"off": is disabled there and was skipped')
  })

  test('copies no secret, and names the variables to set', async () => {
    const cwd = folder()
    const remote = { url: 'https://example.com/mcp', headers: { Authorization: 'Bearer sesame' } }
    const local = { ...fake, env: { API_KEY: 'pumpkin' } }
    writeFileSync(join(cwd, 'mcp.json'), JSON.stringify({ mcpServers: { remote, local } }))
    const { code, stdout, stderr } = await runCommand(['init', '--from', 'mcp.json'], { cwd })
    expect(code).toBe(0)
    const yaml = readFileSync(join(cwd, name), 'utf8')
    expect(yaml + stdout + stderr).not.toMatch(/sesame|pumpkin/)
    expect(yaml).toMatch(/token: \$\{\w+\}/)
    expect(yaml).toMatch(/API_KEY: \$\{\w+\}/)
  })

  test('names the missing folder', async () => {
    const cwd = folder()
    const { code, stderr } = await runCommand(['init', '--config', 'none/x.yaml'], { cwd })
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining(`the folder ${join(cwd, 'none')} does not exist`),
    ])
  })

  test('refuses a file that is no client configuration, and writes nothing', async () => {
    const cwd = folder()
    writeFileSync(join(cwd, 'x.json'), '{"mcpServers": {}}')
    const { code, stdout, stderr } = await runCommand(['init', '--from', 'x.json'], { cwd })
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toContain('x.json')
    expect(existsSync(join(cwd, name))).toBe(false)
  })
})

/** The text of the schema the first line of a configuration names to editors. */
function schemaNamedIn(cwd: string): string {
  const yaml = readFileSync(join(cwd, name), 'utf8')
  const [, schema = ''] = /^# yaml-language-server: \$schema=(\S+)\n/.exec(yaml) ?? []
  return readFileSync(new URL(schema, pathToFileURL(join(cwd, name))), 'utf8')
}
