import { describe, expect, test } from 'vitest'
import { importedFile, loadedServers } from '../../../support/imported.ts'

const command = { command: 'npx', args: ['pkg'] }
const url = { url: 'https://x.example/mcp' }

/** One server with these settings, in the file of a client. */
function imported(entry: object, file = '/x/unknown.json') {
  return importedFile({ mcpServers: { it: entry } }, { file })
}

describe('a list of tools of a client', () => {
  test.each([
    ['disabledTools (Roo Code, Windsurf, Kiro)', { ...command, disabledTools: ['drop'] }],
    ['excludeTools (Gemini CLI)', { ...url, excludeTools: ['drop'] }],
    ['disabled_tools (Codex)', { ...command, disabled_tools: ['drop'] }],
    ['exclude_tools (another spelling)', { ...command, exclude_tools: ['drop'] }],
    ['DisallowedTools (another spelling)', { ...command, DisallowedTools: 'drop' }],
    ['a mapping', { ...command, disabledTools: { drop: true } }],
    ['tools (switched off one by one)', { ...command, tools: { drop: { enabled: false } } }],
  ])('%s hides the tools', (_key, entry) => {
    const read = imported(entry)
    expect(loadedServers(read).get('it')?.tools).toEqual({ drop: { hide: true } })
    // The tools may be gone from the server, which no client minded.
    expect(read.body).toContain('optional:\n      - drop\n')
    expect(read.notes).toEqual([])
  })

  test.each([
    ['includeTools (Gemini CLI)', { ...url, includeTools: ['read', 'drop'], excludeTools: ['drop'] }],
    ['enabled_tools (Codex)', { ...url, enabled_tools: ['read', 'drop'], disabled_tools: ['drop'] }],
    ['available_tools (Goose)', { ...url, available_tools: ['read'], disabled_tools: ['drop'] }],
  ])('%s hides all others', (_key, entry) => {
    const { tools = {} } = loadedServers(imported(entry)).get('it') ?? {}
    expect(tools).toEqual({ '*': { hide: true }, read: { hide: false }, drop: { hide: true } })
  })

  test('an empty list permits none, and in Goose all', () => {
    expect(loadedServers(imported({ ...url, includeTools: [] })).get('it')?.tools).toEqual({
      '*': { hide: true },
    })
    expect(loadedServers(imported({ ...url, available_tools: [] })).get('it')?.tools).toEqual({})
  })

  test('`tools` of Copilot CLI permits tools, where * is all', () => {
    const file = '/home/me/.copilot/mcp-config.json'
    expect(loadedServers(imported({ ...url, tools: ['*'] }, file)).get('it')?.tools).toEqual({})
    expect(loadedServers(imported({ ...url, tools: ['read'] }, file)).get('it')?.tools).toMatchObject({
      '*': { hide: true },
    })
  })

  test('names that are not text are reported', () => {
    expect(imported({ ...url, disabledTools: ['a', 1, null] }).notes).toEqual([
      '"it": its `disabledTools` has names that are not text, which were left out',
    ])
  })
})

