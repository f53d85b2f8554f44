// A server tells its own credentials in everything it sends; no client may receive them, and nothing else is changed.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect } from '../../support/fake-client.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { type Asked, type ScriptedServer, scriptedServer, tokenOf } from '../../support/scripted-server.ts'
import type { Json } from '../../support/server/json.ts'

const token = 'tok/en+with "quotes" & more'
const header = 'key-of-the-header-7'
const query = 'key-of-the-query-8'
const basic = Buffer.from('robot:open-sesame-9').toString('base64')
const other = 'key-of-the-other-server'
const secrets = [token, header, query, basic, 'open-sesame-9', other]
/** What a secret looks like in the text of a message, escaped in any way. */
const traces = /with.{1,8}quotes|key-of-the|open-sesame|cm9ib3Q6/
const echo = secrets.join(', ')
const nested = JSON.stringify({ nested: JSON.stringify({ echo, region: 'production', token_count: 12 }) })
const inputSchema = { type: 'object' }

const scripts = {
  'tools/list': () => ({
    tools: ['say', 'fail', 'refuse', 'large', 'notify', 'make_note'].map((name) => ({
      name,
      description: `Does ${name} with ${echo}`,
      inputSchema: { ...inputSchema, properties: { a: { description: echo, default: token } } },
    })),
  }),
  'prompts/list': () => ({ prompts: [{ name: 'p', description: echo }] }),
  'prompts/get': () => ({ messages: [{ role: 'user', content: { type: 'text', text: echo } }] }),
  'resources/list': () => ({ resources: [{ uri: 'a://b', name: echo }] }),
  'resources/templates/list': () => ({ resourceTemplates: [] }),
  'resources/read': () => ({ contents: [{ uri: 'a://b', text: echo, _meta: { [header]: query } }] }),
  'completion/complete': () => ({ completion: { values: secrets } }),
  'tools/call': (asked: Asked) => called(asked),
}

function called(asked: Asked): Json | undefined {
  const { name } = asked.params
  const text = { type: 'text', text: echo }
  if (name === 'fail') return { content: [text], isError: true }
  if (name === 'refuse') return { error: { code: -32001, message: echo, data: { echo } } }
  if (name === 'large')
    return { content: [{ type: 'text', text: `${'x'.repeat(1_500_000)}${echo}${'ü'.repeat(700_000)}` }] }
  if (name === 'notify') {
    const progressToken = tokenOf(asked)
    asked.say({ method: 'notifications/message', params: { level: 'error', data: { echo } } })
    asked.say({ method: 'notifications/progress', params: { progressToken, progress: 1, message: echo } })
    asked.finish({ content: [text] })
    return undefined
  }
  return {
    content: [
      text,
      { type: 'text', text: nested },
      { type: 'resource', resource: { uri: `a://${header}`, text: echo } },
    ],
    structuredContent: { echo, [header]: [secrets], region: 'production', token_count: 12 },
    _meta: { 'example.com/echo': echo },
  }
}

const capabilities = { tools: {}, prompts: {}, resources: {}, completions: {}, logging: {} }

describe('a server that tells its credentials', () => {
  let server: ScriptedServer
  let gateway: LocalGateway
  let store = ''
  beforeAll(async () => {
    store = mkdtempSync(join(tmpdir(), 'gatehouse-echo-'))
    server = await scriptedServer(capabilities, scripts)
    const one = {
      url: `${server.url}?api_key=${query}`,
      token,
      headers: { 'x-api-key': header, 'proxy-authorization': `Basic ${basic}`, 'x-region': 'production' },
    }
    gateway = await localGateway({
      store,
      features: { confirm: { level: 'none' }, events: { writes: 'all' } },
      upstreams: {
        one,
        bare: { ...one, features: 'none' },
        other: { url: 'http://127.0.0.1:9/mcp', token: other },
      },
    })
  })
  afterAll(async () => {
    await gateway.close()
    await server.close()
    rmSync(store, { recursive: true, force: true })
  })

  it.each(['one', 'bare'])('does not reach clients at /mcp/%s', async (path) => {
    const heard: Json[] = []
    const client = await connect({
      transport: 'http',
      url: `${gateway.url}/${path}`,
      revision: '2025-11-25',
      logLevel: 'debug',
      records: (message) => void heard.push(message),
    })
    for (const method of ['tools/list', 'prompts/list', 'resources/list']) await client.request(method)
    for (const name of ['say', 'fail', 'refuse', 'large', 'notify', 'make_note'])
      await client.request('tools/call', { name, arguments: {} }, { onProgress: () => {} }).catch(() => {})
    await client.request('prompts/get', { name: 'p' })
    await client.request('resources/read', { uri: 'a://b' })
    await client.request('completion/complete', {
      ref: { type: 'ref/prompt', name: 'p' },
      argument: { name: 'a', value: 'b' },
    })
    await client.close()
    const told = heard.map((message) => JSON.stringify(message))
    expect(told.filter((text) => traces.test(text))).toEqual([])
    const said = heard.find((message) => JSON.stringify(message).includes('structuredContent'))
    expect(said).toMatchObject({
      result: {
        content: [
          { text: '***, ***, ***, ***, ***, ***' },
          { text: expect.stringContaining(String.raw`\"region\":\"production\",\"token_count\":12`) },
          {},
        ],
        structuredContent: { echo: '***, ***, ***, ***, ***, ***', region: 'production', token_count: 12 },
      },
    })
  })

  it('leaves none in the pages, the log and the store', async () => {
    for (const path of [
      '/',
      '/llms.txt',
      '/llms-full.txt',
      '/skills/one/SKILL.md',
      '/capabilities',
      '/ai-help/one',
    ]) {
      const response = await fetch(`${gateway.origin}${path}`)
      expect(`${path}: ${await response.text()}`).not.toMatch(traces)
    }
    expect(gateway.lines.filter((line) => traces.test(JSON.stringify(line)))).toEqual([])
    const files = readdirSync(store, { recursive: true, withFileTypes: true }).filter((each) => each.isFile())
    expect(files.length).toBeGreaterThan(0)
    for (const { parentPath, name } of files)
      expect(readFileSync(join(parentPath, name), 'latin1')).not.toMatch(traces)
  })
})
