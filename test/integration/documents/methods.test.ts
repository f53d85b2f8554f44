import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { clientOf } from '../../support/journey.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { objectAt } from '../../support/server/json.ts'

const own = [
  'ai_help',
  'begin_transaction',
  'can_execute',
  'get_manifest',
  'permissions/check',
  'permissions/negotiate',
  'servers/recommend',
  'transaction/begin',
  'transaction/status',
] as const

let open: LocalGateway
let closed: LocalGateway
beforeAll(async () => {
  const memory = { command: publishedServer('@modelcontextprotocol/server-memory') }
  open = await localGateway({ upstreams: { memory } })
  closed = await localGateway({ methods: 'off', upstreams: { memory, other: memory } })
})
afterAll(() => Promise.all([open?.close(), closed?.close()]))

it.each(own)('the method %s exists, and does not with `methods: off`', async (method) => {
  const there = await (await clientOf(open)).request(method, {})
  expect(there.error).not.toMatchObject({ code: -32601 })
  for (const url of [closed.url, `${closed.url}/memory`]) {
    const { error } = await (await clientOf({ url })).request(method, {})
    expect(error).toMatchObject({ code: -32601 })
  }
})

it('with methods off, the same is available as tools and over HTTP, and extension methods remain', async () => {
  const client = await clientOf({ url: `${closed.url}/memory` })
  const { result } = await client.request('tools/call', { name: 'ai_help', arguments: {} })
  expect(String(objectAt({ ...result }, 'structuredContent')['content'])).toContain('## When to Use')
  const asked = { name: 'check_permissions', arguments: { tool: 'read_graph' } }
  const checked = await client.request('tools/call', asked)
  expect(checked.result).toMatchObject({ structuredContent: { allowed: true } })
  const page = await fetch(`${closed.origin}/permissions?tool=read_graph&upstream=memory`)
  expect(await page.json()).toMatchObject({ allowed: true })
  const { result: skills } = await client.request('skills/list', {})
  expect(skills?.['skills']).toHaveLength(1)
})

it('with methods off, a client with tasks can request them, and a client without cannot', async () => {
  const capabilities = { extensions: { 'io.modelcontextprotocol/tasks': {} } }
  const at = { url: `${closed.url}/memory` }
  const client = await clientOf(at, { revision: '2026-07-28', capabilities })
  for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
    const { error } = await client.request(method, { taskId: 'unknown' })
    expect([method, error?.message]).toEqual([method, 'Task not found'])
  }
  const without = await clientOf(at, { revision: '2026-07-28' })
  const { error } = await without.request('tasks/get', { taskId: 'unknown' })
  expect(error?.message).not.toBe('Task not found')
})

it('with methods and meta tools off, no document mentions them', async () => {
  const memory = { command: publishedServer('@modelcontextprotocol/server-memory') }
  const silent = await localGateway({ meta_tools: 'off', methods: 'off', upstreams: { memory } })
  onTestFinished(() => silent.close())
  for (const path of ['/ai-help', '/llms.txt', '/skills/memory/SKILL.md'])
    expect(await (await fetch(`${silent.origin}${path}`)).text()).not.toMatch(/`ai_help`|begin a transaction/)
  const client = await clientOf({ url: silent.url }, { revision: '2026-07-28' })
  const { result } = await client.request('server/discover', {})
  const extensions = objectAt(objectAt({ ...result }, 'capabilities'), 'extensions')
  expect(extensions['dev.gatehouse/dashdash']).toMatchObject({ aiHelp: false })
  expect(extensions).not.toHaveProperty('dev.gatehouse/transactions')
  const manifest = await (await fetch(`${silent.origin}/capabilities`)).json()
  const supported = Object(manifest).supported_extensions
  expect(supported).toContain('idempotency')
  expect(supported).not.toContain('transactions')
})
