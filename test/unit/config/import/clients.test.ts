import { describe, expect, test } from 'vitest'
import { importClients, readJsonc } from '../../../../src/config/import/clients.ts'
import { loadSettings } from '../../../../src/config/load.ts'
import { ConfigError } from '../../../../src/config/problem.ts'
import { features } from '../features.ts'

function imported(value: unknown, file = '/home/me/claude_desktop_config.json') {
  const { yaml, notes } = importClients(typeof value === 'string' ? value : JSON.stringify(value), {
    file,
    schema: './gateway.schema.json',
  })
  const body = yaml.split('upstreams:\n')[1] ?? ''
  return { yaml, notes, body }
}

describe('the imported configuration', () => {
  const { yaml, notes, body } = imported({
    globalShortcut: '',
    mcpServers: {
      filesystem: { command: 'npx', args: ['-y', '@modelcontextprotocol/server-filesystem', '/srv/my docs'] },
      'GitHub Tools': {
        command: 'docker',
        args: ['run', '-i', '--rm', '-e', 'GITHUB_TOKEN', 'ghcr.io/github/github-mcp-server'],
        env: { GITHUB_TOKEN: 'ghp_abcdefghij0123456789', LOG_LEVEL: 'debug', PORT: 3000 },
      },
    },
  })

  test('the first line names the schema', () => {
    expect(yaml).toMatch(/^# yaml-language-server: \$schema=\S+gateway\.schema\.json\n/)
  })

  test('servers have their shortest form, with the old name if it changed', () => {
    expect(notes).toEqual([])
    expect(body).toBe(`  filesystem: npx -y @modelcontextprotocol/server-filesystem '/srv/my docs'
  # "GitHub Tools"
  github-tools:
    command: docker run -i --rm -e GITHUB_TOKEN ghcr.io/github/github-mcp-server
    env:
      GITHUB_TOKEN: \${GITHUB_TOKEN}
      LOG_LEVEL: debug
      PORT: "3000"
`)
  })

  test('the variables to set are listed and no secret is written', () => {
    expect(yaml).toContain('#   GITHUB_TOKEN: the value that github-tools has in env GITHUB_TOKEN\n')
    expect(yaml).not.toContain('ghp_')
  })

  test('the file loads without problems or warnings', () => {
    const { settings, warnings } = loadSettings(yaml, {
      file: '/g.yaml',
      features,
      env: { GITHUB_TOKEN: 't' },
    })
    expect(warnings).toEqual([])
    expect(settings.upstreams.map(({ name }) => name)).toEqual(['filesystem', 'github-tools'])
    expect(settings.upstreams[0]?.reach).toMatchObject({ args: ['-y', expect.any(String), '/srv/my docs'] })
  })
})

describe('import from Claude Code', () => {
  test('references are kept and remote servers are read', () => {
    const { body, yaml } = imported({
      mcpServers: {
        api: {
          type: 'http',
          url: '${API_URL:-https://api.example.com}/mcp',
          headers: { Authorization: 'Bearer ${API_KEY}' },
        },
        old: { type: 'sse', url: 'https://old.example.com/sse' },
      },
    })
    expect(body).toBe(`  api:
    url: \${API_URL:-https://api.example.com}/mcp
    token: \${API_KEY}
  old:
    url: https://old.example.com/sse
    transport: sse
`)
    expect(yaml).toContain('#   API_KEY: ')
    expect(yaml).not.toContain('#   API_URL')
  })

  test('servers of several projects have unique names', () => {
    const { body } = imported({
      mcpServers: { db: { command: 'db' } },
      projects: {
        '/home/me/shop': { mcpServers: { db: { type: 'stdio', command: './db.sh', args: [] } }, history: [] },
        '/home/me/none': { allowedTools: [] },
      },
    })
    expect(body).toBe(`  db: db
  # "db" in "/home/me/shop"
  db-2:
    command: ./db.sh
    cwd: /home/me/shop
`)
  })
})

describe('import from Cursor', () => {
  test('variables of Cursor are replaced', () => {
    const { body, notes } = imported(
      {
        mcpServers: {
          tool: {
            command: '${userHome}/bin/tool',
            args: [
              '--root',
              '${workspaceFolder}${/}src',
              '${workspaceFolderBasename}',
              '${env:LEVEL}',
              '${command:pick}',
            ],
            env: { TOKEN: '${env:MY_TOKEN}' },
            envFile: '${workspaceFolder}/.env',
          },
        },
      },
      '/home/me/shop/.cursor/mcp.json',
    )
    expect(body).toBe(`  tool:
    command: \${HOME}/bin/tool --root /home/me/shop/src shop \${LEVEL} '$\${command:pick}'
    env:
      TOKEN: \${MY_TOKEN}
`)
    expect(notes).toEqual([
      '"tool": its `envFile` is not supported: list its variables under `env` as ${NAME}, and set them for the gateway',
      '"tool": "${command:pick}" is not supported and was kept as plain text',
    ])
  })
})

describe('import from VS Code', () => {
  const inputs = [{ type: 'promptString', id: 'db-dsn', description: 'Database\nconnection', password: true }]
  const servers = {
    db: { type: 'stdio', command: 'db', args: ['--dsn', '${input:db-dsn}', '${input:other}'] },
  }

  test.each([
    ['mcp.json', { inputs, servers }],
    ['settings.json', { 'editor.tabSize': 2, mcp: { inputs, servers } }],
  ])('inputs become variables, from %s', (_file, value) => {
    const { body, yaml } = imported(value)
    expect(body).toBe('  db: db --dsn ${DB_DSN} ${OTHER}\n')
    expect(yaml).toContain('#   DB_DSN: Database connection\n#   OTHER: the editor input "other"\n')
  })

  test('comments and trailing commas are accepted', () => {
    const text = `\uFEFF{
      // servers, "quoted"
      "servers": { /* one */
        "web": { "type": "http", "url": "https://example.com/a,]//b", }, // here
      },
    }`
    expect(imported(text).body).toBe('  web: https://example.com/a,]//b\n')
  })
})

describe('import of secrets', () => {
  test.each([
    ['an option', { command: 'x', args: ['--api-key', 'zzz-secret'] }, 'x --api-key ${IT_API_KEY}'],
    ['an option with =', { command: 'x', args: ['--token=zzz-secret'] }, 'x --token=${IT_TOKEN}'],
    ['an argument by its shape', { command: 'x', args: ['sk-zzz-secret-0123456789'] }, 'x ${IT_SECRET}'],
    ['a connection string', { command: 'x', args: ['postgres://u:zzz-secret@h/db'] }, 'x ${IT_SECRET}'],
    [
      'docker -e',
      { command: 'docker', args: ['run', '-e', 'API_KEY=zzz-secret'] },
      'docker run -e API_KEY=${IT_API_KEY}',
    ],
    [
      'a header option',
      { command: 'x', args: ['--header', 'Authorization: Bearer zzz-secret'] },
      "x --header 'Authorization: Bearer ${IT_TOKEN}'",
    ],
    [
      'a query',
      { url: 'https://h.example/mcp?a=1&apiKey=zzz-secret' },
      'https://h.example/mcp?a=1&apiKey=${IT_APIKEY}',
    ],
    ['a header', { url: 'https://h/', headers: { 'X-Api-Key': 'zzz-secret' } }, 'X-Api-Key: ${IT_X_API_KEY}'],
    [
      'basic auth',
      { url: 'https://h/', headers: { authorization: 'Basic zzz-secret' } },
      'authorization: Basic ${IT_TOKEN}',
    ],
    ['a variable', { command: 'x', env: { DB_PASSWORD: 'zzz-secret' } }, 'DB_PASSWORD: ${DB_PASSWORD}'],
    ['a random value', { command: 'x', env: { ID: 'zzz-secret0123456789abcdef' } }, 'ID: ${ID}'],
  ])('secrets in %s become references', (_what, entry, expected) => {
    const { yaml, body } = imported({ mcpServers: { it: entry } })
    expect(body).toContain(expected)
    expect(yaml).not.toContain('zzz-secret')
  })

  test('secrets of different servers get different variables, and equal secrets the same one', () => {
    const { body } = imported({
      mcpServers: {
        a: { command: 'x', env: { API_KEY: 'one' } },
        b: { command: 'x', env: { API_KEY: 'two' } },
        c: { command: 'x', env: { API_KEY: 'one' } },
      },
    })
    expect(body.match(/\$\{\w+\}/g)).toEqual(['${API_KEY}', '${B_API_KEY}', '${API_KEY}'])
  })

  test('paths and plain settings are not taken for secrets', () => {
    const env = { GOOGLE_APPLICATION_CREDENTIALS: '/home/me/key.json', MODE: 'read-only', EMPTY: '' }
    const { body } = imported({ mcpServers: { it: { command: 'x', env } } })
    expect(body).not.toContain('${')
  })
})

describe('import of unsupported servers', () => {
  test('each server that is left out is named with a reason', () => {
    const { notes, body } = imported({
      mcpServers: {
        off: { command: 'x', disabled: true },
        empty: {},
        self: { command: 'npx', args: ['-y', 'gatehouse', 'stdio'] },
        kept: { command: 'x' },
      },
    })
    expect(body).toBe('  kept: x\n')
    expect(notes).toEqual([
      '"off": is disabled there and was skipped',
      '"empty": has neither a command nor a URL and was skipped',
      '"self": is this gateway itself and was skipped',
    ])
  })
})

test.each([
  ['text that is not JSON', '{ "mcpServers": { "a": ghp_secret', 'is not valid JSON'],
  ['a list', '[]', 'is not the configuration of an MCP client'],
  ['no servers', '{"a":1}', 'has no MCP servers'],
  [
    'only the address of this gateway',
    '{"mcpServers":{"g":{"url":"http://127.0.0.1:8900/mcp"}}}',
    'is this gateway itself',
  ],
  [
    'only the program of this gateway',
    '{"mcpServers":{"g":{"command":"node","args":["/opt/gatehouse/dist/main.js","stdio"]}}}',
    'is this gateway itself',
  ],
])('%s is refused without printing it', (_what, text, expected) => {
  expect(() => imported(text)).toThrow(expected)
  expect(() => imported(text)).toThrow(ConfigError)
  expect(() => imported(text)).not.toThrow('ghp_secret')
})

test('strings in JSON with comments are unchanged', () => {
  const value = { a: 'x // y', b: '/* z */', c: ',]', d: 'q\\"//', 'e,}': [1] }
  expect(readJsonc(JSON.stringify(value))).toEqual(value)
})
