import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { readClientConfig } from '../../../../src/config/import/clients.ts'
import { toGatewayConfig } from '../../../../src/config/import/render.ts'
import { loadSettings } from '../../../../src/config/load.ts'
import { ConfigError } from '../../../../src/config/problem.ts'
import { importedFile } from '../../../support/imported.ts'
import { features } from '../features.ts'

/** A folder that exists. */
const folder = tmpdir()

function imported(value: unknown, file = '/home/me/mcp.json') {
  return importedFile(value, { file })
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
        [folder]: { mcpServers: { db: { type: 'stdio', command: './db.sh', args: [] } }, history: [] },
        '/home/me/none': { allowedTools: [] },
      },
    })
    expect(body).toBe(`  db: db
  # "db" in ${JSON.stringify(folder)}
  db-2:
    command: ./db.sh
    cwd: ${folder}
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
      '"tool": "${command:pick}" is not a reference there and was kept as plain text',
      '"tool": its `envFile` cannot be read: list its variables under `env` of this server as ${NAME}, and set them for the gateway',
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
])('%s is refused without printing it', (_what, text, expected) => {
  expect(() => imported(text)).toThrow(expected)
  expect(() => imported(text)).toThrow(ConfigError)
  expect(() => imported(text)).not.toThrow('ghp_secret')
})

test.each([
  [
    'Codex',
    'config.toml',
    `# mine
[mcp_servers.local]
command = "npx"
args = ["-y", "pkg", 725653563933458433]
env_vars = ["TOKEN"]
cwd = "/tmp"
[mcp_servers.local.env]
A = "b"
[mcp_servers.remote]
url = "https://x.example/mcp"
bearer_token_env_var = "X_TOKEN"
env_http_headers = { "X-Key" = "X_KEY" }
[mcp_servers.off]
command = "x"
enabled = false
`,
    `  local:
    command: npx -y pkg 725653563933458433
    env:
      TOKEN: \${TOKEN}
      A: b
    cwd: /tmp
  remote:
    url: https://x.example/mcp
    token: \${X_TOKEN}
    headers:
      X-Key: \${X_KEY}
`,
    ['"off": is disabled there and was skipped'],
  ],
  [
    'Goose',
    'config.yaml',
    `extensions:
  developer: { type: builtin, enabled: true, bundled: true }
  local: { type: stdio, cmd: npx, args: [-y, pkg], enabled: true, envs: { A: b }, env_keys: [API_KEY], timeout: 300 }
  remote: { type: streamable_http, uri: "https://x.example/mcp", headers: { Authorization: Bearer $TOK }, enabled: true }
`,
    `  local:
    command: npx -y pkg
    env:
      API_KEY: \${API_KEY}
      A: b
    limits:
      timeout: 5m
  remote:
    url: https://x.example/mcp
    token: \${TOK}
`,
    ['"developer": is of the type "builtin", which only its client has, and was skipped'],
  ],
  [
    'Zed',
    'settings.json',
    `{ // mine
  "context_servers": {
    "new": { "source": "custom", "command": "npx", "args": ["a"], "env": { "K": "$X" } },
    "old": { "command": { "path": "npx", "args": ["b"], "env": {} }, "settings": {} },
    "remote": { "url": "https://x.example/mcp" },
    "ext": { "source": "extension", "settings": {} },
  } }`,
    `  new:
    command: npx a
    env:
      K: $X
  old: npx b
  remote: https://x.example/mcp
`,
    ['"ext": is of the type "extension", which only its client has, and was skipped'],
  ],
  [
    'opencode',
    'opencode.jsonc',
    `{ "tools": { "local_*": false }, "mcp": {
  "local": { "type": "local", "command": ["npx", "-y", "pkg"], "environment": { "A": "{env:B}" }, "enabled": true, "timeout": 8000 },
  "remote": { "type": "remote", "url": "https://x.example/mcp", "headers": { "Authorization": "Bearer {env:TOK}" }, "oauth": false } } }`,
    `  local:
    command: npx -y pkg
    env:
      A: \${B}
    start_timeout: 8s
  remote:
    url: https://x.example/mcp
    token: \${TOK}
`,
    [expect.stringContaining('`tools.local_*` switches something off, which was not imported')],
  ],
  [
    'opencode',
    'opencode.json',
    '{ "mcp": { "servers": { "a": { "type": "local", "command": ["npx"], "env": { "A": "{env:B}" } }, "b": { "type": "remote", "url": "https://x.example", "disabled": true } } } }',
    '  a:\n    command: npx\n    env:\n      A: ${B}\n',
    ['"b": is disabled there and was skipped'],
  ],
  [
    'Crush',
    'crush.json',
    '{ "mcp": { "a": { "type": "stdio", "command": "npx", "args": ["$HOME"], "timeout": 120 } } }',
    '  a:\n    command: npx ${HOME}\n    limits:\n      timeout: 2m\n',
    [],
  ],
  [
    'Gemini CLI',
    '.gemini/settings.json',
    '{ "mcp": { "allowed": ["a", "b"], "excluded": ["b"] }, "mcpServers": { "a": { "httpUrl": "https://x.example/mcp", "headers": { "Authorization": "Bearer $T", "Content-Type": "application/json" } }, "b": { "command": "x" }, "c": { "command": "x" } } }',
    '  a:\n    url: https://x.example/mcp\n    token: ${T}\n',
    [
      '"b": is switched off there by `mcp.excluded` and was skipped',
      '"c": is switched off there by `mcp.allowed` and was skipped',
      '"a": its header Content-Type was left out: the gateway sets it itself',
    ],
  ],
  [
    'Windsurf',
    'mcp_config.json',
    '{ "mcpServers": { "a": { "serverUrl": "https://x.example/mcp", "headers": { "X-Key": "${env:K}" } }, "b": { "command": "x", "args": ["${K}"] } } }',
    "  a:\n    url: https://x.example/mcp\n    headers:\n      X-Key: ${K}\n  b: x '$${K}'\n",
    ['"b": "${K}" is not a reference there and was kept as plain text'],
  ],
  [
    'Continue',
    '.continue/mcpServers/mine.yaml',
    'name: mine\nmcpServers:\n  - name: a\n    command: npx\n    env: { K: "${{ secrets.MY_KEY }}" }\n  - name: b\n    type: streamable-http\n    url: https://x.example/mcp\n    requestOptions: { headers: { Authorization: "Bearer ${{ secrets.T }}" }, verifySsl: false }\n',
    '  a:\n    command: npx\n    env:\n      K: ${MY_KEY}\n  b:\n    url: https://x.example/mcp\n    token: ${T}\n',
    ['"b": its `verifySsl` was not imported: the gateway does not know that setting'],
  ],
  [
    'Warp',
    '.warp/mcp.json',
    '{ "mcpServers": { "a": { "command": "npx", "args": ["${T}"], "working_directory": "/tmp", "start_on_launch": false } } }',
    '  a:\n    command: npx ${T}\n    cwd: /tmp\n',
    [],
  ],
  [
    'Claude Desktop',
    'claude_desktop_config.json',
    '{ "mcpServers": { "a": { "command": "npx", "args": ["${HOME}", "$${X}", "$HOME"] } } }',
    "  a: npx '$${HOME}' '$$${X}' '$HOME'\n",
    [],
  ],
  [
    'Claude Code',
    '.claude.json',
    '{ "projects": { "/tmp": { "disabledMcpServers": ["off"], "mcpServers": { "on": { "type": "http", "url": "https://x.example/mcp" }, "off": { "command": "x" } } } } }',
    '  # "on" in "/tmp"\n  on: https://x.example/mcp\n',
    ['"off": is disabled there and was skipped'],
  ],
  [
    'an MCP client',
    'pasted.json',
    '{ "github": { "command": "npx", "args": ["-y", "x"] } }',
    '  github: npx -y x\n',
    [],
  ],
])('%s: its servers are read from %s', (...[client, file, text, body, notes]) => {
  const read = importedFile(text, { file: `/home/me/${file}` })
  expect([read.client, read.body]).toEqual([client, body])
  expect(read.notes).toEqual(notes)
})

test.each(['$(pass show key)', 'a$(echo $(cat k) $HOME)', '${KEY:?missing}'])(
  'what only Crush expands is kept as plain text and reported: %s',
  (written) => {
    const { body, notes } = imported({ mcp: { it: { command: 'x', args: [written] } } }, '/x/crush.json')
    expect(body).toBe(`  it: x '${written.replace('${', () => '$${')}'\n`)
    expect(notes).toEqual([
      '"it": has `$(…)` or `${…}` of a shell, which was kept as plain text and is not run: write ${NAME}, and set that variable',
    ])
  },
)

test('a reference that a command replaces itself is left to it', () => {
  const entry = {
    command: 'npx',
    args: ['mcp-remote', 'https://x.example', '--header', 'X-Auth:${MY_AUTH}'],
    env: { MY_AUTH: 'sesame' },
  }
  const { body, notes } = importedFile({ mcpServers: { it: entry } }, { file: '/x/.mcp.json' })
  expect(body).toContain("--header 'X-Auth:$${MY_AUTH}'")
  expect(notes).toEqual([
    expect.stringContaining('reference to MY_AUTH in its arguments is left to the command'),
  ])
  const given = importedFile(
    { mcpServers: { it: entry } },
    { file: '/x/.mcp.json', environment: { MY_AUTH: 'a' } },
  )
  expect(given.body).toContain('X-Auth:${MY_AUTH}')
})

test('a workspace that is not known is reported', () => {
  const value = { servers: { it: { command: '${workspaceFolder}/run' } } }
  expect(importedFile(value, { file: '/home/me/Code/User/mcp.json' }).notes).toEqual([
    '"it": ${workspaceFolder} is the folder of this file here: write another path if it is another folder',
  ])
  expect(importedFile(value, { file: '/home/me/shop/.vscode/mcp.json' }).notes).toEqual([])
})

test('the home folder of a user is no workspace that is known', () => {
  const value = { mcpServers: { it: { command: '${workspaceFolder}/run' } } }
  const { notes } = importedFile(value, { file: join(homedir(), '.cursor/mcp.json') })
  expect(notes).toEqual([expect.stringContaining('${workspaceFolder} is the folder of this file here')])
})

test.each([
  '.kiro/settings/mcp.json',
  '.junie/mcp/mcp.json',
  '.continue/mcpServers/mine.json',
  '.cursor/mcp.json',
])('a relative command in %s starts in the folder of the project', (file) => {
  const { body } = imported({ mcpServers: { it: { command: './server.js' } } }, join(folder, file))
  expect(body).toBe(`  it:\n    command: ./server.js\n    cwd: ${folder}\n`)
})

test('a working folder that is not known yet is no reason to skip a server', () => {
  const { body, yaml, notes } = imported(
    { mcpServers: { it: { command: 'x', cwd: '${PROJECT_DIR}' } } },
    '/home/me/.mcp.json',
  )
  expect(body).toBe('  it:\n    command: x\n    cwd: ${PROJECT_DIR}\n')
  expect([yaml.includes('#   PROJECT_DIR: '), notes]).toEqual([true, []])
})

test('a working folder may end with a reference', () => {
  const servers = {
    one: { command: 'x', cwd: '/srv/${env:PROJECT}' },
    two: { command: 'x', cwd: './${env:PROJECT}' },
    three: { command: 'x', cwd: '/${env:PROJECT}/a' },
  }
  const { body, yaml, notes } = imported({ servers }, '/home/me/shop/.vscode/mcp.json')
  expect(body.match(/(?<=cwd: ).*/g)).toEqual([
    '/srv/${PROJECT}',
    '/home/me/shop/${PROJECT}',
    '/${PROJECT}/a',
  ])
  expect([yaml.includes('#   PROJECT: '), notes]).toEqual([true, []])
})

test.each([
  [
    '/x/opencode.json',
    { mcp: { gh: { command: ['npx'] } }, permission: { gh_drop: 'deny', 'gh_*': 'ask' } },
    'permission.gh_drop',
  ],
  [
    '/x/opencode.json',
    { mcp: { gh: { command: ['npx'] } }, agent: { plan: { tools: { 'gh*': false } } } },
    'agent.plan.tools.gh*',
  ],
  [
    '/x/settings.json',
    { 'amp.mcpServers': { gh: { command: 'npx' } }, 'amp.tools.disable': ['mcp__gh__drop'] },
    'amp.tools.disable',
  ],
  [
    '/x/settings.json',
    {
      context_servers: { gh: { command: 'npx' } },
      agent: { profiles: { ask: { context_servers: { gh: { tools: { drop: false } } } } } },
    },
    'agent.profiles.ask.context_servers.gh.tools.drop',
  ],
  [
    '/x/.claude.json',
    { mcpServers: { gh: { command: 'npx' } }, projects: { '/p': { disabledMcpServers: ['gh'] } } },
    'projects./p.disabledMcpServers',
  ],
  [
    '/x/settings.json',
    {
      mcpServers: { gh: { command: 'npx' } },
      permissions: { deny: ['mcp__gh__drop'], allow: ['mcp__gh__read'] },
    },
    'permissions.deny',
  ],
  [
    '/x/settings.json',
    { mcpServers: { gh: { command: 'npx' } }, other: { gh: { disabled: true } } },
    'other.gh.disabled',
  ],
])('what %s switches off elsewhere is reported: %#', (file, value, place) => {
  expect(imported(value, file).notes).toEqual([
    expect.stringContaining(`\`${place}\` switches something off, which was not imported`),
  ])
})

