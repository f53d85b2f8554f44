import { describe, expect, it, test } from 'vitest'
import { asGatewayError, GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { acceptsTaskSlot, connectionSlot, contextSlot } from '../../../../src/core/slot.ts'
import { encodeNotification, parseMessage } from '../../../../src/protocol/jsonrpc.ts'
import { ownCall } from '../../../../src/protocol/lift.ts'
import {
  encodeCall,
  encodeLine,
  type Line,
  readCall,
  readLine,
} from '../../../../src/upstream/placement/messages.ts'

const client = {
  era: 'legacy',
  revision: '2025-06-18',
  capabilities: { elicitation: {} },
  session: 's1',
  nonInteractive: true,
} as const

describe('a call for another process', () => {
  const params = Payload.text('{"name":"t","arguments":{"id":12345678901234567890,"pi":3.10}}')

  it('arrives with all that a server may depend on, and the text of its params', () => {
    const call = ownCall({
      method: 'tools/call',
      params,
      target: { upstream: 'mine', method: 'tools/call', name: 't' },
      client,
      meta: { progressToken: 7, traceparent: '00-1' },
      rpcId: '"x"',
      requestState: { park: 'token', server: null },
      inputResponses: {
        q1: { result: Payload.of({ action: 'accept' }) },
        q2: { error: Payload.of({ code: 1 }) },
      },
      internal: 'read',
    })
    const own = { id: 'c', isKnown: true, mayReplace: false, onOpen: () => undefined }
    const watch = { expected: { id: 'k', since: 1 }, mayReplace: true, onUse: () => undefined }
    const slots = acceptsTaskSlot.put(true, connectionSlot.put(own, contextSlot.put(watch)))
    const received = readCall(encodeCall({ ...call, slots }), 'yours')
    expect(received?.params.text).toBe(params.text)
    expect(received).toMatchObject({
      requestId: call.requestId,
      rpcId: '"x"',
      method: 'tools/call',
      target: { upstream: 'yours', method: 'tools/call', name: 't' },
      client,
      meta: { progressToken: 7, traceparent: '00-1' },
      requestState: { park: 'token', server: null },
      internal: 'read',
      acceptsTask: true,
      connection: { id: 'c', isKnown: true, mayReplace: false },
      context: { expected: 'k', mayReplace: true },
    })
    expect(JSON.stringify(received?.inputResponses)).toBe(JSON.stringify(call.inputResponses))
  })

  it.each([
    'null',
    '[]',
    '{',
    '{"requestId":"r","method":"ping"}',
    '{"requestId":"r","method":"ping","params":{},"client":null}',
    '{"requestId":"r","method":"ping","params":{},"client":{"era":"old","revision":"","capabilities":{}}}',
    '{"requestId":1,"method":"ping","params":{},"client":{"era":"modern","revision":"","capabilities":{}}}',
  ])('is not read from %s', (text) => {
    expect(readCall(text, 'yours')).toBeUndefined()
  })
})

describe('a line of an answer', () => {
  it.each(['{"jsonrpc":"2.0","method":"n"}', '{"jsonrpc":"2.0","method":"n","params":{}}'])(
    'leaves a notification the params that its server gave it: %s',
    (text) => {
      const sent = parseMessage(text)
      if (sent.kind !== 'notification') throw new TypeError('no notification')
      const line = readLine(encodeLine({ kind: 'note', note: sent }))
      if (line?.kind !== 'note') throw new TypeError('no line')
      expect(encodeNotification(line.note.method, line.note.params)).toBe(text)
    },
  )

  const lines: readonly Line[] = [
    { kind: 'facts', facts: { era: 'modern', revision: '2026-07-28', canAsk: true } },
    {
      kind: 'facts',
      facts: { era: 'legacy', revision: '2025-11-25', canAsk: false, context: { id: 'i', since: 3 } },
    },
    { kind: 'opened', id: 'c', isLost: true },
    { kind: 'note', note: { method: 'notifications/message' } },
    { kind: 'note', note: { method: 'n', params: Payload.text('{"a":1e400}'), mustArrive: true } },
    { kind: 'outcome', outcome: { kind: 'result', result: Payload.text('{"n":12345678901234567890}') } },
    {
      kind: 'outcome',
      outcome: {
        kind: 'input_required',
        inputRequests: { q: { method: 'elicitation/create', params: Payload.of({ message: 'a\u2028b' }) } },
        requestState: { park: 'p' },
        isOpen: true,
      },
    },
    {
      kind: 'outcome',
      outcome: {
        kind: 'task',
        task: { id: 't', status: 'working', createdAt: 1, updatedAt: 2, ttl: null },
        requestState: {},
      },
    },
  ]

  it.each(lines)('is read as it was written: $kind', (line) => {
    const text = encodeLine(line)
    expect(text).not.toMatch(/[\n\r\u2028]/)
    expect(JSON.stringify(readLine(text))).toBe(JSON.stringify(line))
    if (line.kind === 'outcome' && line.outcome.kind === 'result') {
      const read = readLine(text)
      const result =
        read?.kind === 'outcome' && read.outcome.kind === 'result' ? read.outcome.result : undefined
      expect(result?.text).toBe(line.outcome.result.text)
    }
  })

  test('keeps everything of an error that layers above decide by, and not its cause', () => {
    const error = new GatewayError('SERVER_UNAVAILABLE', 'gone', {
      cause: new Error('secret'),
      isUnsent: true,
      retryAfterSeconds: 3,
      details: { http_status: 503 },
      relayed: Payload.text('{"code":-32000,"data":{"id":12345678901234567890}}'),
      forOperator: 'at /x',
    })
    const text = encodeLine({ kind: 'error', error })
    expect(text).not.toContain('secret')
    const line = readLine(text)
    const read = line?.kind === 'error' ? line.error : undefined
    const { cause: _cause, relayed, ...extra } = error.extra
    expect(read?.code).toBe('SERVER_UNAVAILABLE')
    expect(read?.extra).toMatchObject(extra)
    expect(read?.extra.relayed?.text).toBe(relayed?.text)
  })

  test('with an error code of a later version is a failure all the same', () => {
    const line = readLine('{"kind":"error","code":"NEWER","message":"x"}')
    expect(line?.kind === 'error' && asGatewayError(line.error).code).toBe('SERVER_ERROR')
  })

  it.each([
    'null',
    '',
    '{"kind":"later"}',
    '{"kind":"result"}',
    '{"kind":"task","task":{}}',
    '{"kind":"facts","facts":{}}',
  ])('says nothing if it is %j', (text) => {
    expect(readLine(text)).toBeUndefined()
  })
})
