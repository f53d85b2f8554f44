import { acceptsTaskSlot } from '../../../../src/core/slot.ts'
import { describe, expect, it } from 'vitest'
import type { Call } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import type { ListedTool } from '../../../../src/protocol/found-tool.ts'
import {
  afterModernCall,
  callLegacyTool,
  continuedTask,
  continueModern,
  keptTaskState,
  needsTasks,
  taskState,
} from '../../../../src/upstream/protocol/tasks.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import { toolCall } from '../../../support/tool-call.ts'

const pass = fakeClock()
const RELATED = 'io.modelcontextprotocol/related-task'

type Sent = readonly [method: string, params: unknown]

/** A server by its responses to requests; `sent` is what it was asked, with the time since the beginning. */
function requestsTo(answer: (method: string, count: number) => object, result: object = { content: [] }) {
  const controller = new AbortController()
  const sent: Sent[] = []
  const times: number[] = []
  const start = Date.now()
  let count = 0
  return {
    controller,
    sent,
    times,
    requests: {
      signal: controller.signal,
      call: async (edit: (params: Payload) => Payload) => {
        sent.push(['tools/call', edit(Payload.of({ name: 't' })).value])
        return Payload.of(result)
      },
      request: async (method: string, params: Payload) => {
        sent.push([method, params.value])
        times.push(Date.now() - start)
        return Payload.of(answer(method, ++count))
      },
      send: (method: string, params: Payload) => void sent.push([method, params.value]),
    },
  }
}

const never = () => {
  throw new TypeError('nothing is asked for')
}
const tool = (taskSupport?: 'optional' | 'required'): ListedTool => ({
  mirror: [],
  definition: { name: 't' },
  ...(taskSupport && { taskSupport }),
})
const taking = { slots: acceptsTaskSlot.put(true) }
const continuing = (more: Partial<Call> = {}) => toolCall({ requestState: taskState({ id: 'u1' }), ...more })

/** How a promise settled, or that it has not. */
function watched<Value>(promise: Promise<Value>) {
  const state: { value?: Value; error?: unknown } = {}
  promise.then(
    (value) => Object.assign(state, { value }),
    (error: unknown) => Object.assign(state, { error }),
  )
  return state
}

describe('a call of a tool at a server of 2025-11-25 with tasks', () => {
  const created = { task: { taskId: 'u1', status: 'working', ttl: null, pollInterval: 250.5 } }
  const done = { content: [], _meta: { [RELATED]: { taskId: 'u1' }, own: 1 } }

  it.each<[string, ListedTool | undefined, Partial<Call>, boolean]>([
    ['required', tool('required'), {}, true],
    ['required', tool('required'), taking, true],
    ['optional', tool('optional'), {}, false],
    ['optional', tool('optional'), taking, true],
    ['forbidden', tool(), taking, false],
    ['unknown', undefined, taking, false],
  ])(
    'with task support %s is made as a task where that is needed or wanted',
    async (_word, listed, given, asTask) => {
      const { requests, sent } = requestsTo(() => done, asTask ? created : { content: [] })
      await callLegacyTool(toolCall(given), listed, requests)
      expect(sent[0]).toEqual(['tools/call', { name: 't', ...(asTask && { task: {} }) }])
    },
  )

  it('is made plainly where the server cannot list its tools', async () => {
    const { requests, sent } = requestsTo(never)
    const outcome = await callLegacyTool(toolCall(taking), Promise.reject(new Error('no list')), requests)
    expect(outcome.kind).toBe('result')
    expect(sent).toEqual([['tools/call', { name: 't' }]])
  })

  it('is the task of the server for a layer that follows tasks', async () => {
    const { requests, sent } = requestsTo(never, created)
    const outcome = await callLegacyTool(toolCall(taking), tool('required'), requests)
    expect(outcome).toMatchObject({
      kind: 'task',
      task: { id: 'u1', status: 'working', ttl: null, pollInterval: 251 },
      requestState: { upstream_task: { id: 'u1' } },
    })
    expect(sent).toHaveLength(1)
  })

  it('is followed to its result for everybody else, without what ties that to the task', async () => {
    const { requests, sent } = requestsTo(() => done, created)
    const outcome = await callLegacyTool(toolCall(), Promise.resolve(tool('required')), requests)
    expect(outcome.kind === 'result' && outcome.result.value).toEqual({ content: [], _meta: { own: 1 } })
    expect(sent[1]).toEqual(['tasks/result', { taskId: 'u1' }])
  })

  it('may be answered with the result at once', async () => {
    const { requests, sent } = requestsTo(never)
    const outcome = await callLegacyTool(toolCall(taking), tool('required'), requests)
    expect(outcome.kind === 'result' && outcome.result.value).toEqual({ content: [] })
    expect(sent).toHaveLength(1)
  })

  it('is not made again where its task is continued', async () => {
    const { requests, sent } = requestsTo(() => done)
    const outcome = await callLegacyTool(continuing(taking), tool('required'), requests)
    expect(outcome.kind).toBe('result')
    expect(sent).toEqual([['tasks/result', { taskId: 'u1' }]])
  })

  it('that is aborted has its task cancelled, once', async () => {
    const { requests, sent, controller } = requestsTo(never, created)
    const reason = new GatewayError('CANCELLED', 'gone')
    const request = (method: string, params: Payload) => {
      sent.push([method, params.value])
      return new Promise<Payload>((_resolve, reject) =>
        controller.signal.addEventListener('abort', () => reject(controller.signal.reason)),
      )
    }
    const ended = watched(callLegacyTool(toolCall(), tool('required'), { ...requests, request }))
    await pass(0)
    controller.abort(reason)
    await pass(0)
    expect(ended.error).toBe(reason)
    expect(sent.slice(1)).toEqual([
      ['tasks/result', { taskId: 'u1' }],
      ['tasks/cancel', { taskId: 'u1' }],
    ])
  })

  it('that was aborted before its task was continued has it cancelled all the same', async () => {
    const { requests, sent, controller } = requestsTo(() => done)
    controller.abort(new GatewayError('CANCELLED', 'gone'))
    await expect(callLegacyTool(continuing(taking), undefined, requests)).rejects.toThrow('gone')
    expect(sent).toEqual([['tasks/cancel', { taskId: 'u1' }]])
  })

  it('that has ended cancels nothing later', async () => {
    const { requests, sent, controller } = requestsTo(() => done, created)
    await callLegacyTool(toolCall(), tool('required'), requests)
    const { length } = sent
    controller.abort()
    expect(sent).toHaveLength(length)
  })
})

