import { describe, expect, it } from 'vitest'
import type { UpstreamCall } from '../../../../src/upstream/suspended-calls.ts'
import type { Call, Client, Notification } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { beforeSendSlot } from '../../../../src/core/exchange.ts'
import { Payload } from '../../../../src/core/payload.ts'
import type { OpenTransport } from '../../../../src/upstream/transport/transport.ts'
import { ModernConnection } from '../../../../src/upstream/protocol/modern.ts'
import { proofFor } from '../../../../src/upstream/protocol/gateway-proof.ts'
import { taskState } from '../../../../src/upstream/protocol/tasks.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import { toolCall } from '../../../support/tool-call.ts'
import { silentLog } from '../../../support/silent-log.ts'

/** A server that sends an input request for every call. */
function asking(
  question: unknown,
  heard: (params: Record<string, unknown>) => void = () => undefined,
): OpenTransport {
  return async (receiver) => ({
    hasProvenance: false,
    send: async (text) => {
      const { id, method, params } = JSON.parse(text)
      if (method === 'tools/call') heard(params)
      const asks = { resultType: 'input_required', inputRequests: { one: question } }
      const result = method === 'tools/call' ? asks : { supportedVersions: ['2026-07-28'] }
      receiver.receive(JSON.stringify({ jsonrpc: '2.0', id, result }))
    },
    close: () => Promise.resolve(),
  })
}

function open(connect: OpenTransport): Promise<ModernConnection> {
  return ModernConnection.open({
    connect,
    revision: '2026-07-28',
    mirrors: false,
    proof: proofFor(serverSettings()),
    stepTimeout: () => AbortSignal.timeout(1000),
    log: silentLog,
  })
}

async function outcome(question: unknown, client: Client): Promise<unknown> {
  const connection = await open(asking(question))
  const params = Payload.of({ name: 'tool' })
  const target = { method: 'tools/call' }
  const call = { method: 'tools/call', target, params, meta: {}, requestState: {}, client }
  const working = { call, signal: new AbortController().signal } as unknown as UpstreamCall
  return connection.open(working).then(
    ({ kind }) => kind,
    (error: { rpc: number; data: object }) => [error.rpc, error.data],
  )
}

const form = { method: 'elicitation/create', params: { mode: 'form', message: 'm', requestedSchema: {} } }
const url = { method: 'elicitation/create', params: { mode: 'url', message: 'm', url: 'https://a.example/' } }
const vendors = { method: 'com.example/ask', params: {} }

describe.each(['2025-11-25', '2026-07-28'])(
  'an input request of a 2026-07-28 server for a %s client',
  (revision) => {
    const era = revision === '2026-07-28' ? 'modern' : 'legacy'

    it.each([form, vendors])('the input request reaches a capable client: %j', async (question) => {
      expect(await outcome(question, { era, revision, capabilities: { elicitation: {} } })).toBe(
        'input_required',
      )
    })

    it.each([
      [form, {}, { form: {} }],
      [url, { elicitation: {} }, { url: {} }],
    ])(
      'the input request does not reach a client without the capability: %j',
      async (question, capabilities, elicitation) => {
        expect(await outcome(question, { era, revision, capabilities })).toEqual([
          -32021,
          expect.objectContaining({ requiredCapabilities: { elicitation } }),
        ])
      },
    )
  },
)

it.each([
  ['responses to the gateway', {}],
  [
    'responses to the server',
    {
      inputResponses: { q: { result: Payload.of({ action: 'accept' }) } },
      requestState: { server: 'its own' },
    },
  ],
])('a retried call with %s forwards only responses the server requested', async (_what, given) => {
  let sent: Record<string, unknown> = {}
  const connection = await open(asking(form, (params) => (sent = params)))
  const client = { era: 'modern', revision: '2026-07-28', capabilities: { elicitation: {} } }
  const params = Payload.of({ name: 'tool', requestState: 'of the gateway', inputResponses: { confirm: {} } })
  const target = { method: 'tools/call', name: 'tool' }
  const call = { method: 'tools/call', target, params, meta: {}, requestState: {}, client, ...given }
  await connection.open({ call, signal: new AbortController().signal } as unknown as UpstreamCall)
  const isAnswered = 'inputResponses' in given
  expect(sent['requestState']).toBe(isAnswered ? 'its own' : undefined)
  expect(sent['inputResponses']).toEqual(isAnswered ? { q: { action: 'accept' } } : undefined)
})

