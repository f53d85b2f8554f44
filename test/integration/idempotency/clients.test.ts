import { mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../support/condition.ts'
import { callsOf, clientOf, codeOf, httpServer } from '../../support/journey.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { connectModern, eras } from '../../support/peers/confirming.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'
import { hasSchema, schemaText } from '../../support/published-schemas.ts'

/** How a client of each era sends the key of a call. */
const callers = eras.map(({ title, connect }) => ({
  title,
  connect: (url: string) => connect({ transport: 'http', url }),
  meta: (key: string): Json => ({
    [connect === connectModern ? 'dev.gatehouse/idempotency_key' : 'idempotency_key']: key,
  }),
}))

let folder: string
let gateway: LocalGateway
beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'gatehouse-test-')))
  const memory = { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') }
  gateway = await localGateway({
    store: 'memory',
    features: { confirm: 'off' },
    upstreams: {
      files: { command: publishedServer('@modelcontextprotocol/server-filesystem', folder) },
      memory: { command: publishedServer('@modelcontextprotocol/server-memory'), env: memory },
    },
  })
})
afterAll(async () => {
  await gateway.close()
  await rm(folder, { recursive: true, force: true })
})

describe.each(callers)('a client of the official $title', ({ title, connect, meta }) => {
  const own = title.replaceAll(/\W/g, '-')

  it('edits a file once, however often it repeats the call', async () => {
    const path = join(folder, `${own}.txt`)
    await writeFile(path, 'a')
    const client = await connect(`${gateway.url}/files`)
    onTestFinished(() => client.close())
    const args = { path, edits: [{ oldText: 'a', newText: 'aa' }] }
    const first = await client.call('edit_file', args, meta(`${own}-edit`))
    const again = await client.call('edit_file', args, meta(`${own}-edit`))
    expect(await readFile(path, 'utf8')).toBe('aa')
    expect(again['content']).toEqual(first['content'])
    expect(first['_meta']).toMatchObject({ idempotency_key: `${own}-edit`, was_replay: false })
    expect(again).toMatchObject({ _meta: { was_replay: true }, idempotency: { was_replay: true } })
    const changed = { path, edits: [{ oldText: 'a', newText: 'b' }] }
    const conflict = await client.call('edit_file', changed, meta(`${own}-edit`))
    expect(codeOf({ result: conflict })).toBe('IDEMPOTENCY_CONFLICT')
    expect(await readFile(path, 'utf8')).toBe('aa')
  })

  it('receives the replay of its first call, not an empty creation', async () => {
    const client = await connect(`${gateway.url}/memory`)
    onTestFinished(() => client.close())
    const args = { entities: [{ name: own, entityType: 'client', observations: [] }] }
    const first = await client.call('create_entities', args, meta(`${own}-entity`))
    const again = await client.call('create_entities', args, meta(`${own}-entity`))
    expect(JSON.stringify(first['structuredContent'])).toContain(own)
    expect(again['structuredContent']).toEqual(first['structuredContent'])
  })

  it('has the same key in its own session', async () => {
    const path = join(folder, `${own}-twice.txt`)
    await writeFile(path, 'a')
    const args = { path, edits: [{ oldText: 'a', newText: 'aa' }] }
    for (const key of [`${own}-twice`, `${own}-twice`]) {
      const client = await connect(gateway.url)
      await client.call('files_edit_file', args, meta(key))
      await client.close()
    }
    expect(await readFile(path, 'utf8')).toBe('aa')
  })

  it('finds idempotency keys in the capabilities', async () => {
    const client = await connect(`${gateway.url}/files`)
    onTestFinished(() => client.close())
    expect(client.capabilities['extensions']).toMatchObject({
      'dev.gatehouse/idempotency': { maxTtlSeconds: 604_800 },
    })
  })
})

const write = { op: 'write', idempotent: false, confirm: 'never' }

async function gatewayTo(server: { readonly url: string }, config: Json = {}, tools: Json = {}) {
  const one = { url: server.url, revision: '2025-11-25', tools: { '*': write, ...tools } }
  const found = await localGateway({ store: 'memory', upstreams: { one }, ...config })
  onTestFinished(() => found.close())
  return found
}

