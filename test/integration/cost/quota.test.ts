import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { expect, it, onTestFinished } from 'vitest'
import { clientOf } from '../../support/journey.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { hasSchema, schemaText } from '../../support/published-schemas.ts'
import { alone } from '../../support/scattered.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'

const QUOTA = 'dev.gatehouse/quota'
const schema = 'proposals/service-manifest.schema.json'
const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/)

/** A gateway in front of the published filesystem server, whose reads have a cost, and one of them a rate limit. */
async function gatewayTo(config: Json = {}): Promise<LocalGateway & { readonly file: string }> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'gatehouse-quota-')))
  const file = join(folder, 'hello.txt')
  await writeFile(file, 'hello')
  const tools = { read_text_file: { cost: '5 credits' }, get_file_info: { rate: '3/minute' } }
  const files = { command: publishedServer('@modelcontextprotocol/server-filesystem', folder), tools }
  const gateway = await localGateway({
    limits: { rate: '100/hour' },
    features: { cost: { budget: { units: 12, per: 'day' } } },
    upstreams: { files },
    ...config,
  })
  onTestFinished(async () => {
    await gateway.close()
    await rm(folder, { recursive: true, force: true })
  })
  return { ...gateway, file }
}

/** The tools of a result or a manifest, by name. */
function toolsIn(value: unknown): ReadonlyMap<unknown, Json> {
  const tools = isObject(value) && Array.isArray(value['tools']) ? value['tools'].filter(isObject) : []
  return new Map(tools.map((tool) => [tool['name'], tool]))
}

const metaOf = (tool: Json | undefined): Json => objectAt({ ...tool }, '_meta')

async function manifestOf({ origin }: LocalGateway, path = ''): Promise<Json> {
  const manifest: Json = JSON.parse(await (await fetch(`${origin}/capabilities${path}`)).text())
  return manifest
}

it('the tool list shows the remaining quota of tools counted separately, as do results of calls', async () => {
  const gateway = await gatewayTo()
  const client = await clientOf(gateway)
  const listed = async () => toolsIn((await client.request('tools/list', {})).result)
  const before = await listed()
  expect(metaOf(before.get('read_text_file'))[QUOTA]).toEqual({
    remaining: 12,
    resets_at: time,
    of: 'budget',
  })
  expect(metaOf(before.get('get_file_info'))[QUOTA]).toEqual({ remaining: 3, resets_at: time, of: 'limit' })
  expect(metaOf(before.get('list_directory'))).not.toHaveProperty([QUOTA])
  for (const name of ['read_text_file', 'get_file_info'])
    await client.request('tools/call', { name, arguments: { path: gateway.file } })
  const after = await listed()
  expect(metaOf(after.get('read_text_file'))[QUOTA]).toMatchObject({ remaining: 7 })
  expect(metaOf(after.get('get_file_info'))[QUOTA]).toEqual({ remaining: 2, resets_at: time, of: 'limit' })
  // Reading the quota does not use it.
  expect(metaOf((await listed()).get('get_file_info'))[QUOTA]).toMatchObject({ remaining: 2 })
})

it('the manifest shows the remaining quota and fits its schema', async () => {
  alone('each gateway counts rates, with a store folder')
  const gateway = await gatewayTo()
  const client = await clientOf(gateway)
  const leftIn = (manifest: Json): unknown => objectAt(manifest, 'rate_limits')['remaining']
  const before = await manifestOf(gateway)
  await client.request('tools/call', { name: 'get_file_info', arguments: { path: gateway.file } })
  const after = await manifestOf(gateway)
  expect(objectAt(after, 'rate_limits')['resets_at']).toEqual(time)
  // Reading the manifest is a request too.
  expect([leftIn(before), leftIn(after)]).toEqual([99, 97])
  expect(toolsIn(after).get('get_file_info')).toMatchObject({ quota: { remaining: 2, of: 'limit' } })
  expect(toolsIn(after).get('read_text_file')).toMatchObject({ quota: { remaining: 12, of: 'budget' } })
  expect(toolsIn(after).get('list_directory')).not.toHaveProperty('quota')
  if (!hasSchema(schema)) return
  const fits = new Ajv2020({ strict: false, formats: { uri: true, 'date-time': true } }).compile(
    JSON.parse(schemaText(schema)),
  )
  expect([fits(after), fits.errors]).toEqual([true, null])
})

it('a change of the remaining quota alone does not change the ETag of the manifest', async () => {
  const gateway = await gatewayTo()
  const first = await fetch(`${gateway.origin}/capabilities`)
  const etag = first.headers.get('etag') ?? ''
  expect(etag).toMatch(/^W\/"/)
  expect(first.headers.get('cache-control')).toBe('public, max-age=60')
  const again = await fetch(`${gateway.origin}/capabilities`, { headers: { 'if-none-match': etag } })
  expect([again.status, again.headers.get('etag')]).toEqual([304, etag])
})

it('the remaining quota is that of the caller, in the manifest tool and in discovery', async () => {
  const gateway = await gatewayTo()
  const client = await clientOf(gateway)
  await client.request('tools/call', { name: 'get_file_info', arguments: { path: gateway.file } })
  const { result } = await client.request('tools/call', { name: 'get_manifest', arguments: {} })
  const manifest = objectAt({ ...result }, 'structuredContent')
  expect(toolsIn(manifest).get('get_file_info')).toMatchObject({ quota: { remaining: 2 } })
  expect(objectAt(manifest, 'rate_limits')).toMatchObject({ remaining: expect.any(Number), resets_at: time })
})

it('no quota is reported if the feature is off or no limit is set', async () => {
  const off = await gatewayTo({ features: { quota: 'off', cost: { budget: { units: 12, per: 'day' } } } })
  const { result } = await (await clientOf(off)).request('tools/list', {})
  expect(JSON.stringify(result)).not.toContain(QUOTA)
  expect(JSON.stringify(await manifestOf(off))).not.toContain('"remaining"')
  const free = await gatewayTo({
    limits: {},
    features: {},
    upstreams: { files: { command: publishedServer('@modelcontextprotocol/server-filesystem', tmpdir()) } },
  })
  expect(JSON.stringify(await manifestOf(free))).not.toContain('"remaining"')
})
