import { Redactor, secretsOf } from '../../../src/core/text/redactor.ts'
import { describe, expect, test } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import type { Handler } from '../../../src/core/call.ts'
import { Payload } from '../../../src/core/payload.ts'
import type { ServerRecords, ServerRecord } from '../../../src/core/descriptor.ts'
import { createDescriptions } from '../../../src/gateway/descriptions.ts'
import { toolCall } from '../../support/tool-call.ts'
import { serverRecord } from '../../support/server-record.ts'

const entry = (name: string) => ({
  upstream: 'files',
  kind: 'tool' as const,
  name,
  definition: { name, description: 'Opens with sesame-0123456789 in the directory.' },
  classification: { op: 'read' as const, risk: 'safe' as const, idempotent: true, evidence: [] },
})
const tools = ['read_file', 'write_file'].map((name) => ({ entry: entry(name), alias: name, facts: {} }))
const yaml = `upstreams:
  files: { command: x, env: { API_TOKEN: sesame-0123456789, MODE: directory, KEY: "with space" } }
  other: { command: y }`

const listing: Handler = async ({ method }) => ({
  kind: 'result',
  result: Payload.of({ [method === 'tools/list' ? 'tools' : 'none']: [{ name: 'read_file' }] }),
})

function bench(given: Partial<ServerRecord> = {}, isHiding = false, handle = listing) {
  const { settings } = loadSettings(yaml, { file: 'f.yaml', env: {} })
  const state = { record: { contentVersion: 'v1', ...given }, isUp: true, asked: 0, page: 'http://here' }
  const heard: ((upstream: string) => void)[] = []
  const record = (name: string): ServerRecord =>
    serverRecord({ name, isUp: state.isUp, tools, ...state.record })
  const records: ServerRecords = {
    names: ['files', 'other'],
    of: (name) => {
      state.asked++
      return record(name)
    },
    last: record,
    renew: () => undefined,
    onChange: (hear) => void heard.push(hear),
  }
  const redactor = new Redactor()
  redactor.learn(secretsOf(settings))
  const descriptions = createDescriptions({
    settings,
    records: () => records,
    isUp: () => state.isUp,
    isOn: () => true,
    isGuarded: false,
    eventTypes: () => [],
    page: (path) => `${state.page}${path}`,
    isHiding: () => isHiding,
    handle,
    redactor,
  })
  return { descriptions, state, change: () => heard.forEach((hear) => hear('files')) }
}

describe('a server description', () => {
  test('a description is cached until something changes, without listing the server each time', async () => {
    const { descriptions, state, change } = bench()
    const first = await descriptions.of('files')
    expect(await descriptions.of('files')).toBe(first)
    expect(state.asked).toBe(1)
    change()
    expect(await descriptions.of('files')).toBe(first)
    state.record = { contentVersion: 'v2' }
    change()
    expect(await descriptions.of('files')).not.toBe(first)
  })

  test('a description immediately reflects an unavailable server and the URL of the gateway', async () => {
    const { descriptions, state } = bench()
    expect(await descriptions.of('files')).toMatchObject({
      isUp: true,
      front: { endpoint: 'http://here/mcp/files' },
    })
    state.isUp = false
    expect(await descriptions.of('files')).toMatchObject({ isUp: false })
    state.page = 'https://there'
    expect(await descriptions.of(undefined)).toMatchObject({ front: { endpoint: 'https://there/mcp' } })
  })

  test('a description contains what its reader may see', async () => {
    const { descriptions } = bench({}, true)
    const call = toolCall({ principal: { id: 'me', scopes: new Set(['read:files']) } })
    const some = await descriptions.of('files', call)
    expect(some.tools.map(({ name }) => name)).toEqual(['read_file'])
    expect(await descriptions.of('files', call)).toBe(some)
    expect((await descriptions.of('files')).tools).toHaveLength(2)
  })

  test('a description is completed for the other readers when the first disconnects', async () => {
    const listed = Promise.withResolvers<void>()
    const { descriptions } = bench({}, true, async (call) => {
      await listed.promise
      call.signal.throwIfAborted()
      return listing(call)
    })
    const leaving = new AbortController()
    const principal = { id: 'me', scopes: new Set(['read:files']) }
    void descriptions.of('files', toolCall({ principal, signal: leaving.signal }))
    const staying = descriptions.of('files', toolCall({ principal }))
    leaving.abort()
    listed.resolve()
    expect((await staying).tools).toHaveLength(1)
  })
})

describe('a generated document', () => {
  test('a document is generated once per description', async () => {
    const { descriptions } = bench()
    const description = await descriptions.of('files')
    const make = (): object => ({})
    expect(descriptions.document(description, 'one', make)).toBe(
      descriptions.document(description, 'one', make),
    )
    expect(descriptions.document(description, 'other', make)).not.toBe(
      descriptions.document(description, 'one', make),
    )
  })

  test('a document contains no configured secret in any form, and plain words are kept', async () => {
    const { descriptions } = bench()
    const description = await descriptions.of('files')
    const made = descriptions.document(description, 'all', (each) => ({
      text: each.tools[0]?.description,
      list: [{ 'password with space': 'with space and with%20space', count: 7 }],
    }))
    expect(made).toEqual({
      text: 'Opens with *** in the directory.',
      list: [{ 'password ***': '*** and ***', count: 7 }],
    })
    expect(descriptions.clean('sesame-0123456789')).toBe('***')
  })
})
