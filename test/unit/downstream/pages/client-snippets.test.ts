import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { stdioWords } from '../../../../src/descriptions/model/facts.ts'
import { clientSnippets } from '../../../../src/downstream/pages/client-snippets.ts'
import { inRepository } from '../../../support/document.ts'

const endpoints = { 'gatehouse-by-url': 'http://127.0.0.1:8900/mcp' }

test.each([
  ['Claude Code', 'claude-code.mcp.json'],
  ['Cursor', 'cursor.mcp.json'],
  ['VS Code', 'vscode.mcp.json'],
  ['Claude Desktop', 'claude-desktop.json'],
])('the client settings for %s equal those in deploy/clients', (client, file) => {
  const found = clientSnippets({ endpoints, needsToken: false }).find((each) => each.client === client)
  const [[key, written] = ['', {}]] = Object.entries<Record<string, unknown>>(
    JSON.parse(readFileSync(inRepository(`deploy/clients/${file}`), 'utf8')),
  )
  expect(JSON.parse(found?.text ?? '')).toEqual({
    [key]: { 'gatehouse-by-url': written['gatehouse-by-url'] },
  })
})

test('the token is a reference in the syntax of each client and never a value', () => {
  const snippets = clientSnippets({ endpoints, needsToken: true })
  const bearer = snippets.flatMap(({ text }) => /Bearer [^"]*/.exec(text) ?? [])
  expect(bearer).toEqual([
    'Bearer ${GATEHOUSE_TOKEN}',
    'Bearer ${env:GATEHOUSE_TOKEN}',
    'Bearer ${input:gatehouse-token}',
  ])
  expect(snippets[0]?.command).toBe(
    'claude mcp add --transport http gatehouse-by-url http://127.0.0.1:8900/mcp --header "Authorization: Bearer $GATEHOUSE_TOKEN"',
  )
  expect(JSON.parse(snippets[3]?.text ?? '').mcpServers['gatehouse-by-url']).toEqual({
    command: 'gatehouse',
    args: ['stdio', '--gateway-key', 'auto', '--token-env', 'GATEHOUSE_TOKEN', 'http://127.0.0.1:8900/mcp'],
    env: { GATEHOUSE_TOKEN: 'your token' },
  })
})

test('a client without URLs knows the key of the gateway, and has a token even if others sign in', () => {
  const key = 'k'.repeat(43)
  const desktop = clientSnippets({ endpoints, needsToken: false, isProtected: true, key }).at(-1)
  expect(JSON.parse(desktop?.text ?? '').mcpServers['gatehouse-by-url'].args).toEqual([
    'stdio',
    '--gateway-key',
    key,
    '--token-env',
    'GATEHOUSE_TOKEN',
    'http://127.0.0.1:8900/mcp',
  ])
})

test('an address that is neither encrypted nor of this machine does not say that it is a gateway', () => {
  expect(stdioWords('http://gw.lan:8900/mcp', { isProtected: false })).toEqual([
    'stdio',
    'http://gw.lan:8900/mcp',
  ])
  expect(stdioWords('https://gw.lan/mcp', { isProtected: false })).toContain('auto')
})

test('several endpoints become several servers of the client', () => {
  const several = { files: 'http://h/mcp/files', notes: 'http://h/mcp/notes' }
  const [code] = clientSnippets({ endpoints: several, needsToken: false })
  expect(Object.keys(JSON.parse(code?.text ?? '').mcpServers)).toEqual(['files', 'notes'])
  expect(code?.command).toBeUndefined()
})