describe('the response of a server of 2026-07-28 to a call', () => {
  const created = Payload.of({
    resultType: 'task',
    taskId: 'u1',
    status: 'working',
    ttlMs: 1.5,
    pollIntervalMs: 400.4,
  })
  const completed = {
    resultType: 'complete',
    taskId: 'u1',
    status: 'completed',
    result: { content: [], n: 1 },
  }

  it('is its result where it is no task', () => {
    const { requests } = requestsTo(never)
    const result = Payload.of({ resultType: 'complete', content: [] })
    expect(afterModernCall(toolCall(taking), result, requests)).toEqual({ kind: 'result', result })
  })

  it('is its task for a layer that follows tasks, with the interval that the server asks for', () => {
    const { requests, sent } = requestsTo(never)
    expect(afterModernCall(toolCall(taking), created, requests)).toMatchObject({
      kind: 'task',
      task: { id: 'u1', status: 'working', ttl: 2, pollInterval: 400 },
      requestState: { upstream_task: { id: 'u1', pollInterval: 400 } },
    })
    expect(sent).toEqual([])
  })

  it('is followed to its end for everybody else, not sooner than the server asks for', async () => {
    const working = { taskId: 'u1', status: 'working', pollIntervalMs: 2000 }
    const { requests, sent, times } = requestsTo((_method, count) => (count < 3 ? working : completed))
    const ended = watched(Promise.resolve(afterModernCall(toolCall(), created, requests)))
    await pass(10_000)
    expect(times).toEqual([400, 2400, 4400])
    expect(sent.every((each) => each[0] === 'tasks/get')).toBe(true)
    expect(ended.value?.kind === 'result' && ended.value.result.value).toEqual({ content: [], n: 1 })
  })

  it('is asked for every second where the server does not say, and never more often than every 250 ms', async () => {
    const silent = requestsTo((_method, count) => (count < 2 ? { status: 'working' } : completed))
    const bare = Payload.of({ resultType: 'task', taskId: 'u1' })
    void afterModernCall(toolCall(), bare, silent.requests)
    await pass(5000)
    expect(silent.times).toEqual([1000, 2000])
    const eager = requestsTo((_method, count) =>
      count < 3 ? { taskId: 'u1', status: 'working', pollIntervalMs: 0 } : completed,
    )
    void afterModernCall(toolCall(), bare.with({ pollIntervalMs: 1 }), eager.requests)
    await pass(5000)
    expect(eager.times).toEqual([250, 500, 750])
  })
})

