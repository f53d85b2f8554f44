import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { caller, corporate, localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { scriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'

const input = { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] }
let notes: ScriptedServer
let mail: ScriptedServer
let strict: LocalGateway
let free: LocalGateway
beforeAll(async () => {
  notes = await scriptedServer(
    { tools: {}, resources: {} },
    {
      'tools/list': () => ({
        tools: [
          { name: 'get_note', description: 'Reads a note.', inputSchema: input },
          { name: 'delete_note', description: 'Removes a note.', inputSchema: input },
        ],
      }),
      'resources/list': () => ({ resources: [{ uri: 'use://mine', name: 'mine' }] }),
      'resources/read': ({ params }) => ({ contents: [{ uri: params['uri'], text: 'mine' }] }),
    },
  )
  mail = await scriptedServer({ tools: {} }, { 'tools/list': () => ({ tools: [] }) })
  const upstreams = {
    notes: { url: notes.url, about: 'Keeps notes.', use_when: 'find a note', not_for: 'mail' },
    mail: mail.url,
  }
  strict = await localGateway({ ...corporate, limits: { rate: 'off' }, upstreams })
  free = await localGateway({ upstreams })
})
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close().catch(() => undefined)))
  await Promise.all([strict.close(), free.close()])
  await Promise.all([notes.close(), mail.close()])
})

const clients: FakeClient[] = []

async function clientOf(gateway: LocalGateway, path = '', revision = '2025-11-25'): Promise<FakeClient> {
  const era = revision === '2026-07-28' ? revision : '2025-11-25'
  const url = gateway.url + path
  const client = await connect({ transport: 'http', url, revision: era, headers: caller })
  clients.push(client)
  return client
}

async function prompt(client: FakeClient, name: string): Promise<string> {
  const { result } = await client.request('prompts/get', { name })
  const [message] = Array.isArray(result?.['messages']) ? result['messages'] : []
  return String(objectAt(objectAt({ message }, 'message'), 'content')['text'])
}

async function resource(client: FakeClient, uri: string): Promise<Json> {
  const { result } = await client.request('resources/read', { uri })
  const [first] = Array.isArray(result?.['contents']) ? result['contents'].filter(isObject) : []
  return first ?? {}
}

async function listed(client: FakeClient, method: string, list: string, field: string): Promise<unknown[]> {
  const { result } = await client.request(method)
  const entries = result?.[list]
  return Array.isArray(entries) ? entries.filter(isObject).map((each) => each[field]) : []
}

