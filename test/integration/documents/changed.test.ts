import { expect, it, onTestFinished } from 'vitest'
import { until } from '../../support/condition.ts'
import { clientOf } from '../../support/journey.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { alone } from '../../support/scattered.ts'
import { scriptedServer } from '../../support/scripted-server.ts'
import type { Json } from '../../support/server/json.ts'

const input = { type: 'object', properties: { id: { type: 'string' } } }

it('a changed tool changes the ETag of the manifest and notifies listeners, even if the server sends no notification', async () => {
  alone('each gateway notices what it lists itself')
  let tools: Json[] = [{ name: 'get_note', description: 'Reads a note.', inputSchema: input }]
  const server = await scriptedServer({ tools: {} }, { 'tools/list': () => ({ tools }) })
  onTestFinished(() => server.close())
  const gateway = await localGateway({ upstreams: { notes: server.url } })
  onTestFinished(() => gateway.close())
  const etag = async (): Promise<string | null> =>
    (await fetch(`${gateway.origin}/capabilities/notes`)).headers.get('etag')
  const client = await clientOf(gateway, { revision: '2026-07-28' })
  await client.request('tools/list', {})
  const first = await etag()
  expect(await etag()).toBe(first)
  const listening = client.listen({ toolsListChanged: true })
  expect(await listening.acknowledged).toMatchObject({ toolsListChanged: true })
  tools = [...tools, { name: 'delete_note', description: 'Deletes a note.', inputSchema: input }]
  await client.request('tools/list', {})
  await listening.until(({ method }) => method === 'notifications/tools/list_changed')
  await until(async () => (await etag()) !== first, 'another ETag')
})
