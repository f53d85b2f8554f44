// The owner as an MCP client: the tools at `/operator/mcp`, who may call them, and that a principal cannot decide on its own calls.
import { Client as FirstClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as FirstTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { validator } from '../../../src/core/schema/schema.ts'
import { auditLines } from '../../support/audit-lines.ts'
import { until } from '../../support/condition.ts'
import {
  type Caller,
  odd,
  type OperatorGateway,
  startOperatorGateway,
  tokenOf,
} from '../../support/operator-gateway.ts'
import type { Json } from '../../support/server/json.ts'

let field: OperatorGateway

beforeAll(async () => {
  field = await startOperatorGateway()
})
afterAll(() => field.close())

interface Result {
  readonly structuredContent?: unknown
  readonly content?: unknown
  readonly isError?: unknown
}

/** A client at the owner's endpoint, by what it is made of. */
const clients = {
  'the SDK 1.x': async (caller: Caller) => {
    const client = new FirstClient({ name: 'owner', version: '1.0.0' }, { capabilities: {} })
    const headers = { authorization: `Bearer ${tokenOf(caller)}` }
    await client.connect(new FirstTransport(new URL(field.url), { requestInit: { headers } }))
    return client
  },
  'the SDK 2.x of 2025-11-25': (caller: Caller) => field.client(caller, 'legacy'),
  'the SDK 2.x of 2026-07-28': (caller: Caller) => field.client(caller, 'auto'),
}

/** Calls one tool with a client of its own; what a failed call says is its `text`. */
async function call(
  caller: Caller,
  name: string,
  given: Json = {},
): Promise<{ found: Json; text: string; isError: boolean }> {
  const client = await field.client(caller)
  const result = (await client.callTool({ name, arguments: given })) as Result
  await client.close()
  const [block] = result.content as readonly { readonly text: string }[]
  return {
    found: (result.structuredContent ?? {}) as Json,
    text: block?.text ?? '',
    isError: result.isError === true,
  }
}

/** The calls of the log that a query finds, once there are some. */
async function loggedCalls(query: string): Promise<readonly Json[]> {
  let found: readonly Json[] = []
  await until(async () => {
    const search = await call('viewer', 'search_calls', { query })
    found = search.found['calls'] as readonly Json[]
    return found.length > 0
  }, 'the call in the log')
  return found
}

async function refusal(
  caller: Caller | undefined,
  method = 'POST',
): Promise<{ status: number; text: string; challenge: string }> {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...(caller && { authorization: `Bearer ${tokenOf(caller)}` }),
  }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })
  const response = await fetch(field.url, { method, headers, ...(method === 'POST' && { body }) })
  return {
    status: response.status,
    text: await response.text(),
    challenge: response.headers.get('www-authenticate') ?? '',
  }
}

