import { describe, expect, test } from 'vitest'
import type { Handler, Notification } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { contract, createListeners } from '../../../../src/features/contract/contract.ts'
import { Contracts } from '../../../../src/records/contracts.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { describedServer } from '../../../support/described-server.ts'
import { featureDeps } from '../../../support/feature-deps.ts'
import { serverRecord } from '../../../support/server-record.ts'
import { toolCall } from '../../../support/tool-call.ts'

const record = serverRecord({ capabilities: { prompts: {} } })

function deps() {
  const renewed: string[] = []
  const records = {
    names: ['one'],
    of: () => record,
    last: () => record,
    renew: (upstream: string) => void renewed.push(upstream),
    onChange: () => undefined,
  }
  return { renewed, deps: featureDeps({ servers: () => ['one'], records: () => records }) }
}

describe('change detection from lists', () => {
  const tools = { nobody: ['a', 'b'], anna: ['a'] }

  function bench() {
    const { renewed, deps: given } = deps()
    const listed: Record<string, readonly string[]> = { ...tools }
    const server: Handler = async ({ principal }) => ({
      kind: 'result',
      result: Payload.of({ tools: (listed[principal.id] ?? []).map((name) => ({ name })) }),
    })
    const target = { method: 'tools/list', upstream: 'one' }
    const lists = contract.create(() => ({}), given).calls?.middleware(target)?.(server)
    const list = async (id: string): Promise<void> => {
      await lists?.(toolCall({ method: 'tools/list', target, principal: { id } }))
    }
    return { renewed, listed, list }
  }

  test('a caller that receives a changed list triggers a refresh', async () => {
    const { renewed, listed, list } = bench()
    await list('anna')
    await list('anna')
    expect(renewed).toEqual([])
    listed['anna'] = ['a', 'c']
    await list('anna')
    expect(renewed).toEqual(['one'])
  })

  test('different lists of two callers trigger no refresh', async () => {
    const { renewed, list } = bench()
    for (const id of ['nobody', 'anna', 'nobody', 'anna']) await list(id)
    expect(renewed).toEqual([])
  })
})

test('change notifications are sent only after the subscription is acknowledged', async () => {
  const { notify, subscribe } = createListeners(deps().deps)
  const moved = { upstream: 'one', before: '1.0.0', after: '1.1.0', lists: new Set(['prompts'] as const) }
  const told: Notification[] = []
  const server: Handler = async (call) => {
    notify(moved)
    call.emit({ method: 'notifications/subscriptions/acknowledged' })
    notify(moved)
    return { kind: 'result', result: Payload.of({}) }
  }
  await subscribe('one')(server)(
    toolCall({
      method: 'subscriptions/listen',
      params: Payload.of({ notifications: { promptsListChanged: true } }),
      target: { method: 'subscriptions/listen', upstream: 'one' },
      emit: (note) => void told.push(note),
    }),
  )
  notify(moved)
  expect(told.map(({ method, params }) => [method, params?.fields])).toEqual([
    ['notifications/subscriptions/acknowledged', { notifications: { promptsListChanged: true } }],
    [
      'notifications/prompts/list_changed',
      { _meta: { 'dev.gatehouse/contract': { server: 'one', before: '1.0.0', version: '1.1.0' } } },
    ],
  ])
})

test('of two gateways with one store, one publishes a changed contract as an event, without the changes', async () => {
  const store = new MemoryStore()
  const published: unknown[] = []
  let tools = [{ name: 'a', inputSchema: { type: 'object' } }]
  const gateways = ['first', 'second'].map((name) => {
    const watchers: ((upstream: string) => void)[] = []
    const records = {
      ...deps().deps.servers.records(),
      onChange: (each: (of: string) => void) => void watchers.push(each),
    }
    const instance = contract.create(
      () => ({}),
      featureDeps({
        store,
        servers: () => ['files'],
        records: () => records,
        description: () => describedServer({ tools }),
        publish: (upstream, event) => void published.push([name, upstream, event]),
      }),
    )
    return { start: () => instance.start?.(), renew: () => watchers.forEach((each) => each('files')) }
  })
  for (const { start } of gateways) await start()
  const versions = async (): Promise<unknown> => (await new Contracts(store).find('files'))?.versions.length
  await expect.poll(versions).toBe(1)
  tools = [...tools, { name: 'secret_tool', inputSchema: { type: 'object' } }]
  for (const { renew } of gateways) renew()
  await expect.poll(versions).toBe(2)
  await expect.poll(() => published).toHaveLength(1)
  for (const { renew } of gateways) renew()
  // A third change is only detected once the checks before it have ended.
  tools = [...tools, { name: 'another', inputSchema: { type: 'object' } }]
  for (const { renew } of gateways) renew()
  await expect.poll(() => published).toHaveLength(2)
  expect(published.map((each) => (each as unknown[]).slice(1))).toEqual([
    ['files', { name: 'contract_changed', data: { before: '1.0.0', after: '1.1.0' } }],
    ['files', { name: 'contract_changed', data: { before: '1.1.0', after: '1.2.0' } }],
  ])
})
