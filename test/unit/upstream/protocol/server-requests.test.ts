import { acceptsTaskSlot } from '../../../../src/core/slot.ts'
import { describe, expect, it, vi } from 'vitest'
import type { Call, InputRequest, Notification } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { beforeSendSlot } from '../../../../src/core/exchange.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { LegacyConnection } from '../../../../src/upstream/protocol/legacy.ts'
import { proofFor } from '../../../../src/upstream/protocol/gateway-proof.ts'
import { taskState } from '../../../../src/upstream/protocol/tasks.ts'
import type { UpstreamCall } from '../../../../src/upstream/suspended-calls.ts'
import type { TransportReceiver } from '../../../../src/upstream/transport/transport.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { toolCall } from '../../../support/tool-call.ts'

const pass = fakeClock()
const RELATED = 'io.modelcontextprotocol/related-task'
const QUESTION = 'elicitation/create'

type Message = Readonly<Record<string, unknown>> & { readonly id?: number; readonly method?: string }

/** A connection over one pipe to a server of 2025-11-25 that runs the tool `slow` as task `t1`. */
async function connected() {
  const sent: Message[] = []
  let receiver: TransportReceiver | undefined
  const say = (body: Message | Readonly<Record<string, unknown>>): void =>
    receiver?.receive(JSON.stringify({ jsonrpc: '2.0', ...body }))
  const tasks = { requests: { tools: { call: {} } } }
  const tools = [{ name: 'slow', inputSchema: { type: 'object' }, execution: { taskSupport: 'required' } }]
  const answers: Readonly<Record<string, object>> = {
    initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {}, tasks }, serverInfo: {} },
    'tools/list': { tools },
  }
  const connection = await LegacyConnection.open({
    connect: (given) => {
      receiver = given
      const send = (text: string): undefined => {
        const message = JSON.parse(text) as Message
        sent.push(message)
        const result = answers[message.method ?? '']
        if (result) queueMicrotask(() => say({ id: message.id, result }))
      }
      return Promise.resolve({ hasProvenance: false, send, close: () => Promise.resolve() })
    },
    capabilities: { elicitation: {} },
    proof: () => proofFor(serverSettings()),
    stepTimeout: () => new AbortController().signal,
    log: silentLog,
  })
  const request = (method: string, name?: string): Message => {
    const found = sent.findLast(
      ({ method: each, params }) =>
        each === method && (name === undefined || (params as { name?: string }).name === name),
    )
    return found ?? expect.fail(`${method} was not sent`)
  }
  return {
    connection,
    sent,
    say,
    request,
    /** Answers the call of the tool `slow` with its task. */
    accept: () => {
      const task = { taskId: 't1', status: 'working', createdAt: '2026-01-01T00:00:00Z', ttl: null }
      say({ id: request('tools/call', 'slow').id, result: { task } })
    },
    ask: (related: unknown = { taskId: 't1' }) =>
      say({ id: 'q1', method: QUESTION, params: { message: 'Sure?', _meta: { [RELATED]: related } } }),
  }
}

/** A call of a tool in a session, and what its caller was asked and told. */
function called(name: string, session: string, given: Partial<Call> = {}) {
  const asked: InputRequest[] = []
  const heard: Notification[] = []
  const call = toolCall({
    params: Payload.of({ name, arguments: {} }),
    target: { method: 'tools/call', upstream: 'one', name },
    client: { era: 'legacy', revision: '2025-11-25', capabilities: { elicitation: {} }, session },
    rpcId: '1',
    ...given,
  })
  const working: UpstreamCall = {
    call,
    signal: call.signal,
    notify: (note) => void heard.push(note),
    progress: () => undefined,
    requestInput: (question) => {
      asked.push(question)
      return Promise.resolve({ result: Payload.of({ action: 'accept' }) })
    },
  }
  return { working, asked, heard }
}

const answer = { jsonrpc: '2.0', id: 'q1', result: { action: 'accept' } }

