import { describe, expect, it } from 'vitest'
import { compose, type Handler, type Target } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import type { Log } from '../../../src/core/log.ts'
import { Payload } from '../../../src/core/payload.ts'
import { Metrics } from '../../../src/observability/metrics.ts'
import { observe, type Observers, observeTarget } from '../../../src/observability/observe.ts'
import { silentLog } from '../../support/silent-log.ts'
import { toolCall } from '../../support/tool-call.ts'

type Line = Readonly<Record<string, unknown>>

function watched(): { observers: Observers; lines: Line[]; errors: Line[] } {
  const lines: Line[] = []
  const errors: Line[] = []
  const log: Log = {
    ...silentLog,
    info: (event, fields) => lines.push({ event, ...fields }),
    error: (event, fields) => errors.push({ event, ...fields }),
  }
  const metrics = new Metrics({
    isMethod: () => true,
    isOutcome: () => true,
    pendingApprovals: async () => 0,
    deadLetters: async () => 0,
    references: async () => undefined,
    levels: () => ({ upstreams: [], sessions: 0, operations: {} }),
  })
  return {
    observers: {
      log,
      metrics,
      isQuiet: false,
      isTraced: false,
      way: { transport: 'tcp' },
      isListed: () => false,
    },
    lines,
    errors,
  }
}

const done: Handler = async () => ({ kind: 'result', result: Payload.of({ content: [] }) })
const failing =
  (error: unknown): Handler =>
  () =>
    Promise.reject(error)
const target: Target = { method: 'tools/call', upstream: 'files', name: 'read' }

describe('observation with everything off', () => {
  it('calls pass unobserved, and internal errors are still logged', async () => {
    const { observers, lines, errors } = watched()
    const quiet = { ...observers, isQuiet: true }
    const chain = [observe(quiet), observeTarget(quiet, target)]
    await compose(chain, done)(toolCall())
    const refused = compose(chain, failing(new GatewayError('UNKNOWN_TOOL', 'Unknown tool')))(toolCall())
    await expect(refused).rejects.toMatchObject({ code: 'UNKNOWN_TOOL' })
    expect([...lines, ...errors]).toEqual([])
    await expect(compose(chain, failing(new TypeError('a bug')))(toolCall())).rejects.toThrow('a bug')
    expect(errors).toMatchObject([
      { event: 'call', outcome: 'SERVER_ERROR', cause: expect.stringContaining('a bug') },
    ])
    expect((await observers.metrics.page()).text).not.toContain('gatehouse_calls_total{')
  })
})

describe('the log line of a call', () => {
  it('C200 C201 a line has the caller, request, server, outcome and duration', async () => {
    const { observers, lines } = watched()
    const call = toolCall({ target: { method: 'tools/call', name: 'files_read' } })
    await compose([observe(observers), observeTarget(observers, target)], done)(call)
    expect(lines).toEqual([
      {
        event: 'call',
        method: 'tools/call',
        upstream: 'files',
        name: 'read',
        principal: 'anonymous',
        revision: '2026-07-28',
        outcome: 'ok',
        ms: expect.any(Number),
        request_id: 'r1',
      },
    ])
  })

  it('E54 a line has the JSON-RPC id, the request id and the trace id separately', async () => {
    const { observers, lines } = watched()
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    await observe(observers)(done)(toolCall({ meta: { traceparent }, rpcId: '7' }))
    expect(lines[0]).toMatchObject({
      request_id: 'r1',
      rpc_id: '7',
      trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
    })
  })

  it('C203 a line has the cause of an unexpected error, which the caller does not receive', async () => {
    const { observers, errors } = watched()
    const called = observe(observers)(failing(new Error('at /etc/secret')))(toolCall())
    await expect(called).rejects.toThrow('at /etc/secret')
    expect(errors[0]).toMatchObject({
      outcome: 'SERVER_ERROR',
      cause: expect.stringContaining('/etc/secret'),
    })
  })

  it('C204 a line does not contain arguments', async () => {
    const { observers, lines } = watched()
    const params = Payload.of({ name: 'read', arguments: { email: 'jane@example.com' } })
    await observe(observers)(done)(toolCall({ params }))
    expect(JSON.stringify(lines)).not.toContain('jane')
  })

  it('a line has the code of a refusal that became a tool result', async () => {
    const { observers, lines } = watched()
    const result = Payload.of({
      isError: true,
      content: [],
      _meta: { 'dev.gatehouse/error': { code: 'PERMISSION_DENIED' } },
    })
    await observe(observers)(async () => ({ kind: 'result', result }))(toolCall())
    expect(lines[0]).toMatchObject({ outcome: 'tool_error', code: 'PERMISSION_DENIED' })
  })
})

describe('counting of calls', () => {
  it('C206 a call is counted under its server and tool, whatever name the client used', async () => {
    const { observers } = watched()
    const handle = compose([observe(observers), observeTarget(observers, target)], done)
    await handle(toolCall({ target: { method: 'tools/call', name: 'files_read' } }))
    expect((await observers.metrics.page()).text).toContain(
      'gatehouse_calls_total{method="tools/call",upstream="files",tool="read",outcome="ok"} 1',
    )
  })

  it('C206 a refusal is counted under its code, even as a failed tool result', async () => {
    const { observers } = watched()
    const error = { code: 'PERMISSION_DENIED' }
    const result = Payload.of({ isError: true, content: [], _meta: { 'dev.gatehouse/error': error } })
    const chain = [observe(observers), observeTarget(observers, target)]
    await compose(chain, async () => ({ kind: 'result', result }))(toolCall())
    expect((await observers.metrics.page()).text).toContain('outcome="PERMISSION_DENIED"} 1')
  })

  it('a call of several servers is counted under none', async () => {
    const { observers } = watched()
    const list = (upstream: string): Handler =>
      compose([observeTarget(observers, { method: 'tools/list', upstream })], done)
    const both: Handler = async (call) => {
      await list('one')(call)
      return list('two')(call)
    }
    await observe(observers)(both)(toolCall({ method: 'tools/list', target: { method: 'tools/list' } }))
    expect((await observers.metrics.page()).text).toContain(
      'gatehouse_calls_total{method="tools/list",upstream="",tool="",outcome="ok"} 1',
    )
  })

  it('C208 each authentication refusal and each rate-limit refusal is counted', async () => {
    const { observers } = watched()
    for (const code of ['SCOPE_INSUFFICIENT', 'RATE_LIMIT_EXCEEDED'] as const) {
      const chain = [observe(observers), observeTarget(observers, target)]
      await expect(compose(chain, failing(new GatewayError(code, 'no')))(toolCall())).rejects.toThrow('no')
    }
    const text = (await observers.metrics.page()).text
    expect(text).toContain('gatehouse_auth_failures_total{reason="scope_insufficient"} 1')
    expect(text).toContain('gatehouse_rate_limited_total{upstream="files"} 1')
  })
})
