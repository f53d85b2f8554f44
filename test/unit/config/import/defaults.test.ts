import { describe, expect, test } from 'vitest'
import { importedFile, loadedServers } from '../../../support/imported.ts'

/** One server in a file whose client replaces `${NAME:-default}`. */
function imported(entry: object, environment: Readonly<Record<string, string>> = {}) {
  return importedFile({ mcpServers: { it: entry } }, { file: '/x/.mcp.json', environment })
}

describe('a secret that is the default of a reference is in .env, not in the configuration:', () => {
  test.each([
    ['an argument by its look', { command: 'x', args: ['${K:-ghp_hunter20123456789}'] }],
    ['an argument by its option', { command: 'x', args: ['--api-key', '${K:-hunter2}'] }],
    ['the value of an option', { command: 'x', args: ['--api-key=${K:-hunter2}'] }],
    ['a variable of an argument', { command: 'docker', args: ['-e', 'API_KEY=${K:-hunter2}'] }],
    ['a header of an argument', { command: 'x', args: ['--header', 'X-Api-Key: ${K:-hunter2}'] }],
    ['a password of an argument', { command: 'x', args: ['postgres://u:${K:-hunter2}@h/db'] }],
    ['a password and what is before it', { command: 'x', args: ['postgres://${K:-u:hunter2}@h/db'] }],
    ['a URL of an argument', { command: 'x', args: ['${K:-https://h/mcp?api_key=hunter2}'] }],
    ['a query of an argument', { command: 'x', args: ['https://h/mcp?api_key=${K:-hunter2}'] }],
    ['a password in a variable', { command: 'x', env: { DSN: 'postgres://u:${K:-hunter2}@h/db' } }],
    ['a variable', { command: 'x', env: { API_KEY: '${K:-hunter2}' } }],
    ['a header', { url: 'https://h/', headers: { 'X-Api-Key': '${K:-hunter2}' } }],
    ['a header with a scheme', { url: 'https://h/', headers: { Authorization: 'Bearer ${K:-hunter2}' } }],
    ['a URL', { url: '${K:-https://h/mcp?api_key=hunter2}' }],
    ['the path of a URL', { url: 'https://h/${K:-sk-hunter2-0123456789}/mcp' }],
    ['the query of a URL', { url: 'https://h/mcp?a=b&api_key=${K:-hunter2}' }],
  ])('%s', (_what, entry) => {
    const read = imported(entry)
    expect(read.yaml).not.toContain('hunter2')
    expect(read.body).toContain('${K}')
    expect([...read.env]).toEqual([['K', expect.stringContaining('hunter2')]])
    expect(read.notes).toEqual([])
    loadedServers(read)
  })

  test('but what is no secret stays', () => {
    const read = imported({ command: 'x', args: ['--port', '${PORT:-8080}', 'http://h:${PORT:-8080}/'] })
    expect(read.body).toBe("  it: x --port '${PORT:-8080}' 'http://h:${PORT:-8080}/'\n")
  })
})

test.each([
  ['an argument', { command: 'x', args: ['${PREFIX}ghp_hunter20123456789'] }],
  ['a password after a reference', { command: 'x', args: ['postgres://u:${PREFIX}hunter2@h/db'] }],
  ['a parameter after a password', { command: 'x', args: ['https://u:${P}@h/?a=${B}&api_key=hunter2'] }],
  ['a URL in an argument', { command: 'sh', args: ['-c', 'psql postgres://u:hunter2@h/db'] }],
  ['a parameter after a reference', { url: 'https://h/mcp?a=${A}&api_key=hunter2' }],
  ['a parameter after a URL', { url: '${BASE}&api_key=hunter2' }],
  ['the rest of a parameter', { url: 'https://h/mcp?api_key=${A}hunter2' }],
  [
    'a header whose name is like those that are no secret',
    { url: 'https://h/', headers: { 'X-MCP-Token': 'hunter2' } },
  ],
])('a secret beside references is not in the configuration: %s', (_what, entry) => {
  const read = imported(entry)
  expect(read.yaml).not.toContain('hunter2')
  expect([...read.env.values()]).toEqual([expect.stringContaining('hunter2')])
})

test('a URL whose default has a user is skipped', () => {
  const read = importedFile(
    { mcpServers: { it: { url: '${U:-https://hunter2@h/mcp}' }, other: { command: 'x' } } },
    { file: '/x/.mcp.json' },
  )
  expect(read.body).toBe('  other: x\n')
  expect(read.notes).toEqual([expect.stringContaining('"it": has a user in its URL')])
})

describe('a variable with several defaults', () => {
  const mcpServers = {
    a: { command: 'x', args: ['--token', '${T:-hunter2}'] },
    b: { command: 'x', args: ['--token', '${T:-hunter3}'] },
    c: { command: 'x', args: ['--name', '${T:-me}'] },
  }

  test('has none of them in .env: each secret gets a variable of its own', () => {
    const read = importedFile({ mcpServers }, { file: '/x/.mcp.json' })
    expect(read.body).toBe(`  a: x --token \${A_TOKEN}
  b: x --token \${B_TOKEN}
  c: x --name '\${T:-me}'
`)
    expect([...read.env]).toEqual([
      ['A_TOKEN', 'hunter2'],
      ['B_TOKEN', 'hunter3'],
    ])
    expect(read.notes).toEqual([
      expect.stringMatching(/^"a": .*the default of T in one of its arguments/),
      expect.stringMatching(/^"b": .*the default of T in one of its arguments/),
    ])
  })

  test('needs none of them if the environment has a value', () => {
    const read = importedFile({ mcpServers }, { file: '/x/.mcp.json', environment: { T: 'own' } })
    expect(read.body).toBe("  a: x --token ${T}\n  b: x --token ${T}\n  c: x --name '${T:-me}'\n")
    expect([[...read.env], read.notes]).toEqual([[], []])
  })

  test('uses a default if the value in the environment is empty', () => {
    const read = imported(mcpServers.a, { T: '' })
    expect(read.body).toBe('  it: x --token ${IT_TOKEN}\n')
    expect([...read.env]).toEqual([['IT_TOKEN', 'hunter2']])
  })
})
