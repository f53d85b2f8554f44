import { createHash, scryptSync } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { guardedFront, type GuardedFront } from '../../../support/auth/guarded-front.ts'
import { until } from '../../../support/condition.ts'
import { isObject, type Json } from '../../../support/server/json.ts'

/** An introspection endpoint with a fixed response for each token. */
const known = new Map<string, Json>()
const asked: { authorization?: string; token: string | null }[] = []
let status = 200
let held = Promise.resolve()
const server = createServer((incoming, outgoing) => void introspected(incoming, outgoing))
async function introspected(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const body = await text(incoming)
  const token = new URLSearchParams(body).get('token')
  await held
  const { authorization } = incoming.headers
  asked.push({ token, ...(authorization !== undefined && { authorization }) })
  outgoing.writeHead(status, { 'content-type': 'application/json' })
  outgoing.end(JSON.stringify(known.get(token ?? '') ?? { active: false }))
}
server.listen(0, '127.0.0.1')
await once(server, 'listening')
const address = server.address()
const url = `http://127.0.0.1:${isObject(address) ? String(address['port']) : ''}/introspect`
afterAll(() => void server.close())

const fronts: GuardedFront[] = []
afterEach(() => Promise.all(fronts.splice(0).map((front) => front.close())))

async function open(auth: Json): Promise<GuardedFront> {
  const front = await guardedFront({ auth })
  fronts.push(front)
  return front
}

const introspect = { url, client_id: 'gate:way', client_secret: 'a secret/+' }

describe('opaque tokens', () => {
  it('C067 an opaque token is introspected once, with the client credentials of the gateway', async () => {
    const front = await open({ opaque: { introspect } })
    known.set('opaque-1', { active: true, sub: 'someone', scope: 'one', aud: `${front.origin}/mcp` })
    asked.length = 0
    for (let times = 0; times < 3; times++) {
      const { body } = await front.call({ token: 'opaque-1' })
      expect(body).toMatchObject({ result: { said: { id: 'user:someone', scopes: ['one'] } } })
    }
    const authorization = `Basic ${Buffer.from('gate%3Away:a+secret%2F%2B').toString('base64')}`
    expect(asked).toEqual([{ token: 'opaque-1', authorization }])
  })

  it('C079 an inactive token is refused, and the refusal is cached', async () => {
    const front = await open({ opaque: { introspect } })
    asked.length = 0
    for (let times = 0; times < 3; times++) {
      const answer = await front.call({ token: 'opaque-2' })
      expect(answer).toMatchObject({ status: 401, body: { error: { data: { reason: 'inactive' } } } })
    }
    expect(asked).toHaveLength(1)
  })

  it('C222 an expired opaque token is refused', async () => {
    const front = await open({ opaque: { introspect } })
    known.set('opaque-3', { active: true, sub: 'someone', exp: 1000, aud: `${front.origin}/mcp` })
    expect(await front.call({ token: 'opaque-3' })).toMatchObject({
      status: 401,
      body: { error: { data: { code: 'TOKEN_EXPIRED' } } },
    })
  })

  it('C076 an opaque token for another server is refused, and one without an audience unless configured', async () => {
    const front = await open({ opaque: { introspect } })
    known.set('opaque-4', { active: true, sub: 'someone', aud: 'another' })
    known.set('opaque-5', { active: true, client_id: 'robot' })
    expect(await front.call({ token: 'opaque-4' })).toMatchObject({ status: 401 })
    expect(await front.call({ token: 'opaque-5' })).toMatchObject({ status: 401 })
    const loose = await open({ opaque: { introspect: { ...introspect, require_audience: false } } })
    expect(await loose.call({ token: 'opaque-4' })).toMatchObject({ status: 401 })
    expect(await loose.call({ token: 'opaque-5' })).toMatchObject({
      status: 200,
      body: { result: { said: { id: 'client:robot' } } },
    })
  })

  it('the response is 503 while the introspection endpoint fails', async () => {
    const front = await open({ opaque: { introspect } })
    status = 500
    const answer = await front.call({ token: 'opaque-6' })
    status = 200
    expect(answer.status).toBe(503)
    expect(JSON.stringify(front.log)).not.toContain('opaque-6')
  })

  it('an introspection failure for one token does not affect other tokens', async () => {
    const front = await open({ opaque: { introspect } })
    known.set('opaque-7', { active: true, sub: 'someone', aud: `${front.origin}/mcp` })
    status = 403
    expect(await front.call({ token: '../../etc/passwd' })).toMatchObject({ status: 503 })
    status = 200
    expect(await front.call({ token: 'opaque-7' })).toMatchObject({ status: 200 })
  })

  it('concurrent introspections are limited', async () => {
    const front = await open({ opaque: { introspect } })
    const gate = Promise.withResolvers<void>()
    held = gate.promise
    const calls = Array.from({ length: 60 }, (_each, at) => front.call({ token: `flood-${at}` }))
    await until(() => front.refused.length === 28, 'the others to be refused')
    gate.resolve()
    const statuses = (await Promise.all(calls)).map((answer) => answer.status)
    expect(statuses.filter((each) => each === 401)).toHaveLength(32)
    expect(statuses.filter((each) => each === 503)).toHaveLength(28)
  })

  it('C079 malformed tokens are not introspected', async () => {
    const front = await open({ opaque: { introspect } })
    asked.length = 0
    for (const token of ['two words', 'quote"', 'ümlaut', 'a'.repeat(14_000) + '!'])
      expect(await front.call({ token: encodeURI(token) })).toMatchObject({ status: 401 })
    expect(asked).toHaveLength(0)
  })
})