test.each([
  [{ projects: { '/home/u/gh/x': { hasTrustDialogAccepted: false, mcpServers: {} } } }],
  [{ projects: { '/tmp': { mcpServers: { gh: { command: 'npx', disabled: false } } } } }],
  [{ modelContextProtocolServers: { jira: { command: 'y', gh: false } } }],
  [{ other: { gh: { disabled: false } } }],
])('what switches nothing off is not reported: %j', (others) => {
  expect(
    imported({ mcpServers: { gh: { command: 'npx' } }, ...others }, '/x/.claude.json').notes,
  ).not.toContainEqual(expect.stringContaining('switches something off'))
})

test('what is switched off of others than the servers is not reported', () => {
  const others = {
    tools: { exclude: ['shell'] },
    telemetry: false,
    excludes: ['ghost'],
    permission: { 'jira_*': 'deny' },
  }
  expect(imported({ mcpServers: { gh: { command: 'npx' } }, ...others }, '/x/settings.json').notes).toEqual(
    [],
  )
})

test('the lists of servers that Gemini CLI had first switch servers off', () => {
  const mcpServers = { one: { command: 'npx' }, two: { command: 'npx two' }, three: { command: 'npx three' } }
  const read = imported(
    { mcpServers, excludeMCPServers: ['one'], allowMCPServers: ['one', 'two'] },
    '/x/.gemini/settings.json',
  )
  expect(read.body).toBe('  two: npx two\n')
  expect(read.notes).toContain('"one": is switched off there by `excludeMCPServers` and was skipped')
  expect(read.notes).toContain('"three": is switched off there by `allowMCPServers` and was skipped')
})

