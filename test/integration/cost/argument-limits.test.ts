import { expect, it, onTestFinished } from 'vitest'
import { clientOf, codeOf, folder } from '../../support/journey.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { scriptedServer } from '../../support/scripted-server.ts'
import type { Json } from '../../support/server/json.ts'

const pay = { name: 'pay_bill', description: 'Pays.', inputSchema: { type: 'object' } }
const removing = { type: 'object', properties: { ids: { type: 'array' } } }
const remove = { name: 'delete_files', description: 'Deletes.', inputSchema: removing }

it('what arguments add up to is limited across sessions and restarts, before a person is asked', async () => {
  const server = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({ tools: [pay, remove] }),
      'tools/call': () => ({ content: [{ type: 'text', text: 'done' }] }),
    },
  )
  onTestFinished(() => server.close())
  const store = folder()
  const limits = {
    arguments: [
      { tool: 'pay_*', sum: '$.amount', most: '500/day' },
      { tool: 'delete_*', count: '$.ids[*]', most: 2 },
    ],
  }
  const open = async () => {
    const gateway = await localGateway({
      store,
      limits,
      features: { confirm: { wait: 'off' } },
      upstreams: { one: { url: server.url, tools: { 'pay_*': { confirm: 'never' } } } },
    })
    let isOpen = true
    const close = async (): Promise<void> => {
      if (isOpen) await gateway.close()
      isOpen = false
    }
    onTestFinished(close)
    return { ...gateway, close }
  }
  const made = (): number => server.seen.filter(({ method }) => method === 'tools/call').length

  const first = await open()
  const client = await clientOf(first)
  const call = (of: typeof client, name: string, args: Json) =>
    of.request('tools/call', { name, arguments: args })
  expect((await call(client, 'pay_bill', { amount: '300.10' })).result).toMatchObject({
    content: [{ text: 'done' }],
  })
  const other = await clientOf(first)
  const refused = await call(other, 'pay_bill', { amount: 200 })
  expect(codeOf(refused)).toBe('QUOTA_EXHAUSTED')
  expect(JSON.stringify(refused)).toContain('199.9 of 500 are left for this day')
  expect(codeOf(await call(client, 'delete_files', { ids: ['a', 'b', 'c'] }))).toBe('QUOTA_EXHAUSTED')
  expect(codeOf(await call(client, 'delete_files', { ids: ['a', 'b'] }))).toBe('CONFIRMATION_REQUIRED')
  await first.close()

  const again = await clientOf(await open())
  expect(codeOf(await call(again, 'pay_bill', { amount: 199.91 }))).toBe('QUOTA_EXHAUSTED')
  expect((await call(again, 'pay_bill', { amount: 199.9 })).result).toMatchObject({
    content: [{ text: 'done' }],
  })
  expect(made()).toBe(2)
})

it('a rule about an argument that its tools do not have is a problem of the configuration', async () => {
  const server = await scriptedServer({ tools: {} }, { 'tools/list': () => ({ tools: [pay, remove] }) })
  onTestFinished(() => server.close())
  const rules = [
    { tool: 'delete_*', count: '$.id[*]', most: 2 },
    { tool: '*', count: '$.ids[*]', most: 2 },
    { tool: 'pay_*', sum: '$.amount', most: 2 },
  ]
  const gateway = await localGateway({ limits: { arguments: rules }, upstreams: { one: server.url } })
  onTestFinished(() => gateway.close())
  expect(gateway.collisions).toEqual(['delete_files of one has no argument `id`, so this limits nothing'])
})