describe('a key in a header', () => {
  it('is equal to one in the message, for clients of both eras', async () => {
    const server = await httpServer()
    const { url } = await gatewayTo(server)
    const params = { name: 'echo', arguments: { x: 1 } }
    for (const revision of ['2025-11-25', '2026-07-28'] as const) {
      const client = await clientOf({ url: `${url}/one` }, { revision })
      const headers = { 'idempotency-key': `"${revision}"` }
      const first = await client.request('tools/call', params, { headers })
      expect(first.result?.['_meta']).toMatchObject({ idempotency_key: revision, was_replay: false })
      const bare = await client.request('tools/call', params, { headers: { 'x-idempotency-key': revision } })
      expect(bare.result?.['_meta']).toMatchObject({ was_replay: true })
      const both = { ...params, _meta: { idempotency_key: 'another' } }
      const mismatch = await client.request('tools/call', both, { headers })
      expect(mismatch.error).toMatchObject({ code: -32602, data: { reason: 'mismatch' } })
    }
    expect(callsOf(server, 'echo')).toBe(2)
    const [seen] = server.received('tools/call')
    expect(seen?.headers).not.toHaveProperty('idempotency-key')
    expect(seen?.text).not.toContain('idempotency')
  })

  it('is forwarded if the server wants it', async () => {
    const server = await httpServer()
    const { url } = await gatewayTo(server, {}, { echo: { ...write, forward_key: true } })
    const client = await clientOf({ url: `${url}/one` })
    await client.request('tools/call', { name: 'echo', arguments: {}, idempotencyKey: 'k-1' })
    expect(server.received('tools/call')[0]?.headers).toMatchObject({ 'idempotency-key': '"k-1"' })
  })
})

describe('a gateway with every feature off', () => {
  it('does not handle keys, and forwards them unchanged', async () => {
    const server = await httpServer()
    const { url } = await gatewayTo(server, { features: 'none' })
    const client = await clientOf({ url: `${url}/one` })
    const params = { name: 'echo', arguments: {}, _meta: { idempotency_key: 'k' } }
    const { result } = await client.request('tools/call', params)
    await client.request('tools/call', params)
    expect(result).not.toHaveProperty('idempotency')
    expect(callsOf(server, 'echo')).toBe(2)
    expect(server.received('tools/call')[0]?.text).toContain('"idempotency_key":"k"')
    const { capabilities } = client.initialized as { readonly capabilities?: Json }
    expect(JSON.stringify(capabilities)).not.toContain('gatehouse')
  })
})

describe('concurrent calls with one key', () => {
  it('are one call at the server, and only the first caller receives its progress', async () => {
    const server = await httpServer()
    const { url, lines } = await gatewayTo(server)
    const params = { name: 'slow', arguments: { ms: 150, steps: 3 }, _meta: { idempotency_key: 'k' } }
    const clients = await Promise.all([1, 2, 3].map(() => clientOf({ url: `${url}/one` })))
    const replies = await Promise.all(
      Array.from({ length: 30 }, async (_, index) => clients[index % 3]?.request('tools/call', params)),
    )
    expect(callsOf(server, 'slow')).toBe(1)
    expect(replies.every((reply) => reply?.result?.['isError'] !== true)).toBe(true)
    expect(clients.flatMap(({ violations }) => violations)).toEqual([])
    expect(lines.filter(({ event, replayed }) => event === 'call' && replayed === true)).toHaveLength(29)
  })
})

describe('a server that crashes', () => {
  it('during a call: the call is not repeated', async () => {
    const server = await httpServer()
    const { url } = await gatewayTo(server)
    const client = await clientOf({ url: `${url}/one` })
    const params = { name: 'crash', arguments: {}, _meta: { idempotency_key: 'k' } }
    expect(codeOf(await client.request('tools/call', params))).toBe('OUTCOME_UNKNOWN')
    const again = await client.request('tools/call', params)
    expect(codeOf(again)).toBe('OUTCOME_UNKNOWN')
    expect(objectAt(again.result, 'error')).toMatchObject({ user_actionable: true })
    expect(callsOf(server, 'crash')).toBe(1)
  })
})

