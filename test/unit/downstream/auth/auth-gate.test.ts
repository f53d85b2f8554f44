import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { guardedFront, type GuardedFront } from '../../../support/auth/guarded-front.ts'
import { startIssuer } from '../../../support/auth/issuer.ts'
import type { Json } from '../../../support/server/json.ts'

const issuer = await startIssuer()
afterAll(() => issuer.close())
const fronts: GuardedFront[] = []
afterEach(() => Promise.all(fronts.splice(0).map((front) => front.close())))

async function open(auth: Json | string = {}, rest: Json = {}): Promise<GuardedFront> {
  const jwt = { issuer: issuer.url, jwks: issuer.jwks, audience: 'gateway' }
  const front = await guardedFront({ auth: typeof auth === 'string' ? auth : { jwt, ...auth }, ...rest })
  fronts.push(front)
  return front
}

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
}

function post(front: GuardedFront, body: unknown, headers: Record<string, string> = {}, path = '/mcp') {
  return front.send(path, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: JSON.stringify(body),
  })
}

describe('an HTTP endpoint that requires tokens', () => {
  it('C009 requests without a token are refused except for public pages', async () => {
    const front = await open({}, { listen: { legacy_sse: true } })
    const refused = [
      await front.call(),
      await front.call({ method: 'tools/list' }),
      await front.call({ method: 'prompts/get' }),
      await front.call({ method: 'resources/read' }),
      await post(front, initialize),
      await front.send('/mcp', { headers: { 'mcp-session-id': 'x' } }),
      await front.send('/mcp', { method: 'DELETE', headers: { 'mcp-session-id': 'x' } }),
      await front.send('/sse'),
      await post(front, initialize, {}, '/messages?session_id=x'),
      await front.send('/metrics'),
    ]
    for (const { status, challenge, headers, body } of refused) {
      expect(status).toBe(401)
      expect(challenge).toMatch(/^Bearer realm="gatehouse", resource_metadata="/)
      expect(headers.get('x-request-id')).toMatch(/./)
      expect(body).toMatchObject({ jsonrpc: '2.0', error: { data: { code: 'AUTHENTICATION_REQUIRED' } } })
    }
    for (const path of ['/health', '/ready', '/', '/.well-known/oauth-protected-resource'])
      expect(await front.send(path)).toMatchObject({ status: 200 })
  })

  it.each(['tools/call', 'prompts/get', 'resources/read'])(
    'C065 %s without a token is refused',
    async (method) => {
      const front = await open({ anonymous: ['tools/list', 'prompts/list', 'resources/list'] })
      expect(await front.call({ method })).toMatchObject({ status: 401 })
    },
  )

  it('C078 the challenge contains the realm and the URL of the resource metadata', async () => {
    const front = await open({ realm: 'tools of acme' })
    expect((await front.call()).challenge).toBe(
      `Bearer realm="tools of acme", resource_metadata="${front.origin}/.well-known/oauth-protected-resource/mcp"`,
    )
  })

  it('C061 an address that other hosts can reach is not open', async () => {
    await expect(guardedFront({ listen: { host: '0.0.0.0' } })).rejects.toThrow('everyone who can reach')
  })

  it('C230 every response has a request id, and every 401 a challenge', async () => {
    const front = await open({}, { listen: { legacy_sse: true } })
    const token = await issuer.sign()
    for (const path of ['/mcp', '/sse', '/metrics', '/nothing', '/health', '/ready', '/', '/.well-known/x']) {
      const { status, headers, challenge } = await front.send(path, { headers: { 'x-request-id': 'mine' } })
      expect(headers.get('x-request-id')).toBe('mine')
      expect(challenge === null).toBe(status !== 401)
    }
    expect((await front.call({ token })).headers.get('x-request-id')).toMatch(/./)
  })

  it('C066 a signed token in the Authorization header is accepted and identifies its principal', async () => {
    const front = await open()
    const token = await issuer.sign({ scope: 'one two' })
    const { status, body } = await front.call({ token })
    expect(status).toBe(200)
    expect(body).toMatchObject({ result: { said: { id: 'user:someone', scopes: ['one', 'two'] } } })
    expect(await front.call({ headers: { authorization: `bearer ${token}` } })).toMatchObject({ status: 200 })
    expect(await front.call({ headers: { 'x-access-token': token } })).toMatchObject({ status: 401 })
  })

  it('C079 the challenge states what is wrong with an invalid token', async () => {
    const front = await open()
    const expired = await front.call({ token: await issuer.sign({ exp: 1000, iat: 900 }) })
    expect(expired.status).toBe(401)
    expect(expired.challenge).toContain('error="invalid_token", error_description="The token has expired."')
    expect(expired.body).toMatchObject({ error: { data: { code: 'TOKEN_EXPIRED', reason: 'expired' } } })
    const rubbish = await front.call({ token: 'rubbish' })
    expect(rubbish).toMatchObject({ status: 401 })
    expect(rubbish.challenge).toContain('error="invalid_token"')
  })

  it('C225 a token for another server is refused', async () => {
    const front = await open()
    const answer = await front.call({ token: await issuer.sign({ aud: 'another' }) })
    expect(answer).toMatchObject({ status: 401, body: { error: { data: { reason: 'audience' } } } })
    expect(await front.call({ token: await issuer.sign({ aud: [] }) })).toMatchObject({ status: 401 })
    const several = await issuer.sign({ aud: ['another', 'gateway'] })
    expect(await front.call({ token: several })).toMatchObject({ status: 200 })
  })

  it('C076 a token is accepted for the URL that is called, and a gateway token at every server', async () => {
    const front = await open()
    const one = await issuer.sign({ aud: `${front.origin}/mcp/files` })
    const all = await issuer.sign({ aud: `${front.origin}/mcp` })
    expect(await front.call({ token: one, path: '/mcp/files' })).toMatchObject({ status: 200 })
    expect(await front.call({ token: one, path: '/mcp/other' })).toMatchObject({ status: 401 })
    expect(await front.call({ token: one })).toMatchObject({ status: 401 })
    expect(await front.call({ token: all })).toMatchObject({ status: 200 })
    expect(await front.call({ token: all, path: '/mcp/files' })).toMatchObject({ status: 200 })
    const named = await issuer.sign({ aud: front.origin.replace('127.0.0.1', 'localhost') + '/mcp/' })
    expect(await front.call({ token: named })).toMatchObject({ status: 200 })
  })

  it('a token for the servers is not valid for the endpoint of the owner, and the reverse', async () => {
    const jwt = { issuer: issuer.url, jwks: issuer.jwks }
    const front = await open({ jwt }, { listen: { operator_mcp: true } })
    const [owner, servers, strange] = await Promise.all(
      ['/operator/mcp', '/mcp', '/mcp/@operator'].map((path) => issuer.sign({ aud: front.origin + path })),
    )
    const path = '/operator/mcp'
    expect(await front.call({ token: owner, path })).toMatchObject({ status: 200 })
    expect(await front.call({ token: owner })).toMatchObject({ status: 401 })
    expect(await front.call({ token: servers })).toMatchObject({ status: 200 })
    expect(await front.call({ token: servers, path })).toMatchObject({ status: 401 })
    expect(await front.call({ token: strange, path })).toMatchObject({ status: 401 })
  })

  it('C076 the audience is the public URL alone if one is configured', async () => {
    const front = await open({}, { listen: { public_url: 'https://mcp.example.com/gate/' } })
    const token = await issuer.sign({ aud: 'https://mcp.example.com/gate/mcp' })
    expect(await front.call({ token })).toMatchObject({ status: 200 })
    expect(await front.call({ token: await issuer.sign({ aud: `${front.origin}/mcp` }) })).toMatchObject({
      status: 401,
    })
    const { challenge } = await front.call()
    expect(challenge).toContain(
      'resource_metadata="https://mcp.example.com/gate/.well-known/oauth-protected-resource/mcp"',
    )
  })

  it('C062 a token in a URL is refused', async () => {
    for (const auth of ['none', {}]) {
      const front = await open(auth)
      const token = await issuer.sign()
      for (const name of ['token', 'access_token', 'ACCESS_TOKEN', 'api_key']) {
        const { status, body } = await front.call({ token, path: `/mcp?${name}=${token}` })
        expect(status).toBe(400)
        expect(body).toMatchObject({ error: { code: -32600, data: { reason: 'query' } } })
      }
      expect(await front.call({ token, path: '/mcp?tokens=3' })).toMatchObject({ status: 200 })
    }
  })

  it('C007 a session id is refused without valid credentials and with those of another principal', async () => {
    const front = await open()
    const authorization = `Bearer ${await issuer.sign()}`
    const other = `Bearer ${await issuer.sign({ sub: 'somebody-else' })}`
    const session = (await post(front, initialize, { authorization })).headers.get('mcp-session-id') ?? ''
    const ping = { jsonrpc: '2.0', id: 2, method: 'ping' }
    const own = { 'mcp-session-id': session }
    expect(await post(front, ping, { ...own, authorization })).toMatchObject({ status: 200 })
    expect(await post(front, ping, own)).toMatchObject({ status: 401 })
    expect(await post(front, ping, { ...own, authorization: 'Bearer x' })).toMatchObject({ status: 401 })
    expect(await post(front, ping, { ...own, authorization: other })).toMatchObject({ status: 404 })
    expect(await front.send('/mcp', { method: 'DELETE', headers: own })).toMatchObject({ status: 401 })
  })

  it('C064 lists are available without a token only if configured', async () => {
    const closed = await open()
    expect(await closed.call({ method: 'tools/list' })).toMatchObject({ status: 401 })
    const front = await open({ anonymous: ['tools/list'] })
    expect(await front.call({ method: 'server/discover' })).toMatchObject({ status: 200 })
    expect(await front.call({ method: 'tools/list' })).toMatchObject({ status: 200 })
    expect(await front.call({ method: 'prompts/list' })).toMatchObject({ status: 401 })
    expect(await front.call()).toMatchObject({ status: 401, challenge: expect.stringContaining('Bearer') })
    expect(await front.call({ method: 'tools/list', token: 'bad' })).toMatchObject({ status: 401 })
    expect(await front.send('/metrics')).toMatchObject({ status: 401 })
    const opened = await post(front, initialize)
    const session = { 'mcp-session-id': opened.headers.get('mcp-session-id') ?? '' }
    const list = { jsonrpc: '2.0', id: 2, method: 'tools/list' }
    expect(await post(front, list, session)).toMatchObject({ status: 200 })
    expect(await post(front, { ...list, method: 'tools/call' }, session)).toMatchObject({ status: 401 })
    expect(await post(front, [{ ...list, method: 'tools/call' }], session)).toMatchObject({ status: 401 })
  })

  it('C081 JSON-RPC error codes keep their meaning', async () => {
    const front = await open()
    const token = await issuer.sign()
    const { body } = await front.call()
    expect(body).toMatchObject({ id: null, error: { code: -32600 } })
    const broken = await front.send('/mcp', {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
      body: '{',
    })
    expect(broken).toMatchObject({ status: 400, body: { error: { code: -32700 } } })
  })

  it('C202 the reason of a refusal is logged under the request id, without the token', async () => {
    const front = await open()
    const bad = await issuer.sign({ aud: 'another', secret: 'canary' })
    const { headers } = await front.call({ token: bad })
    await front.call({ path: `/mcp?token=${bad}` })
    await front.call({ headers: { 'x-request-id': 'mine' } })
    expect(front.log).toMatchObject([
      { event: 'auth.refused', reason: 'audience', request_id: headers.get('x-request-id') },
      { event: 'auth.refused', reason: 'missing', request_id: 'mine' },
    ])
    expect(front.refused).toMatchObject([
      { requestId: headers.get('x-request-id'), error: { extra: { reason: 'audience' } } },
      { error: { extra: { reason: 'query' } } },
      { requestId: 'mine', error: { extra: { reason: 'missing' } } },
    ])
    const said = JSON.stringify([front.log, front.refused])
    for (const part of bad.split('.')) expect(said).not.toContain(part)
    expect(said).not.toContain('canary')
  })

  it('C063 credentials never appear in responses or logs, whatever the outcome', async () => {
    const front = await open()
    const canary = 'canary-in-the-mine'
    const answers = [
      await front.call({ token: canary }),
      await front.call({ token: await issuer.sign({ sub: undefined, note: canary }) }),
      await front.call({ headers: { authorization: `Basic ${btoa(`user:${canary}`)}` } }),
      await front.call({ path: `/mcp?password=${canary}` }),
    ]
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401, 400])
    const said = JSON.stringify([answers.map(({ body, challenge }) => [body, challenge]), front.log])
    expect(said).not.toContain(canary)
    expect(said).not.toContain(btoa(canary).slice(0, 12))
  })

  it('preflight requests are answered without a token', async () => {
    const front = await open()
    const headers = { origin: 'http://localhost:3000', 'access-control-request-headers': 'authorization' }
    expect(await front.send('/mcp', { method: 'OPTIONS', headers })).toMatchObject({ status: 204 })
    const { headers: answered } = await front.send('/mcp', { method: 'POST', headers })
    expect(answered.get('access-control-expose-headers')).toContain('WWW-Authenticate')
  })

  it('the names of servers are not revealed without a token', async () => {
    const front = await open()
    expect(await front.call({ path: '/mcp/nothing' })).toMatchObject({ status: 401 })
    expect(await front.call({ path: '/mcp/nothing', token: await issuer.sign() })).toMatchObject({
      status: 404,
    })
  })

  it('the response is 503 and not 401 while the signing keys are unavailable', async () => {
    const own = await startIssuer()
    const front = await guardedFront({
      auth: { jwt: { issuer: own.url, jwks: own.jwks, audience: 'gateway' } },
    })
    fronts.push(front)
    own.fail(500)
    const token = await own.sign()
    const answer = await front.call({ token })
    expect(answer.status).toBe(503)
    expect(answer.headers.get('retry-after')).toMatch(/^\d+$/)
    expect(answer.challenge).toBeNull()
    expect(front.log).toMatchObject([{ event: 'auth.unavailable', cause: `${own.jwks} answered 500` }])
    await own.close()
  })

  it('keys are found through the metadata of the issuer, and redirects are not followed', async () => {
    const own = await startIssuer()
    const front = await guardedFront({ auth: { jwt: { issuer: own.url, audience: 'gateway' } } })
    fronts.push(front)
    expect(await front.call({ token: await own.sign() })).toMatchObject({ status: 200 })
    expect(own.asked).toEqual([
      '/.well-known/oauth-authorization-server',
      '/.well-known/openid-configuration',
      '/jwks',
    ])
    const moved = await guardedFront({ auth: { jwt: { issuer: own.url, audience: 'gateway' } } })
    fronts.push(moved)
    own.fail(302)
    expect(await moved.call({ token: await own.sign() })).toMatchObject({ status: 503 })
    expect(own.asked).not.toContain('/elsewhere')
    await own.close()
  })

  it('C221 a flood of unknown key ids causes a bounded number of key fetches', async () => {
    const own = await startIssuer()
    const front = await guardedFront({
      auth: { jwt: { issuer: own.url, jwks: own.jwks, audience: 'gateway' } },
    })
    fronts.push(front)
    const tokens = await Promise.all(
      Array.from({ length: 200 }, (_each, at) => own.sign({}, { kid: `k${at}` })),
    )
    const answers = await Promise.all(tokens.map((token) => front.call({ token })))
    expect(answers.every(({ status }) => status === 401)).toBe(true)
    expect(own.fetches).toBeLessThanOrEqual(4)
    expect(await front.call({ token: await own.sign() })).toMatchObject({ status: 200 })
    await own.close()
  })

  it('changed auth settings apply after a reload', async () => {
    const front = await open()
    const token = await issuer.sign({ aud: 'next' })
    expect(await front.call({ token })).toMatchObject({ status: 401 })
    front.configure({ auth: { jwt: { issuer: issuer.url, jwks: issuer.jwks, audience: 'next' } } })
    expect(await front.call({ token })).toMatchObject({ status: 200 })
    front.configure({ auth: 'none' })
    expect(await front.call()).toMatchObject({ status: 200, body: { result: { said: { id: 'anonymous' } } } })
  })
})

