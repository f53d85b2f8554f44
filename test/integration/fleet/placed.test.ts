// The calls of a client of 2026-07-28 whose state token leads to a connection that one process has.
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { folder } from '../../support/journey.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { alone } from '../../support/scattered.ts'
import { type Answer, StatelessClient } from '../../support/stateless-client.ts'

alone('the gateways are those of a fleet, of which each test chooses one')

const program = fileURLToPath(new URL('../../fixtures/context-server/main.ts', import.meta.url))
const command = [process.execPath, program]

/** Two gateways with one store; `call` makes a call at one of them, with the last token. */
async function sharing() {
  const upstreams = {
    each: { command, features: { state: { connection: 'on' } } },
    models: { command, isolation: 'per_client', inject_arguments: 'on' },
  }
  const config = { features: { confirm: 'off' }, store: folder(), upstreams }
  const gateways = [await localGateway(config), await localGateway(config)] as const
  const open = new Set(gateways)
  const close = async (gateway: (typeof gateways)[number]): Promise<void> => {
    if (open.delete(gateway)) await gateway.close()
  }
  onTestFinished(async () => void (await Promise.all(gateways.map(close))))
  let state: unknown
  const call = async (at: 0 | 1, name: string, path = 'each'): Promise<Answer> => {
    const client = new StatelessClient({ url: `${gateways[at].url}${path && `/${path}`}` })
    client.state = state
    const answer = await client.call(name)
    state = client.state
    return answer
  }
  return { gateways, call, close }
}

test('come to that process, whichever gets them', async () => {
  const { call } = await sharing()
  const first = await call(0, 'count')
  for (const [index, at] of ([1, 0, 1, 1, 0] as const).entries()) {
    const { seen, fields } = await call(at, 'count')
    expect(seen).toMatchObject({ pid: first.seen['pid'], count: index + 2 })
    expect(fields).toMatchObject({ state_changed: false })
  }
})

test('come to it at the endpoint of all servers, too', async () => {
  const { call } = await sharing()
  const first = await call(0, 'each_count', '')
  expect((await call(1, 'each_count', '')).seen).toMatchObject({ pid: first.seen['pid'], count: 2 })
})

test('come to it with a token that a model writes among the arguments', async () => {
  const { gateways } = await sharing()
  const [one, other] = gateways.map(({ url }) => new StatelessClient({ url: `${url}/models` }))
  const first = await one?.call('count')
  const [, handle = ''] = /pass _session_state: "(st_[\w-]{22})"/.exec(first?.texts.join(' ') ?? '') ?? []
  const second = await other?.call('count', { _session_state: handle })
  expect(second?.seen).toMatchObject({ pid: first?.seen['pid'], count: 2 })
})

test('are told of the loss once that process has ended', async () => {
  const { call, gateways, close } = await sharing()
  await call(0, 'count')
  await close(gateways[0])
  const refused = await call(1, 'count')
  expect(refused.fields).toMatchObject({ isError: true })
  expect(JSON.stringify(refused.fields)).toContain('CONFLICT')
  expect((await call(1, 'count')).seen).toMatchObject({ count: 1 })
})
