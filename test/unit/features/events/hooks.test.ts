import { createHmac } from 'node:crypto'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { GatewayError } from '../../../../src/core/error.ts'
import { createSeal } from '../../../../src/core/seal.ts'
import type { DeclaredEvent, HookEvent } from '../../../../src/core/settings.ts'
import { Secret } from '../../../../src/core/text/secret.ts'
import { signedHeaders } from '../../../../src/core/standard-webhooks.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { dataOf, declaringGateway } from '../../../support/declaring-gateway.ts'
import { fieldsOf } from '../../../support/chain.ts'
import { toolCall } from '../../../support/tool-call.ts'
import type { ServiceStubs } from '../../../support/feature-deps.ts'
import type { Json } from '../../../support/server/json.ts'

const github: HookEvent = { kind: 'hook', form: 'github', secrets: [new Secret('s3cret')], when: {} }
const seal = createSeal(Date.now)

let store = new MemoryStore()
beforeEach(() => {
  store = new MemoryStore()
})

function gateway(
  declared: Readonly<Record<string, DeclaredEvent>> = { push: github },
  given: ServiceStubs = {},
  address: 'one' | 'all' = 'one',
  writes: 'off' | 'own' = 'off',
) {
  const made = declaringGateway({ store, seal, ...given }, declared, { address, writes })
  const poll = async (params: Json = {}): Promise<Json> =>
    made.request('events/poll', { name: 'push', ...params })
  const receive = async (
    body: unknown,
    { name = 'push', ...headers }: Readonly<Record<string, string>> = {},
  ) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    const signature = `sha256=${createHmac('sha256', 's3cret').update(text).digest('hex')}`
    const server = address === 'all' ? {} : { server: 'one' }
    await made.instance.http?.receiveHook?.({
      ...server,
      name,
      headers: { 'x-hub-signature-256': signature, 'x-github-event': 'push', ...headers },
      body: async () => text,
    })
  }
  return { ...made, poll, receive }
}

