import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import { until } from '../../support/condition.ts'
import { initialize, modern } from '../../support/fronts.ts'
import { post } from '../../support/client/raw.ts'
import { clientOf, gatewayProcessTo, stdioServer } from '../../support/journey.ts'
import { descendants, hasProcessTree, isRunning, openFiles } from '../../support/process-tree.ts'
import { codeOf } from '../../support/structured-error.ts'

describe('a child process', () => {
  test('that exits fails its pending calls at once', async () => {
    const gateway = await gatewayProcessTo({ fake: stdioServer() })
    const client = await clientOf(gateway)
    const hanging = client.request('tools/call', { name: 'hang' })
    const crash = client.request('tools/call', { name: 'crash', arguments: { ms: 50 } })
    expect([codeOf(await hanging), codeOf(await crash)]).toEqual(['OUTCOME_UNKNOWN', 'OUTCOME_UNKNOWN'])
    expect((await client.request('tools/call', { name: 'big' })).error).toBeUndefined()
  })

  test.skipIf(!hasProcessTree)(
    'that does not end with its input is terminated when the gateway ends',
    async () => {
      const gateway = await gatewayProcessTo({ fake: stdioServer({ stubborn: true }) })
      const children = descendants(gateway.pid)
      expect(children.length).toBeGreaterThan(0)
      gateway.signal('SIGTERM')
      expect(await gateway.ended).toMatchObject({ code: 0 })
      await until(() => !children.some(isRunning), 'the end of the children')
    },
  )

  test.skipIf(!hasProcessTree)(
    'has no file of the store open, also if it starts after the store',
    async () => {
      const store = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
      onTestFinished(() => rmSync(store, { recursive: true }))
      const gateway = await gatewayProcessTo({ fake: stdioServer() }, { config: { store } })
      await until(() => openFiles(gateway.pid).some((file) => file.startsWith(store)), 'the store to be open')
      const client = await clientOf(gateway)
      const first = descendants(gateway.pid)
      await client.request('tools/call', { name: 'crash' })
      await client.request('tools/call', { name: 'big' })
      const children = descendants(gateway.pid).filter((child) => !first.includes(child))
      expect(children.length).toBeGreaterThan(0)
      expect(children.flatMap(openFiles).filter((file) => file.endsWith('.mdb'))).toEqual([])
    },
  )

  test.skipIf(!hasProcessTree)('is not started for each client that never ends its session', async () => {
    const gateway = await gatewayProcessTo({ fake: stdioServer() })
    for (let client = 0; client < 30; client++) {
      const first = await post(gateway.url, JSON.stringify(initialize()))
      const session = { 'mcp-session-id': first.headers['mcp-session-id'] ?? '' }
      await post(gateway.url, '{"jsonrpc":"2.0","id":2,"method":"tools/list"}', session)
      const { message, headers } = modern('tools/list')
      await post(gateway.url, JSON.stringify(message), headers)
    }
    expect(descendants(gateway.pid).length).toBeLessThanOrEqual(2)
  })
})

test('sessions and suspended calls of another process are refused so that clients can begin again', async () => {
  const answers = { 'elicitation/create': () => ({ action: 'accept', content: { name: 'Ada' } }) }
  const [one, other] = await Promise.all([
    gatewayProcessTo({ fake: stdioServer() }),
    gatewayProcessTo({ fake: stdioServer() }),
  ])
  const first = await post(one.url, JSON.stringify(initialize()))
  const session = { 'mcp-session-id': first.headers['mcp-session-id'] ?? '' }
  expect((await post(other.url, '{"jsonrpc":"2.0","id":2,"method":"tools/list"}', session)).status).toBe(404)
  const asking = await clientOf(one, { revision: '2026-07-28', answers, auto: false })
  const { result } = await asking.request('tools/call', { name: 'ask_form' })
  const elsewhere = await clientOf(other, { revision: '2026-07-28', answers, auto: false })
  const retry = await elsewhere.request('tools/call', {
    name: 'ask_form',
    inputResponses: {},
    requestState: result?.['requestState'],
  })
  expect([codeOf(retry), retry.status]).toEqual(['STATE_INVALID', 400])
})

test('lists that grow after the handshake are seen by clients that list again', async () => {
  const gateway = await gatewayProcessTo({ fake: stdioServer() })
  const client = await clientOf(gateway)
  const names = async (): Promise<string> => JSON.stringify((await client.request('tools/list')).result)
  expect(await names()).not.toContain('added_1')
  await client.request('tools/call', { name: 'change' })
  await client.until(({ method }) => method === 'notifications/tools/list_changed')
  expect(await names()).toContain('added_1')
  expect(textOf(await client.request('tools/call', { name: 'added_1' }))).toBe('added')
})
