import { describe, expect, test } from 'vitest'
import { tokenHash } from '../../support/auth/token-hash.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import { clientOf, folder, gatewayTo } from '../../support/journey.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

/** Each caller has its own token and session. */
const TOKENS = { alice: 'the-token-of-alice', bob: 'the-token-of-bob' }
const SCOPES = ['read:everything', 'write:everything', 'delete:everything']
const auth = {
  opaque: {
    tokens: Object.entries(TOKENS).map(([id, token]) => ({ hash: tokenHash(token), id, scopes: SCOPES })),
  },
}

/** Two clients of the published example server, whose tool runs as a task if the caller requests one. */
async function twoClients(isolation: string, isTold: boolean): Promise<Record<'alice' | 'bob', FakeClient>> {
  const command = publishedServer('@modelcontextprotocol/server-everything')
  const store = folder()
  const config = { store, ...(isTold && { auth }) }
  const gateway = await gatewayTo({ everything: { command, isolation } }, { config })
  const url = `${gateway.url}/everything`
  const client = (id: 'alice' | 'bob'): Promise<FakeClient> =>
    clientOf({ url }, isTold ? { headers: { authorization: `Bearer ${TOKENS[id]}` } } : {})
  return { alice: await client('alice'), bob: await client('bob') }
}

async function beginTask(client: FakeClient): Promise<string> {
  await client.request('tools/list')
  const { result } = await client.request('tools/call', {
    name: 'simulate-research-query',
    arguments: { topic: 'gates' },
    task: { ttl: 60_000 },
  })
  return String(objectAt(result ?? {}, 'task')['taskId'])
}

async function tasksOf(client: FakeClient): Promise<unknown[]> {
  const { result } = await client.request('tasks/list')
  return ((result?.['tasks'] ?? []) as Json[]).map(({ taskId }) => taskId)
}

describe.each([
  ['shared', true],
  ['auto', true],
  ['auto', false],
  ['per_client', true],
])('tasks of a server with isolation %s, with authentication: %s', (isolation, isTold) => {
  test('are visible only to the caller that created them', async () => {
    const { alice, bob } = await twoClients(isolation, isTold)
    const taskId = await beginTask(alice)
    const other = await beginTask(bob)
    for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel'])
      expect((await bob.request(method, { taskId })).error).toMatchObject({
        code: -32602,
        message: expect.stringContaining('Task not found'),
      })
    expect(await tasksOf(bob)).toEqual([other])
    expect(await tasksOf(alice)).toEqual([taskId])
    expect((await alice.request('tasks/get', { taskId })).result).toMatchObject({ taskId })
    expect((await bob.request('tasks/cancel', { taskId: other })).result).toMatchObject({ taskId: other })
    const done = await alice.request('tasks/result', { taskId })
    expect(done.text).toContain('Research Report: gates')
  })

  test('do not include tasks that the gateway created itself', async () => {
    const { alice } = await twoClients(isolation, isTold)
    const args = { name: 'simulate-research-query', arguments: { topic: 'walls' } }
    const reply = await alice.request('tools/call', args)
    expect(reply.text).toContain('Research Report: walls')
    expect(await tasksOf(alice)).toEqual([])
  })
})
