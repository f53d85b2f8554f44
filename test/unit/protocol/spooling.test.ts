import { describe, expect, it } from 'vitest'
import type { Spool } from '../../../src/core/spool.ts'
import { SpoolingReader } from '../../../src/protocol/spooling.ts'

/** Reads texts in pieces, with a spool for strings over 100 KB, and the pauses that it wants. */
function read(bytes: Buffer, step = 1000, { hasSpool = true, isBusy = false, isFull = false } = {}) {
  const strings = new Map<string, Buffer[]>()
  const ended = new Set<string>()
  let messages = ''
  let flow = ''
  const spool: Spool = {
    over: 100_000,
    open: () => ({
      begin: () => {
        if (isFull) return undefined
        const placeholder = `kept:${strings.size}`
        const pieces: Buffer[] = []
        strings.set(placeholder, pieces)
        return {
          placeholder,
          onDrain: undefined,
          write: (piece) => pieces.push(Buffer.from(piece)) > 0 && !isBusy,
          end: () => void ended.add(placeholder),
        }
      },
      end: () => void (messages += 'e'),
      abort: () => void (messages += 'a'),
    }),
    isIn: () => false,
    restored: async (text) => text,
    discard: () => undefined,
  }
  const passed: Buffer[] = []
  const reader = new SpoolingReader({
    spool: () => (hasSpool ? spool : undefined),
    pass: (piece) => passed.push(Buffer.from(piece)),
    pause: () => (flow += 'p'),
    resume: () => (flow += 'r'),
  })
  for (let at = 0; at < bytes.length; at += step) reader.write(bytes.subarray(at, at + step))
  return {
    reader,
    flow: () => flow,
    text: () => Buffer.concat(passed).toString(),
    string: (name: string) => Buffer.concat(strings.get(name) ?? []).toString(),
    count: () => strings.size,
    ended,
    messages: () => messages,
  }
}

const long = 'x'.repeat(150_000)

describe('long strings', () => {
  it('are taken out of a message, and a placeholder is in their place', () => {
    const bytes = Buffer.from(`${JSON.stringify({ id: 1, result: { a: long, b: 'short' } })}\n`)
    const { text, string, ended, messages } = read(bytes)
    expect(JSON.parse(text())).toEqual({ id: 1, result: { a: 'kept:0', b: 'short' } })
    expect(string('kept:0')).toBe(long)
    expect([...ended]).toEqual(['kept:0'])
    expect(messages()).toBe('e')
  })

  it.each([1, 2, 3, 5, 7, 11, 64, 1000, 40_000])('are decoded from pieces of %i bytes', (step) => {
    const part = 'a"b\\c\n\u0001é€😀/\ud800x\udc00\\"\\\\" '
    const value = { text: part.repeat(6000), 'k"\\': [`${part.repeat(20)}`, 'z'.repeat(150_000)] }
    // Escapes that no encoder has to write.
    const json = JSON.stringify(value)
      .replaceAll('😀', String.raw`\ud83d\uDE00`)
      .replaceAll('/', '\\/')
    const bytes = Buffer.from(`{"before":"\\\\"}\n${json}\n{"after":1}\n`)
    const { text, string } = read(bytes, step)
    const [before, message, after] = text().trimEnd().split('\n')
    expect([before, after]).toEqual(['{"before":"\\\\"}', '{"after":1}'])
    expect(JSON.parse(message ?? '')).toEqual({
      text: 'kept:0',
      'k"\\': [value['k"\\']?.[0], 'kept:1'],
    })
    expect(string('kept:0')).toBe(value.text.toWellFormed())
    expect(string('kept:1')).toBe('z'.repeat(150_000))
  })

  it('stay where nothing keeps them', () => {
    const bytes = Buffer.from(`{"a":"${long}"}\n{"b":"${long}"}\n`)
    const { text, count } = read(bytes, 30_000, { hasSpool: false })
    expect(text()).toBe(bytes.toString())
    expect(count()).toBe(0)
  })

  it('stay in the message if there is no room elsewhere', () => {
    const bytes = Buffer.from(`{"a":"${long}","b":"${long}\\""}\n{"c":1}\n`)
    expect(read(bytes, 1000, { isFull: true }).text()).toBe(bytes.toString())
  })

  it('leave short lines as they are, whatever is in them', () => {
    const bytes = Buffer.from('starting "the server\nnot JSON: \\"\r\n{"a":1}\n')
    expect(read(bytes, 1).text()).toBe(bytes.toString())
  })

  it('end with their line', () => {
    const bytes = Buffer.from(`{"a":"${long}\n{"b":"${long}"}\n`)
    const { text, messages, string } = read(bytes, 4096)
    expect(messages()).toBe('ae')
    expect(text().split('\n')).toEqual(['{"a":"', '{"b":"kept:1"}', ''])
    expect(string('kept:1')).toBe(long)
  })

  it('make their message invalid if an escape is', () => {
    const bytes = Buffer.from(`{"a":"${long}\\x${long}"}\n`)
    expect(() => JSON.parse(read(bytes).text())).toThrow('JSON')
  })

  it('pass whole when the source ends', () => {
    const bytes = Buffer.from(`{"a":"${long}","b":"rest"}`)
    const { reader, text } = read(bytes)
    reader.end()
    expect(JSON.parse(text())).toEqual({ a: 'kept:0', b: 'rest' })
  })

  it('are given up when the source fails', () => {
    const { reader, messages } = read(Buffer.from(`{"a":"${long}`))
    reader.abort()
    expect(messages()).toBe('a')
  })

  it('stop the source while they cannot be written', () => {
    const bytes = Buffer.from(`{"a":"${long}"}\n`)
    const { flow } = read(bytes, 1000, { isBusy: true })
    expect(flow()).toMatch(/^p+r$/)
  })
})
