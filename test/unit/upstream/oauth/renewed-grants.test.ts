import { randomBytes } from 'node:crypto'
import { expect, it, onTestFinished, vi } from 'vitest'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { authorizationServer, signIn } from '../../../support/authorization-server.ts'
import {
  caller,
  echo,
  linkOf,
  type OAuthUpstream,
  oauthUpstream,
  startOf,
  textOf,
} from '../../../support/oauth-upstream.ts'
import { protectedServer, unauthorized } from '../../../support/protected-server.ts'

const PUBLIC = 'https://gateway.example'
const alice = caller('alice')

/** A server with users, whose tokens are valid until the test revokes them. */
async function world(options: Parameters<typeof authorizationServer>[0] = {}) {
  const authority = await authorizationServer(options)
  const ended = new Set<string>()
  const server = await protectedServer(async (token, url) => {
    if (token === undefined || ended.has(token)) return unauthorized(url, 'read')
    return (await authority.verify(token, url).catch(() => undefined)) ? undefined : unauthorized(url, 'read')
  })
  server.metadata = { resource: server.url, authorization_servers: [authority.issuer] }
  const endAll = (): void => server.tokens.forEach((token) => ended.add(token))
  return { authority, server, endAll }
}

/** Signs in by the link of a call. Resolves with the client identity of the gateway at the authorization server. */
async function signedIn({ upstream, desk }: OAuthUpstream): Promise<string> {
  const { url, cookie } = await startOf(desk, linkOf(await upstream.handle(echo(alice))))
  const back = await signIn(url, 'alice', (place) => place.includes('/oauth/callback'))
  await desk.finish(new URL(back).searchParams, () => cookie.value)
  return new URL(url).searchParams.get('client_id') ?? ''
}

it('concurrent renewals of a grant by several gateways cause one request', async () => {
  const documents: Record<string, unknown> = {}
  // A public client, whose refresh tokens can be used once.
  const { authority, server, endAll } = await world({ documents })
  const key = randomBytes(32)
  const shared = { publicUrl: PUBLIC, store: new MemoryStore(), key: async () => key }
  const gateways = [1, 2, 3].map(() => oauthUpstream(server.url, {}, shared))
  const [first] = gateways
  if (!first) return
  documents[`${PUBLIC}/oauth/client.json`] = first.desk.document()
  await signedIn(first)
  for (const round of [1, 2, 3]) {
    const outcomes = await Promise.all(gateways.map(({ upstream }) => upstream.handle(echo(alice))))
    for (const outcome of outcomes) expect(textOf(outcome)).toBeDefined()
    expect(server.tokens.size).toBe(round)
    endAll()
  }
  const renewals = authority.grants.filter((each) => each.get('grant_type') === 'refresh_token')
  expect(renewals).toHaveLength(2)
})

it('a grant of an unknown client is requested again with another client', async () => {
  const { authority, server, endAll } = await world()
  const here = oauthUpstream(server.url, {})
  const before = await signedIn(here)
  expect(textOf(await here.upstream.handle(echo(alice)))).toBeDefined()
  await authority.forget(before)
  endAll()
  // A user who has just signed in receives no new link.
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 120_000 })
  onTestFinished(() => void vi.useRealTimers())
  expect(await signedIn(here)).not.toBe(before)
  expect(textOf(await here.upstream.handle(echo(alice)))).toBeDefined()
})

it('a renewed grant is valid even if the store fails to release its lock', async () => {
  const { server, endAll } = await world()
  const store = new MemoryStore()
  const remove = store.delete.bind(store)
  vi.spyOn(store, 'delete').mockImplementation((name) =>
    name.startsWith('lease-alive:') ? Promise.reject(new Error('away')) : remove(name),
  )
  const here = oauthUpstream(server.url, {}, { publicUrl: PUBLIC, store })
  await signedIn(here)
  expect(textOf(await here.upstream.handle(echo(alice)))).toBeDefined()
  endAll()
  expect(textOf(await here.upstream.handle(echo(alice)))).toBeDefined()
  expect(server.tokens.size).toBe(2)
})
