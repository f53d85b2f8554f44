// References between clients and servers of every revision, and by unchanged clients of the official SDKs.
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import { connect } from '../../support/fake-client.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { describePairs, type Pair, subject } from '../../support/matrix.ts'
import { mark } from '../../support/meeting.ts'
import { bothEras } from '../../support/peers/clients.ts'
import { type Json, objectAt, parse } from '../../support/server/json.ts'
import { remoteTransport, revisions } from '../../support/server/revisions.ts'
import { plainFeatures } from '../../support/undescribed.ts'

const TOOLS = ['read_reference', 'request_upload', 'export_result_ref', 'import_from_ref']
const SIZE = 4000
/** Results of these servers are kept from 1 KB on. */
const features = { references: { over: '1KB' } }
const answers = { 'elicitation/create': () => ({ action: 'accept' }) }

/** Over HTTP on both sides: a gateway on stdio has no address for uploads. */
function isRemote({ client, server }: Pair): boolean {
  return client.transport !== 'stdio' && server.transport === remoteTransport(server.revision)
}

function contentOf(result: Json = {}): readonly Json[] {
  return result['content'] as readonly Json[]
}

function uriIn(text: string): string {
  return /ref:\/\/[\w.-]*\w/.exec(text)?.[0] ?? ''
}

/** Sends a file to the URL in a text; the status of the response. */
async function send(text: string, body: string): Promise<number> {
  const url = /https?:\/\/\S+/.exec(text)?.[0] ?? ''
  const headers = { 'content-type': 'text/plain' }
  return (await fetch(url, { method: 'PUT', body, headers })).status
}

const references = subject('references', (meeting) => {
  const { client } = meeting

  it('puts a link in place of a large result, or its URI where the revision has no links', async () => {
    const { result } = await meeting.call('big', { bytes: SIZE })
    const { ref_id: id, size_bytes: size } = objectAt(
      objectAt(result, '_meta'),
      'dev.gatehouse/data_reference',
    )
    expect(size).toBe(SIZE)
    const [first, ...others] = contentOf(result)
    const uri = `ref://${String(id)}`
    if (client.resourceLink) expect(first).toMatchObject({ type: 'resource_link', uri, size: SIZE })
    else expect(first).toEqual({ type: 'text', text: expect.stringContaining(uri) })
    expect(others).toEqual([{ type: 'text', text: expect.stringContaining(`"${uri}"`) }])
  })

  it('reads a part of it with the tool, and all of it as a resource', async () => {
    const uri = uriIn((await meeting.call('big', { bytes: SIZE })).text)
    const part = await meeting.call('read_reference', { ref: uri, bytes: '10-19' })
    expect(textOf(part)).toBe('x'.repeat(10))
    const { result } = await meeting.request('resources/read', { uri })
    expect(result?.['contents']).toEqual([{ uri, mimeType: 'text/plain', text: 'x'.repeat(SIZE) }])
  })

  it('sends the data to the server in place of its reference in an argument', async () => {
    const uri = uriIn((await meeting.call('big', { bytes: SIZE })).text)
    const from = meeting.seen().length
    const text = 'x'.repeat(10)
    const echoed = await meeting.call('echo', {
      uri: `${uri}?bytes=0-9`,
      object: [{ $ref_id: `${uri}?bytes=0-9` }],
    })
    expect(parse(textOf(echoed))).toEqual({ uri: text, object: [text] })
    await meeting.call('echo', { all: uri })
    await meeting.until((entry) => entry.text.includes(`"all":"${'x'.repeat(SIZE)}"`), from)
  })

  it('keeps a small result on request, and gives it to a tool', async () => {
    const id = mark()
    const uri = `ref://${id}`
    const args = { tool: 'echo', arguments: { word: id }, ref_id: id }
    const reply = await meeting.call('export_result_ref', args)
    expect(reply.text).toContain(uri)
    const facts = objectAt(reply.result, 'structuredContent')
    if (client.structured) expect(facts).toMatchObject({ ref_id: id, mime_type: 'application/json' })
    expect(textOf(await meeting.call('read_reference', { ref: uri, pointer: '/word' }))).toContain(id)
    const given = { ref_id: uri, tool: 'echo', argument: 'data' }
    const imported = await meeting.call('import_from_ref', given)
    expect(parse(textOf(imported))).toMatchObject({ status: 'imported', checksum_verified: true })
    const [, echoed] = contentOf(imported.result)
    expect(parse(String(echoed?.['text']))).toEqual({ data: { word: id } })
  })

  it('requests a file from a person, by a URL that the client opens or shows', async () => {
    const asked = meeting.connected.asked.length
    const reply = await meeting.call('request_upload', { name: 'note.txt' })
    const text = textOf(reply)
    const questions = meeting.connected.asked.slice(asked).map(({ params }) => params['mode'])
    expect(questions).toEqual(client.urlElicitation ? ['url'] : [])
    const uri = uriIn(text)
    if (client.structured) expect(reply.result?.['structuredContent']).toMatchObject({ ref: uri })
    const note = `A note for ${mark()}`
    expect(await send(text, note)).toBe(201)
    expect(parse(textOf(await meeting.call('echo', { note: uri })))).toEqual({ note })
  })

  it.runIf(client.urlElicitation)('reports that the person declined to send a file', async () => {
    const answers = { 'elicitation/create': () => ({ action: 'decline' }) }
    const shy = await meeting.connect({ answers })
    const { result } = await shy.request('tools/call', { name: 'request_upload', arguments: {} })
    expect(shy.asked.map(({ params }) => params['mode'])).toEqual(['url'])
    const content = [{ type: 'text', text: 'The person declined to send a file.' }]
    expect(result).toMatchObject({ isError: true, content })
  })
})

