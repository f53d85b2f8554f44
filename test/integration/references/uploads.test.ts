// Files that callers and people send: what is kept of them, and who gets it.
import { createHash } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { knownCallers } from '../../support/auth/callers.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { isScattered } from '../../support/scattered.ts'
import type { Json } from '../../support/server/json.ts'
import { StatelessClient } from '../../support/stateless-client.ts'

const { auth, token, bearer } = knownCallers(['ada', 'bob'], ['read:fake'])
type Caller = Parameters<typeof token>[0]
const png = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex')

let folder = ''
let server: FakeServer
let gateway: LocalGateway
/** Another gateway with the same store. */
let other: LocalGateway

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-uploads-'))
  server = await startFakeServer({ revision: '2026-07-28', transport: 'http' })
  const config = {
    store: join(folder, 'store'),
    auth,
    limits: { rate: 'off' },
    features: { references: { upload: '1MB', urls: true } },
    upstreams: { fake: { url: server.url } },
  }
  gateway = await localGateway(config)
  other = await localGateway(config)
})
afterAll(async () => {
  await Promise.all([gateway.close(), other.close()])
  await server.close()
  rmSync(folder, { recursive: true, force: true })
})

interface Sent {
  readonly body: NonNullable<RequestInit['body']>
  readonly headers?: Record<string, string>
  readonly caller?: Caller
  readonly query?: string
}

async function send({ body, headers = {}, caller = 'ada', query = '' }: Sent) {
  const url = `${gateway.origin}/uploads${query}`
  const response = await fetch(url, { method: 'POST', body, headers: { ...bearer(caller), ...headers } })
  const json = (await response.json()) as Json
  const { data } = (json['error'] ?? {}) as Json
  return { status: response.status, json, error: data as Json }
}

function client(caller: Caller, url = gateway.url): StatelessClient {
  return new StatelessClient({ url, token: token(caller) })
}

async function get(id: unknown, caller: Caller = 'ada') {
  const headers = bearer(caller)
  const response = await fetch(`${gateway.origin}/data/${String(id)}`, { headers })
  return { status: response.status, type: response.headers.get('content-type'), text: await response.text() }
}

/** The files of the store, of which each is finished or not. */
function blobs(): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.includes('blobs/'))
    .toSorted()
}

