import { mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { callsOf, clientOf, codeOf, httpServer } from '../support/journey.ts'
import { type LocalGateway, localGateway } from '../support/local-gateway.ts'
import { eras } from '../support/peers/confirming.ts'
import { publishedServer } from '../support/peers/servers.ts'
import { isObject, type Json, objectAt } from '../support/server/json.ts'
import { undoableFiles } from '../support/undoable-files.ts'

let folder: string
let gateway: LocalGateway
beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'gatehouse-test-')))
  gateway = await localGateway({
    store: 'memory',
    inject_arguments: 'on',
    features: { confirm: { model_may_confirm: true } },
    upstreams: {
      files: {
        command: publishedServer('@modelcontextprotocol/server-filesystem', folder),
        tools: { ...undoableFiles, edit_file: { confirm: 'never' } },
      },
      memory: {
        command: publishedServer('@modelcontextprotocol/server-memory'),
        env: { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') },
        inject_arguments: 'off',
      },
    },
  })
})
afterAll(async () => {
  await gateway.close()
  await rm(folder, { recursive: true, force: true })
})

function argumentsOf(tools: readonly Json[], name: string): Json {
  const tool = tools.find((each) => each['name'] === name) ?? {}
  return objectAt(objectAt(tool, 'inputSchema'), 'properties')
}

function textOf({ content }: Json): string {
  const [first] = Array.isArray(content) ? (content as readonly unknown[]) : []
  return isObject(first) ? String(first['text']) : ''
}

describe.each(eras)('a model that only writes arguments, with a client of the official $title', (era) => {
  const own = era.title.replaceAll(/\W/g, '-')
  const connect = async (path = '') => {
    const client = await era.connect({ transport: 'http', url: `${gateway.url}${path}` })
    onTestFinished(() => client.close())
    return client
  }

  it('finds the injected arguments in the schemas of tools that support them', async () => {
    const tools = await (await connect()).tools()
    const written = Object.keys(argumentsOf(tools, 'files_write_file'))
    expect(written).toEqual([
      'path',
      'content',
      '_dry_run',
      '_intent',
      '_idempotency_key',
      '_transaction_id',
      '_confirmation_token',
    ])
    expect(Object.keys(argumentsOf(tools, 'files_edit_file'))).not.toContain('_confirmation_token')
    const read = Object.keys(argumentsOf(tools, 'files_read_text_file'))
    expect(read.filter((name) => name.startsWith('_'))).toEqual(['_intent'])
    const others = Object.keys(argumentsOf(tools, 'memory_create_entities'))
    expect(others.filter((name) => name.startsWith('_'))).toEqual([])
  })

  it('has a keyed call run once', async () => {
    const client = await connect('/files')
    const path = join(folder, `${own}.txt`)
    await writeFile(path, 'a')
    const args = { path, edits: [{ oldText: 'a', newText: 'aa' }], _idempotency_key: `${own}-edit` }
    await client.call('edit_file', args)
    const again = await client.call('edit_file', args)
    expect(await readFile(path, 'utf8')).toBe('aa')
    expect(again['_meta']).toMatchObject({ was_replay: true, idempotency_key: `${own}-edit` })
    const beside = await client.call(
      'edit_file',
      { ...args, _idempotency_key: null },
      {
        idempotency_key: `${own}-edit`,
      },
    )
    expect(beside['_meta']).toMatchObject({ was_replay: true })
    const conflict = await client.call('edit_file', { ...args, dryRun: true })
    expect(codeOf({ result: conflict })).toBe('IDEMPOTENCY_CONFLICT')
  })

  it('confirms a call with the token it received, once, if the configuration allows it', async () => {
    const client = await connect()
    const path = join(folder, `${own}-confirmed.txt`)
    const args = { path, content: 'new' }
    const asked = await client.call('files_write_file', args)
    const [, token] = /`_confirmation_token`: "([^"]+)"/.exec(textOf(asked)) ?? []
    expect(asked['isError']).toBe(true)
    const wrong = await client.call('files_write_file', {
      ...args,
      content: 'other',
      _confirmation_token: token,
    })
    expect(codeOf({ result: wrong })).toBe('CONFIRMATION_TOKEN_INVALID')
    const done = await client.call('files_write_file', { ...args, _confirmation_token: token })
    expect(done['isError']).not.toBe(true)
    expect(await readFile(path, 'utf8')).toBe('new')
    const again = await client.call('files_write_file', { ...args, _confirmation_token: token })
    expect(codeOf({ result: again })).toBe('CONFIRMATION_TOKEN_INVALID')
  })

  it.each(['idempotency_key', 'idempotencyKey', 'transaction_id', 'intent', 'user_confirmed'])(
    'is refused a call with a misplaced %s, and receives its right place',
    async (name) => {
      const client = await connect()
      const path = join(folder, `${own}-misplaced.txt`)
      const injected = await client.call('files_write_file', { path, content: 'new', [name]: 'x' })
      const entities = [{ name: `${own}-misplaced`, entityType: 'client', observations: [] }]
      const bare = await client.call('memory_create_entities', { entities, [name]: 'x' })
      for (const result of [injected, bare]) {
        expect(codeOf({ result })).toBe('INVALID_INPUT')
        expect(textOf(result)).toContain('in _meta of the params')
      }
      const hasArgument = name !== 'user_confirmed'
      expect(textOf(injected).includes('as the argument "_')).toBe(hasArgument)
      await expect(readFile(path, 'utf8')).rejects.toMatchObject({ code: 'ENOENT' })
      expect(JSON.stringify(await client.call('memory_read_graph', {}))).not.toContain(`${own}-misplaced`)
    },
  )

  it('makes the steps of a transaction, which are rolled back', async () => {
    const client = await connect()
    const from = join(folder, `${own}-from.txt`)
    const to = join(folder, `${own}-to.txt`)
    await writeFile(from, 'text')
    const id = `${own}-t`
    await client.call('begin_transaction', { transaction_id: id })
    const args = { source: from, destination: to, _transaction_id: id }
    const asked = await client.call('files_move_file', args)
    const [, token] = /`_confirmation_token`: "([^"]+)"/.exec(textOf(asked)) ?? []
    const moved = token
      ? await client.call('files_move_file', { ...args, _confirmation_token: token })
      : asked
    expect(moved['_meta']).toMatchObject({ transaction_id: id })
    expect(await readFile(to, 'utf8')).toBe('text')
    await client.call('rollback_transaction', { transaction_id: id })
    expect(await readFile(from, 'utf8')).toBe('text')
  })
})

