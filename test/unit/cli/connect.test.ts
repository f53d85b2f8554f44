import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { run } from '../../../src/cli/run.ts'
import { connectable } from '../../../src/config/import/connectable.ts'
import { inRepository } from '../../support/document.ts'
import { memoryIo } from '../../support/memory-io.ts'

const clients = inRepository('test/fixtures/clients')
const main = fileURLToPath(new URL('../../../src/main.js', import.meta.url))

/** The home folder of a person with files of clients, and a project in it. */
function someone(files: Readonly<Record<string, string | undefined>>) {
  const home = mkdtempSync(join(tmpdir(), 'gatehouse-connect-'))
  onTestFinished(() => rmSync(home, { recursive: true, force: true }))
  const project = join(home, 'work')
  mkdirSync(project)
  const at = (path: string): string => join(home, path)
  const put = (path: string, text: string): void => {
    mkdirSync(dirname(at(path)), { recursive: true })
    writeFileSync(at(path), text)
  }
  for (const [path, text] of Object.entries(files)) put(path, text ?? '')
  const gatehouse = async (...words: string[]) => {
    const io = memoryIo({ env: { HOME: home }, cwd: project })
    // No test starts the servers of the fixtures.
    const more = words[0] === 'connect' ? ['--skip-plan'] : []
    const code = await run([...words, ...more], io)
    return { code, ...io.written }
  }
  const read = (path: string): string => readFileSync(at(path), 'utf8')
  const upstreams = (): unknown => parse(read('work/gateway.config.yaml')).upstreams
  return { home, at, put, read, gatehouse, upstreams }
}

/** The file of a client in a home folder. */
function fileOf(id: string): string {
  const found = connectable.find((client) => client.id === id)
  return found?.files({ home: '', project: 'work', platform: 'linux', env: {} }).at(-1) ?? ''
}

/** The servers that each client of the fixtures has, in the configuration of the gateway. */
const imported: Readonly<Record<string, unknown>> = {
  'claude-code': {
    files: 'npx -y @modelcontextprotocol/server-filesystem /srv/docs',
    github: { url: 'https://api.githubcopilot.com/mcp/', token: '${GITHUB_TOKEN}' },
  },
  'claude-desktop': {
    memory: {
      command: 'npx -y @modelcontextprotocol/server-memory',
      env: { MEMORY_FILE_PATH: '/srv/memory.json' },
    },
  },
  cursor: {
    linear: 'https://mcp.linear.app/mcp',
    search: { command: 'npx -y search-server', env: { SEARCH_API_KEY: '${SEARCH_API_KEY}' } },
  },
  vscode: {
    wiki: { url: 'https://wiki.example.com/mcp', headers: { 'X-Api-Key': '${WIKI_KEY}' } },
    playwright: 'npx -y @playwright/mcp@latest',
  },
  codex: {
    docs: {
      command: 'npx -y docs-server',
      env: { DOCS_ROOT: '/srv/docs' },
      start_timeout: '20s',
      limits: { timeout: '45s' },
      tools: { '*': { hide: true }, search: { hide: false }, read: { hide: false } },
      optional: ['search', 'read'],
    },
    'ticket-system': { url: 'https://tickets.example.com/mcp', token: '${TICKETS_TOKEN}' },
  },
  gemini: {
    maps: {
      url: 'https://maps.example.com/mcp',
      limits: { timeout: '30s' },
      tools: { delete_route: { hide: true } },
      optional: ['delete_route'],
    },
    files: 'npx -y files-server ${HOME}/docs',
  },
  zed: { issues: 'issues-server --team core' },
  opencode: {
    context: { url: 'https://context.example.com/mcp', headers: { CONTEXT_KEY: '${CONTEXT_KEY}' } },
    shell: { command: 'shell-server --safe', env: { MODE: 'ro' } },
  },
  goose: {
    notes: {
      command: 'npx -y notes-server',
      env: { NOTES_TOKEN: '${NOTES_TOKEN}' },
      limits: { timeout: '5m' },
    },
    wiki: 'https://wiki.example.com/mcp',
  },
  windsurf: {
    figma: { url: 'https://figma.example.com/mcp', token: '${FIGMA_TOKEN}' },
    postgres: {
      command: 'npx -y postgres-server ${POSTGRES_SECRET}',
      tools: { drop_table: { hide: true } },
      optional: ['drop_table'],
    },
  },
}

