import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { runCommand } from '../../support/gateway.ts'
import { folder } from '../../support/journey.ts'
import type { Json } from '../../support/server/json.ts'

const note = (name: string): Json => ({
  type: 'object',
  properties: { [name]: { type: 'string' } },
  required: [name],
})
const tools = [
  { name: 'create_note', inputSchema: note('title'), outputSchema: note('id') },
  { name: 'delete_note', inputSchema: note('id') },
]
const initialized = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: {} },
  serverInfo: { name: 'n', version: '1' },
}
/** A server with a tool that undoes another one. */
const script = `
const results = ${JSON.stringify({ initialize: initialized, 'tools/list': { tools } })}
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line)
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, result: results[method] ?? {} }))
})`
const notes = { command: process.execPath, args: ['--eval', script] }
const missing = { command: 'no-such-program', args: [] }

/** A home folder with the file of Claude Code, and a folder for the gateway in it. */
function someone(mcpServers: Json) {
  const home = folder()
  const cwd = join(home, 'gateway')
  mkdirSync(cwd)
  const file = join(home, '.claude.json')
  writeFileSync(file, JSON.stringify({ mcpServers }))
  chmodSync(file, 0o600)
  const upstreams = (): Record<string, Json> =>
    parse(readFileSync(join(cwd, 'gateway.config.yaml'), 'utf8')).upstreams
  return {
    file,
    upstreams,
    gatehouse: (...words: string[]) => runCommand(words, { cwd, env: { HOME: home } }),
  }
}

const rule = { create_note: { undo: 'delete_note(id=$.result.id)' } }

test('connect and init add the undo rules that are certain', async () => {
  const { file, upstreams, gatehouse } = someone({ notes, missing })
  const connected = await gatehouse('connect', 'claude-code', '--yes')
  expect(connected.code).toBe(0)
  expect(connected.stdout).toContain('Added undo rules for notes create_note')
  expect(connected.stdout).toContain('Undo rules are missing for missing: ')
  expect(upstreams()['notes']?.['tools']).toEqual(rule)

  await gatehouse('disconnect', '--yes')
  const { code, stdout } = await gatehouse('init', '--from', file, '--force')
  expect([code, stdout]).toEqual([0, expect.stringContaining('Added undo rules for notes create_note')])
  expect(upstreams()['notes']?.['tools']).toEqual(rule)
})

test('with --skip-plan no server is started', async () => {
  const { upstreams, gatehouse } = someone({ notes })
  const { stdout, stderr } = await gatehouse('connect', 'claude-code', '--yes', '--skip-plan')
  expect(`${stdout}${stderr}`).not.toMatch(/undo rule|Reading/)
  expect(upstreams()['notes']?.['tools']).toBeUndefined()
})

test('a configuration whose variables are not set is not planned', async () => {
  const { gatehouse } = someone({ notes: { ...notes, env: { WHERE: '${WHERE_IT_IS}' } } })
  const { code, stdout } = await gatehouse('connect', 'claude-code', '--yes')
  expect([code, stdout]).toEqual([
    0,
    expect.stringContaining('Add undo rules later with gatehouse plan --write.'),
  ])
})
