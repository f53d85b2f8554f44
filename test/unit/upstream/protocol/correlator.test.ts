import { expect, it } from 'vitest'
import { ActiveCall, RequestCorrelator } from '../../../../src/upstream/protocol/server-requests.ts'
import type { UpstreamCall } from '../../../../src/upstream/suspended-calls.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import { toolCall } from '../../../support/tool-call.ts'

const pass = fakeClock()

function active(rpcId: string | undefined, method: string): ActiveCall {
  const { rpcId: _id, ...call } = toolCall({ method })
  // The only members that are used here.
  const working = { call: { ...call, ...(rpcId !== undefined && { rpcId }) } } as UpstreamCall
  const release = (): void => undefined
  return new ActiveCall(working, release, async () => release)
}

it('a request for roots during one of the gateway itself waits for the call of a client', async () => {
  const correlator = new RequestCorrelator()
  correlator.begin(1, active(undefined, 'server/discover'))
  const found = correlator.find({ method: 'roots/list' }, undefined, [])
  await pass(1000)
  const call = active('7', 'tools/call')
  correlator.begin(2, call)
  expect((await found)?.active).toBe(call)
})

it('a request for roots during the list of a client that cannot be asked has no one to ask', async () => {
  const correlator = new RequestCorrelator()
  correlator.begin(1, active('7', 'tools/list'))
  expect(await correlator.find({ method: 'roots/list' }, undefined, [])).toBeUndefined()
})