describe('a token without a required scope', () => {
  it('C081 a scope error of the upstream server causes no challenge', async () => {
    const front = await open()
    const token = await issuer.sign({ scope: 'mcp.read' })
    const { status, challenge, body } = await front.call({ token, tool: 'relay' })
    expect({ status, challenge }).toEqual({ status: 200, challenge: null })
    expect(body).toMatchObject({ error: { code: -32000, message: 'You lack a scope of mine.' } })
  })

  it('a scope removed by the session token causes no challenge', async () => {
    const front = await open()
    const token = await issuer.sign({ scope: 'mcp.read' })
    const { status, challenge, body } = await front.call({ token, tool: 'narrowed' })
    expect({ status, challenge }).toEqual({ status: 200, challenge: null })
    expect(body).toMatchObject({ error: { data: { code: 'SCOPE_INSUFFICIENT' } } })
  })

  it('C080 a missing scope is answered with 403 and the required scopes in both eras', async () => {
    const front = await open({ scope_map: { 'mcp.write': ['write:it'] } })
    const token = await issuer.sign({ scope: 'mcp.read' })
    const modern = await front.call({ token, tool: 'write:it' })
    const authorization = `Bearer ${token}`
    const opened = await post(front, initialize, { authorization })
    const session = { 'mcp-session-id': opened.headers.get('mcp-session-id') ?? '', authorization }
    const call = { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'write:it' } }
    const legacy = await post(front, call, session)
    for (const { status, challenge, body } of [modern, legacy]) {
      expect(status).toBe(403)
      expect(challenge).toBe(
        `Bearer realm="gatehouse", error="insufficient_scope", error_description="Missing scope: write:it", scope="mcp.read mcp.write", resource_metadata="${front.origin}/.well-known/oauth-protected-resource/mcp"`,
      )
      expect(body).toMatchObject({
        error: { data: { code: 'SCOPE_INSUFFICIENT', category: 'auth_required' } },
      })
    }
    const more = `Bearer ${await issuer.sign({ scope: 'mcp.read mcp.write' })}`
    expect(await post(front, call, { ...session, authorization: more })).toMatchObject({ status: 200 })
  })
})
