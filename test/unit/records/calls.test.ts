import fc from 'fast-check'
import { expect, it } from 'vitest'
import { GatewayError } from '../../../src/core/error.ts'
import { expiryIn } from '../../../src/durable/bounds.ts'
import { Payload } from '../../../src/core/payload.ts'
import {
  callKey,
  type CallRecord,
  callCollection,
  doneCall,
  encodeCall,
  decodeCall,
  startedCall,
} from '../../../src/records/calls.ts'
import { fingerprintOf, inexactNumbers } from '../../../src/records/fingerprint.ts'

const record: CallRecord = {
  expiresAt: 2,
  fingerprint: 'f',
  tool: 't',
  state: 'done',
  owner: 'o',
  attempt: 'a',
  startedAt: 1,
  attemptedAt: 1,
}

it('a call record round-trips with the exact text of its result', () => {
  fc.assert(
    fc.property(fc.json(), fc.integer({ min: 0 }), fc.string(), (text, expiresAt, tool) => {
      const object = `{"n":1.0,"big":12345678901234567890,"any":${text}}`
      const written = encodeCall({ ...record, tool, expiresAt, result: Payload.text(object) })
      const read = decodeCall(written)?.record
      expect(read?.result?.text).toBe(object)
      expect(read).toMatchObject({ tool, expiresAt, state: 'done' })
      expect(expiryIn(written)).toBe(expiresAt)
    }),
  )
})

it('a failure record round-trips with the relayed error', () => {
  const relayed = Payload.text('{"code":-32000,"message":"no","data":{"n":1.0}}')
  const failure = new GatewayError('UPSTREAM_ERROR', 'no', {
    relayed,
    details: { a: 1 },
    retryAfterSeconds: 3,
  })
  const read = decodeCall(encodeCall({ ...record, failure }))?.record.failure
  expect(read?.extra.relayed?.text).toBe(relayed.text)
  expect(read).toMatchObject({ code: 'UPSTREAM_ERROR', rpc: -32000, message: 'no' })
  expect(read?.extra).toMatchObject({ details: { a: 1 }, retryAfterSeconds: 3 })
})

it('the record of a call that is done is the text of its start with the outcome, whatever its tool is called', () => {
  const names = fc.oneof(fc.string(), fc.constant('"state":"executing"'), fc.constant('$& $1'))
  fc.assert(
    fc.property(fc.json(), names, (text, tool) => {
      const started = startedCall({ ...record, tool, state: 'executing' })
      const result = Payload.text(`{"n":1.0,"any":${text}}`)
      const done = doneCall(started, { result })
      expect(done.text).toBe(encodeCall({ ...record, tool, result }))
      expect(decodeCall(done.text)?.record).toMatchObject({ tool, state: 'done' })
      const failure = new GatewayError('UPSTREAM_ERROR', text)
      expect(doneCall(started, { failure }).text).toBe(encodeCall({ ...record, tool, failure }))
    }),
  )
})

it.each(['', 'x', '[]', '{}', '{"state":"done"}', JSON.stringify(record)])(
  '%j is not a call record',
  (text) => {
    expect(decodeCall(text)).toBeUndefined()
  },
)

// Of version 0.3.0: a record that an earlier gateway wrote is that of the same call.
it.each([
  ['{"id":725653563933458433}', '1242b3119d080e8d846176d6759a8441219bfcaec655654c8f8133e835bce2e2'],
  ['{"b":1e400,"a":1.25}', 'fbef8ac057b1e72ec21c91c941edf8201a2c192cf3d3b9495fe74399232311a9'],
  ['{"a":[1e100,1234567.123456789]}', 'b9786fa6e07f494acc5c6eeb5c2c49b3eb4bb4d915cdfde196a5bccf37835a2a'],
])('the fingerprint of %s does not change', (text, fingerprint) => {
  const given = Payload.text(text)
  expect(fingerprintOf('pay', given.value, inexactNumbers(given))).toBe(fingerprint)
})

it('records of different callers, servers or keys never have the same key', () => {
  const principals = fc.string({ minLength: 1 })
  fc.assert(
    fc.property(principals, principals, (one, other) => {
      fc.pre(one !== other)
      expect(callKey(one, 'u', 'k')).not.toBe(callKey(other, 'u', 'k'))
      expect(callKey(one, 'u', 'k').startsWith(`${callCollection(one)}/`)).toBe(true)
    }),
  )
})

it('a fingerprint depends on values and not on their JSON text', () => {
  expect(fingerprintOf('t', { a: 1, b: [1, { c: 2, d: 3 }] })).toBe(
    fingerprintOf('t', { b: [1, { d: 3, c: 2 }], a: 1.0 }),
  )
  expect(fingerprintOf('t', undefined)).toBe(fingerprintOf('t', {}))
  expect(fingerprintOf('t', { a: '1' })).not.toBe(fingerprintOf('t', { a: 1 }))
  expect(fingerprintOf('t', {})).not.toBe(fingerprintOf('u', {}))
})
