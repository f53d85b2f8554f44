import { describe, expect, it } from 'vitest'
import { authorizationServer, CALLERS, CLIENT, followLink } from '../../support/authorization-server.ts'
import { textOf } from '../../support/client/options.ts'
import { clientOf, gatewayTo } from '../../support/journey.ts'
import { type ProtectedServer, protectedServer, unauthorized } from '../../support/protected-server.ts'
import { alone } from '../../support/scattered.ts'
import type { Json } from '../../support/server/json.ts'
import type { ServerOptions } from '../../support/server/options.ts'

const call = { name: 'echo', arguments: { text: 'hello' } }

async function world(options: Partial<ServerOptions> = {}) {
  const authority = await authorizationServer()
  const server = await protectedServer(async (token, url) => {
    const claims = token && (await authority.verify(token, url).catch(() => undefined))
    return claims ? undefined : unauthorized(url, 'read')
  }, options)
  server.metadata = { resource: server.url, authorization_servers: [authority.issuer] }
  return { authority, server }
}

function sent({ headers }: ProtectedServer): string {
  return JSON.stringify(headers)
}

/** The names of all headers that reached the server, except those of MCP itself. */
function names({ headers }: ProtectedServer): string[] {
  const all = headers.flatMap((each) => Object.keys(each))
  const own = ['session-id', 'protocol-version', 'method', 'name'].map((name) => `mcp-${name}`)
  own.push('x-request-id')
  return [...new Set(all)].filter((name) => !own.includes(name)).toSorted()
}

const plain = ['accept', 'connection', 'content-length', 'content-type', 'host']

describe('a gateway with its own credentials', () => {
  it("C077 sends them to the server, and nothing of the client's credentials", async () => {
    alone('each gateway gets a token without a user')
    const { server } = await world()
    const oauth = { client_id: CLIENT.id, client_secret: CLIENT.secret }
    const gateway = await gatewayTo({ one: { url: server.url, oauth } })
    const client = await clientOf(gateway, {
      headers: {
        authorization: 'Bearer the-token-of-the-client',
        cookie: 'session=of-the-client',
        'x-of-its-own': 'of-the-client',
      },
    })
    expect(textOf(await client.request('tools/call', call))).toContain('hello')
    expect(server.tokens.size).toBe(1)
    expect(sent(server)).not.toContain('of-the-client')
    expect(names(server)).toEqual(['accept', 'authorization', ...plain.slice(1), 'user-agent'])
  })

  it('C077 sends no token at all to a server for which it has none', async () => {
    const server = await protectedServer(() => undefined)
    const gateway = await gatewayTo({ one: server.url })
    const headers = { authorization: 'Bearer the-token-of-the-client', cookie: 'a=of-the-client' }
    const client = await clientOf(gateway, { headers })
    expect(textOf(await client.request('tools/call', call))).toContain('hello')
    expect(server.tokens.size).toBe(0)
    expect(sent(server)).not.toContain('of-the-client')
    expect(names(server)).toEqual(plain)
  })
})

describe('a gateway that exchanges the tokens of its callers', () => {
  it('C077 gives each caller its own token for the server, which accepts no other', async () => {
    const { server, authority } = await world()
    const oauth = { grant: 'token_exchange', client_id: CLIENT.id, client_secret: CLIENT.secret }
    const audience = 'https://gateway.example/mcp'
    const gateway = await gatewayTo(
      { one: { url: server.url, oauth } },
      { config: { auth: { development: 'on', jwt: { ...CALLERS, audience } } }, warm: false },
    )
    const tokens = []
    for (const subject of ['alice', 'bob']) {
      const token = await authority.tokenFor(subject, audience)
      tokens.push(token)
      const client = await clientOf(gateway, { headers: { authorization: `Bearer ${token}` } })
      expect(textOf(await client.request('tools/call', call))).toContain('hello')
    }
    const claims = await Promise.all([...server.tokens].map((token) => authority.verify(token, server.url)))
    expect(claims.map(({ sub }) => sub)).toEqual(['alice', 'bob'])
    for (const token of tokens) expect(sent(server)).not.toContain(token)
  })
})

describe('a gateway whose users sign in to a server themselves', () => {
  const revisions = ['2025-11-25', '2026-07-28'] as const
  it.each(revisions.flatMap((client) => revisions.map((server) => [client, server] as const)))(
    'E43 sends a client of %s to the sign-in page of a server of %s, and completes the call',
    async (clientRevision, serverRevision) => {
      const { server, authority } = await world({ revision: serverRevision })
      const gateway = await gatewayTo({ one: { url: server.url, oauth: {} } })
      const pages: Promise<string>[] = []
      const client = await clientOf(gateway, {
        revision: clientRevision,
        capabilities: { elicitation: { url: {} } },
        answers: {
          'elicitation/create': (params: Json) => {
            pages.push(followLink(String(params['url']), 'alice'))
            return { action: 'accept' }
          },
        },
      })
      expect(textOf(await client.request('tools/call', call))).toContain('hello')
      expect(pages).toHaveLength(1)
      expect(await pages[0]).toContain('You are signed in to one.')
      const [token = ''] = server.tokens
      expect((await authority.verify(token, server.url)).sub).toBe('alice')
      expect(JSON.stringify(gateway.log())).not.toContain(token)
      expect(client.violations).toEqual([])
    },
  )

  it('returns the link if the client lacks URL elicitation', async () => {
    const { server } = await world()
    const gateway = await gatewayTo({ one: { url: server.url, oauth: {} } })
    const client = await clientOf(gateway, { revision: '2025-06-18', capabilities: {} })
    const { result, error } = await client.request('tools/call', call)
    const link = /http:\/\/127\.0\.0\.1:\d+\/oauth\/start\/[\w-]+/.exec(JSON.stringify(result ?? error))?.[0]
    expect(await followLink(link ?? '', 'alice')).toContain('You are signed in to one.')
    expect(textOf(await client.request('tools/call', call))).toContain('hello')
  })
})