describe('POST /uploads', () => {
  it('keeps a body, and returns the facts of the data', async () => {
    const body = '{"rows":[1,2,3]}'
    const sha256 = createHash('sha256').update(body).digest()
    const { status, json } = await send({
      body,
      headers: {
        'content-type': 'application/json',
        'content-disposition': `attachment; filename="rows.json"; filename*=UTF-8''Zeilen%20%C3%BC.json`,
        'repr-digest': `sha-256=:${sha256.toString('base64')}:`,
      },
    })
    expect(status).toBe(201)
    expect(json).toMatchObject({
      ref_id: expect.stringMatching(/^ref_[0-9a-f]{32}$/),
      origin_server: '@uploads',
      mime_type: 'application/json',
      size_bytes: body.length,
      checksum: { algorithm: 'sha256', value: sha256.toString('hex') },
      access_url: expect.stringContaining('/data/'),
    })
    expect(await (await fetch(String(json['access_url']))).text()).toBe(body)
    expect(await get(json['ref_id'])).toEqual({ status: 200, type: 'application/json', text: body })
    expect(await get(json['ref_id'], 'bob')).toMatchObject({ status: 404 })
  })

  it('keeps the file of a form', async () => {
    const form = new FormData()
    form.set('note', 'a field')
    form.set('file', new File(['a,b\n1,2\n'], 'C:\\data\\table.csv', { type: 'text/csv' }))
    const { status, json } = await send({ body: form })
    expect({ status, type: json['mime_type'], size: json['size_bytes'] }).toEqual({
      status: 201,
      type: 'text/csv',
      size: 8,
    })
    const response = await fetch(String(json['access_url']))
    expect(response.headers.get('content-disposition')).toContain('filename="table.csv"')
  })

  it('gives the file the id that the caller chose, once', async () => {
    const named = { body: 'hello', query: '?ref_id=greeting' }
    expect((await send(named)).json).toMatchObject({ ref_id: 'greeting' })
    expect(await send(named)).toMatchObject({ status: 409, error: { code: 'CONFLICT' } })
    expect((await send({ ...named, caller: 'bob' })).status).toBe(201)
    expect(await send({ ...named, query: '?ref_id=..%2Fx' })).toMatchObject({ status: 400 })
  })

  it('is an argument of a tool of any server', async () => {
    const { json } = await send({ body: 'an uploaded text', headers: { 'content-type': 'text/plain' } })
    const ref = `ref://${String(json['ref_id'])}`
    expect((await client('ada').call('echo', { text: ref })).texts.join('')).toContain('an uploaded text')
    const refused = await client('bob').call('echo', { text: ref })
    expect(refused.texts.join('')).toContain('There is no such reference')
  })

  it.each([
    ['a text that is called an image', '<!doctype html><p>hi', 'image/png', 'text/html'],
    [
      'a program that is called a text',
      `MZ${'\0'.repeat(58)}\x40\0\0\0PE\0\0`,
      'text/plain',
      'application/vnd.microsoft.portable-executable',
    ],
    ['an archive that is called an image', 'PK\x03\x04....', 'image/jpeg', 'application/zip'],
    [
      'a drawing with scripts that is called JSON',
      '<?xml version="1.0"?>\n<svg xmlns="x">',
      'application/json',
      'image/svg+xml',
    ],
  ])('refuses %s', async (_what, text, declared, found) => {
    const before = blobs()
    const { status, error } = await send({
      body: Buffer.from(text, 'latin1'),
      headers: { 'content-type': declared },
    })
    expect(status).toBe(400)
    expect(error).toMatchObject({ code: 'INVALID_INPUT', reason: 'media_type' })
    expect(error['message']).toContain(declared)
    expect(error['message']).toContain(found)
    expect(blobs()).toEqual(before)
  })

  it('records what an image is, whatever it is called', async () => {
    const { json } = await send({ body: png, headers: { 'content-type': 'image/jpeg' } })
    expect(json['mime_type']).toBe('image/png')
    expect((await send({ body: png })).json['mime_type']).toBe('image/png')
    expect((await send({ body: Buffer.from('plain') })).json['mime_type']).toBe('text/plain')
  })

  it('refuses a file with another digest, and keeps nothing', async () => {
    const before = blobs()
    const wrong = createHash('sha256').update('other').digest('base64')
    for (const header of ['repr-digest', 'content-digest']) {
      const { status, error } = await send({ body: 'text', headers: { [header]: `sha-256=:${wrong}:` } })
      expect([status, error['reason']]).toEqual([400, 'digest'])
    }
    expect(await send({ body: 'text', headers: { digest: `SHA-256=${wrong}` } })).toMatchObject({
      status: 400,
    })
    const unknown = await send({ body: 'text', headers: { 'repr-digest': 'md5=:YWJj:' } })
    expect(unknown).toMatchObject({ status: 400, error: { reason: 'digest' } })
    expect(blobs()).toEqual(before)
  })

  it('refuses a file that is too large, with or without its length, and keeps nothing', async () => {
    const before = blobs()
    const large = Buffer.alloc(1024 * 1024 + 1, 'x')
    const stream = new Blob([large]).stream()
    const form = new FormData()
    form.set('file', new File([large], 'large.txt'))
    const streamed = { body: stream, duplex: 'half' } as unknown as Sent
    const chunked = await fetch(`${gateway.origin}/uploads`, {
      method: 'POST',
      headers: bearer('ada'),
      ...(streamed as object),
    })
    expect(chunked.status).toBe(413)
    for (const body of [large, form])
      expect(await send({ body })).toMatchObject({ status: 413, error: { code: 'PAYLOAD_TOO_LARGE' } })
    expect(blobs()).toEqual(before)
  })

  it('says so to a program that sends a large form, once it has sent it', async () => {
    const head = '--b\r\ncontent-disposition: form-data; name="f"; filename="f.txt"\r\n\r\n'
    const headers = {
      ...bearer('ada'),
      'content-type': 'multipart/form-data; boundary=b',
      // Without its length, it is refused while it arrives.
      'transfer-encoding': 'chunked',
    }
    const outcome: unknown[] = []
    await new Promise((resolve) => {
      const sending = request(`${gateway.origin}/uploads`, { method: 'POST', headers }, (response) => {
        response.resume()
        outcome.push(response.statusCode)
      })
      sending.on('error', (error) => outcome.push(error))
      sending.on('close', resolve)
      sending.write(head)
      sending.write(Buffer.alloc(1024 * 1024 + 1000, 'x'))
      // What arrives within a second is read. The front of several gateways, in this process too, reads it and sends it again.
      const rest = Readable.from(
        Array.from({ length: isScattered() ? 6 : 60 }, () => Buffer.alloc(1024 * 1024, 'x')),
      )
      setTimeout(() => rest.pipe(sending), 100)
    })
    expect(outcome).toEqual([413])
  })

  it('leaves a connection the time that it may be idle', async () => {
    const sockets: Socket[] = []
    const seen = (message: unknown): void => void sockets.push((message as { socket: Socket }).socket)
    subscribe('http.server.request.start', seen)
    const { json } = await send({ body: 'x'.repeat(100) })
    expect((await get(json['ref_id'])).text).toHaveLength(100)
    unsubscribe('http.server.request.start', seen)
    const timeouts = sockets.map(({ timeout = 0 }) => timeout)
    // The front of several gateways, which is in this process too, leaves a connection as long.
    expect(timeouts.filter((each) => each > 60_000)).toHaveLength(isScattered() ? 4 : 2)
  })

  it('refuses an empty body, a form without a file or with two, and a form that is cut', async () => {
    const before = blobs()
    const empty = new FormData()
    empty.set('note', 'x')
    const two = new FormData()
    two.set('one', new File(['1'], '1.txt'))
    two.set('two', new File(['2'], '2.txt'))
    const type = 'multipart/form-data; boundary=b'
    const cut = '--b\r\ncontent-disposition: form-data; name="f"; filename="f.txt"\r\n\r\nhalf'
    const bad: readonly Sent[] = [
      { body: '' },
      { body: empty },
      { body: two },
      { body: cut, headers: { 'content-type': type } },
      { body: 'no form', headers: { 'content-type': type } },
      { body: 'x', headers: { 'content-type': 'multipart/form-data; x=y' } },
    ]
    for (const each of bad)
      expect(await send(each)).toMatchObject({ status: 400, error: { code: 'INVALID_INPUT' } })
    expect(blobs()).toEqual(before)
  })

  it('needs a caller, and no page of another origin can send one', async () => {
    const url = `${gateway.origin}/uploads`
    expect((await fetch(url, { method: 'POST', body: 'x' })).status).toBe(401)
    const headers = { ...bearer('ada'), origin: 'https://elsewhere.example' }
    expect((await fetch(url, { method: 'POST', body: 'x', headers })).status).toBe(403)
  })

  it('keeps nothing of a file whose sender disconnects', async () => {
    const before = blobs()
    const headers = { ...bearer('ada'), 'content-length': '100000' }
    const sending = request(`${gateway.origin}/uploads`, { method: 'POST', headers })
    sending.on('error', () => undefined)
    sending.write('x'.repeat(50_000))
    await expect.poll(blobs).not.toEqual(before)
    sending.destroy()
    await expect.poll(blobs).toEqual(before)
    await expect
      .poll(() =>
        gateway.lines.find(({ method, outcome }) => method === 'POST /uploads' && outcome === 'CANCELLED'),
      )
      .toBeDefined()
  })
})

