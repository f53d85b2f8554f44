import { expect, test } from 'vitest'
import { Payload } from '../../../../src/core/payload.ts'
import { stamped, stampOf } from '../../../../src/features/provenance/stamp.ts'

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
])('a stamp is JSON that says what is known: %j %j', (source, known, told) => {
  const stamp = stampOf({ source: usual.source, ...source }, { at, ...known })
  expect(JSON.parse(stamp)).toEqual(told)
  const result = stamped(Payload.text('{"n":1.0} '), [stamp], { server: 'files', compat: true })
  const _meta = { 'dev.gatehouse/provenance': told }
  expect(result.text).toBe(`{"n":1.0,"provenance":${stamp},"_meta":{"dev.gatehouse/provenance":${stamp}}}`)
  expect(result.value).toEqual({ n: 1, provenance: told, _meta })
})
