import { expect, it, onTestFinished } from 'vitest'
import { password, peopleNamed } from '../../../support/approving.ts'
import { caller, corporate, type LocalGateway, localGateway } from '../../../support/local-gateway.ts'
import { scriptedServer } from '../../../support/scripted-server.ts'
import type { Json } from '../../../support/server/json.ts'

const broken = { command: '/nowhere/server-of-secrets' }

async function gatewayOf(config: Json): Promise<LocalGateway> {
  const gateway = await localGateway({ upstreams: { broken }, ...config })
  onTestFinished(() => gateway.close())
  return gateway
}

/** A server with one reading and one writing tool. */
async function notes(): Promise<Json> {
  const inputSchema = { type: 'object' }
  const tools = [
    { name: 'read_note', description: 'Reads a note.', inputSchema },
    { name: 'add_note', description: 'Adds what costs sesame-street.', inputSchema },
  ]
  const server = await scriptedServer({ tools: {} }, { 'tools/list': () => ({ tools }) })
  onTestFinished(() => server.close())
  return { url: server.url, transport: 'streamable', revision: '2025-11-25' }
}

async function look(gateway: LocalGateway, path = '/', headers: Record<string, string> = {}) {
  const answer = await fetch(`${gateway.origin}${path}`, { headers })
  return { status: answer.status, headers: answer.headers, text: await answer.text() }
}

const basic = (name: string, word: string) => {
  return { authorization: `Basic ${Buffer.from(`${name}:${word}`).toString('base64')}` }
}

it('the front page states why a server is unavailable', async () => {
  expect((await look(await gatewayOf({}))).text).toContain('/nowhere/server-of-secrets')
})

it('C211 the reason is not shown if callers are authenticated', async () => {
  const gateway = await gatewayOf({ auth: corporate.auth })
  for (const headers of [{}, caller]) {
    const { text } = await look(gateway, '/', headers)
    expect(text).toContain('unavailable</span>')
    expect(text).not.toContain('server-of-secrets')
  }
})

it('all tools are shown without authentication', async () => {
  const { text, status } = await look(await gatewayOf({ upstreams: { notes: await notes() } }))
  expect(status).toBe(200)
  expect(text).toContain('read_note')
  expect(text).toContain('Streamable HTTP, MCP 2025-11-25')
  expect(text).toContain('skills/notes/SKILL.md')
})

it('with authentication tools are shown to callers with a token only', async () => {
  const gateway = await gatewayOf({ upstreams: { notes: await notes() }, auth: corporate.auth })
  const stranger = await look(gateway, '/?q=note')
  expect(stranger.status).toBe(200)
  expect(stranger.text).not.toMatch(/read_note|SKILL|2025-11-25/)
  expect(stranger.text).toContain('notes')
  const known = await look(gateway, '/', caller)
  expect(known.text).toContain('read_note')
  expect(known.headers.get('vary')).toContain('Authorization')
  expect(known.headers.get('cache-control')).toBe('no-store')
})

it('an invalid token is refused with a challenge and a page without tools', async () => {
  const gateway = await gatewayOf({ upstreams: { notes: await notes() }, auth: corporate.auth })
  const refused = await look(gateway, '/', { authorization: `Bearer ${'x'.repeat(40)}` })
  expect(refused.status).toBe(401)
  expect(refused.headers.get('www-authenticate')).toMatch(/^Bearer .*invalid_token/)
  expect(refused.headers.get('content-type')).toContain('text/html')
  expect(refused.text).toContain('role="alert"')
  expect(refused.text).not.toContain('read_note')
})

it('a name and password sign a person in', async () => {
  const gateway = await gatewayOf({ upstreams: { notes: await notes() }, auth: peopleNamed('anna') })
  expect((await look(gateway)).headers.get('www-authenticate')).toBeNull()
  const asked = await look(gateway, '/?sign-in')
  expect(asked.status).toBe(401)
  expect(asked.headers.get('www-authenticate')).toContain('Basic realm=')
  expect((await look(gateway, '/?sign-in', basic('anna', password))).text).toContain('read_note')
  expect((await look(gateway, '/', basic('anna', 'wrong'))).status).toBe(401)
})

it('a caller sees the tools of its own lists only', async () => {
  const gateway = await gatewayOf({
    upstreams: { notes: await notes() },
    features: { permissions: { hide_unpermitted: true } },
    auth: { opaque: { tokens: [{ ...corporate.auth.opaque.tokens[0], scopes: ['read:notes'] }] } },
  })
  const { text } = await look(gateway, '/', caller)
  expect(text).toContain('read_note')
  expect(text).not.toContain('add_note')
})

it('no configured secret appears on the page, whatever servers send', async () => {
  const server = await notes()
  const { text } = await look(
    await gatewayOf({ upstreams: { notes: { ...server, headers: { 'x-key': 'sesame-street' } } } }),
  )
  expect(text).toContain('Adds what costs ***')
  expect(text).not.toContain('sesame-street')
})