it('a request without the envelope of its client gets one', async () => {
  let sent: Record<string, unknown> = {}
  const connection = await open(asking(form, (params) => (sent = params)))
  const client = { era: 'modern', revision: '2026-07-28', capabilities: { elicitation: {} } } as const
  const call = toolCall({ client, params: Payload.of({ name: 'tool' }) })
  await connection.open({ call, signal: new AbortController().signal } as unknown as UpstreamCall)
  expect(sent['_meta']).toMatchObject({
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
  })
})

it('a subscription receives only the requested changes', async () => {
  const told: string[] = []
  const notes = [
    ['notifications/subscriptions/acknowledged', {}],
    ['notifications/tools/list_changed', {}],
    ['notifications/prompts/list_changed', {}],
    ['notifications/resources/updated', { uri: 'a://b/part' }],
    ['notifications/resources/updated', { uri: 'a://c' }],
    ['notifications/com.example/news', {}],
  ] as const
  const telling: OpenTransport = async (receiver) => ({
    hasProvenance: false,
    send: async (text) => {
      const { id, method } = JSON.parse(text)
      const _meta = { 'io.modelcontextprotocol/subscriptionId': id }
      for (const [name, params] of method === 'subscriptions/listen' ? notes : [])
        receiver.receive(JSON.stringify({ jsonrpc: '2.0', method: name, params: { ...params, _meta } }))
      receiver.receive(JSON.stringify({ jsonrpc: '2.0', id, result: {} }))
    },
    close: () => Promise.resolve(),
  })
  const connection = await open(telling)
  const params = Payload.of({
    notifications: { toolsListChanged: true, resourceSubscriptions: ['a://b'] },
  })
  const call = {
    method: 'subscriptions/listen',
    target: { method: 'subscriptions/listen' },
    params,
    meta: {},
    requestState: {},
    client: { era: 'modern' },
  }
  const notify = (each: Notification): void => void told.push(`${each.method} ${each.params?.text}`)
  await connection.open({ call, notify, signal: new AbortController().signal } as unknown as UpstreamCall)
  expect(told).toEqual([
    expect.stringContaining('acknowledged'),
    expect.stringContaining('tools/list_changed'),
    expect.stringContaining('a://b/part'),
    expect.stringContaining('news'),
  ])
})

it('a call that must not be sent any more is not sent, and requests about a task go on', async () => {
  const sent: string[] = []
  const connection = await open(async (receiver) => ({
    hasProvenance: false,
    send: async (text) => {
      const { id, method } = JSON.parse(text)
      sent.push(method)
      const task = { taskId: 't1', status: 'completed', result: { content: [] } }
      const answers: Readonly<Record<string, object>> = { 'tasks/get': task }
      const result = answers[method] ?? { supportedVersions: ['2026-07-28'] }
      receiver.receive(JSON.stringify({ jsonrpc: '2.0', id, result }))
    },
    close: () => Promise.resolve(),
  }))
  const refuse = (): never => {
    throw new GatewayError('WRITES_PAUSED', 'No.')
  }
  const call = toolCall({ slots: beforeSendSlot.put(refuse) })
  const opened = (given: Call) =>
    connection.open({ call: given, signal: given.signal } as unknown as UpstreamCall)
  await expect(opened(call)).rejects.toMatchObject({ code: 'WRITES_PAUSED' })
  const followed = opened({ ...call, requestState: taskState({ id: 't1' }) })
  expect(await followed).toMatchObject({ kind: 'result' })
  expect(sent).toEqual(['server/discover', 'tasks/get'])
})