describe('a timeout of a client', () => {
  test.each([
    ['/x/cline_mcp_settings.json', { timeout: 300 }, 300_000],
    ['/x/.roo/mcp.json', { timeout: 900 }, 900_000],
    ['/x/.gemini/settings.json', { timeout: 5000 }, 5000],
    ['/x/.mcp.json', { timeout: 1_200_000 }, 1_200_000],
    ['/x/.aws/amazonq/mcp.json', { timeout: 60_000 }, 60_000],
    ['/x/.copilot/mcp-config.json', { timeout: '30000' }, 30_000],
  ])('in %s is that of a call, in the unit of the client', (file, timeout, milliseconds) => {
    const read = imported({ ...url, ...timeout }, file)
    const { limits } = JSON.parse(JSON.stringify(importedValue(read.body)))
    expect(limits.timeout).toBe(
      milliseconds >= 60_000 ? `${milliseconds / 60_000}m` : `${milliseconds / 1000}s`,
    )
    expect(limits.max_timeout).toBe(milliseconds > 600_000 ? limits.timeout : undefined)
    expect(read.notes).toEqual([])
    loadedServers(read)
  })

  test('of an unknown client is guessed, and the guess is reported', () => {
    expect(imported({ ...url, timeout: 60 }).body).toContain('timeout: 1m')
    expect(imported({ ...url, timeout: 60 }).notes).toEqual([expect.stringContaining('taken as seconds')])
    expect(imported({ ...url, timeout: 45_000 }).body).toContain('timeout: 45s')
    expect(imported({ ...url, timeout: 45_000 }).notes).toEqual([
      expect.stringContaining('taken as milliseconds'),
    ])
  })

  test.each([0, -1, 0.01, 'soon', null, true, {}, 1e300, '1e999'])(
    'of %j is reported, unless it is null',
    (timeout) => {
      const { body, notes } = imported({ ...url, timeout })
      expect(body).not.toContain('limits')
      expect(notes).toEqual(timeout === null ? [] : [expect.stringContaining('`timeout` is no time')])
    },
  )

  test.each([
    ['startup_timeout_sec (Codex)', { startup_timeout_sec: 20 }, 20_000],
    ['startup_timeout_ms (Codex)', { startup_timeout_ms: 1500 }, 1500],
    ['connectionTimeout (Continue)', { connectionTimeout: 5000 }, 5000],
  ])('%s is that of the start', (_key, timeout, milliseconds) => {
    expect(loadedServers(imported({ ...command, ...timeout })).get('it')?.startTimeout).toBe(milliseconds)
  })
})

describe('a setting that the gateway does not have', () => {
  test.each([
    ['alwaysAllow', ['read'], 'confirm: never'],
    ['autoApprove', ['read'], 'confirm: never'],
    ['trust', true, 'confirm: never'],
    ['headersHelper', './helper.sh', 'write them with ${NAME}'],
    ['oauth', { clientId: 'a' }, 'write `oauth` under this server'],
    ['auth', { CLIENT_ID: 'a' }, 'write `oauth` under this server'],
    ['sandboxEnabled', true, 'without a sandbox'],
    ['somethingNew', { a: 1 }, 'does not know that setting'],
    ['__proto__', { a: 1 }, 'does not know that setting'],
    ['constructor', 1, 'does not know that setting'],
  ])('%s is reported with its server and what to do', (key, value, advice) => {
    const text = `{"mcpServers":{"it":{"command":"npx",${JSON.stringify(key)}:${JSON.stringify(value)}}}}`
    const { body, notes } = importedFile(text)
    expect(body).toBe('  it: npx\n')
    expect(notes).toEqual([expect.stringMatching(new RegExp(`^"it": its \`${key}\` .*`))])
    expect(notes[0]).toContain(advice)
  })

  test.each([
    ['alwaysAllow', []],
    ['trust', false],
    ['description', 'text'],
    ['disabled', false],
    ['enabled', true],
  ])('%s: %j changes nothing and is not reported', (key, value) => {
    expect(imported({ ...command, [key]: value }).notes).toEqual([])
  })
})

test.each([
  { disabled: true },
  { Disabled: 'true' },
  { disable: true },
  { isActive: false },
  { is_active: false },
  { active: false },
  { isEnabled: false },
  { enabled: 0 },
])('a server with %j is off', (off) => {
  const { body, notes } = importedFile({ mcpServers: { it: { ...command, ...off }, other: url } })
  expect([body, notes]).toEqual([
    '  other: https://x.example/mcp\n',
    ['"it": is disabled there and was skipped'],
  ])
})

test('headers that cannot be sent are left out and reported', () => {
  const headers = { 'X-A': 'a 🚀', Expect: '100-continue', 'X-B': 'b' }
  const { notes, env } = imported({ ...url, headers })
  expect(notes).toEqual([
    '"it": its header X-A was left out: its value has characters that no header can have',
    '"it": its header Expect was left out: the gateway sets it itself',
  ])
  expect([...env.values()]).toEqual(['b'])
})

