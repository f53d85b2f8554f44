import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { readChallenge, findIssuer } from '../../../../src/upstream/oauth/discovery.ts'
import { createOAuthHttp } from '../../../../src/upstream/oauth/oauth-http.ts'

type Pages = (origin: string) => Readonly<Record<string, unknown>>

/** A server with the given documents by path. */
async function site(pages: Pages, challenge?: (origin: string) => string) {
  const requests: string[] = []
  const server = createServer((request, response) => {
    const path = request.url ?? ''
    requests.push(path)
    if (request.method === 'POST') {
      const header = challenge?.(origin)
      return void response.writeHead(401, header === undefined ? {} : { 'www-authenticate': header }).end()
    }
    const page = pages(origin)[path]
    response.writeHead(page === undefined ? 404 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(page ?? {}))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const http = createOAuthHttp(true)
  onTestFinished(async () => {
    await http.close()
    server.closeAllConnections()
    server.close()
  })
  const url = `${origin}/at/mcp`
  const oauth = { grant: 'authorization_code', scopes: [], resource: url } as const
  return { origin, requests, url, find: () => findIssuer({ url, headers: {}, oauth, http }) }
}

const prm = '/.well-known/oauth-protected-resource'
const asm = '/.well-known/oauth-authorization-server'

describe('discovery of the authorization server', () => {
  it('the issuer is the one in the metadata that the server points to', async () => {
    const { origin, find, url, requests } = await site(
      (own) => ({
        '/meta': {
          resource: `${own}/at/mcp`,
          authorization_servers: [`${own}/tenant`],
          scopes_supported: ['all'],
        },
        [`${asm}/tenant`]: { issuer: `${own}/tenant`, token_endpoint: `${own}/token` },
      }),
      (own) => `Bearer error="invalid_token", resource_metadata="${own}/meta", scope="a b"`,
    )
    expect(await find()).toMatchObject({
      server: { issuer: `${origin}/tenant` },
      resource: url,
      scopes: ['a', 'b'],
    })
    expect(requests).toEqual(['/at/mcp', '/meta', `${asm}/tenant`])
  })

  it('well-known locations are tried, the one with the path first', async () => {
    const { origin, find, requests } = await site((own) => ({
      [prm]: { resource: own, authorization_servers: [own], scopes_supported: ['all'] },
      '/.well-known/openid-configuration': { issuer: own, token_endpoint: `${own}/token` },
    }))
    expect(await find()).toMatchObject({ server: { issuer: origin }, resource: origin, scopes: ['all'] })
    expect(requests.slice(1)).toEqual([`${prm}/at/mcp`, prm, asm, '/.well-known/openid-configuration'])
  })

  it('the issuer is the server itself without metadata, as in 2025-03-26', async () => {
    const { origin, find } = await site((own) => ({ [asm]: { issuer: own, token_endpoint: `${own}/token` } }))
    expect(await find()).toMatchObject({ server: { issuer: origin } })
  })

  it.each<[string, Pages]>([
    [
      'another resource',
      () => ({
        [prm]: { resource: 'https://other.example/', authorization_servers: ['https://as.example'] },
      }),
    ],
    [
      'a path of itself that differs',
      (own) => ({ [prm]: { resource: `${own}/at/m`, authorization_servers: [own] } }),
    ],
    ['no authorization server', (own) => ({ [prm]: { resource: own, authorization_servers: [] } })],
    [
      'an authorization server over plain HTTP',
      (own) => ({ [prm]: { resource: own, authorization_servers: ['http://as.example'] } }),
    ],
    [
      'an authorization server with another issuer',
      (own) => ({
        [prm]: { resource: own, authorization_servers: [own] },
        [asm]: { issuer: 'https://as.example', token_endpoint: 'https://as.example/token' },
      }),
    ],
  ])('discovery fails if a server names %s', async (_name, pages) => {
    const { find } = await site(pages)
    await expect(find()).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
  })
})

describe('WWW-Authenticate challenges', () => {
  it.each([
    ['Bearer', { scopes: [] }],
    ['Basic realm="x"', { scopes: [] }],
    ['bearer scope="a b a", error=insufficient_scope', { scopes: ['a', 'b'], error: 'insufficient_scope' }],
    ['Basic realm="x", Bearer resource_metadata="https://s/m"', { scopes: [], metadata: 'https://s/m' }],
    ['Bearer realm="say \\"hi\\", scope=no", scope="yes"', { scopes: ['yes'] }],
  ])('the challenge %s is parsed', (header, challenge) => {
    expect(readChallenge(header)).toEqual(challenge)
  })
})
