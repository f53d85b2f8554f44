import type { EventSourceMessage } from 'eventsource-parser'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  encodeEndpoint,
  encodeEvent,
  encodePriming,
  keepAlive,
  readEvents,
} from '../../../src/protocol/sse.ts'

interface Read {
  readonly events: EventSourceMessage[]
  readonly retries: number[]
  overflows: number
}

function read(chunks: readonly Uint8Array[], limit = 100_000): Read {
  const found: Read = { events: [], retries: [], overflows: 0 }
  const feed = readEvents(limit, {
    onEvent: (event) => found.events.push(event),
    onRetry: (milliseconds) => found.retries.push(milliseconds),
    onOverflow: () => found.overflows++,
  })
  for (const chunk of chunks) feed(chunk)
  return found
}

function bytewise(text: string): Uint8Array[] {
  return [...Buffer.from(text)].map((byte) => Uint8Array.of(byte))
}

const data = (found: Read): string[] => found.events.map((event) => event.data)
const lineEnds = ['\n', '\r\n', '\r'] as const

describe('an event stream', () => {
  test.each(lineEnds)('events with line ends %j are parsed in one chunk and byte by byte', (end) => {
    const text =
      ['event: message', 'id: 7', 'data: {"a":"é😀"}', '', 'data: two', '', ': note', ''].join(end) + end
    for (const chunks of [[Buffer.from(text)], bytewise(text)]) {
      expect(data(read(chunks))).toEqual(['{"a":"é😀"}', 'two'])
    }
  })

  test('a CRLF divided between chunks produces no empty event', () => {
    const chunks = ['data: one\r', '\n\r', '\ndata: two\r', '\n', '\r\n'].map((text) => Buffer.from(text))
    expect(data(read(chunks))).toEqual(['one', 'two'])
  })

  test('several data lines are joined by line feeds', () => {
    expect(data(read([Buffer.from('data: {"a":\ndata: 1}\n\n')]))).toEqual(['{"a":\n1}'])
  })

  test('unnamed events are returned, and id or retry alone is not an event', () => {
    const found = read([Buffer.from('data: x\n\nid: 5\n\nretry: 250\n\n: c\n\n')])
    expect(data(found)).toEqual(['x'])
    expect(found.retries).toEqual([250])
  })

  test('other Unicode separators do not end a line', () => {
    expect(data(read([Buffer.from('data: a\u2028b\u2029c\u0085d\u000be\n\n')]))).toEqual([
      'a\u2028b\u2029c\u0085d\u000be',
    ])
  })

  test('any messages are parsed as written for any chunks', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), fc.integer({ min: 1, max: 30 }), (values, size) => {
        const texts = values.map((value) => JSON.stringify(value))
        const bytes = Buffer.from(
          texts.map((text, index) => keepAlive + encodeEvent(text, `${index}`)).join(''),
        )
        const count = Math.ceil(bytes.length / size)
        const chunks = Array.from({ length: count }, (_, at) => bytes.subarray(at * size, (at + 1) * size))
        const { events } = read(chunks)
        expect(events.map((event) => JSON.parse(event.data))).toEqual(texts.map((text) => JSON.parse(text)))
        expect(events.map((event) => event.id)).toEqual(texts.map((_, index) => `${index}`))
      }),
    )
  })

  test('any bytes are parsed without an exception and alike for any chunks', () => {
    const text = fc.string({
      unit: fc.constantFrom('data', ':', ' ', '\n', '\r', '\r\n', 'id', 'retry', '5', 'é', '\0', '{'),
    })
    fc.assert(
      fc.property(
        fc.oneof(
          text.map((each) => Buffer.from(each)),
          fc.uint8Array(),
        ),
        (bytes) => {
          const whole = read([bytes])
          const single = read([...bytes].map((byte) => Uint8Array.of(byte)))
          // A trailing CR may become CRLF, so the last event may be incomplete.
          expect(whole.events.slice(0, single.events.length)).toEqual(single.events)
          expect(whole.events.length - single.events.length).toBeLessThanOrEqual(1)
        },
      ),
    )
  })

  test('an event over the limit ends the stream', () => {
    expect(read([Buffer.from(`data: ${'x'.repeat(2000)}`)], 1000).overflows).toBeGreaterThan(0)
    const pieces = Array.from({ length: 30 }, () => Buffer.from(`data: ${'x'.repeat(90)}\n`))
    expect(read(pieces, 1000).overflows).toBe(1)
  })
})

test('an encoded event contains no line end within its data', () => {
  const event = encodeEvent('{"a":"x\u2028y",\n"b":1}', '3')
  expect(event).toBe('id: 3\nevent: message\ndata: {"a":"x\\u2028y", "b":1}\n\n')
})

test('a priming event has an id, a time and no data, and the endpoint event has a path and an id', () => {
  expect(encodePriming('9')).toBe('id: 9\nretry: 1000\ndata: \n\n')
  expect(data(read([Buffer.from(encodePriming('9'))])).join('')).toBe('')
  expect(read([Buffer.from(encodeEndpoint('/messages?session_id=1', '1'))]).events).toMatchObject([
    { event: 'endpoint', data: '/messages?session_id=1', id: '1' },
  ])
})
