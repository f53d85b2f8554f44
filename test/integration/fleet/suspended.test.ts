// A call of 2026-07-28 that waits for input in one process, whose answer reaches another one.
import { expect, onTestFinished, test } from 'vitest'
import { callsOf, folder, httpServer } from '../../support/journey.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { alone } from '../../support/scattered.ts'
import type { Json } from '../../support/server/json.ts'
import { StatelessClient } from '../../support/stateless-client.ts'

alone('the gateways are those of a fleet, of which each test chooses one')

async function sharing() {
  const server = await httpServer()
  const config = { features: { confirm: 'off' }, store: folder(), upstreams: { one: { url: server.url } } }
  const gateways = [await localGateway(config), await localGateway(config)] as const
  const open = new Set(gateways)
  const close = async (gateway: (typeof gateways)[number]): Promise<void> => {
    if (open.delete(gateway)) await gateway.close()
  }
  onTestFinished(async () => void (await Promise.all(gateways.map(close))))
  const [one, other] = gateways.map(({ url }) => new StatelessClient({ url }))
  if (!one || !other) return expect.unreachable()
  return { server, one, other, close: () => close(gateways[0]) }
}

const asked = { name: 'ask_form', arguments: {} }
const answers = { q1: { action: 'accept', content: { name: 'Ada' } } }
const capabilities = { elicitation: {} }

function answered(requestState: unknown): Json {
  return { ...asked, inputResponses: answers, requestState }
}

test('it continues in its process, once', async () => {
  const { server, one, other } = await sharing()
  const { fields } = await one.send('tools/call', asked, capabilities)
  expect(fields['resultType']).toBe('input_required')
  const result = await other.send('tools/call', answered(fields['requestState']), capabilities)
  expect(result.texts.join('')).toContain('Ada')
  const again = await other.send('tools/call', answered(fields['requestState']), capabilities)
  expect(again.error?.data['code']).toBe('STATE_INVALID')
  expect(callsOf(server, 'ask_form')).toBe(1)
})

test('cannot be continued twice, wherever its answer arrives', async () => {
  const { server, one, other } = await sharing()
  const { fields } = await one.send('tools/call', asked, capabilities)
  await one.send('tools/call', answered(fields['requestState']), capabilities)
  const again = await other.send('tools/call', answered(fields['requestState']), capabilities)
  expect(again.error?.data['code']).toBe('STATE_INVALID')
  expect(callsOf(server, 'ask_form')).toBe(1)
})

test('is not made again if its process has ended', async () => {
  const { server, one, other, close } = await sharing()
  const { fields } = await one.send('tools/call', asked, capabilities)
  await close()
  const result = await other.send('tools/call', answered(fields['requestState']), capabilities)
  expect(result.error?.data['code']).toBe('STATE_EXPIRED')
  expect(callsOf(server, 'ask_form')).toBe(1)
})
