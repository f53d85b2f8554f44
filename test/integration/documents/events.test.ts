import { afterAll, beforeAll, expect, test } from 'vitest'
import { clientOf } from '../../support/journey.ts'
import { caller, corporate, type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { objectAt } from '../../support/server/json.ts'

let gateway: LocalGateway
let strict: LocalGateway
beforeAll(async () => {
  const memory = { command: publishedServer('@modelcontextprotocol/server-memory') }
  const upstreams = { memory, quiet: { ...memory, features: { events: { writes: 'off' } } } }
  const features = { events: 'on' }
  gateway = await localGateway({
    features,
    upstreams: { ...upstreams, off: { ...memory, features: { events: 'off' } } },
  })
  strict = await localGateway({ ...corporate, features, upstreams })
})
afterAll(() => Promise.all([gateway?.close(), strict?.close()]))

/** The types of `events/list`, and those that `ai_help` names, at an address. */
async function typesAt(url: string) {
  const client = await clientOf({ url }, { revision: '2026-07-28', headers: caller })
  const { result } = await client.request('events/list', {})
  const { events } = { ...result } as { readonly events: { readonly name: string }[] }
  const offered = events.map(({ name }) => name)
  const help = await client.request('ai_help', { section: 'events', format: 'json' })
  const { types } = objectAt(objectAt({ ...help.result }, 'sections'), 'events') as {
    readonly types: { readonly name: string }[]
  }
  return { offered: offered.toSorted(), named: types.map(({ name }) => name).toSorted() }
}

test.each(['', '/memory', '/quiet'])(
  'at /mcp%s the guide names the types that clients are offered',
  async (path) => {
    for (const { url } of [gateway, strict]) {
      const { offered, named } = await typesAt(`${url}${path}`)
      expect(offered.length).toBeGreaterThan(3)
      expect(named).toEqual(offered)
    }
  },
)

test('a server without events has no section, and its manifest no extension', async () => {
  const help = await fetch(`${gateway.origin}/ai-help/off`)
  expect(await help.text()).not.toContain('## Events')
  const manifests = ['memory', 'off'].map(async (name) => {
    const manifest: unknown = await (await fetch(`${gateway.origin}/capabilities/${name}`)).json()
    return Object(manifest).supported_extensions.includes('subscribe_notify')
  })
  expect(await Promise.all(manifests)).toEqual([true, false])
})
