import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { expect, it } from 'vitest'
import type { Handler } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { anonymous } from '../../../src/core/principal.ts'
import { serveStdio } from '../../../src/downstream/stdio.ts'
import { metaKeys } from '../../../src/protocol/meta-keys.ts'
import { createRequestStateCodec } from '../../../src/protocol/request-state.ts'
import { silentLog } from '../../support/silent-log.ts'
import type { Json } from '../../support/server/json.ts'

/** Streams that send one notification each, and end when the test says so. */
const ends = new Map<string, () => void>()
const handle: Handler = ({ params, emit }) => {
  const { name } = params.fields
  if (name === 'no.such')
    return Promise.reject(
      new GatewayError('RESOURCE_NOT_FOUND', 'Not there.', { rpc: -32023, data: { kind: 'event' } }),
    )
  emit({ method: 'notifications/events/active', params: Payload.of({ cursor: String(name) }) })
  return new Promise((resolve) => {
    ends.set(String(name), () => resolve({ kind: 'result', result: Payload.of({}) }))
  })
}

it('E22 two streams of events on one stdio carry the ids of their requests, also in the final result', async () => {
  const [input, output] = [new PassThrough(), new PassThrough()]
  const options = { principal: anonymous, handle, seal: createRequestStateCodec(Date.now), limit: 10_000 }
  const served = serveStdio(input, output, { ...options, log: silentLog })
  const _meta = { [metaKeys.version]: '2026-07-28', [metaKeys.capabilities]: {} }
  const send = (id: unknown, name: string): void => {
    const request = { jsonrpc: '2.0', id, method: 'events/stream', params: { name, _meta } }
    input.write(`${JSON.stringify(request)}\n`)
  }
  const next = async (): Promise<Json> => {
    for (;;) {
      const chunk: unknown = output.read()
      if (chunk !== null) return JSON.parse(String(chunk)) as Json
      await once(output, 'readable')
    }
  }
  for (const [id, name] of [
    ['a', 'one'],
    [7, 'two'],
  ] as const) {
    send(id, name)
    expect(await next()).toMatchObject({
      method: 'notifications/events/active',
      params: { cursor: name, _meta: { [metaKeys.subscription]: id } },
    })
  }
  ends.get('one')?.()
  expect(await next()).toMatchObject({ id: 'a', result: { _meta: { [metaKeys.subscription]: 'a' } } })
  ends.get('two')?.()
  expect(await next()).toMatchObject({
    id: 7,
    result: { resultType: 'complete', _meta: { [metaKeys.subscription]: 7 } },
  })
  send(8, 'no.such')
  expect(await next()).toMatchObject({ id: 8, error: { code: -32023, data: { kind: 'event' } } })
  input.end()
  await served
})