describePairs({ client: () => ({ answers }), upstream: { features }, only: isRemote }, [references])

describe.each(bothEras)('with $title', ({ connect: connectPeer }) => {
  const servers: FakeServer[] = []
  let gateway: LocalGateway

  beforeAll(async () => {
    for (const revision of revisions)
      servers.push(await startFakeServer({ revision, transport: remoteTransport(revision) }))
    const upstreams = revisions.map((revision, index) => [nameOf(revision), { url: servers[index]?.url }])
    gateway = await localGateway({
      features: plainFeatures(features),
      upstreams: Object.fromEntries(upstreams) as Json,
    })
  })
  afterAll(async () => {
    await gateway.close()
    await Promise.all(servers.map((server) => server.close()))
  })

  it('data of servers of all revisions is kept, read, and given to a server of the next one', async () => {
    const client = await connectPeer({ transport: 'http', url: gateway.url })
    onTestFinished(() => client.close())
    expect(await client.tools()).toEqual(expect.arrayContaining(TOOLS))
    for (const [index, revision] of revisions.entries()) {
      const [from, to] = [nameOf(revision), nameOf(revisions[(index + 1) % revisions.length] ?? revision)]
      const kept = await client.call(`${from}_big`, { bytes: SIZE })
      const uri = uriIn(kept.text)
      expect(await client.read(uri)).toBe('x'.repeat(SIZE))
      expect((await client.call('read_reference', { ref: uri, bytes: '0-3' })).text).toBe('xxxx')
      const echoed = await client.call(`${to}_echo`, { part: `${uri}?bytes=0-3` })
      expect(parse(echoed.text)).toEqual({ part: 'xxxx' })
      const exported = await client.call('export_result_ref', { tool: `${from}_echo`, arguments: { a: 1 } })
      expect(exported.structured).toMatchObject({ origin_server: from, size_bytes: 7 })
      const imported = { ref_id: uriIn(exported.text), tool: `${to}_echo`, argument: 'data' }
      expect((await client.call('import_from_ref', imported)).structured).toMatchObject({
        status: 'imported',
      })
    }
    const upload = await client.call('request_upload')
    expect(await send(upload.text, 'a note')).toBe(201)
    const noted = await client.call(`${nameOf('2026-07-28')}_echo`, { note: uriIn(upload.text) })
    expect(parse(noted.text)).toEqual({ note: 'a note' })
  })
})

function nameOf(revision: (typeof revisions)[number]): string {
  return `v${revision.slice(0, 4)}${revision.slice(5, 7)}`
}

describe.each(revisions)('without references, for a client of %s', (revision) => {
  it('none of the tools exist: calls of them are those of unknown tools', async () => {
    const transport = remoteTransport(revision)
    const server = await startFakeServer({ revision, transport })
    onTestFinished(() => server.close())
    const gateway = await localGateway({
      listen: { legacy_sse: 'on' },
      features: plainFeatures({}),
      upstreams: { one: { url: server.url } },
    })
    onTestFinished(() => gateway.close())
    const url = `${gateway.origin}/${transport === 'sse' ? 'sse' : 'mcp'}/one`
    const client = await connect({ transport, url, revision })
    onTestFinished(() => client.close().catch(() => undefined))
    const { text } = await client.request('tools/list', {})
    expect(TOOLS.filter((name) => text.includes(name))).toEqual([])
    for (const name of [...TOOLS, 'no_such_tool']) {
      const { error, result } = await client.request('tools/call', { name, arguments: {} })
      const code = objectAt(error ?? objectAt(result, '_meta'), error ? 'data' : 'dev.gatehouse/error')[
        'code'
      ]
      expect([name, code]).toEqual([name, 'UNKNOWN_TOOL'])
    }
    for (const path of ['/export', '/import', '/uploads']) {
      const headers = { 'content-type': 'application/json' }
      const response = await fetch(`${gateway.origin}${path}`, { method: 'POST', headers, body: '{}' })
      expect([path, response.status]).toEqual([path, 404])
    }
  })
})