describe('a task of a server of 2026-07-28 that is continued', () => {
  const question = { method: 'elicitation/create', params: { message: 'q?', big: 1 } }
  const asks = (...keys: readonly string[]) => ({
    status: 'input_required',
    inputRequests: Object.fromEntries(keys.map((key) => [key, question])),
  })
  const completed = { status: 'completed', result: { content: [] } }

  async function follow(call: Call, answer: (method: string, count: number) => object, ms = 10_000) {
    const server = requestsTo(answer)
    const ended = watched(continueModern(call, 'u1', server.requests))
    await pass(ms)
    return { ...server, ended }
  }

  it('is asked for by its id, and is not begun again', async () => {
    const { sent, ended } = await follow(continuing(), () => completed)
    expect(sent).toEqual([['tasks/get', { taskId: 'u1' }]])
    expect(ended.value).toMatchObject({ kind: 'result' })
  })

  it('is asked for no sooner than its server wanted when it began', async () => {
    const requestState = taskState({ id: 'u1', pollInterval: 3000 })
    const { times } = await follow(toolCall({ requestState }), () => completed)
    expect(times).toEqual([3000])
  })

  it('needs input where its server says so: the call keeps the task, and is open', async () => {
    const { ended } = await follow(continuing(), () => asks('k1', 'k2'))
    expect(ended.value).toMatchObject({
      kind: 'input_required',
      requestState: { upstream_task: { id: 'u1' } },
      isOpen: true,
    })
    const requests = ended.value?.kind === 'input_required' ? ended.value.inputRequests : {}
    expect(Object.keys(requests)).toEqual(['k1', 'k2'])
    expect(requests['k1']?.params?.value).toEqual(question.params)
  })

  it('gets the responses with an update before it is asked for again', async () => {
    const inputResponses = { k1: { result: Payload.of({ action: 'accept' }) } }
    const { sent } = await follow(continuing({ inputResponses }), (method) =>
      method === 'tasks/update' ? {} : completed,
    )
    expect(sent).toEqual([
      ['tasks/update', { taskId: 'u1' }],
      ['tasks/get', { taskId: 'u1' }],
    ])
  })

  it('is not updated without a response', async () => {
    const { sent } = await follow(continuing({ inputResponses: {} }), () => completed)
    expect(sent.map(([method]) => method)).toEqual(['tasks/get'])
  })

  it('requests no input twice that was answered, though its server still lists it for a while', async () => {
    const inputResponses = { k1: { result: Payload.of({ action: 'accept' }) } }
    const slow = await follow(continuing({ inputResponses }), (_method, count) =>
      count < 4 ? asks('k1') : completed,
    )
    expect(slow.ended.value).toMatchObject({ kind: 'result' })
    const more = await follow(continuing({ inputResponses }), () => asks('k1', 'k2'))
    const requests = more.ended.value?.kind === 'input_required' ? more.ended.value.inputRequests : {}
    expect(Object.keys(requests)).toEqual(['k2'])
  })

  it('asks by a key that was used before the call became a task', async () => {
    const inputResponses = { k1: { result: Payload.of({ action: 'accept' }) } }
    const { requests } = requestsTo(() => asks('k1'))
    const created = Payload.of({ resultType: 'task', taskId: 'u1', status: 'working' })
    const ended = watched(Promise.resolve(afterModernCall(toolCall({ inputResponses }), created, requests)))
    await pass(1200)
    expect(ended.value).toMatchObject({ kind: 'input_required', inputRequests: { k1: {} } })
  })

  it.each([
    ['no questions', { status: 'input_required' }],
    ['none at all', { status: 'input_required', inputRequests: {} }],
    [
      'questions without a method',
      { status: 'input_required', inputRequests: { k: {}, l: 'x', m: { method: 1 } } },
    ],
    ['a status that is not defined', { status: 'submitted' }],
  ])('works on where its server sends %s', async (_what, response) => {
    const { ended } = await follow(continuing(), (_method, count) => (count < 3 ? response : completed))
    expect(ended.value).toMatchObject({ kind: 'result' })
  })

  it('keeps the text of its result, and passes a result that is an error as a result', async () => {
    const text = '{"status":"completed","result":{"isError":true,"n":12345678901234567890}}'
    const { requests } = requestsTo(never)
    const ended = watched(
      continueModern(continuing(), 'u1', { ...requests, request: async () => Payload.text(text) }),
    )
    await pass(1000)
    expect(ended.value?.kind === 'result' && ended.value.result.text).toBe(
      '{"isError":true,"n":12345678901234567890}',
    )
  })

  it.each([
    [
      'its error',
      { status: 'failed', error: { code: -32000, message: 'no space', data: { x: 1 } } },
      'no space',
      -32000,
    ],
    ['words of the gateway', { status: 'failed' }, 'The task failed.', -32603],
    ['words of the gateway', { status: 'failed', error: { message: 7 } }, 'The task failed.', -32603],
    ['words of the gateway', { status: 'cancelled' }, 'The server cancelled the task.', -32603],
    [
      'words of the gateway',
      { status: 'completed' },
      'The server completed the task without a result.',
      -32603,
    ],
  ])('fails with %s: %j', async (_what, response, message, rpc) => {
    const { ended } = await follow(continuing(), () => response)
    expect(ended.error).toMatchObject({ code: 'UPSTREAM_ERROR', message, rpc })
  })

  it('is cancelled at its server where the call is aborted, at any time', async () => {
    for (const ms of [100, 300]) {
      const server = requestsTo(() => ({ status: 'working' }))
      const ended = watched(continueModern(continuing(), 'u1', server.requests))
      await pass(ms)
      const before = server.sent.length
      const reason = new GatewayError('CANCELLED', 'gone')
      server.controller.abort(reason)
      await pass(5000)
      expect(ended.error).toBe(reason)
      expect(server.sent.slice(before)).toEqual([['tasks/cancel', { taskId: 'u1' }]])
    }
  })

  it('is cancelled at its server where the call was aborted before', async () => {
    const server = requestsTo(() => completed)
    server.controller.abort(new GatewayError('CANCELLED', 'gone'))
    await expect(continueModern(continuing(), 'u1', server.requests)).rejects.toThrow('gone')
    expect(server.sent).toEqual([['tasks/cancel', { taskId: 'u1' }]])
  })
})