describe('the file of each client', () => {
  test.skipIf(process.platform !== 'linux').each(connectable.map(({ id }) => id))(
    'of %s is connected, and put back to the letter',
    async (id) => {
      const path = fileOf(id)
      const [before, after] = ['before', 'after'].map((name) =>
        readFileSync(join(clients, id, `${name}${extname(path)}`), 'utf8'),
      )
      const { at, read, gatehouse, upstreams } = someone({ [path]: before })
      chmodSync(at(path), 0o640)

      const { code, stdout } = await gatehouse('connect', id, '--yes')
      expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining('Done.') })
      expect(read(path)).toBe(after?.replace('NODE', process.execPath).replace('MAIN', main))
      expect(upstreams()).toEqual(imported[id])
      expect(statSync(at(path)).mode & 0o777).toBe(0o640)
      expect(read(`${path}.before-gatehouse`)).toBe(before)
      const secrets = ['work/gateway.config.yaml', 'work/.env', `${path}.before-gatehouse`].filter((file) =>
        existsSync(at(file)),
      )
      for (const file of secrets) expect(statSync(at(file)).mode & 0o777).toBe(0o600)
      expect(read('work/gateway.config.yaml')).not.toMatch(/ghp_|s3cr3t/)

      expect(await gatehouse('connect', id, '--yes')).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('Nothing has to be changed.'),
      })
      expect(await gatehouse('disconnect', id, '--yes')).toMatchObject({ code: 0 })
      expect(read(path)).toBe(before)
      expect(existsSync(at(`${path}.before-gatehouse`))).toBe(false)
    },
  )
})

const CURSOR = '.cursor/mcp.json'
const withServers = (servers: object): string => JSON.stringify({ mcpServers: servers }, undefined, 2)