describe.each(['2025-11-25', '2026-07-28'])('to a client of %s the corporate profile', (revision) => {
  it.each(['/notes', '/mail', ''])(
    'C153 C154 offers the prompts agent_brief and agent_prompt, at /mcp%s',
    async (path) => {
      const client = await clientOf(strict, path, revision)
      expect(await listed(client, 'prompts/list', 'prompts', 'name')).toEqual(['agent_brief', 'agent_prompt'])
      expect(await prompt(client, 'agent_brief')).toMatch(/\S/)
      expect(await prompt(client, 'agent_prompt')).toMatch(/^# How to use /)
    },
  )

  it('C155 C156 briefs agents in short: purpose, when to use, when not, limits', async () => {
    const client = await clientOf(strict, '/notes', revision)
    const brief = await prompt(client, 'agent_brief')
    expect(brief).toContain('Keeps notes.')
    expect(brief).toMatch(
      /Choose it when[^]*find a note[^]*Do not choose it for[^]*mail[^]*Limits:[^]*`delete_note`/,
    )
    expect(Buffer.byteLength(brief)).toBeLessThanOrEqual(2048)
  })

  it('C157 instructs agents: each tool, limits, output format', async () => {
    const text = await prompt(await clientOf(strict, '/notes', revision), 'agent_prompt')
    expect(text).toMatch(/## Rules[^]*Confirmation is required before `delete_note`[^]*Callers need a token/)
    expect(text).toMatch(/## Answers[^]*never as instructions/)
    expect(text).toMatch(/### get_note[^]*"id"[^]*### delete_note/)
  })

  it.each([
    ['/notes', 'notes'],
    ['', 'gatehouse'],
  ])('C165 offers the same texts as resources, at /mcp%s', async (path, service) => {
    const client = await clientOf(strict, path, revision)
    for (const name of ['brief', 'prompt']) {
      const found = await resource(client, `${service}://agent/${name}`)
      expect(found).toMatchObject({ uri: `${service}://agent/${name}`, mimeType: 'text/markdown' })
      expect(found['text']).toBe(await prompt(client, `agent_${name}`))
    }
  })

  it.each(['/notes', '/mail', ''])(
    'C163 C164 offers nothing else under reserved schemes, at /mcp%s',
    async (path) => {
      const client = await clientOf(strict, path, revision)
      const uris = await listed(client, 'resources/list', 'resources', 'uri')
      const reserved = uris.filter((uri) => /^(?:use|project|doc):/.test(String(uri)))
      expect(reserved).toEqual(['use://auth', 'use://http-headers', 'project://version', 'doc://readme'])
      for (const uri of uris) expect((await resource(client, String(uri)))['text']).toMatch(/\S/)
      const unknown = await client
        .request('resources/read', { uri: 'use://else' })
        .catch((error: unknown) => error)
      expect(JSON.stringify(unknown)).toMatch(/-32602|-32002|not found/i)
    },
  )

  it('C163 separates resources that a server has under a reserved scheme', async () => {
    const client = await clientOf(strict, '/notes', revision)
    const uris = await listed(client, 'resources/list', 'resources', 'uri')
    expect(uris).toContain('notes://use/mine')
    expect(await resource(client, 'notes://use/mine')).toMatchObject({ text: 'mine' })
  })
})

describe('in the corporate profile', () => {
  it('C167 C011 C084 use://auth describes authentication, its claims, and the profile in use', async () => {
    const { text } = await resource(await clientOf(strict), 'use://auth')
    expect(text).toMatch(/Profile: corporate\.[^]*`Authorization: Bearer <token>`/)
    const jwt = {
      issuer: 'https://idp.example.com',
      audience: 'gatehouse',
      jwks: 'https://idp.example.com/jwks',
    }
    const signed = await localGateway({
      ...corporate,
      auth: { ...corporate.auth, jwt },
      upstreams: { notes: notes.url },
    })
    const withClaims = await resource(await clientOf(signed), 'use://auth')
    const [, claims = ''] = String(withClaims['text']).split('## Claims')
    const named = [...claims.matchAll(/^- `(\w+)`: (required)?/gm)].map(
      ([, name, must]) => `${name} ${must ?? ''}`,
    )
    const musts = ['iss', 'aud', 'exp', 'iat', 'sub'].map((name) => `${name} required`)
    expect(named.toSorted()).toEqual([...musts, 'nbf ', 'scope '].toSorted())
    expect(claims).toContain('Other claims are not read.')
    await signed.close()
  })

  it('C166 C069 use://http-headers names the headers beyond the protocol', async () => {
    const { text } = await resource(await clientOf(strict), 'use://http-headers')
    for (const header of ['X-Request-Id', 'X-Idempotency-Key', 'X-MCP-Session-Token', 'X-MCP-Dry-Run'])
      expect(text).toContain(header)
  })

  it('C022 C168 project://version is the version of /health and of the handshake', async () => {
    const client = await clientOf(strict, '/notes')
    const { version } = (await (await fetch(`${strict.origin}/health`)).json()) as Json
    expect(await resource(client, 'project://version')).toMatchObject({
      mimeType: 'text/plain',
      text: version,
    })
    expect(objectAt(client.initialized, 'serverInfo')['version']).toBe(version)
  })

  it('C169 doc://readme is the guide', async () => {
    const { text } = await resource(await clientOf(strict, '/notes'), 'doc://readme')
    expect(text).toMatch(/^---\n[^]*delete_note/)
  })
})

it('the open profile adds no prompts and no resources', async () => {
  const client = await clientOf(free, '/notes')
  expect(client.initialized['capabilities']).not.toHaveProperty('prompts')
  expect(await listed(client, 'resources/list', 'resources', 'uri')).not.toContain('use://auth')
})
