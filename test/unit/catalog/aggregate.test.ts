import { expect, it } from 'vitest'
import { Aggregate } from '../../../src/catalog/aggregate.ts'
import { Naming } from '../../../src/catalog/names.ts'
import { strictNames } from '../../../src/catalog/strict-names.ts'
import type { Call, Handler } from '../../../src/core/call.ts'
import { GatewayError, unknownResource } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { silentLog } from '../../support/silent-log.ts'

const theirs = '{"code":-32002,"message":"m","data":{"uri":"a://b","n":9007199254740993}}'
const relayed = new GatewayError('UPSTREAM_ERROR', 'm', { relayed: Payload.text(theirs) })

function together(handle: Handler): Handler {
  const { signal: ended } = new AbortController()
  const options = {
    naming: new Naming(),
    ended,
    timeoutMs: 10_000,
    log: silentLog,
    listedName: () => undefined,
  }
  return new Aggregate({ names: ['one', 'two'], handle, ...options }).handle
}

function reading(uri: string, upstream?: string): Call {
  const params = Payload.of({ uri })
  const target = { method: 'resources/read', name: uri, ...(upstream !== undefined && { upstream }) }
  return { method: 'resources/read', params, target } as unknown as Call
}

it.each([
  ['one+a://b', together, undefined],
  ['one://a/b', strictNames, 'one'],
] as const)(
  'the error of a failed read names the URI that the client requested: %s',
  async (uri, shows, upstream) => {
    const failing = (error: GatewayError): Promise<GatewayError> =>
      shows(() => Promise.reject(error))(reading(uri, upstream)).then(
        () => Promise.reject(new Error('it did not fail')),
        (thrown: GatewayError) => thrown,
      )
    expect((await failing(relayed)).extra.relayed?.text).toBe(theirs.replace('a://b', uri))
    expect((await failing(unknownResource('a://b'))).data['uri']).toBe(uri)
    expect((await failing(unknownResource('c://d'))).data['uri']).toBe('c://d')
  },
)