describe('gatehouse connect', () => {
  test('changes nothing before --yes', async () => {
    const before = withServers({ files: { command: 'files-server' } })
    const { at, read, gatehouse } = someone({ [CURSOR]: before })
    const { code, stdout, stderr } = await gatehouse('connect')
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining('repeat the command with --yes'),
    })
    expect(stdout).toContain(`Cursor: ${at(CURSOR)}`)
    expect(read(CURSOR)).toBe(before)
    expect(existsSync(at('work/gateway.config.yaml'))).toBe(false)
    const { code: planned, stdout: json } = await gatehouse('connect', '--json')
    expect(planned).toBe(1)
    expect(JSON.parse(json)).toMatchObject({
      changed: false,
      clients: [{ client: 'cursor', moved: ['files'] }],
    })
    expect(read(CURSOR)).toBe(before)
  })

  test('adds to the configuration that is there, with its comments, and knows a server again', async () => {
    const { read, gatehouse, upstreams, put } = someone({
      [CURSOR]: withServers({
        files: { command: 'files-server' },
        wiki: { command: 'other-wiki' },
        key: { command: 'key-server', env: { API_KEY: 'sk-abcdefghijklmnopqrstuvwx' } },
      }),
      'work/gateway.config.yaml':
        '# mine\nlisten: { port: 9000 }\nupstreams:\n  files: files-server # here\n  wiki: a-wiki\n',
    })
    const { code, stdout } = await gatehouse('connect', 'cursor', '--yes')
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('moves files, wiki, key'),
    })
    expect(read('work/gateway.config.yaml')).toContain(
      '# mine\nlisten: { port: 9000 }\nupstreams:\n  files: files-server # here\n',
    )
    const both = { files: 'files-server', wiki: 'a-wiki', 'wiki-2': 'other-wiki' }
    expect(upstreams()).toEqual({ ...both, key: { command: 'key-server', env: { API_KEY: '${API_KEY}' } } })
    expect(JSON.parse(read(CURSOR)).mcpServers).toEqual({ gatehouse: { url: 'http://127.0.0.1:9000/mcp' } })
    const again = { key: { command: 'key-server', env: { API_KEY: 'sk-abcdefghijklmnopqrstuvwx' } } }
    put('.codeium/windsurf/mcp_config.json', withServers(again))
    expect(await gatehouse('connect', 'windsurf', '--yes')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('moves key'),
    })
    expect(Object.keys(upstreams() as object)).toEqual(['files', 'wiki', 'wiki-2', 'key'])
  })

  test('moves what was added since the last time, and puts all of it back', async () => {
    const { read, gatehouse, put } = someone({ [CURSOR]: withServers({ one: { command: 'one' } }) })
    await gatehouse('connect', '--yes')
    const { mcpServers } = JSON.parse(read(CURSOR))
    put(CURSOR, withServers({ ...mcpServers, two: { command: 'two' } }))
    expect(await gatehouse('connect', '--yes')).toMatchObject({ code: 0 })
    expect(Object.keys(JSON.parse(read(CURSOR)).mcpServers)).toEqual(['gatehouse'])
    put(CURSOR, withServers({ ...JSON.parse(read(CURSOR)).mcpServers, three: { command: 'three' } }))
    expect(await gatehouse('disconnect', '--yes')).toMatchObject({ code: 0 })
    expect(JSON.parse(read(CURSOR)).mcpServers).toEqual({
      one: { command: 'one' },
      two: { command: 'two' },
      three: { command: 'three' },
    })
  })

  test('with --ask gateway, configures the clients that support it not to ask, and takes it back', async () => {
    const settings = '{\n  // mine\n  "permissions": { "allow": ["Bash(ls)"], "deny": [] }\n}\n'
    const { read, gatehouse, at } = someone({
      '.claude.json': withServers({ files: { command: 'files-server' } }),
      '.claude/settings.json': settings,
      [CURSOR]: withServers({ files: { command: 'files-server' } }),
      '.codex/config.toml': '[mcp_servers.files]\ncommand = "files-server"\n',
      '.codeium/windsurf/mcp_config.json': withServers({ files: { command: 'files-server' } }),
    })
    const { code, stdout } = await gatehouse('connect', '--yes', '--ask', 'gateway')
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Windsurf has no setting for this'),
    })
    expect(read('.claude/settings.json')).toContain('// mine')
    expect(read('.claude/settings.json')).toMatch(/"Bash\(ls\)",\s+"mcp__gatehouse"/)
    expect(JSON.parse(read('.cursor/permissions.json'))).toEqual({ mcpAllowlist: ['gatehouse:*'] })
    expect(read('.codex/config.toml')).toContain('default_tools_approval_mode = "approve"')
    expect(await gatehouse('disconnect', '--yes')).toMatchObject({ code: 0 })
    expect(read('.claude/settings.json')).toBe(settings)
    expect(existsSync(at('.cursor/permissions.json'))).toBe(false)
  })

  test('with --ask both, configures them to ask again; without --ask, who asks stays as it is', async () => {
    const files = {
      '.claude.json': withServers({ files: { command: 'files-server' } }),
      '.claude/settings.json': '{ "permissions": { "allow": ["mcp__gatehouse", "Bash(ls)"] } }',
      '.codex/config.toml': '[mcp_servers.files]\ncommand = "files-server"\n',
    }
    const { read, gatehouse } = someone(files)
    const connect = (...words: string[]) => gatehouse('connect', 'claude-code', 'codex', '--yes', ...words)
    const allowed = (): unknown => JSON.parse(read('.claude/settings.json')).permissions.allow
    const approves = 'default_tools_approval_mode'
    await connect('--ask', 'gateway')
    expect(read('.codex/config.toml')).toContain(approves)
    const { stdout } = await connect()
    expect(stdout).toContain('with --ask both Codex asks too')
    expect(stdout).toContain('Nothing has to be changed.')
    await connect('--ask', 'both')
    expect(allowed()).toEqual(['Bash(ls)'])
    expect(read('.codex/config.toml')).not.toContain(approves)
    await connect('--ask', 'gateway')
    await connect('--ask', 'both')
    await gatehouse('disconnect', '--yes')
    for (const [file, text] of Object.entries(files)) expect(read(file)).toBe(text)
  })

  test('connects one client after the other, and names those that are connected already', async () => {
    const { read, gatehouse, upstreams } = someone({
      [CURSOR]: withServers({ one: { command: 'one' } }),
      '.codex/config.toml': '[mcp_servers.two]\ncommand = "two"\n',
      '.gemini/settings.json': withServers({ three: { command: 'three' } }),
      '.codeium/windsurf/mcp_config.json': '{ "mcpServers": ',
    })
    const first = await gatehouse('connect', 'cursor', 'codex', '--yes')
    expect(first.stdout).not.toContain('Also connected')
    const { code, stdout } = await gatehouse('connect', 'gemini', '--yes')
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Also connected to this gateway: Cursor, Codex'),
    })
    expect(upstreams()).toEqual({ one: 'one', two: 'two', three: 'three' })
    const entries = [CURSOR, '.gemini/settings.json'].map((file) => JSON.parse(read(file)).mcpServers)
    expect(entries).toEqual([
      { gatehouse: { url: 'http://127.0.0.1:8900/mcp' } },
      { gatehouse: { httpUrl: 'http://127.0.0.1:8900/mcp' } },
    ])
  })

  test('gives clients a token variable where callers need one, and a command with --via command', async () => {
    const auth = 'auth: { jwt: { issuer: "https://idp.example.com" } }\nupstreams: { files: files-server }\n'
    const { read, gatehouse } = someone({ 'work/gateway.config.yaml': auth, [CURSOR]: '{}' })
    const { stdout } = await gatehouse('connect', 'cursor', 'codex', 'claude-desktop', '--yes')
    expect(stdout).toContain('set the variable GATEHOUSE_TOKEN')
    const url = 'http://127.0.0.1:8900/mcp'
    expect(JSON.parse(read(CURSOR)).mcpServers.gatehouse).toEqual({
      url,
      headers: { Authorization: 'Bearer ${env:GATEHOUSE_TOKEN}' },
    })
    expect(read('.codex/config.toml')).toContain('bearer_token_env_var = "GATEHOUSE_TOKEN"')
    expect(read('.config/Claude/claude_desktop_config.json')).toContain('"--token-env"')
    await gatehouse('connect', 'cursor', '--yes', '--via', 'command')
    expect(JSON.parse(read(CURSOR)).mcpServers.gatehouse.args.slice(1, 3)).toEqual(['stdio', '--config'])
  })

  test('changes a file once, and names a client once, however often it is found', async () => {
    const servers = withServers({ files: { command: 'files-server' } })
    const files = { [CURSOR]: servers, 'work/.cursor/mcp.json': withServers({ own: { command: 'own' } }) }
    const { read, at, gatehouse } = someone(files)
    const { code, stdout } = await gatehouse('connect', 'cursor', 'cursor', '--yes', '--ask', 'gateway')
    expect({ code, stdout }).toMatchObject({ code: 0 })
    expect(JSON.parse(read('.cursor/permissions.json'))).toEqual({ mcpAllowlist: ['gatehouse:*'] })
    expect(existsSync(at('.cursor/permissions.json.before-gatehouse-2'))).toBe(false)
    expect(await gatehouse('disconnect', 'cursor', 'cursor', '--yes')).toMatchObject({ code: 0 })
    expect(read(CURSOR)).toBe(servers)
    expect(read('work/.cursor/mcp.json')).toBe(files['work/.cursor/mcp.json'])
  })

  test('gives clients the public URL of the configuration with its variables, or asks for them', async () => {
    const { put, read, gatehouse } = someone({
      [CURSOR]: withServers({ files: { command: 'files-server' } }),
    })
    put('work/gateway.config.yaml', 'listen: { public_url: "${PUBLIC_URL}" }\nupstreams: {}\n')
    expect(await gatehouse('connect', '--yes')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('set the variable of `listen.public_url` in'),
    })
    put('work/.env', 'PUBLIC_URL=https://tools.example.com/\n')
    expect(await gatehouse('connect', '--yes')).toMatchObject({ code: 0 })
    expect(read(CURSOR)).toContain('https://tools.example.com/mcp')
  })

  test('leaves a file alone that it cannot read or change, and connects the others', async () => {
    const inline = 'mcp_servers = { files = { command = "files-server" } }\n'
    const { at, read, gatehouse } = someone({
      [CURSOR]: '{ "mcpServers": { "files": ',
      '.codex/config.toml': inline,
      '.gemini/settings.json': '{"mcpServers": [1, null]}',
      '.codeium/windsurf/mcp_config.json': withServers({
        files: { command: 'files-server' },
        bad: null,
        worse: 7,
      }),
    })
    writeFileSync(at('.claude.json'), Buffer.from([0x7b, 0xff, 0x7d]))
    const { code, stdout } = await gatehouse('connect', '--yes')
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('leaves bad, worse as they are'),
    })
    expect(stdout).toContain(`${at(CURSOR)}:1:28 is not valid JSON`)
    expect(stdout).toContain(`${at('.codex/config.toml')} cannot be changed without changing more of it`)
    expect(stdout).toContain('.claude.json cannot be read: it is not text in UTF-8')
    expect(read('.codex/config.toml')).toBe(inline)
    const { mcpServers } = JSON.parse(read('.codeium/windsurf/mcp_config.json'))
    expect(mcpServers).toEqual({ bad: null, worse: 7, gatehouse: { serverUrl: 'http://127.0.0.1:8900/mcp' } })
    expect(await gatehouse('connect', 'codex', '--yes')).toMatchObject({ code: 1 })
  })

  test('keeps the comments of other tables, and line ends, in TOML', async () => {
    const text = [
      '# of mine',
      '[mcp_servers.a]',
      'command = "a" # run',
      '# inside',
      'args = []',
      '',
      '# about profiles',
      '[[profiles]]',
      'name = "x"',
      '',
    ].join('\r\n')
    const { read, gatehouse } = someone({ '.codex/config.toml': text })
    await gatehouse('connect', '--yes')
    expect(read('.codex/config.toml').split('\r\n')).toEqual([
      '# of mine',
      '# about profiles',
      '[[profiles]]',
      'name = "x"',
      '',
      '[mcp_servers.gatehouse]',
      'url = "http://127.0.0.1:8900/mcp"',
      '',
    ])
    await gatehouse('disconnect', '--yes')
    expect(read('.codex/config.toml')).toBe(text)
  })

  test('writes through a link, and keeps line ends, indentation and a byte order mark', async () => {
    const before =
      '\uFEFF{\r\n\t"mcpServers": {\r\n\t\t"files": { "command": "files-server", "timeout": 12345678901234567890 }\r\n\t}\r\n}\r\n'
    const { at, read, gatehouse } = someone({ 'dotfiles/mcp.json': before })
    mkdirSync(at('.cursor'))
    symlinkSync(at('dotfiles/mcp.json'), at(CURSOR))
    expect(await gatehouse('connect', '--yes')).toMatchObject({ code: 0 })
    expect(read('dotfiles/mcp.json')).toBe(
      '\uFEFF{\r\n\t"mcpServers": {\r\n\t\t"gatehouse": {\r\n\t\t\t"url": "http://127.0.0.1:8900/mcp"\r\n\t\t}\r\n\t}\r\n}\r\n',
    )
    await gatehouse('disconnect', '--yes')
    expect(read('dotfiles/mcp.json')).toBe(before)
  })

  test('names the clients there are', async () => {
    const { gatehouse } = someone({})
    expect(await gatehouse('connect', 'emacs')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('claude-code, '),
    })
    expect(await gatehouse('connect')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('no client here has MCP servers'),
    })
    expect(await gatehouse('connect', 'cursor', '--yes')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('has a server that can be behind the gateway'),
    })
    expect(await gatehouse('disconnect', '--yes')).toMatchObject({
      code: 0,
      stdout: 'Nothing was put back.\n',
    })
  })

  test.each(['', undefined])('restores a file that was lost, to the letter: %j', async (now) => {
    const before = '{"history":[1],"mcpServers":{"a":{"command":"a"}}}'
    const { at, put, read, gatehouse } = someone({ '.claude.json': before })
    await gatehouse('connect', '--yes')
    if (now === undefined) rmSync(at('.claude.json'))
    else put('.claude.json', now)
    expect(await gatehouse('disconnect', '--yes')).toMatchObject({ code: 0 })
    expect(read('.claude.json')).toBe(before)
  })

  test('does not bring back what was removed by hand between two connections', async () => {
    const { read, put, gatehouse } = someone({ [CURSOR]: withServers({ a: { command: 'a' } }) })
    await gatehouse('connect', '--yes')
    put(CURSOR, withServers({ b: { command: 'b' } }))
    await gatehouse('connect', '--yes')
    await gatehouse('disconnect', '--yes')
    expect(JSON.parse(read(CURSOR)).mcpServers).toEqual({ b: { command: 'b' } })
  })

  test('names the rules of a client that have no effect any more, and leaves its prompts alone then', async () => {
    const rules = { permissions: { deny: ['mcp__b__delete_all', 'mcp__bb'], ask: ['mcp__b', 'Bash(rm *)'] } }
    const { read, gatehouse } = someone({
      '.claude.json': withServers({ b: { command: 'b' } }),
      '.claude/settings.json': JSON.stringify(rules),
    })
    const { stdout } = await gatehouse('connect', '--yes', '--ask', 'gateway')
    expect(stdout).toContain('has the rule mcp__b__delete_all about a server that is moved')
    expect(stdout).toContain('has the rule mcp__b about a server that is moved')
    expect(stdout).not.toContain('rule mcp__bb')
    expect(JSON.parse(read('.claude/settings.json'))).toEqual(rules)
  })

  test('moves a server of the person that is named gatehouse', async () => {
    const servers = { gatehouse: { command: 'npx', args: ['-y', 'another-gatehouse'] } }
    const { read, gatehouse, upstreams } = someone({ [CURSOR]: withServers(servers) })
    await gatehouse('connect', '--yes')
    expect(Object.values(upstreams() as object)).toEqual(['npx -y another-gatehouse'])
    await gatehouse('disconnect', '--yes')
    expect(JSON.parse(read(CURSOR)).mcpServers).toEqual(servers)
  })

  test('changes nothing if the configuration would not start, or another folder has it', async () => {
    const before = withServers({ a: { command: 'a' } })
    const bad = someone({ [CURSOR]: before, 'work/gateway.config.yaml': 'bogus: 1\nupstreams: { x: y }\n' })
    expect(await bad.gatehouse('connect', '--yes')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('nothing was changed, as the configuration would not start'),
    })
    expect(bad.read(CURSOR)).toBe(before)
    const two = someone({ [CURSOR]: before })
    await two.gatehouse('connect', '--yes')
    const { mcpServers } = JSON.parse(two.read(CURSOR))
    two.put(CURSOR, withServers({ ...mcpServers, b: { command: 'b' } }))
    expect(await two.gatehouse('connect', '--yes', '--config', '../other.yaml')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('is connected to a gateway already'),
    })
    expect(existsSync(two.at('other.yaml'))).toBe(false)
  })

  test('adds to a configuration that is empty', async () => {
    const { read, gatehouse, upstreams } = someone({
      [CURSOR]: withServers({ a: { command: 'a' } }),
      'work/gateway.config.yaml': '# mine\n',
    })
    expect(await gatehouse('connect', '--yes')).toMatchObject({ code: 0 })
    expect(read('work/gateway.config.yaml')).toMatch(/^# mine\n/)
    expect(upstreams()).toEqual({ a: 'a' })
  })

  test('keeps the copy of a file that it cannot put back', async () => {
    const { at, gatehouse } = someone({ [CURSOR]: withServers({ files: { command: 'files-server' } }) })
    await gatehouse('connect', '--yes')
    appendFileSync(at(CURSOR), '{')
    expect(await gatehouse('disconnect', '--yes')).toMatchObject({ code: 1 })
    expect(existsSync(at(`${CURSOR}.before-gatehouse`))).toBe(true)
  })
})
