// Views of tools (MCP Apps) at the address of several servers.
import { describe, expect, test } from 'vitest'
import { closedAtEnd } from '../../support/closed-at-end.ts'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { caller, corporate, localGateway } from '../../support/local-gateway.ts'
import { namedServer, type NamedServer } from '../../support/named-server.ts'
import { bothEras } from '../../support/peers/clients.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

const extension = 'io.modelcontextprotocol/ui'
const view = 'ui://weather/view.html'
const viewMeta = { ui: { resourceUri: view }, 'ui/resourceUri': view, 'openai/outputTemplate': view }
const tool = { name: 'show', _meta: viewMeta }

/** A server with a tool that has a view. */
function appServer(label: string, own: string, extensions?: Json): Promise<NamedServer> {
  return namedServer(
    label,
    { tools: [tool, own, 'refresh'], resources: [view, `${own}://data`], templates: [`${own}://item/{id}`] },
    {
      result: () => ({
        _meta: viewMeta,
        content: [
          { type: 'resource_link', uri: view, name: 'view' },
          { type: 'resource', resource: { uri: view, mimeType: 'text/html;profile=mcp-app', text: '' } },
        ],
      }),
      ...(extensions && { extensions }),
    },
  )
}

interface World {
  readonly url: string
  readonly w: NamedServer
  readonly other: NamedServer
  client(revision?: '2025-11-25' | '2026-07-28'): Promise<FakeClient>
}

async function world(config: Json = {}): Promise<World> {
  const w = closedAtEnd(
    await appServer('w', 'rain', { [extension]: { mimeTypes: ['text/html;profile=mcp-app'] } }),
  )
  const other = closedAtEnd(
    await appServer('other', 'wind', { [extension]: { mimeTypes: ['text/x'], strict: {} } }),
  )
  const upstreams = { w: { url: w.url, ...Object(config['w']) }, 'my-other': { url: other.url } }
  const { w: _w, ...more } = config
  const { url } = closedAtEnd(await localGateway({ features: { confirm: 'off' }, ...more, upstreams }))
  const headers = config['profile'] === undefined ? {} : { headers: caller }
  return {
    url,
    w,
    other,
    client: async (revision = '2025-11-25') =>
      closedAtEnd(await connect({ transport: 'http', url, revision, ...headers })),
  }
}

const read = async (client: FakeClient, uri: unknown): Promise<Json> =>
  (await client.request('resources/read', { uri })).result ?? {}

/** The URI and text of the only contents. */
const contents = (result: Json): unknown => {
  const [only] = (result['contents'] ?? []) as Json[]
  return [only?.['uri'], only?.['text']]
}

const uris = (meta: unknown): unknown[] => {
  const { ui, ...flat } = Object(meta) as Json
  return [objectAt({ ui }, 'ui')['resourceUri'], flat['ui/resourceUri'], flat['openai/outputTemplate']]
}

