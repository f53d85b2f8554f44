import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Chunks, encodeLine, lines, singleLine } from '../../../src/protocol/lines.ts'

interface Read {
  readonly lines: string[]
  readonly sound: boolean[]
  readonly skipped: number[]
}

function read(chunks: readonly Uint8Array[], limit = 1000): Read {
  const found: Read = { lines: [], sound: [], skipped: [] }
  const take = lines(
    limit,
    (line, isSound) => {
      found.lines.push(line)
      found.sound.push(isSound)
    },
    (bytes) => found.skipped.push(bytes),
  )
  for (const chunk of chunks) take(Buffer.from(chunk))
  return found
}

/** Bytes divided at any position. */
function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1)))].toSorted(
    (one, other) => one - other,
  )
  return [...ends, bytes.length].map((end, index) => bytes.subarray(index === 0 ? 0 : ends[index - 1], end))
}

const places = fc.array(fc.nat(), { maxLength: 20 })
const line = fc
  .string({ unit: 'binary', minLength: 1, maxLength: 50 })
  .filter((text) => !/[\r\n]|^\uFEFF/.test(text))

describe('line splitting', () => {
  test('a byte order mark at the beginning is no part of the first line', () => {
    const mark = Buffer.from([0xef, 0xbb, 0xbf])
    for (const size of [1, 2, 3, 100]) {
      const bytes = Buffer.concat([mark, Buffer.from('{}\r\n'), mark, Buffer.from('\n')])
      const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
        bytes.subarray(at * size, (at + 1) * size),
      )
      expect(read(chunks).lines).toEqual(['{}', '\uFEFF'])
    }
    expect(read([mark, Buffer.from('\n{}\n')]).lines).toEqual(['{}'])
  })

  test('a character survives any division into chunks', () => {
    const bytes = Buffer.from('é € 😀 \u2028 \u0085\n'.repeat(3))
    for (let size = 1; size < bytes.length; size++) {
      const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
        bytes.subarray(at * size, (at + 1) * size),
      )
      expect(read(chunks).lines).toEqual(Array.from({ length: 3 }, () => 'é € 😀 \u2028 \u0085'))
    }
  })

  test('any lines are preserved for any chunks and line ends', () => {
    fc.assert(
      fc.property(fc.array(line), fc.constantFrom('\n', '\r\n'), places, (given, end, at) => {
        const bytes = Buffer.from(given.map((each) => each + end).join(''))
        expect(read(cut(bytes, at)).lines).toEqual(given.map((each) => Buffer.from(each).toString()))
      }),
    )
  })

  test('any bytes are split alike for any chunks, within the limit', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 300 }),
        places,
        fc.integer({ min: 1, max: 40 }),
        (bytes, at, limit) => {
          const whole = read([bytes], limit)
          expect(read(cut(bytes, at), limit)).toEqual(whole)
          expect(whole.skipped.every((size) => size > limit)).toBe(true)
          const parts = Buffer.from(bytes).toString('latin1').split('\n').slice(0, -1)
          expect(whole.skipped).toEqual(parts.map((part) => part.length).filter((size) => size > limit))
        },
      ),
    )
  })

  test('only 0x0A ends a line', () => {
    expect(read([Buffer.from('a\u2028b\u2029c\u0085d\re\u000bf\u000cg\n')]).lines).toEqual([
      'a\u2028b\u2029c\u0085d\re\u000bf\u000cg',
    ])
  })

  test('a line over the limit is skipped and reported, and the next line is read', () => {
    const long = Buffer.from(`${'x'.repeat(2000)}\nnext\n`)
    expect(read(cut(long, [500, 1500]))).toMatchObject({ lines: ['next'], skipped: [2000] })
  })

  test('invalid UTF-8 is detected', () => {
    const bytes = Buffer.concat([Buffer.from('é\n'), Buffer.from([0xe9, 10]), Buffer.from('😀\n')])
    expect(read([bytes])).toMatchObject({ lines: ['é', '\ufffd', '😀'], sound: [true, false, true] })
  })

  test('empty lines are skipped', () => {
    expect(read([Buffer.from('\n\r\n\na\n\n')]).lines).toEqual(['a'])
  })
})

describe('singleLine', () => {
  test('a single line contains no line terminator and has the same value', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(0, 2), (value, indent) => {
        const text = JSON.stringify(value, null, indent)
        const single = singleLine(text)
        expect(single).not.toMatch(/[\r\n\u2028\u2029]/)
        expect(JSON.parse(single)).toEqual(JSON.parse(text))
        expect(encodeLine(text)).toBe(`${single}\n`)
      }),
    )
  })

  test('U+2028 and U+2029 are escaped', () => {
    expect(singleLine('"a\u2028b\u2029c"')).toBe('"a\\u2028b\\u2029c"')
  })
})

describe('chunk joining', () => {
  test('any chunks are joined once', () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 5 }), { maxLength: 50 }),
        fc.integer({ min: 1, max: 100 }),
        (pieces, times) => {
          const chunks = new Chunks()
          const all = Array.from({ length: times }, () => pieces).flat()
          for (const piece of all) chunks.add(Buffer.from(piece))
          expect(chunks.size).toBe(all.reduce((sum, piece) => sum + piece.length, 0))
          expect(chunks.take()).toEqual(Buffer.concat(all))
          expect([chunks.size, chunks.take().length]).toEqual([0, 0])
        },
      ),
      { numRuns: 50 },
    )
  })
})