describe('a read that settles a call in doubt', () => {
  const params = { name: 'crash', arguments: { ms: 0 }, _meta: { idempotency_key: 'k' } }

  it('finds the effect: it is replayed from then on', async () => {
    const server = await httpServer()
    const verify = 'echo(found=$.args.ms) -> $.result.found'
    const { url } = await gatewayTo(server, {}, { crash: { ...write, verify } })
    const client = await clientOf({ url: `${url}/one` })
    const answers = [
      await client.request('tools/call', params),
      await client.request('tools/call', params),
      await client.request('tools/call', params),
    ]
    for (const [index, { result }] of answers.entries()) {
      expect(result).toMatchObject({
        content: [{ type: 'text', text: '0' }],
        _meta: { 'dev.gatehouse/verified': true, was_replay: index > 0 },
      })
    }
    expect([callsOf(server, 'crash'), callsOf(server, 'echo')]).toEqual([1, 1])
  })

  it('finds no effect: the call runs again once the first attempt cannot act any more', async () => {
    const server = await httpServer()
    const verify = 'echo() -> $.result.found'
    const { url } = await gatewayTo(server, {}, { crash: { ...write, verify, timeout: '400ms' } })
    const client = await clientOf({ url: `${url}/one` })
    expect(codeOf(await client.request('tools/call', params))).toBe('OUTCOME_UNKNOWN')
    expect(codeOf(await client.request('tools/call', params))).toBe('IDEMPOTENCY_IN_PROGRESS')
    expect(callsOf(server, 'crash')).toBe(1)
    await until(async () => {
      await client.request('tools/call', params)
      return callsOf(server, 'crash') === 2
    }, 'the second attempt')
  })
})

describe('a tool that runs as a task', () => {
  it('runs a client task with a key once, and replays its result to plain calls with that key', async () => {
    const everything = { command: publishedServer('@modelcontextprotocol/server-everything') }
    const found = await localGateway({ store: 'memory', upstreams: { everything } })
    onTestFinished(() => found.close())
    const client = await clientOf({ url: `${found.url}/everything` })
    const params = { name: 'simulate-research-query', arguments: { topic: 'gates' }, idempotency_key: 'k' }
    const created = await client.request('tools/call', { ...params, task: { ttl: 60_000 } })
    const { taskId } = objectAt(created.result, 'task')
    const first = await client.request('tasks/result', { taskId })
    expect(first.text).toContain('Research Report: gates')
    const again = await client.request('tools/call', params)
    expect(again.result).toMatchObject({ content: first.result?.['content'], _meta: { was_replay: true } })
  })
})

describe('a server that sends an input request during a call', () => {
  it.each(['2025-11-25', '2026-07-28'] as const)(
    'asks once, and a retry of a client of %s gets the recorded response',
    async (revision) => {
      const server = await httpServer()
      const { url } = await gatewayTo(server)
      let asked = 0
      const answer = () => {
        asked++
        return { action: 'accept', content: { name: 'Ada' } }
      }
      const answers = { 'elicitation/create': answer }
      const client = await clientOf({ url: `${url}/one` }, { revision, answers })
      const params = { name: 'ask_form', arguments: {}, _meta: { idempotency_key: 'k' } }
      const first = await client.request('tools/call', params)
      const again = await client.request('tools/call', params)
      expect(first.result?.['content']).toEqual(again.result?.['content'])
      expect(again.result?.['_meta']).toMatchObject({ was_replay: true })
      expect([asked, callsOf(server, 'ask_form')]).toEqual([1, 1])
    },
  )
})

const schemaFile = 'proposals/transactions.schema.json'

it.skipIf(!hasSchema(schemaFile))('idempotency metadata fits the schema of the proposal', async () => {
  const schema: Json = JSON.parse(schemaText(schemaFile))
  const { IdempotencyResponse } = objectAt(schema, '$defs')
  if (!isObject(IdempotencyResponse)) throw new TypeError('there is no such schema')
  const ajv = new Ajv2020({ strict: false, formats: { 'date-time': isTime } })
  const check = ajv.compile({
    ...IdempotencyResponse,
    required: Object.keys(objectAt(IdempotencyResponse, 'properties')),
  })
  const server = await httpServer()
  const { url } = await gatewayTo(server)
  const client = await clientOf({ url: `${url}/one` })
  for (const key of ['k', 'k']) {
    const { result } = await client.request('tools/call', {
      name: 'echo',
      arguments: {},
      idempotency_key: key,
    })
    expect([check(result?.['idempotency']), check.errors]).toEqual([true, null])
    expect([check(result?.['_meta']), check.errors]).toEqual([true, null])
  }
})

function isTime(text: string): boolean {
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(text) && !Number.isNaN(Date.parse(text))
}