describe.each(['2025-11-25', '2026-07-28'] as const)(
  'a host of %s at the address of several servers',
  (revision) => {
    test.each(['open', 'corporate'])(
      'reads the view that a tool or result names, with the profile %s',
      async (profile) => {
        const { client } = await world(profile === 'corporate' ? corporate : {})
        const host = await client(revision)
        const listed = ((await host.request('tools/list')).result?.['tools'] ?? []) as Json[]
        for (const [prefix, label] of [
          ['w', 'w'],
          ['my_other', 'other'],
        ]) {
          const { _meta: meta } = listed.find(({ name }) => name === `${prefix}_show`) ?? {}
          const called =
            (await host.request('tools/call', { name: `${prefix}_show`, arguments: {} })).result ?? {}
          const [link, embedded] = called['content'] as Json[]
          const all = [
            ...uris(meta),
            ...uris(called['_meta']),
            link?.['uri'],
            objectAt(embedded ?? {}, 'resource')['uri'],
          ]
          expect(new Set(all).size).toBe(1)
          expect(all[0]).toMatch(/^ui:\/\//)
          expect(contents(await read(host, all[0]))).toEqual([all[0], `${view} of ${label}`])
        }
      },
    )

    test('lists views under URIs that it can read, and finds the extension with the settings of all servers', async () => {
      const { client } = await world()
      const host = await client(revision)
      const resources = ((await host.request('resources/list')).result?.['resources'] ?? []) as Json[]
      const views = resources.map(({ uri }) => String(uri)).filter((uri) => uri.startsWith('ui://'))
      expect(views).toEqual(['ui://w+weather/view.html', 'ui://my-other+weather/view.html'])
      for (const uri of [...views, `w+${view}`])
        expect(contents(await read(host, uri))).toEqual([uri, expect.stringContaining(view)])
      const extensions = objectAt(objectAt(host.initialized, 'capabilities'), 'extensions')
      expect(extensions[extension]).toEqual({
        mimeTypes: ['text/html;profile=mcp-app', 'text/x'],
        strict: {},
      })
    })

    test('is declared to servers as it declares itself', async () => {
      const { url, w } = await world()
      const declared = { extensions: { [extension]: { mimeTypes: ['text/html;profile=mcp-app'] } } }
      const host = closedAtEnd(await connect({ transport: 'http', url, revision, capabilities: declared }))
      await host.request('tools/list')
      const opened = w.seen.filter(({ method }) => method === 'initialize')
      expect(opened.at(-1)?.['params']).toMatchObject({ capabilities: declared })
    })

    test('passes on what the app of one server requests under its own names', async () => {
      const { client, w } = await world()
      const host = await client(revision)
      expect((await host.request('tools/call', { name: 'rain', arguments: {} })).result).toMatchObject({
        _meta: { ui: {} },
      })
      expect(w.requested.at(-1)).toBe('rain')
      expect(contents(await read(host, 'rain://data'))).toEqual(['rain://data', 'rain://data of w'])
      expect(contents(await read(host, 'wind://item/7'))).toEqual(['wind://item/7', 'wind://item/7 of other'])
      const { error } = await host.request('resources/read', { uri: view })
      expect(JSON.stringify(error)).toMatch(/ui:\/\/w\+weather.*ui:\/\/my-other\+weather/)
      const { text } = await host.request('tools/call', { name: 'refresh', arguments: {} })
      expect(text).toMatch(/w_refresh or my_other_refresh/)
      expect(w.requested.at(-1)).toBe('rain://data')
    })
  },
)

test('an ambiguous name belongs to the only server whose views the client has read in its session', async () => {
  const { client, w, other } = await world()
  const [one, two] = [await client(), await client()]
  await read(one, 'ui://my-other+weather/view.html')
  const call = async (host: FakeClient): Promise<string> =>
    (await host.request('tools/call', { name: 'refresh', arguments: {} })).text
  await call(one)
  expect([w.requested, other.requested]).toEqual([[], [view, 'refresh']])
  expect(contents(await read(one, view))).toEqual([view, `${view} of other`])
  expect(await call(two)).toContain('more than one server has it')
  await read(one, 'ui://w+weather/view.html')
  expect(await call(one)).toContain('more than one server has it')
})

test.each(bothEras)(
  'a client of the $title reads views, and calls tools of apps by their own names',
  async ({ connect: open }) => {
    const { url } = await world()
    const client = closedAtEnd(await open({ transport: 'http', url }))
    expect(await client.resources()).toContain('ui://w+weather/view.html')
    expect(await client.read('ui://w+weather/view.html')).toBe(`${view} of w`)
    for (const uri of await client.links('my_other_show'))
      expect(await client.read(uri)).toBe(`${view} of other`)
    expect((await client.call('wind')).isError).toBe(false)
    expect((await client.call('rain')).isError).toBe(false)
  },
)
