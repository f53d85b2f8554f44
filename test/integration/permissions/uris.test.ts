// Rules and scopes of resources apply to every spelling of a URI, at every address, over real HTTP.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { post } from '../../support/client/raw.ts'
import { modern } from '../../support/fronts.ts'
import { corporate, localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { type ScriptedServer, scriptedServer } from '../../support/scripted-server.ts'
import { objectAt, parse, isObject } from '../../support/server/json.ts'
import { illFormed, otherSpellings } from '../../support/uri-spellings.ts'

const token = 'a-token-of-at-least-32-characters-00'
const auth = {
  opaque: {
    tokens: [{ id: 'agent', hash: tokenHash(token), scopes: ['read:public', 'read:denied', 'read:asked'] }],
  },
}
const plain = 'file:///srv/private/x'
const open = 'file:///srv/public/x'

let server: ScriptedServer
let gateways: Readonly<Record<string, LocalGateway>>
beforeAll(async () => {
  server = await scriptedServer(
    { resources: {} },
    {
      'resources/list': () => ({ resources: [] }),
      'resources/templates/list': () => ({ resourceTemplates: [] }),
      'resources/read': ({ params }) => ({ contents: [{ uri: params['uri'], text: 'secret' }] }),
    },
  )
  const upstreams = {
    denied: { url: server.url, deny: { 'file:///srv/private/**': true } },
    asked: {
      url: server.url,
      scopes: { 'read:private': ['file:///srv/private/**'], 'read:public': ['file:///srv/public/**'] },
    },
  }
  gateways = {
    open: await localGateway({ auth, limits: { rate: 'off' }, upstreams }),
    corporate: await localGateway({ ...corporate, auth, limits: { rate: 'off' }, upstreams }),
  }
})
afterAll(async () => {
  for (const gateway of Object.values(gateways)) await gateway.close()
  await server.close()
})

async function read(profile: string, path: string, uri: string): Promise<{ status: number; code: string }> {
  const { message, headers } = modern('resources/read', { uri })
  const gateway = gateways[profile]
  const reply = await post(`${gateway?.url}${path}`, JSON.stringify(message), {
    ...headers,
    authorization: `Bearer ${token}`,
  })
  const answer = parse(reply.text)
  const error = isObject(answer) && isObject(answer['error']) ? answer['error'] : undefined
  return { status: reply.status, code: error ? String(objectAt(error, 'data')['code']) : 'read' }
}

const addresses = [
  ['open', '/denied', ''],
  ['open', '', 'denied+'],
  ['open', '/asked', ''],
  ['open', '', 'asked+'],
  ['corporate', '/denied', ''],
  ['corporate', '/asked', ''],
] as const

describe.each(addresses)(
  'in the profile %s at /mcp%s, where URIs begin with "%s"',
  (profile, path, prefix) => {
    const isRule = `${path}${prefix}`.includes('denied')
    const refused = isRule ? 'PERMISSION_DENIED' : 'SCOPE_INSUFFICIENT'

    it.each([plain, ...otherSpellings])('%s is refused', async (uri) => {
      expect(await read(profile, path, `${prefix}${uri}`)).toMatchObject({ code: refused })
    })

    it.each(illFormed)('%j is refused because a rule exists', async (uri) => {
      const { code } = await read(profile, path, `${prefix}${uri}`)
      expect(['PERMISSION_DENIED', 'INVALID_INPUT', 'HEADER_MISMATCH', refused]).toContain(code)
    })

    it('a resource that no rule denies is read', async () => {
      expect(await read(profile, path, `${prefix}${open}`)).toEqual({ status: 200, code: 'read' })
    })
  },
)

it('a URI in the scheme of its server is subject to the same rules', async () => {
  const spelled = [
    'denied://file//srv/private/x',
    'denied://file//srv/public/..;/private/x',
    'denied://file~//srv/private/x',
  ]
  for (const uri of [...spelled, 'denied://db+file//srv/private/x', 'denied://file//srv/%2570rivate/x'])
    for (const path of ['', '/denied'])
      expect([uri, path, await read('corporate', path, uri)]).toMatchObject([
        uri,
        path,
        { code: 'PERMISSION_DENIED' },
      ])
  expect(await read('corporate', '', 'denied://file//srv/public/x')).toMatchObject({ code: 'read' })
})