async function requested(args: Json = {}, caller: Caller = 'ada') {
  const answer = await client(caller).call('request_upload', args)
  const { structuredContent } = answer.fields
  const { url, ref, ref_id: id } = (structuredContent ?? {}) as Record<string, string>
  return { answer, url: url ?? '', ref: ref ?? '', id: id ?? '' }
}

const html = { accept: 'text/html' }

describe('a requested upload', () => {
  it('belongs to the caller that requested it, whoever sends the file', async () => {
    const { url, ref, id } = await requested({ name: 'notes.txt', purpose: 'To <summarise> them' })
    const early = await client('ada').call('read_reference', { ref })
    expect(early.texts.join('')).toContain('Nothing has been uploaded for this reference yet')
    expect((await client('bob').call('read_reference', { ref })).texts.join('')).toContain(
      'no such reference',
    )
    expect(await get(id)).toMatchObject({ status: 404 })

    const page = await fetch(url, { headers: html })
    const text = await page.text()
    expect(page.status).toBe(200)
    expect(text).toContain('To &#60;summarise&#62; them')
    expect(text).toContain('token:ada')
    // It has the frame of all pages.
    expect(text).toContain('<title>Send a file · Gatehouse</title>')
    expect(text).toContain('<a class="brand" href="../">')
    expect(page.headers.get('content-security-policy')).toMatch(/^default-src 'none'; style-src 'sha256-/)
    expect(page.headers.get('cache-control')).toBe('no-store')

    const form = new FormData()
    form.set('file', new File(['the notes'], 'x.txt', { type: 'text/plain' }))
    const sent = await fetch(url, { method: 'POST', body: form, headers: html })
    expect([sent.status, await sent.text()]).toEqual([201, expect.stringContaining('The file was sent')])
    expect((await client('ada').call('read_reference', { ref })).texts[0]).toBe('the notes')
    expect((await client('ada', other.url).call('echo', { text: ref })).texts.join('')).toContain('the notes')
    expect(await get(id, 'bob')).toMatchObject({ status: 404 })

    for (const method of ['GET', 'POST'])
      expect(
        (await fetch(url, { method, headers: html, ...(method === 'POST' && { body: 'x' }) })).status,
      ).toBe(409)
    const { pathname } = new URL(url)
    const token = pathname.split('/').at(-1) ?? ''
    expect(JSON.stringify(gateway.lines)).not.toContain(token)
  })

  it('is done once, at whichever gateway, however many send a file at once', async () => {
    const { url, ref } = await requested()
    const elsewhere = url.replace(gateway.origin, other.origin)
    const sent = await Promise.all(
      [url, elsewhere, url, elsewhere].map((each, index) =>
        fetch(each, { method: 'PUT', body: `text ${index}` }).then(({ status }) => status),
      ),
    )
    expect(sent.toSorted((one, two) => one - two)).toEqual([201, 409, 409, 409])
    const text = `text ${sent.indexOf(201)}`
    expect((await client('ada').call('read_reference', { ref })).texts[0]).toBe(text)
  })

  it('receives one file at a time', async () => {
    const { url } = await requested()
    const before = blobs()
    const sending = request(url, { method: 'PUT', headers: { 'content-length': '100000' } })
    sending.on('error', () => undefined)
    sending.write('x'.repeat(50_000))
    await expect.poll(blobs).not.toEqual(before)
    const second = await fetch(url, { method: 'PUT', body: 'another' })
    expect([second.status, JSON.stringify(await second.json())]).toEqual([
      409,
      expect.stringContaining('being sent'),
    ])
    sending.destroy()
    await expect
      .poll(() => fetch(url, { method: 'PUT', body: 'another' }).then(({ status }) => status))
      .toBe(201)
  })

  it('that a person cannot send is recorded as refused', async () => {
    const { url } = await requested({ max_size: 10 })
    const form = new FormData()
    form.set('file', new File(['x'.repeat(100)], 'x.txt', { type: 'text/plain' }))
    const from = gateway.lines.length
    const page = await fetch(url, { method: 'POST', body: form, headers: html })
    expect([page.status, await page.text()]).toEqual([413, expect.stringContaining('The file was not sent')])
    const recorded = (): unknown =>
      gateway.lines.slice(from).find(({ method }) => String(method).startsWith('POST /uploads/'))?.['outcome']
    await expect.poll(recorded).toBe('PAYLOAD_TOO_LARGE')
  })

  it('can be sent again after a failure', async () => {
    const { url } = await requested({ max_size: 10, types: ['image/*', 'text/csv'] })
    const put = (body: NonNullable<RequestInit['body']>, type: string) =>
      fetch(url, { method: 'PUT', body, headers: { 'content-type': type } }).then(({ status }) => status)
    expect(await put('a,b,c,d,e,f,g', 'text/csv')).toBe(413)
    expect(await put('hello', 'text/plain')).toBe(415)
    expect(await put('a,b', 'text/csv')).toBe(201)
  })

  it('has a URL that cannot be made up', async () => {
    const { url } = await requested()
    for (const made of [`${url}x`, `${gateway.origin}/uploads/abc`, `${gateway.origin}/uploads/%00`]) {
      expect((await fetch(made)).status).toBe(404)
      expect((await fetch(made, { method: 'POST', body: 'x' })).status).toBe(404)
    }
    const { host } = new URL(url)
    expect(host).toBe(new URL(gateway.origin).host)
  })

  it('is not sent by a page of another origin', async () => {
    const { url } = await requested()
    const form = new FormData()
    form.set('file', new File(['x'], 'x.txt'))
    const headers = { ...html, 'sec-fetch-site': 'cross-site' }
    expect((await fetch(url, { method: 'POST', body: form, headers })).status).toBe(403)
  })

  it('leaves no token in the log where a request is refused', async () => {
    const { url } = await requested()
    const from = gateway.lines.length
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const refused = await fetch(url, { method, headers: { origin: 'https://elsewhere.example' } })
      expect(refused.status).toBe(403)
    }
    const text = JSON.stringify(gateway.lines.slice(from))
    for (const method of ['GET', 'PUT', 'DELETE']) expect(text).toContain(`${method} /uploads/…`)
    expect(text).not.toContain(url.split('/').at(-1))
  })

  it('refuses arguments that no file could fulfil', async () => {
    for (const args of [{ max_size: 0 }, { max_size: 2 ** 40 }, { types: ['images'] }, { purpose: ' ' }])
      expect((await requested(args)).answer.fields).toMatchObject({ isError: true })
  })
})
