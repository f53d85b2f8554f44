import { describe, expect, it, test } from 'vitest'
import type { Call } from '../../../src/core/call.ts'
import { Payload } from '../../../src/core/payload.ts'
import { callHeaders, headerTrace, tracedParams, withTrace } from '../../../src/protocol/trace-context.ts'
import { toolCall } from '../../support/tool-call.ts'

const parent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const other = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00'

function callWith(meta: Record<string, unknown>, written?: Record<string, unknown>): Call {
  return {
    ...toolCall(),
    requestId: 'r-1',
    meta,
    params: Payload.of({ name: 't', ...(written && { _meta: written }) }),
  }
}

describe('the trace context of headers', () => {
  it('C198 a valid traceparent is accepted with tracestate and baggage', () => {
    const headers = { traceparent: parent, tracestate: 'a=1', baggage: 'user=7' }
    expect(headerTrace(headers)).toEqual(headers)
  })

  test.each([
    ['a wrong length', '00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01'],
    ['upper-case letters', parent.toUpperCase()],
    ['version ff', parent.replace(/^00/, 'ff')],
    ['a trace id of zeros', `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`],
    ['a span id of zeros', `00-4bf92f3577b34da6a3ce929d0e0e4736-${'0'.repeat(16)}-01`],
    ['more fields than version 00', `${parent}-more`],
    ['text after the flags', `01${parent.slice(2)}x`],
    ['a value that is not a string', [parent, parent]],
  ])('C198 a traceparent is dropped for %s', (_why, traceparent) => {
    expect(headerTrace({ traceparent, tracestate: 'a=1' })).toBeUndefined()
  })

  it('a later version may have more fields', () => {
    const later = `01${parent.slice(2)}-more`
    expect(headerTrace({ traceparent: later })).toEqual({ traceparent: later })
  })

  it('C199 a tracestate without traceparent and an invalid header value are dropped', () => {
    expect(headerTrace({ tracestate: 'a=1' })).toBeUndefined()
    expect(headerTrace({ traceparent: parent, tracestate: 'a=1\n' })).toEqual({ traceparent: parent })
    expect(headerTrace({ traceparent: parent, baggage: 'x'.repeat(9000) })).toEqual({ traceparent: parent })
  })
})

describe('the trace context of a call', () => {
  it('C198 _meta has precedence over headers', () => {
    const meta = withTrace(
      { traceparent: parent, mine: 1 },
      { traceparent: other, tracestate: 'b=2', baggage: 'c=3' },
    )
    expect(meta).toEqual({ traceparent: parent, baggage: 'c=3', mine: 1 })
  })

  it('the headers apply if _meta has no valid trace context', () => {
    expect(withTrace({ traceparent: 'nonsense' }, { traceparent: other })).toEqual({ traceparent: other })
  })

  it('the same objects are returned without a trace context', () => {
    const meta = { mine: 1 }
    expect(withTrace(meta, undefined)).toBe(meta)
    const call = callWith(meta, meta)
    expect(tracedParams(call)).toBe(call.params)
  })

  it('C198 a valid trace context is forwarded in params and an invalid one is not', () => {
    expect(tracedParams(callWith({ traceparent: parent })).fields._meta).toEqual({ traceparent: parent })
    const call = callWith({ mine: 1 }, { traceparent: 'nonsense', mine: 1 })
    expect(tracedParams(call).fields._meta).toEqual({ mine: 1 })
  })

  it('C197 the trace context is sent as headers, with the request id', () => {
    const headers = callHeaders(callWith({ traceparent: parent, tracestate: 'a=1', baggage: 'b=2', x: 1 }))
    expect(headers).toEqual({ 'x-request-id': 'r-1', traceparent: parent, tracestate: 'a=1', baggage: 'b=2' })
    expect(callHeaders(callWith({}))).toEqual({ 'x-request-id': 'r-1' })
  })
})