test.each(['disabled', 'enabled', 'type', 'timeout', 'command', 'url', 'cwd'])(
  '%s as an object that has no text is no obstacle for other servers',
  (key) => {
    const { body } = importedFile({ mcpServers: { it: { ...command, [key]: { toString: 1 } }, other: url } })
    expect(body).toContain('  other: https://x.example/mcp\n')
  },
)

test('an input whose id has no text is no obstacle either', () => {
  expect(importedFile({ inputs: [{ id: { toString: 1 } }], servers: { it: command } }).body).toBe(
    '  it: npx pkg\n',
  )
})

describe('a name that no variable can have', () => {
  test.each([
    [
      { env_http_headers: { 'X-A': 'a b', 'X-B': 'OK' } },
      '  it:\n    url: https://x.example/mcp\n    headers:\n      X-B: ${OK}\n',
    ],
    [{ bearer_token_env_var: '$TOKEN' }, '  it: https://x.example/mcp\n'],
    [{ bearer_token_env_var: ['TOKEN'] }, '  it: https://x.example/mcp\n'],
  ])('is left out of a server: %j', (entry, body) => {
    const read = imported({ ...url, ...entry })
    expect(read.body).toBe(body)
    expect(read.notes).toEqual([
      `"it": its \`${Object.keys(entry)[0]}\` has a name that no variable can have, which was left out`,
    ])
  })

  test('is not looked for in what is no mapping', () => {
    expect(imported({ ...url, env_http_headers: ['A'] }).notes).toEqual([
      '"it": its `env_http_headers` is not a mapping and was left out',
    ])
  })
})

describe('a transport of a client', () => {
  test.each([
    [{ type: 'sse' }, 'sse'],
    [{ transport: 'sse' }, 'sse'],
    [{ transportType: 'SSE' }, 'sse'],
    [{ type: 'http' }, 'auto'],
    [{ type: 'streamable-http' }, 'auto'],
    [{ type: 'streamableHttp' }, 'auto'],
    [{ type: 'streamable_http' }, 'auto'],
    [{ type: 'remote' }, 'auto'],
  ])('%j is %s', (entry, transport) => {
    const read = imported({ ...url, ...entry })
    expect([loadedServers(read).get('it')?.transport, read.notes]).toEqual([transport, []])
  })

  test.each(['ws', 'websocket', 'builtin', 'platform', 'inline_python'])('%s is skipped', (type) => {
    const { body, notes } = importedFile({ mcpServers: { it: { ...url, type }, other: url } })
    expect(body).toBe('  other: https://x.example/mcp\n')
    expect(notes).toEqual([expect.stringContaining('and was skipped')])
  })

  test.each([
    ['an unknown one', { ...url, type: 'pigeon' }, 'its `type` is not known'],
    ['one of a command for a URL', { ...url, type: 'stdio' }, 'has a `type` for a command'],
    ['one of a URL for a command', { ...command, type: 'http' }, 'has a `type` for a URL'],
    ['both without a type', { ...url, ...command }, 'has a URL and a command: the URL was left out'],
    [
      'both with a type',
      { ...url, command: 'x', type: 'http' },
      'has a URL and a command: the command was left out',
    ],
    ['several URLs', { ...url, httpUrl: 'https://y.example/mcp' }, 'its `httpUrl` was imported'],
    [
      'headers of a command',
      { ...command, headers: { a: 'b' } },
      'its `headers` has no effect for a command',
    ],
    ['arguments of a URL', { ...url, args: ['a'] }, 'its `args` has no effect for a URL'],
  ])('%s is reported', (_what, entry, note) => {
    expect(imported(entry).notes).toEqual([expect.stringContaining(note)])
  })
})

/** The settings of the one server in the text of a configuration. */
function importedValue(body: string): unknown {
  const timeouts = [...body.matchAll(/(timeout|max_timeout): (\S+)/g)].map(([, key, value]) => [key, value])
  return { limits: Object.fromEntries(timeouts) }
}
