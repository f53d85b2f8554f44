import { describe, expect, it } from 'vitest'
import { parseCassette, episodesOf } from '../../../src/testkit/cassette.ts'

const header = { type: 'header', cassetteVersion: 2, transport: 'stdio', era: 'modern' }

function lines(...entries: readonly unknown[]): string {
  return entries.map((entry) => `${JSON.stringify(entry)}\n`).join('')
}

describe('parseCassette', () => {
  it('reads frames and chunks, and skips entries of unknown types', () => {
    const note = { jsonrpc: '2.0', method: 'notifications/message', params: {} }
    const { frames, header: read } = parseCassette(
      lines(
        header,
        { type: 'later', what: 'ever' },
        { type: 'frame', t: 1, dir: 'c2s', frame: { id: 7, method: 'tools/list' } },
        { type: 'raw', t: 2, dir: 's2c', data: 'noise' },
        {
          type: 'chunks',
          t: 3,
          dir: 's2c',
          id: 7,
          chunks: [
            { t: 3, frame: note },
            { t: 4, frame: { id: 7, result: {} } },
          ],
        },
      ),
      'a.jsonl',
    )
    expect(read.redaction.marks).toContain('***')
    expect(frames.map(({ line, t, about }) => [line, t, about])).toEqual([
      [3, 1, undefined],
      [5, 3, 7],
      [5, 4, 7],
    ])
    const [episode, ...others] = episodesOf({ frames })
    expect(others).toEqual([])
    expect(episode).toMatchObject({ steps: [{ frame: note }], response: { result: {} } })
  })

  it('reads version 1, whose header has no era', () => {
    const { header: read } = parseCassette(lines({ type: 'header', cassetteVersion: 1 }), 'a.jsonl')
    expect(read).toMatchObject({ era: 'legacy', transport: 'stdio' })
  })

  it('drops the last line of an interrupted recording, and no other', () => {
    const frame = { type: 'frame', t: 1, dir: 'c2s', frame: { id: 1, method: 'ping' } }
    const cut = `${lines(header, frame)}{"type":"fra`
    expect(parseCassette(cut, 'a.jsonl').frames).toHaveLength(1)
    expect(() => parseCassette(`${cut}\n`, 'a.jsonl')).toThrow('a.jsonl:3: the line is not JSON')
  })

  it.each([
    ['', 'the file has no header'],
    [lines([1]), 'a.jsonl:1: the line is not a JSON object'],
    [lines({ type: 'frame' }), 'a.jsonl:1: the first line must be a header'],
    [lines({ ...header, cassetteVersion: 9 }), 'a.jsonl:1: cassetteVersion is 9'],
    [lines({ ...header, transport: 'pigeon' }), 'a.jsonl:1: transport must be'],
    [lines({ ...header, era: 'jurassic' }), 'a.jsonl:1: era must be'],
    [lines(header, { type: 'frame', t: 'x' }), 'a.jsonl:2: t must be a number'],
    [lines(header, { type: 'frame', dir: 'c2s', frame: 1 }), 'a.jsonl:2: frame must be'],
    [lines(header, { type: 'chunks', dir: 's2c', chunks: [1] }), 'a.jsonl:2: each chunk must be'],
  ])('refuses %j', (text, message) => {
    expect(() => parseCassette(text, 'a.jsonl')).toThrow(message)
  })
})