test('a secret in the path of a URL, or in a URL among arguments, gets a variable', () => {
  const read = imported({
    mcpServers: {
      hook: { url: 'https://mcp.example/api/s/NTk5ZjA2YzQtOGI3Ny00/mcp?a=b' },
      remote: { command: 'npx', args: ['mcp-remote', 'https://h.example/mcp?api_key=abcdef0123456789&a=b'] },
    },
  })
  expect(read.body).toBe(`  hook: https://mcp.example/api/s/\${HOOK_SECRET}/mcp?a=b
  remote: npx mcp-remote 'https://h.example/mcp?api_key=\${REMOTE_API_KEY}&a=b'
`)
  expect([...read.env.values()]).toEqual(['NTk5ZjA2YzQtOGI3Ny00', 'abcdef0123456789'])
})

describe('import of several files', () => {
  const one = { mcpServers: { db: { command: 'db', env: { TOKEN: 'sesame' } }, web: { command: 'web' } } }

  test('a server that is in two files is imported once, whatever its name', () => {
    const { servers } = importedFiles(
      ['/a/mcp.json', one],
      ['/b/mcp.json', { servers: { database: one.mcpServers.db } }],
    )
    expect(servers).toEqual({
      names: ['db', 'web'],
      notes: ['"database": is the same server as db of /a/mcp.json, so there is one'],
    })
  })

  test('another server with the same name gets another name, which is reported', () => {
    const { servers } = importedFiles(
      ['/a/mcp.json', one],
      ['/b/mcp.json', { mcpServers: { DB: { command: 'other' } } }],
    )
    expect(servers).toEqual({
      names: ['db', 'web', 'db-2'],
      notes: ['"DB": is named db-2 here, as another server is named db'],
    })
  })

  test('a server that differs in what it may do is another one', () => {
    const other = { mcpServers: { web: { command: 'web', disabledTools: ['drop'] } } }
    expect(importedFiles(['/a/mcp.json', one], ['/b/mcp.json', other]).servers.names).toEqual([
      'db',
      'web',
      'web-2',
    ])
  })

  test('a name that is a variable of the environment with another value is not given to a secret', () => {
    const { yaml, env } = importedFile(one, { environment: { TOKEN: 'other' } })
    expect([yaml.includes('TOKEN: ${DB_TOKEN}'), [...env]]).toEqual([true, [['DB_TOKEN', 'sesame']]])
    const same = importedFile(one, { environment: { TOKEN: 'sesame' } })
    expect([same.yaml.includes('TOKEN: ${TOKEN}'), [...same.env]]).toEqual([true, []])
  })

  test('a variable that a file refers to is not given to a secret', () => {
    const both = {
      mcpServers: {
        a: { command: 'x', env: { TOKEN: 'sesame' } },
        b: { command: 'x', env: { K: '${TOKEN}' } },
      },
    }
    expect([...importedFile(both).env]).toEqual([['A_TOKEN', 'sesame']])
  })

  test('a secret that is the default of a variable is not written either', () => {
    const { yaml, env } = importedFile({
      mcpServers: { a: { command: 'x', env: { API_KEY: '${MY_KEY:-sesame-seed-1}' } } },
    })
    expect([yaml.includes('sesame'), yaml.includes('API_KEY: ${MY_KEY}'), [...env]]).toEqual([
      false,
      true,
      [['MY_KEY', 'sesame-seed-1']],
    ])
  })
})

