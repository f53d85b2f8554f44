import { expect, test, vi } from 'vitest'
import { Payload } from '../../../../src/core/payload.ts'
import { stamped, stamper, stampOf } from '../../../../src/features/provenance/stamp.ts'

const at = Date.parse('2026-11-22T10:00:00.000Z')
const usual = {
  source: 'files:"a"\n\u2028b\\',
  retrieved_at: '2026-11-22T10:00:00.000Z',
  confidence: 'exact',
  attested_by: 'gatehouse',
}

test.each([
  [{}, {}, usual],
  [{ version: '"7"' }, {}, { ...usual, version: '"7"' }],
  [{ location: { json_path: '$.content[0]' } }, {}, { ...usual, location: { json_path: '$.content[0]' } }],
  [
    {},
    { transformation: 'personal "data" was masked' },
    { ...usual, confidence: 'derived', transformation: 'personal "data" was masked' },
  ],
  [{}, { hash: '00' }, { ...usual, content_hash: 'sha256:00' }],
])('a stamp is JSON with the known members: %j %j', (source, known, told) => {
  const stamp = stampOf({ source: usual.source, ...source }, { at, ...known })
  expect(JSON.parse(stamp)).toEqual(told)
  const result = stamped(Payload.text('{"n":1.0} '), [stamp], { server: 'files', isOutsideMeta: true })
  const _meta = { 'dev.gatehouse/provenance': told }
  expect(result.text).toBe(`{"n":1.0,"provenance":${stamp},"_meta":{"dev.gatehouse/provenance":${stamp}}}`)
  expect(result.value).toEqual({ n: 1, provenance: told, _meta })
})

test('every result is stamped with its own retrieval time', () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  try {
    const stamp = stamper({ source: 'files:read' }, { server: 'files', isOutsideMeta: true })
    const stampedAt = (time: number, text: string): unknown => {
      vi.setSystemTime(time)
      return JSON.parse(stamp(Payload.text(text)).text)
    }
    const told = (time: number) => {
      return { ...usual, source: 'files:read', retrieved_at: new Date(time).toISOString() }
    }
    const all = (time: number) => {
      return { provenance: told(time), _meta: { 'dev.gatehouse/provenance': told(time) } }
    }
    expect(stampedAt(at, '{}')).toEqual(all(at))
    expect(stampedAt(at, '{"n":1}')).toEqual({ n: 1, ...all(at) })
    expect(stampedAt(at, '{"_meta":{"a":1}}')).toEqual({
      provenance: told(at),
      _meta: { a: 1, 'dev.gatehouse/provenance': told(at) },
    })
    const claim = { source: 'theirs', attested_by: 'files' }
    const both = [claim, told(at)]
    expect(stampedAt(at, '{"provenance":"theirs"}')).toEqual({
      provenance: 'theirs',
      _meta: { 'dev.gatehouse/provenance': both },
    })
    expect(stampedAt(at + 1, '{}')).toEqual(all(at + 1))
  } finally {
    vi.useRealTimers()
  }
})