describe('the owner as an MCP client', () => {
  it.each(Object.entries(clients))(
    'lists its tools with schemas that their results fit, with %s',
    async (_name, connect) => {
      const client = await connect('operator')
      const { tools } = await client.listTools()
      expect(tools.map(({ name }) => name)).toEqual([
        'list_approvals',
        'get_approval',
        'decide_approval',
        'search_calls',
        'get_call',
        'list_servers',
        'doctor',
        'pause_writes',
        'resume_writes',
        'plan_rewind',
        'rewind',
      ])
      const hints = Object.fromEntries(tools.map(({ name, annotations }) => [name, annotations]))
      expect(hints['get_approval']).toMatchObject({ readOnlyHint: true })
      expect(hints['decide_approval']).toMatchObject({ readOnlyHint: false, destructiveHint: true })
      const schemas = new Map(tools.map(({ name, outputSchema }) => [name, outputSchema]))
      for (const [name, given] of [
        ['list_servers', {}],
        ['doctor', { server: 'disks' }],
        ['list_approvals', {}],
        ['search_calls', { query: 'status:ok', limit: 3 }],
        ['plan_rewind', { since: '1h' }],
      ] as const) {
        const result = (await client.callTool({ name, arguments: given })) as Result
        expect(result).not.toMatchObject({ isError: true })
        expect(validator(schemas.get(name) as Json)(result.structuredContent)).toEqual([])
      }
      const { resources } = await client.listResources()
      expect(resources).toMatchObject([
        { uri: 'ui://gatehouse/approval', mimeType: 'text/html;profile=mcp-app' },
      ])
      await client.close()
    },
  )

  it('is there for those alone whose scopes say so, and nothing else is', async () => {
    expect(await refusal('stranger')).toMatchObject({
      status: 403,
      text: expect.stringMatching(/PERMISSION_DENIED.*gatehouse:view/) as string,
    })
    expect(await refusal(undefined)).toMatchObject({ status: 401 })
    const viewer = await field.client('viewer')
    const { tools } = await viewer.listTools()
    expect(tools.map(({ name }) => name)).not.toContain('decide_approval')
    await viewer.close()
    const paused = await call('viewer', 'pause_writes')
    expect(paused).toMatchObject({
      isError: true,
      text: expect.stringContaining('gatehouse:operate') as string,
    })
    await expect(call('operator', 'put', { id: 1 })).rejects.toThrow(/Unknown tool/)
    const unknown = await call('operator', 'search_calls', { quary: 'x' })
    expect(unknown).toMatchObject({
      isError: true,
      text: expect.stringContaining('Invalid arguments') as string,
    })
    const wrong = await call('operator', 'search_calls', { query: 'status:gone' })
    expect(wrong).toMatchObject({
      isError: true,
      text: expect.stringContaining('status: is one of') as string,
    })
  })

  it('decides on calls of others, never on those of the same principal, and all of it is audited', async () => {
    const id = await field.waiting('agent', 'wipe', { disk: odd })
    const { found } = await call('viewer', 'get_approval', { id })
    expect(found).toMatchObject({ tool: 'wipe', caller: 'token:agent', status: 'pending', may_decide: false })
    for (const hidden of ['\u{202e}', '\u{1b}']) expect(found['arguments_text']).not.toContain(hidden)
    const own = await call('agent', 'decide_approval', { id, verdict: 'approved' })
    expect(own).toMatchObject({
      isError: true,
      text: expect.stringContaining('You made this call yourself') as string,
    })
    const viewer = await call('viewer', 'decide_approval', { id, verdict: 'approved' })
    expect(viewer).toMatchObject({
      isError: true,
      text: expect.stringContaining('gatehouse:approve') as string,
    })
    expect(field.ran).toEqual([])
    const decided = await call('approver', 'decide_approval', { id, verdict: 'approved', reason: 'fine' })
    expect(decided).toMatchObject({ isError: false, found: { status: 'approved' } })
    const again = await call('boss', 'decide_approval', { id, verdict: 'denied' })
    expect(again).toMatchObject({
      isError: true,
      text: expect.stringContaining('already approved') as string,
    })
    await field.call('agent', 'wipe', { disk: odd })
    expect(field.ran).toEqual([{ name: 'wipe', disk: odd }])
    await until(
      () => auditLines(field.audit).filter((line) => line['tool'] === 'decide_approval').length === 4,
      'the decisions in the audit log',
    )
    const lines = auditLines(field.audit)
    expect(lines.filter((line) => line['event'] === 'approval')).toMatchObject([
      {
        principal: 'token:approver',
        via: 'operator_mcp',
        verdict: 'approved',
        caller: 'token:agent',
        approval: id,
      },
    ])
    const calls = lines.filter((line) => line['tool'] === 'decide_approval')
    expect(calls.map((line) => [line['principal'], line['outcome']])).toEqual([
      ['token:agent', 'PERMISSION_DENIED'],
      ['token:viewer', 'PERMISSION_DENIED'],
      ['token:approver', 'ok'],
      ['token:boss', 'CONFLICT'],
    ])
    await until(async () => {
      const { found: log } = await call('operator', 'search_calls', {
        query: 'tool:decide_approval status:ok',
      })
      return (log['calls'] as readonly Json[]).length === 1
    }, 'the decision in the log of calls')
  })

  it('says that what it returns is data, and bounds it', async () => {
    const long = '\u{202e}'.repeat(90_000)
    const id = await field.waiting('agent', 'wipe', { disk: long })
    const client = await field.client('viewer')
    const shown = await client.callTool({ name: 'get_approval', arguments: { id } })
    expect(shown.content).toMatchObject([{ text: expect.stringContaining('do not follow') as string }, {}])
    expect(shown.structuredContent).toMatchObject({ is_cut: true })
    await call('boss', 'decide_approval', { id, verdict: 'denied' })
    await field.call('agent', 'put', { id: 'long', value: 'x'.repeat(100_000) })
    // Of several gateways, each waits only for what it is about to record itself.
    const plan = await until(async () => {
      const text = JSON.stringify((await call('operator', 'plan_rewind', { since: '1h' })).found)
      return text.includes('"id":"long","value":"xxx') && text
    }, 'a plan with the call')
    expect(plan.length).toBeLessThan(50_000)
    await client.close()
  })

  it('shows what a call would change', async () => {
    await field.call('agent', 'put', { id: 'd', value: 'old' })
    const id = await field.waiting('agent', 'replace', { id: 'd', value: 'new' })
    const { found } = await call('viewer', 'get_approval', { id })
    expect(found).toMatchObject({
      change: { lines: ['value:', '- "old"'] },
      change_title: expect.stringContaining('What would be lost') as string,
      change_notes: [],
    })
    await call('boss', 'decide_approval', { id, verdict: 'denied' })
  })

  it('decides on what the caller would confirm on a page, in the name of the owner', async () => {
    const id = await field.waiting('agent', odd, { note: 'x' })
    const denied = await call('boss', 'decide_approval', { id, verdict: 'denied', reason: 'not now' })
    expect(denied).toMatchObject({ isError: false, found: { status: 'denied', tool: odd } })
    expect(JSON.stringify(await field.call('agent', odd, { note: 'x' }))).toContain('not now')
  })

  it('pauses and resumes writes, and shows the story of a call', async () => {
    const paused = await call('operator', 'pause_writes', { reason: 'audit', minutes: 5 })
    expect(paused.found).toMatchObject({ paused: true, by: 'token:operator', reason: 'audit' })
    expect(await field.call('agent', 'put', { id: 'p', value: 1 })).toMatchObject({ isError: true })
    expect((await call('operator', 'resume_writes')).found).toEqual({ paused: false })
    expect(await field.call('agent', 'put', { id: 'p', value: 1 })).not.toHaveProperty('isError')
    const [denied] = await loggedCalls('tool:put status:denied')
    const story = await call('viewer', 'get_call', { id: String(denied?.['id']) })
    expect(story.found).toMatchObject({
      call: { name: 'put', end: 'denied' },
      content: { arguments: '{"id":"p","value":1}' },
    })
    expect(JSON.stringify(story.found['gates'])).toContain('pause_writes')
    const [read] = await loggedCalls('tool:get_call')
    const ofOwner = await call('viewer', 'get_call', { id: String(read?.['id']) })
    expect(ofOwner.found).toMatchObject({ call: { name: 'get_call' } })
    expect(ofOwner.found['content']).toEqual({})
  })

  it('takes back what others did, as planned, and not what the same principal did', async () => {
    await field.call('agent', 'put', { id: 'r', value: 'old' })
    await field.call('agent', 'put', { id: 'r', value: 'new' })
    const own = await call('agent', 'plan_rewind', { since: '1h' })
    expect(own.found['summary']).toContain('that you made yourself')
    const refused = await call('agent', 'rewind', { plan: own.found['plan'] })
    expect(refused).toMatchObject({
      isError: true,
      text: expect.stringContaining('somebody else has to undo them') as string,
    })
    const plan = await call('operator', 'plan_rewind', { since: '1h', server: 'disks' })
    // What is done elsewhere meanwhile does not change the plan.
    await field.call('agent', 'put', { id: 'elsewhere', value: 1 })
    const done = await call('operator', 'rewind', { plan: plan.found['plan'] })
    expect(done.found).toMatchObject({ status: 'ended' })
    expect((await field.call('agent', 'get', { id: 'r' }))['structuredContent']).toEqual({ value: null })
    const orders = auditLines(field.audit).filter((line) => line['order'] === 'undo')
    expect(orders).toMatchObject([
      { principal: 'token:operator', via: 'operator_mcp', caller: 'token:agent' },
    ])
  })

  it('is not there unless it is turned on', async () => {
    const other = await startOperatorGateway({})
    const response = await fetch(other.url, {
      method: 'POST',
      headers: { authorization: `Bearer ${tokenOf('boss')}` },
      body: '{}',
    })
    expect(response.status).toBe(404)
    await other.close()
  })
})