describe('a request of a server about a task', () => {
  it('goes to the call of the task, though it comes before its result is requested and another call is newer', async () => {
    const { connection, accept, ask, sent, request } = await connected()
    const [slow, other] = [called('slow', 'a'), called('quick', 'a')]
    void connection.open(slow.working)
    await pass(0)
    void connection.open(other.working)
    await pass(0)
    // Both are read from one chunk.
    accept()
    ask()
    await pass(100)
    expect([slow.asked.length, other.asked.length]).toEqual([1, 0])
    expect(request('tasks/result')).toMatchObject({ params: { taskId: 't1' } })
    expect(sent).toContainEqual(answer)
    // The caller does not know the task of the server.
    expect(slow.asked[0]?.params?.fields).toEqual({ message: 'Sure?' })
  })

  it('waits for the call that follows the task, whoever calls meanwhile', async () => {
    const { connection, accept, ask, sent, say, request } = await connected()
    const slow = called('slow', 'a', { slots: acceptsTaskSlot.put(true) })
    const accepted = connection.open(slow.working)
    await pass(0)
    accept()
    expect(await accepted).toMatchObject({ kind: 'task' })
    const other = called('quick', 'b')
    const done = connection.open(other.working)
    await pass(0)
    ask()
    await pass(1000)
    // The connection stays open.
    say({ id: request('tools/call', 'quick').id, result: { content: [] } })
    expect(await done).toMatchObject({ kind: 'result' })
    expect(other.asked).toEqual([])
    const following = called('slow', 'a', {
      slots: acceptsTaskSlot.put(true),
      requestState: taskState({ id: 't1' }),
    })
    void connection.open(following.working)
    await pass(100)
    expect([following.asked.length, slow.asked.length]).toEqual([1, 0])
    expect(sent).toContainEqual(answer)
  })

  it('is refused if no call follows the task within a minute', async () => {
    const { connection, ask, sent } = await connected()
    const other = called('quick', 'b')
    void connection.open(other.working)
    await pass(0)
    ask({ taskId: 'unknown' })
    await pass(59_000)
    expect(sent.at(-1)).toMatchObject({ method: 'tools/call' })
    await pass(1000)
    expect(sent.at(-1)).toMatchObject({ id: 'q1', error: { code: -32601 } })
    expect(other.asked).toEqual([])
  })

  it.each([null, 5, 'text', [], {}, { taskId: 5 }, { taskId: null }, { taskId: {} }])(
    'is one about the only call if it names the task as %j',
    async (related) => {
      const { connection, ask } = await connected()
      const only = called('quick', 'a')
      void connection.open(only.working)
      await pass(0)
      ask(related)
      await vi.waitFor(() => expect(only.asked).toHaveLength(1))
    },
  )

  it('that ended goes to no other call', async () => {
    const { connection, accept, ask, say, request } = await connected()
    const slow = called('slow', 'a')
    const done = connection.open(slow.working)
    await pass(0)
    accept()
    await pass(0)
    say({ id: request('tasks/result').id, result: { content: [] } })
    await done
    const other = called('quick', 'b')
    void connection.open(other.working)
    await pass(0)
    ask()
    await pass(1000)
    expect([slow.asked, other.asked]).toEqual([[], []])
  })
})

describe('a request of a server that names no call', () => {
  it('goes to the call that waits for its caller, if the one it was taken for ends', async () => {
    const { connection, say, request } = await connected()
    const [short, long] = [called('short', 'a'), called('long', 'a')]
    const ended = Promise.withResolvers<undefined>()
    const unanswered = (each: typeof long, until: Promise<undefined>): UpstreamCall => ({
      ...each.working,
      requestInput: (question) => {
        each.asked.push(question)
        return until
      },
    })
    const done = connection.open(unanswered(short, ended.promise))
    await pass(0)
    void connection.open(unanswered(long, new Promise(() => undefined)))
    await pass(0)
    say({ id: 'q1', method: QUESTION, params: { message: 'First?' } })
    await pass(50)
    say({ id: 'q2', method: QUESTION, params: { message: 'Second?' } })
    await pass(0)
    expect([short.asked.length, long.asked.length]).toEqual([1, 1])
    say({ id: request('tools/call', 'short').id, result: { content: [] } })
    await done
    ended.resolve(undefined)
    await pass(0)
    expect(long.asked.map(({ params }) => params?.fields.message)).toEqual(['First?', 'Second?'])
  })
})

describe('a log message of a server about a task', () => {
  it.each([
    ['t1', [1, 0]],
    ['unknown', [0, 0]],
  ])('is for the call of the task %s alone', async (taskId, expected) => {
    const { connection, accept, say } = await connected()
    const [slow, other] = [called('slow', 'a'), called('quick', 'a')]
    void connection.open(slow.working)
    await pass(0)
    accept()
    await pass(0)
    void connection.open(other.working)
    await pass(0)
    const params = { level: 'error', data: 'hello', _meta: { [RELATED]: { taskId } } }
    say({ method: 'notifications/message', params })
    expect([slow.heard.length, other.heard.length]).toEqual(expected)
  })
})

describe('a call that must not be sent any more', () => {
  it('is not sent after it waited for its turn, and the calls before and after it are', async () => {
    const { connection, sent, say, request } = await connected()
    let isPaused = false
    const slots = beforeSendSlot.put(({ params }) => {
      if (isPaused && params.fields.name === 'write') throw new GatewayError('WRITES_PAUSED', 'No.')
    })
    const [first, second, third] = [
      called('write', 'a', { slots }),
      called('write', 'b', { slots }),
      called('read', 'c', { slots }),
    ]
    const before = connection.open(first.working)
    const refused = connection.open(second.working).catch((error: unknown) => error)
    const after = connection.open(third.working)
    await pass(0)
    isPaused = true
    say({ id: request('tools/call', 'write').id ?? 0, result: { content: [] } })
    expect(await before).toMatchObject({ kind: 'result' })
    expect(await refused).toMatchObject({ code: 'WRITES_PAUSED' })
    await pass(0)
    say({ id: request('tools/call', 'read').id ?? 0, result: { content: [] } })
    expect(await after).toMatchObject({ kind: 'result' })
    const calls = sent.filter(({ method }) => method === 'tools/call')
    expect(calls.map(({ params }) => (params as { name: string }).name)).toEqual(['write', 'read'])
  })

  it('is one that was not sent: what is about a call that was sent goes on', async () => {
    const { connection, accept, say, request } = await connected()
    const asked: unknown[] = []
    const { working } = called('slow', 'a', {
      slots: beforeSendSlot.put(({ method }) => void asked.push(method)),
    })
    const done = connection.open(working)
    await pass(0)
    accept()
    await pass(0)
    say({ id: request('tasks/result').id ?? 0, result: { content: [] } })
    expect(await done).toMatchObject({ kind: 'result' })
    expect(asked).toEqual(['tools/call'])
  })
})