describe('an injected argument', () => {
  it('never reaches the server', async () => {
    const { server, one } = await serverWith({ confirm: 'never' })
    const { url } = await found({ inject_arguments: 'on', upstreams: { one } })
    const client = await clientOf({ url: `${url}/one` })
    const args = {
      x: 1,
      _idempotency_key: 'k',
      _intent: 'to hear it again',
    }
    await client.request('tools/call', { name: 'echo', arguments: args })
    const [seen] = server.received('tools/call')
    expect(seen?.text).toContain('"arguments":{"x":1}')
    expect(seen?.text).not.toMatch(/_idempotency_key|_intent/)
  })

  it('is forwarded to a server configured to receive the intent', async () => {
    const { server, one } = await serverWith({ confirm: 'never' })
    const { url } = await found({
      inject_arguments: 'on',
      features: { intent: { forward: true } },
      upstreams: { one },
    })
    const client = await clientOf({ url: `${url}/one` })
    await client.request('tools/call', { name: 'echo', arguments: { _intent: 'to hear it again' } })
    expect(server.received('tools/call')[0]?.text).toContain('"intent":"to hear it again"')
  })

  it('confirms a call whose arguments contain whitespace and duplicate keys', async () => {
    const { server, one } = await serverWith({ confirm: 'on' })
    const features = { confirm: { model_may_confirm: true } }
    const { url } = await found({ inject_arguments: 'on', features, upstreams: { one } })
    const ask = async (more: string): Promise<Json> => {
      const headers = {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/call',
        'mcp-name': 'echo',
      }
      const prefix = 'io.modelcontextprotocol'
      const meta = `{"${prefix}/protocolVersion":"2026-07-28","${prefix}/clientCapabilities":{}}`
      const params = `{"name":"echo","arguments":{"n": 1.0, "m": 2${more}},"_meta":${meta}}`
      const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`
      const answer: unknown = await (await fetch(`${url}/one`, { method: 'POST', headers, body })).json()
      return isObject(answer) ? objectAt(answer, 'result') : {}
    }
    const asked = await ask('')
    const [, token] = /`_confirmation_token`: "([^"]+)"/.exec(textOf(asked)) ?? []
    const done = await ask(`, "_confirmation_token": "${token}"`)
    expect(done['content']).toBeDefined()
    expect(done['isError']).not.toBe(true)
    expect(server.received('tools/call')[0]?.text).toContain('{"n": 1.0,"m": 2}')
  })

  it('confirms nothing alone, unless that is enabled for development', async () => {
    for (const [settings, calls] of [
      [{}, 0],
      [{ model_may_confirm: true }, 0],
      [{ accept_bare_flag: true }, 1],
    ] as const) {
      const { server, one } = await serverWith({ confirm: 'on' })
      const { url } = await found({
        inject_arguments: 'on',
        features: { confirm: { wait: 'off', ...settings } },
        upstreams: { one },
      })
      const client = await clientOf({ url: `${url}/one` })
      const args = { x: 1, user_confirmed: true, _confirmation_token: 'made up' }
      await client.request('tools/call', {
        name: 'echo',
        arguments: calls > 0 ? { ...args, _confirmation_token: '' } : args,
      })
      expect(callsOf(server, 'echo')).toBe(calls)
      if (calls > 0) expect(server.received('tools/call')[0]?.text).not.toContain('user_confirmed')
    }
  })

  it('is refused if injection is off, unless it is to be forwarded to the server', async () => {
    const { server, one } = await serverWith({ confirm: 'never' })
    const { url } = await found({ upstreams: { one } })
    const client = await clientOf({ url: `${url}/one` })
    // A tool that names its arguments.
    const params = { name: 'error', arguments: { code: 5, _idempotency_key: 'k' } }
    expect(codeOf(await client.request('tools/call', params))).toBe('INVALID_INPUT')
    expect(callsOf(server, 'error')).toBe(0)
    const other = await found({ features: { misplaced_values: 'off' }, upstreams: { one } })
    const open = await clientOf({ url: `${other.url}/one` })
    await open.request('tools/call', params)
    await open.request('tools/call', params)
    expect(callsOf(server, 'error')).toBe(2)
    expect(server.received('tools/call')[0]?.text).toContain('_idempotency_key')
  })

  async function serverWith(rule: Json) {
    const server = await httpServer()
    const tools = { echo: { op: 'write', idempotent: false, ...rule } }
    return { server, one: { url: server.url, revision: '2025-11-25', tools } }
  }

  async function found(config: Json): Promise<LocalGateway> {
    const started = await localGateway({ store: 'memory', ...config })
    onTestFinished(() => started.close())
    return started
  }
})