describe('what the gateway would refuse', () => {
  test.each([
    'Accept',
    'HOST',
    'content-type',
    'MCP-Protocol-Version',
    'Mcp-Session-Id',
    'Content-Length',
    'Connection',
    'TE',
    'Upgrade',
    'Transfer-Encoding',
    'Keep-Alive',
    'Last-Event-ID',
    'Mcp-Method',
  ])('the header %s is left out, and that is reported', (header) => {
    const { body, notes } = importedFile({
      mcpServers: { it: { url: 'https://x.example', headers: { [header]: 'x', 'user-agent': 'me' } } },
    })
    expect(body).toBe('  it:\n    url: https://x.example\n    headers:\n      user-agent: me\n')
    expect(notes).toEqual([`"it": its header ${header} was left out: the gateway sets it itself`])
  })

  test.each([
    [
      'a header with a blank',
      { url: 'https://x.example', headers: { 'a b': 'c' } },
      'this is no name of a header',
    ],
    ['a header of two lines', { url: 'https://x.example', headers: { a: 'b\nc' } }, 'more than one line'],
    [
      'a header twice',
      { url: 'https://x.example', headers: { 'User-Agent': 'b', 'user-agent': 'c' } },
      'twice',
    ],
    ['a variable with =', { command: 'x', env: { 'A=B': 'c' } }, 'cannot be one'],
    ['a variable that is null', { command: 'x', env: { A: null } }, '`env.A` is null'],
    ['an argument that is null', { command: 'x', args: [null] }, '`args[0]` is not text'],
    ['arguments in a text', { command: 'x', args: '-a' }, 'split at blanks'],
    ['arguments in a command', { command: 'npx -y x' }, 'several words'],
  ])('%s is reported, and the server imported', (_what, entry, note) => {
    const { body, notes } = importedFile({ mcpServers: { it: entry } })
    expect(body).toContain('  it:')
    expect(notes).toEqual([expect.stringContaining(note)])
  })

  test.each([
    ['a folder that does not exist', { command: 'x', cwd: '/none' }, 'cwd this directory does not exist'],
    ['a URL without a scheme', { url: 'localhost:3000/mcp' }, 'url must start with http:// or https://'],
    ['another scheme', { url: 'ftp://x.example' }, 'url must start with http:// or https://'],
    ['a URL that is none', { url: 'https://' }, 'url must be a complete URL'],
    ['a NUL', { command: 'x', args: ['\0'] }, 'NUL'],
    ['no command', { command: ' ' }, 'neither a command nor a URL'],
    ['a text', 'npx x', 'is not a mapping'],
    ['null', null, 'is not a mapping'],
  ])('a server with %s is skipped with the reason, and the others are imported', (_what, entry, note) => {
    const { body, notes } = importedFile({ mcpServers: { it: entry, other: { command: 'y' } } })
    expect(body).toBe('  other: y\n')
    expect(notes).toEqual([expect.stringMatching(/^"it": .*(?:was skipped|, and was skipped)/)])
    expect(notes[0]).toContain(note)
  })

  test.each([
    [' HTTPS://X.example/mcp ', 'https://X.example/mcp'],
    ['HTTP://x.example', 'http://x.example'],
  ])('the URL %j is written as %s', (written, expected) => {
    expect(importedFile({ mcpServers: { it: { url: written } } }).body).toBe(`  it: ${expected}\n`)
  })

  test.skipIf(process.platform === 'win32')('`cmd /c` is left out where there is none', () => {
    const { body, notes } = importedFile({ mcpServers: { it: { command: 'cmd', args: ['/c', 'npx', 'x'] } } })
    expect(body).toBe('  it: npx x\n')
    expect(notes).toEqual([expect.stringContaining('`cmd /c`')])
  })
})

