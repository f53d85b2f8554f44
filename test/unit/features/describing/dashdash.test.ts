import { describe, expect, test } from 'vitest'
import { compose, type Handler } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import type { ServerDescription } from '../../../../src/descriptions/model/description.ts'
import { describeLists } from '../../../../src/features/describing/lists.ts'
import { featureDeps, type ServiceStubs } from '../../../support/feature-deps.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import { describedServer, describedServers } from '../../../support/described-server.ts'
import { toolCall } from '../../../support/tool-call.ts'

const KEY = 'dev.gatehouse/dashdash'
const read = { name: 'read_file', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } }
const text = JSON.stringify({ tools: [read, { name: 'unknown' }], size: 12345678901234567890n.toString() })
const drawn = describedServer({ tools: [read] })

function bench(
  portraitNow: () => ServerDescription | Promise<ServerDescription>,
  listed: () => Payload,
  stubs: ServiceStubs = {},
) {
  let made = 0
  const deps = featureDeps({
    ...stubs,
    description: portraitNow,
    document: (each, key, make) => {
      if (key === 'tools') made++
      return make(each)
    },
  })
  const server: Handler = async () => ({ kind: 'result', result: listed() })
  const handle = compose([describeLists(deps, () => true)('tools/list')], server)
  const call = toolCall({ method: 'tools/list', target: { method: 'tools/list', upstream: 'files' } })
  return {
    list: async (meta = {}) => {
      const outcome = await handle({ ...call, meta })
      return outcome.kind === 'result' ? outcome.result : Payload.of({})
    },
    made: () => made,
  }
}

describe('descriptions in a list of tools', () => {
  test('each known tool is described once', async () => {
    const { list } = bench(
      () => drawn,
      () => Payload.text(text),
    )
    const { tools } = (await list()).fields
    expect(tools).toMatchObject([
      { name: 'read_file', dashdash: { operationType: 'read' } },
      { name: 'unknown' },
    ])
    const bare = expect.not.objectContaining({ _meta: expect.anything() })
    expect(tools).toEqual([bare, bare])
  })

  test('the description is also in `_meta` if the client requests it', async () => {
    const { list } = bench(
      () => drawn,
      () => Payload.text(text),
    )
    const object = { category: 'files', operationType: 'read', idempotent: true }
    await list()
    expect((await list({ [KEY]: true })).fields.tools).toEqual([
      { ...read, dashdash: object, _meta: { [KEY]: object } },
      { name: 'unknown' },
    ])
  })

  test('a list with the same text is described and encoded once', async () => {
    const { list, made } = bench(
      () => drawn,
      () => Payload.text(text),
    )
    const first = await list()
    expect(await list()).toBe(first)
    expect(made()).toBe(1)
  })

  test('a list is described again after a change of its text or of the server record', async () => {
    let now = drawn
    let listed = text
    const { list, made } = bench(
      () => now,
      () => Payload.text(listed),
    )
    await list()
    listed = JSON.stringify({ tools: [{ ...read, title: 'Read' }] })
    expect((await list()).fields.tools).toMatchObject([{ title: 'Read', dashdash: {} }])
    now = describedServer({ tools: [read] })
    await list()
    expect(made()).toBe(3)
  })

  test('a list that differs only in other members is not described again', async () => {
    let count = 0
    const { list, made } = bench(
      () => drawn,
      () => Payload.text(text).with({ _meta: { count: count++ } }),
    )
    expect((await list()).fields._meta).toEqual({ count: 0 })
    const second = await list()
    expect(second.fields).toMatchObject({ _meta: { count: 1 }, tools: [{ dashdash: {} }, {}] })
    expect(made()).toBe(1)
  })

  test('a list is unchanged if the server record is not available in time', async () => {
    const { list } = bench(
      () => Promise.reject(new Error('away')),
      () => Payload.text(text),
    )
    expect((await list()).text).toBe(text)
  })
})

test.each([
  [true, 'read'],
  [false, 'write'],
])('a server whose trust is %s has a tool of the operation type "%s"', async (trust, operationType) => {
  const write = { name: 'write_file', inputSchema: { type: 'object' }, dashdash: { operationType: 'read' } }
  const { list } = bench(
    () => describedServer({ tools: [write] }),
    () => Payload.of({ tools: [write] }),
    { server: () => serverSettings({ trust }) },
  )
  expect((await list()).fields.tools).toMatchObject([{ dashdash: { operationType } }])
})

test('a resource in an aggregate is described as by its own server', async () => {
  const page = { uri: 'https://pages.example/a', name: 'a' }
  const subscribing = { resources: { subscribe: true } }
  const both = describedServers([
    { record: { name: 'notes', capabilities: subscribing, resources: [{ uri: 'note://1', name: '1' }] } },
    { record: { name: 'web', resources: [page] } },
  ])
  const resources = ['notes+note://1', 'web+https://pages.example/a'].map((uri) => ({ uri }))
  const server: Handler = async () => ({ kind: 'result', result: Payload.of({ resources }) })
  const target = { method: 'resources/list' }
  const handle = compose(
    [describeLists(featureDeps({ description: () => both }), () => true)('resources/list')],
    server,
  )
  const outcome = await handle(toolCall({ method: 'resources/list', target }))
  expect(outcome.kind === 'result' && outcome.result.fields.resources).toMatchObject([
    { dashdash: { resourceType: 'note', refreshable: true } },
    { dashdash: { webEquivalent: page.uri } },
  ])
})