describe('listed tokens', () => {
  const token = 'b1946ac92492d2347c6235b4d2611184'
  const hash = `sha256:saltsalt:${createHash('sha256').update(`saltsalt${token}`).digest('hex')}`

  it('C228 a listed token is recognized by its hash', async () => {
    const front = await open({ opaque: { tokens: [{ hash, id: 'robot', scopes: ['one'] }] } })
    const said = { id: 'token:robot', scopes: ['one'] }
    expect(await front.call({ token })).toMatchObject({ status: 200, body: { result: { said } } })
    expect(await front.call({ token: `${token}0` })).toMatchObject({ status: 401 })
    expect((await front.call()).challenge).toBe('Bearer realm="gatehouse"')
    expect(await front.send('/.well-known/oauth-protected-resource')).toMatchObject({ status: 404 })
  })

  it('E33 a missing scope of a listed token is an error result and not a challenge', async () => {
    const front = await open({ opaque: { tokens: [{ hash, id: 'robot', scopes: ['one'] }] } })
    const { status: answered, challenge, body } = await front.call({ token, tool: 'two' })
    expect(answered).toBe(200)
    expect(challenge).toBeNull()
    expect(body).toMatchObject({ error: { data: { code: 'SCOPE_INSUFFICIENT' } } })
  })
})

describe('names and passwords', () => {
  const password_hash = `scrypt:saltsalt:${scryptSync('open sesame', 'saltsalt', 32).toString('hex')}`
  const basic = { users: [{ name: 'prometheus', password_hash }] }
  const of = (name: string, password: string) => ({
    authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`,
  })

  it('C068 basic credentials open service paths and never MCP', async () => {
    const front = await open({ basic, opaque: { introspect } })
    const good = of('prometheus', 'open sesame')
    expect(await front.send('/metrics', { headers: good })).toMatchObject({ status: 200 })
    expect(await front.send('/metrics', { headers: good })).toMatchObject({ status: 200 })
    expect(await front.send('/metrics', { headers: of('prometheus', 'wrong') })).toMatchObject({
      status: 401,
    })
    expect(await front.send('/metrics', { headers: of('nobody', 'open sesame') })).toMatchObject({
      status: 401,
    })
    expect((await front.send('/metrics')).challenge).toContain('Basic realm="gatehouse"')
    const mcp = await front.call({ headers: good })
    expect(mcp).toMatchObject({ status: 401, body: { error: { data: { reason: 'scheme' } } } })
    expect(mcp.challenge).not.toContain('Basic')
  })

  it('C229 basic credentials are required on service paths even if everything else is open', async () => {
    const front = await open({ basic })
    expect(await front.call()).toMatchObject({ status: 200 })
    expect(await front.send('/metrics')).toMatchObject({ status: 401 })
    expect(await front.send('/metrics', { headers: of('prometheus', 'open sesame') })).toMatchObject({
      status: 200,
    })
  })

  it('password attempts are limited', async () => {
    const front = await open({ basic })
    const tries = Array.from({ length: 40 }, (_each, at) =>
      front.send('/metrics', { headers: of('prometheus', `guess ${at}`) }),
    )
    const statuses = (await Promise.all(tries)).map((answer) => answer.status)
    expect(statuses).toContain(503)
    expect(statuses).not.toContain(200)
  })
})
