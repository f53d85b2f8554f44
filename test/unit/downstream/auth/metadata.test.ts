import { afterEach, describe, expect, it } from 'vitest'
import { guardedFront, type GuardedFront } from '../../../support/auth/guarded-front.ts'
import { startIssuer } from '../../../support/auth/issuer.ts'
import type { Json } from '../../../support/server/json.ts'

const fronts: GuardedFront[] = []
afterEach(() => Promise.all(fronts.splice(0).map((front) => front.close())))

async function open(config: Json): Promise<GuardedFront> {
  const front = await guardedFront(config)
  fronts.push(front)
  return front
}

const issuer = 'https://idp.example.com'
const at = '/.well-known/oauth-protected-resource'

describe('protected resource metadata', () => {
  it('C072 the metadata names the endpoint and its authorization servers', async () => {
    const front = await open({ auth: { jwt: { issuer } } })
    for (const [path, resource] of [
      ['', '/mcp'],
      ['/mcp', '/mcp'],
      ['/mcp/files', '/mcp/files'],
    ]) {
      const { status, headers, body } = await front.send(`${at}${path}`)
      expect(status).toBe(200)
      expect(headers.get('access-control-allow-origin')).toBe('*')
      expect(body).toEqual({
        resource: `${front.origin}${resource}`,
        authorization_servers: [issuer],
        bearer_methods_supported: ['header'],
        resource_name: resource === '/mcp' ? 'gatehouse' : 'gatehouse: files',
      })
    }
    expect(await front.send(`${at}/mcp/nothing`)).toMatchObject({ status: 404 })
    expect(await front.send(`${at}/other`)).toMatchObject({ status: 404 })
  })

  it('C074 the challenge points to the metadata', async () => {
    const front = await open({ auth: { jwt: { issuer } } })
    for (const path of ['/mcp', '/mcp/files']) {
      const { challenge } = await front.call({ path })
      const url = /resource_metadata="([^"]+)"/.exec(challenge ?? '')?.[1] ?? ''
      const metadata: unknown = await (await fetch(url)).json()
      expect(metadata).toMatchObject({ resource: `${front.origin}${path}` })
    }
  })

  it('C073 the metadata names authorization servers with available metadata', async () => {
    const own = await startIssuer()
    const front = await open({ auth: { jwt: { issuer: own.url } } })
    const { body } = await front.send(at)
    expect(body['authorization_servers']).toEqual([own.url])
    const metadata: unknown = await (await fetch(`${own.url}/.well-known/openid-configuration`)).json()
    expect(metadata).toMatchObject({ issuer: own.url })
    await own.close()
  })

  it('C071 HTTP+SSE endpoints have metadata of their own', async () => {
    const front = await open({ auth: { jwt: { issuer } }, listen: { legacy_sse: true } })
    for (const path of ['/sse', '/sse/files']) {
      const { challenge } = await front.send(path)
      const url = /resource_metadata="([^"]+)"/.exec(challenge ?? '')?.[1] ?? ''
      const metadata: unknown = await (await fetch(url)).json()
      expect(metadata).toMatchObject({ resource: `${front.origin}${path}` })
    }
  })

  it('the endpoint of the owner has metadata of its own, with the scopes of roles', async () => {
    const listen = { operator_mcp: true }
    const oauth = { authorization_servers: [issuer], scopes_supported: ['read'] }
    const front = await open({ auth: { jwt: { issuer }, oauth }, listen })
    const { status, challenge } = await front.call({ path: '/operator/mcp' })
    expect(status).toBe(401)
    const url = /resource_metadata="([^"]+)"/.exec(challenge ?? '')?.[1] ?? ''
    expect(await (await fetch(url)).json()).toMatchObject({
      resource: `${front.origin}/operator/mcp`,
      authorization_servers: [issuer],
      scopes_supported: ['gatehouse:view', 'gatehouse:approve', 'gatehouse:operate'],
    })
    const off = await open({ auth: { jwt: { issuer } } })
    expect(await off.send(`${at}/operator/mcp`)).toMatchObject({ status: 404 })
    expect(await off.call({ path: '/operator/mcp' })).toMatchObject({ status: 404 })
  })

  it('the metadata contains the configured values', async () => {
    const front = await open({
      listen: { public_url: 'https://mcp.example.com/gate' },
      auth: {
        realm: 'tools',
        jwt: { issuer },
        oauth: {
          authorization_servers: ['https://one.example.com', 'https://two.example.com'],
          scopes_supported: ['read'],
        },
      },
    })
    const expected = {
      resource: 'https://mcp.example.com/gate/mcp/files',
      authorization_servers: ['https://one.example.com', 'https://two.example.com'],
      scopes_supported: ['read'],
      bearer_methods_supported: ['header'],
      resource_name: 'tools: files',
    }
    expect((await front.send(`${at}/mcp/files`)).body).toEqual(expected)
    expect((await front.send(`${at}/gate/mcp/files`)).body).toEqual(expected)
    expect((await front.call()).challenge).toContain('Bearer realm="tools", scope="read"')
  })

  it('no metadata is served without authentication', async () => {
    const front = await open({ auth: 'none' })
    expect(await front.send(at)).toMatchObject({ status: 404 })
    expect(await front.send(`${at}/mcp`)).toMatchObject({ status: 404 })
  })
})