describe('the task of a call in its state', () => {
  it('is found by its id', () => {
    expect(continuedTask(continuing())).toBe('u1')
    expect(continuedTask(toolCall())).toBeUndefined()
    for (const upstream_task of ['u1', { id: 1 }, {}, null])
      expect(continuedTask(toolCall({ requestState: { upstream_task } }))).toBeUndefined()
  })

  it('is all that outcomes before its end keep of the state', () => {
    const requestState = { ...taskState({ id: 'u1' }), confirm: 1 }
    expect(keptTaskState(toolCall({ requestState }))).toEqual(taskState({ id: 'u1' }))
    expect(keptTaskState(toolCall({ requestState: { confirm: 1 } }))).toEqual({})
  })
})

describe('a refusal of a server of 2026-07-28', () => {
  const refusal = (relayed: object) =>
    needsTasks(new GatewayError('UPSTREAM_ERROR', 'no', { relayed: Payload.of(relayed) }))
  const data = { requiredCapabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } } }

  it.each([
    ['tasks', { code: -32021, message: 'no', data }, true],
    ['tasks, by another code', { code: -32602, message: 'no', data }, false],
    [
      'another extension',
      { code: -32021, data: { requiredCapabilities: { extensions: { other: {} } } } },
      false,
    ],
    ['another capability', { code: -32021, data: { requiredCapabilities: { elicitation: {} } } }, false],
    ['nothing that it names', { code: -32021, message: 'no' }, false],
  ])('asks for %s', (_what, relayed, expected) => {
    expect(refusal(relayed)).toBe(expected)
  })

  it('is none where the gateway itself refuses', () => {
    expect(needsTasks(new GatewayError('CAPABILITY_REQUIRED', 'no', { data }))).toBe(false)
  })
})

describe('a task that its server does not know any more', () => {
  const refused = new GatewayError('UPSTREAM_ERROR', 'Unknown task', {
    relayed: Payload.of({ code: -32602, message: 'Unknown task' }),
  })
  const fail = (): never => {
    throw refused
  }

  it('leaves the outcome of its call unknown: it may have taken effect', async () => {
    const modern = watched(continueModern(continuing(), 'u1', requestsTo(fail).requests))
    const older = watched(callLegacyTool(continuing(), tool('required'), requestsTo(fail).requests))
    await pass(1000)
    for (const { error } of [modern, older])
      expect(error).toMatchObject({
        code: 'OUTCOME_UNKNOWN',
        cause: refused,
        extra: { suggestion: expect.stringContaining('Check') },
      })
  })

  it('is another case than a task of 2025-11-25 that failed: its error is that of the call', async () => {
    const { requests, sent } = requestsTo((method) => {
      if (method === 'tasks/result') throw refused
      return { taskId: 'u1', status: 'failed' }
    })
    await expect(callLegacyTool(continuing(), tool('required'), requests)).rejects.toBe(refused)
    expect(sent.map(([method]) => method)).toEqual(['tasks/result', 'tasks/get'])
  })

  it('is another case than a server that is away', async () => {
    const away = new GatewayError('SERVER_UNAVAILABLE', 'away')
    const failing = requestsTo(() => {
      throw away
    })
    await expect(callLegacyTool(continuing(), tool('required'), failing.requests)).rejects.toBe(away)
  })
})
