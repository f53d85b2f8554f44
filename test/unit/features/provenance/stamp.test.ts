import { expect, test } from 'vitest'
import { Payload } from '../../../../src/core/payload.ts'
import { type Stamp, stamped } from '../../../../src/features/provenance/stamp.ts'

const usual: Stamp = {
  source: 'files:"a"\n\u2028b\\',
  location: undefined,
  retrieved_at: '2026-11-22T10:00:00.000Z',
  version: undefined,
  confidence: 'exact',
  transformation: undefined,
  content_hash: undefined,
  attested_by: 'gatehouse',
}

test.each([
  usual,
  { ...usual, version: '7' },
  { ...usual, location: { json_path: '$.content[0]' } },
  { ...usual, confidence: 'derived', transformation: 'personal data was masked' },
  { ...usual, content_hash: 'sha256:00' },
] satisfies Stamp[])('the text of a stamp is that of its value: %j', (stamp) => {
  const result = stamped(Payload.text('{"n":1.0} '), [stamp], { server: 'files', compat: true })
  const _meta = { 'dev.gatehouse/provenance': stamp }
  expect(result.text).toBe(`{"n":1.0,"provenance":${JSON.stringify(stamp)},"_meta":${JSON.stringify(_meta)}}`)
  expect(result.value).toEqual({ n: 1, provenance: stamp, _meta })
})