/** The names and notes of the servers in several files. */
function importedFiles(...files: readonly (readonly [file: string, value: unknown])[]) {
  const read = files.map(([file, value]) => readClientConfig(JSON.stringify(value), file))
  const { servers, findings } = toGatewayConfig(
    read.flatMap((each) => each.servers),
    { file: '/g.yaml', schema: 's', environment: {} },
  )
  return {
    servers: { names: servers, notes: findings.map(({ server, message }) => `"${server}": ${message}`) },
  }
}

test.each([
  ['nothing', '', 'is empty'],
  ['blanks', '\ufeff \n', 'is empty'],
  ['HTML', '<!doctype html>', 'is HTML or XML'],
  ['a picture', '\u0089PNG\r\n\u001a\n\0', 'is not text'],
  ['a package.json', '{"name":"x","dependencies":{}}', 'as it is a package.json'],
  [
    'a configuration of the gateway',
    'version: 1\nupstreams:\n  a: npx x\n',
    'is a configuration of this gateway already',
  ],
  ['one server', '{"command":"npx"}', 'is one server without a name'],
  ['an OpenAPI document', 'openapi: 3.1.0\nservers:\n  - url: https://x.example\n', 'has no MCP servers'],
  ['prose', 'hello world', 'is not the configuration of an MCP client'],
  ['a missing comma', '{"mcpServers": {"a": {} "b": {}}}', ':1:25 is not valid JSON: a comma is missing'],
  [
    'a path of Windows',
    '{"mcpServers": {"a": {"command": "C:\\Users"}}}',
    'a backslash in a text is written twice',
  ],
  ['no braces', '"mcpServers": {"a": {"command": "x"}}', 'put { and } around all of it'],
  ['a wrong TOML', '[mcp_servers.a]\ncommand = ', ':2:11 is not valid TOML'],
  ['a wrong YAML', 'extensions: a: b', 'there is a second'],
  ['deep nesting', '['.repeat(100_000), 'is nested too deeply'],
  ['deep nesting in TOML', `[x]\n${'a.'.repeat(20_000)}a = 1`, 'is nested too deeply'],
])('%s is refused with what was expected', (_what, text, message) => {
  expect(() => imported(text, '/x/f')).toThrow(ConfigError)
  expect(() => imported(text, '/x/f')).toThrow(message)
})