describe('events of webhooks', () => {
  it('are in the log before the sender gets its response, with the type that the service gave', async () => {
    const { poll, receive } = gateway()
    const { cursor } = await poll()
    const append = vi.spyOn(store, 'setIfAbsent')
    await receive({ ref: 'refs/heads/main', commits: [1] })
    expect(append.mock.calls.some(([key]) => key.startsWith('log:'))).toBe(true)
    const page = await poll({ cursor })
    expect(dataOf(page)).toEqual([{ type: 'push', body: { ref: 'refs/heads/main', commits: [1] } }])
    expect(page['events']).toMatchObject([{ name: 'push', _meta: { 'dev.gatehouse/untrusted': true } }])
  })

  it('are once each: a replay is dropped, also by another gateway and after a restart', async () => {
    const one = gateway()
    const { cursor } = await one.poll()
    await one.receive({ n: 1 })
    await one.receive({ n: 1 })
    await gateway().receive({ n: 1 })
    await one.receive({ n: 2 })
    expect(dataOf(await one.poll({ cursor }))).toMatchObject([{ body: { n: 1 } }, { body: { n: 2 } }])
  })

  it('are refused while another gateway stores the same one, so that the sender tries again', async () => {
    const one = gateway()
    const { cursor } = await one.poll()
    let go: (() => void) | undefined
    const set = vi.spyOn(store, 'setIfAbsent').mockImplementation(async (key, ...rest) => {
      if (key.startsWith('log:')) await new Promise<void>((resolve) => (go = resolve))
      return MemoryStore.prototype.setIfAbsent.call(store, key, ...rest)
    })
    const first = one.receive({ n: 1 })
    await expect.poll(() => go).toBeDefined()
    await expect(gateway().receive({ n: 1 })).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    set.mockRestore()
    go?.()
    await first
    await gateway().receive({ n: 1 })
    expect(dataOf(await one.poll({ cursor }))).toHaveLength(1)
  })

  it('have the same id if the gateway could log one, but not mark it', async () => {
    const { poll, receive } = gateway()
    const { cursor } = await poll()
    const put = vi.spyOn(store, 'put').mockImplementation(async (key, ...rest) => {
      if (rest[0] === 'accepted') throw new Error('disk full')
      return MemoryStore.prototype.put.call(store, key, ...rest)
    })
    await expect(receive({ n: 1 })).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    put.mockRestore()
    await receive({ n: 1 })
    const { events: found } = await poll({ cursor })
    expect(found).toHaveLength(2)
    expect(new Set((found as Json[]).map(({ eventId }) => eventId)).size).toBe(1)
  })

  it.each([
    ['an array', '[1]'],
    ['a form', 'payload=%7B%7D'],
    ['nothing', ''],
  ])('with %s as their body are invalid, and leave nothing behind', async (_what, body) => {
    const { poll, receive } = gateway()
    const { cursor } = await poll()
    await expect(receive(body)).rejects.toMatchObject({ code: 'INVALID_REQUEST', httpStatus: 400 })
    await expect(receive(body)).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
    expect(dataOf(await poll({ cursor }))).toEqual([])
  })

  it('are those of `when`, by header and by path in the body; others are accepted and dropped', async () => {
    const when = {
      'X-GitHub-Event': ['issues', 'pull_*'],
      '$.action': ['opened'],
      '$.issue.locked': ['false'],
    }
    const { poll, receive } = gateway({ push: { ...github, when } })
    const { cursor } = await poll()
    const issue = (n: number, action: unknown, locked: unknown) => ({ n, action, issue: { locked } })
    await receive(issue(1, 'opened', false), { 'x-github-event': 'issues' })
    await receive(issue(2, 'opened', false), { 'x-github-event': 'pull_request' })
    await receive(issue(3, 'opened', false), { 'x-github-event': 'push' })
    await receive(issue(4, 'closed', false), { 'x-github-event': 'issues' })
    await receive(issue(5, 'opened', true), { 'x-github-event': 'issues' })
    await receive(issue(6, ['opened'], false), { 'x-github-event': 'issues' })
    await receive({ n: 7 }, { 'x-github-event': 'issues' })
    expect(dataOf(await poll({ cursor })).map(({ body }) => (body as Json)['n'])).toEqual([1, 2])
  })

  it('have the declared fields, no secrets, nothing that is masked, and nothing too long', async () => {
    const given: ServiceStubs = {
      masked: (value, { upstream, method }) =>
        upstream === 'one' && method === 'hook'
          ? (JSON.parse(JSON.stringify(value).replaceAll('a@b.c', '***')) as Json)
          : value,
    }
    const { poll, receive } = gateway(
      { push: github, picked: { ...github, fields: ['a', 'user.login'] } },
      given,
    )
    const [{ cursor }, { cursor: other }] = [await poll(), await poll({ name: 'picked' })]
    const body = {
      a: 'a@b.c',
      token: 'ghp_0123456789abcdef0123',
      b: 'x'.repeat(70_000),
      user: { login: 'ada' },
    }
    await receive(body)
    await receive(body, { name: 'picked' })
    expect(dataOf(await poll({ cursor }))).toEqual([
      { type: 'push', body: { a: '***', token: '***', user: { login: 'ada' } }, omitted: ['b'] },
    ])
    expect(dataOf(await poll({ name: 'picked', cursor: other }))).toEqual([
      { type: 'push', body: { a: '***', 'user.login': 'ada' } },
    ])
  })

  it('are narrowed by their type and by fields', async () => {
    const { poll, receive } = gateway()
    const args = [{ type: 'issues' }, { ref: 'refs/*' }]
    const cursors = await Promise.all(args.map(async (each) => poll({ arguments: each })))
    await receive({ n: 1, ref: 'refs/a' })
    await receive({ n: 2 }, { 'x-github-event': 'issues' })
    const found = await Promise.all(
      args.map(async (each, index) =>
        dataOf(await poll({ arguments: each, cursor: cursors[index]?.['cursor'] })),
      ),
    )
    expect(found).toMatchObject([[{ body: { n: 2 } }], [{ body: { n: 1 } }]])
  })

  it('are for everyone with access, or for those with the scope', async () => {
    const { request } = gateway({ push: github, secret: { ...github, scope: 'read:hooks' } })
    const namesFor = async (...scopes: string[]) => {
      const { events: types } = await request(
        'events/list',
        {},
        { principal: { id: 'x', scopes: new Set(scopes) } },
      )
      return (types as Json[]).map(({ name }) => name).filter((name) => name === 'push' || name === 'secret')
    }
    expect(await namesFor()).toEqual(['push'])
    expect(await namesFor('read:hooks')).toEqual(['push', 'secret'])
  })

  it('of no server are at the address of all servers', async () => {
    const { poll, receive, instance } = gateway({ push: github }, {}, 'all')
    const { cursor } = await poll()
    await receive({ n: 1 })
    expect(dataOf(await poll({ cursor }))).toMatchObject([{ body: { n: 1 } }])
    const unknown = instance.http?.receiveHook?.({
      server: 'one',
      name: 'push',
      headers: {},
      body: async () => '{}',
    })
    await expect(unknown).rejects.toMatchObject({ httpStatus: 404 })
  })

  it('of Standard Webhooks and Stripe have the type that the body says', async () => {
    const secret = new Secret('whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=')
    const { poll, instance } = gateway({
      push: { ...github, form: 'standard', secrets: [secret] },
      paid: { ...github, form: 'stripe', secrets: [secret] },
    })
    const [{ cursor }, { cursor: other }] = [await poll(), await poll({ name: 'paid' })]
    const body = JSON.stringify({ type: 'invoice.paid', data: { id: 'in_1' } })
    const seconds = Math.floor(Date.now() / 1000)
    const headers = signedHeaders({ id: 'msg_1', at: Date.now(), body }, [secret])
    const v1 = createHmac('sha256', secret.reveal()).update(`${seconds}.${body}`).digest('hex')
    await instance.http?.receiveHook?.({ server: 'one', name: 'push', headers, body: async () => body })
    await instance.http?.receiveHook?.({ server: 'one', name: 'push', headers, body: async () => body })
    await instance.http?.receiveHook?.({
      server: 'one',
      name: 'paid',
      headers: { 'stripe-signature': `t=${seconds},v1=${v1}` },
      body: async () => body,
    })
    expect(dataOf(await poll({ cursor }))).toMatchObject([{ type: 'invoice.paid' }])
    expect(dataOf(await poll({ name: 'paid', cursor: other }))).toMatchObject([{ type: 'invoice.paid' }])
  })

  it('can be read while the server itself cannot be asked', async () => {
    const tools = () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'The server is down.'))
    const { poll, receive, request } = gateway({ push: github }, { tools }, 'one', 'own')
    const { cursor } = await poll()
    await receive({ n: 1 })
    expect(dataOf(await poll({ cursor }))).toHaveLength(1)
    await expect(poll({ name: 'add.succeeded' })).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    await expect(request('events/list', {})).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
  })

  it('are declared in a public file for the senders, if there are any', async () => {
    const path = '/.well-known/mcp-webhook-receiver.json'
    for (const address of ['one', 'all'] as const) {
      const [page, ...others] = gateway({ push: github }, {}, address).instance.http?.pages ?? []
      expect(others).toEqual([])
      if (!page) throw new Error('there is no page')
      expect([page.path, page.isOpen?.()]).toEqual([path, true])
      const { text, type } = fieldsOf(await page.handle(toolCall({})))
      expect([type, text]).toEqual(['application/json', '{"receivers":["/hooks/"]}'])
    }
    expect(gateway({}).instance.http?.pages).toEqual([])
  })

  it('are not received by a gateway without them', async () => {
    const { instance } = declaringGateway({ store }, {})
    const hook = { server: 'one', name: 'push', headers: {}, body: async () => '{}' }
    await expect(instance.http?.receiveHook?.(hook)).rejects.toMatchObject({ httpStatus: 404 })
  })
})
