import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
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
