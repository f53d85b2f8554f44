// Kept data over HTTP: with a signature in the URL, or with the credentials of its caller.
import { createHash } from 'node:crypto'
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { knownCallers } from '../../support/auth/callers.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import type { Json } from '../../support/server/json.ts'
import { type Answer, StatelessClient } from '../../support/stateless-client.ts'

const text = Array.from({ length: 40_000 }, (_none, index) => `line ${index}\n`).join('')
const { auth, token, bearer } = knownCallers(['ada', 'bob'], ['read:files'])
type Caller = Parameters<typeof token>[0]

let root = ''
let gateway: LocalGateway

beforeAll(async () => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-data-')))
  writeFileSync(join(root, 'list.txt'), text)
  writeFileSync(join(root, 'large.txt'), text.repeat(60))
  gateway = await localGateway({
    store: join(root, 'store'),
    auth,
    limits: { rate: 'off' },
    features: { references: { urls: true, url_ttl: '3s', ttl: '20s' } },
    upstreams: {
      files: { command: publishedServer('@modelcontextprotocol/server-filesystem', root) },
    },
  })
})
afterAll(async () => {
  await gateway.close()
  rmSync(root, { recursive: true, force: true })
})

function kept(caller: Caller, name = 'list.txt'): Promise<Answer> {
  const client = new StatelessClient({ url: gateway.url, token: token(caller) })
  return client.call('read_text_file', { path: join(root, name) })
}

function dataOf(answer: Answer): Json {
  return answer.meta['dev.gatehouse/data_reference'] as Json
}

describe('a signed URL of kept data', () => {
  it('returns the bytes to whoever has it, as a file that no browser runs', async () => {
    const answer = await kept('ada')
    const { access_url: url, ref_id: id, checksum } = dataOf(answer)
    const response = await fetch(String(url))
    expect(response.status).toBe(200)
    const bytes = Buffer.from(await response.arrayBuffer())
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    expect(checksum).toEqual({ algorithm: 'sha256', value: sha256 })
    expect(bytes.toString()).toContain('line 39999\n')
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': expect.stringMatching(/^(?:text\/plain|application\/json)$/),
      'content-length': String(bytes.length),
      'content-disposition': expect.stringMatching(/^attachment; filename="[\w.]+"/),
      'content-security-policy': "sandbox; default-src 'none'",
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': 'private, no-store',
      'accept-ranges': 'bytes',
      etag: `"${sha256}"`,
      'repr-digest': `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`,
    })
    // It is for programs: neither the model nor a log sees it.
    expect(answer.texts.join('\n')).not.toContain('sig=')
    expect(JSON.stringify(gateway.lines)).not.toContain('sig=')
    await expect
      .poll(() => gateway.lines.find(({ method }) => method === 'GET /data/:ref_id'))
      .toMatchObject({ principal: 'token:ada', references: [{ id, sha256, size: bytes.length }] })
  })

  it('returns ranges, and heads', async () => {
    const { access_url: url, size_bytes: size } = dataOf(await kept('ada'))
    const whole = await (await fetch(String(url))).text()
    const get = async (range: string, more: Record<string, string> = {}) => {
      const response = await fetch(String(url), { headers: { range, ...more } })
      return [response.status, response.headers.get('content-range'), await response.text()]
    }
    const all = Number(size)
    expect(await get('bytes=5-9')).toEqual([206, `bytes 5-9/${all}`, whole.slice(5, 10)])
    expect(await get('bytes=-4')).toEqual([206, `bytes ${all - 4}-${all - 1}/${all}`, whole.slice(-4)])
    expect(await get(`bytes=${all - 2}-`)).toEqual([
      206,
      `bytes ${all - 2}-${all - 1}/${all}`,
      whole.slice(-2),
    ])
    expect(await get(`bytes=${all}-`)).toEqual([416, `bytes */${all}`, ''])
    expect(await get('bytes=0-1,5-6')).toEqual([200, null, whole])
    expect(await get('bytes=0-1', { 'if-range': '"other"' })).toEqual([200, null, whole])
    const head = await fetch(String(url), { method: 'HEAD' })
    expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([
      200,
      String(all),
      '',
    ])
    for (const range of ['bytes=0-1', `bytes=${all}-`]) {
      const ranged = await fetch(String(url), { method: 'HEAD', headers: { range } })
      expect([ranged.status, ranged.headers.get('content-length')]).toEqual([200, String(all)])
      expect(ranged.headers.get('content-range')).toBeNull()
    }
    const etag = head.headers.get('etag') ?? ''
    const unchanged = await fetch(String(url), { headers: { 'if-none-match': etag } })
    expect([unchanged.status, await unchanged.text()]).toEqual([304, ''])
  })

  it('is refused if it was changed, is expired or is for other data', async () => {
    const url = new URL(String(dataOf(await kept('ada'))['access_url']))
    const status = async (change: (url: URL) => void): Promise<number> => {
      const changed = new URL(url)
      change(changed)
      return (await fetch(changed)).status
    }
    const { searchParams: query } = url
    const sig = query.get('sig') ?? ''
    expect(await status(() => undefined)).toBe(200)
    expect(
      await status(({ searchParams }) =>
        searchParams.set('sig', `${sig.startsWith('A') ? 'B' : 'A'}${sig.slice(1)}`),
      ),
    ).toBe(403)
    expect(await status(({ searchParams }) => searchParams.set('sig', ''))).toBe(403)
    expect(
      await status(({ searchParams }) => searchParams.set('exp', String(Number(query.get('exp')) + 1))),
    ).toBe(403)
    expect(await status(({ searchParams }) => searchParams.delete('exp'))).toBe(403)
    expect(await status((changed) => (changed.pathname = '/data/ref_other'))).toBe(403)
    await expect.poll(() => status(() => undefined)).toBe(403)
  })
})

describe('the path of kept data', () => {
  it('answers its caller alone', async () => {
    const { ref_id: id } = dataOf(await kept('ada'))
    const url = `${gateway.origin}/data/${String(id)}`
    expect((await fetch(url, { headers: bearer('ada') })).status).toBe(200)
    expect((await fetch(url)).status).toBe(401)
    const other = await fetch(url, { headers: bearer('bob') })
    const absent = await fetch(`${gateway.origin}/data/ref_absent`, { headers: bearer('bob') })
    expect([other.status, absent.status]).toEqual([404, 404])
    const wordsOf = async (response: Response): Promise<string> =>
      (await response.text()).replaceAll(/"requestId":"[^"]+"/g, '')
    expect(await wordsOf(other)).toBe(await wordsOf(absent))
  })

  it('does not let a page of another origin, or under another host name, read it', async () => {
    const { access_url: url } = dataOf(await kept('ada'))
    const headers = { ...bearer('ada'), origin: 'https://elsewhere.example' }
    expect((await fetch(String(url), { headers })).status).toBe(403)
    const { port, pathname, search } = new URL(String(url))
    const status = await new Promise((resolve) => {
      const host = { host: 'elsewhere.example' }
      request({ port, path: pathname + search, headers: host }, (response) => {
        response.resume()
        resolve(response.statusCode)
      }).end()
    })
    expect(status).toBe(403)
  })

  it('ends a transfer whose client disconnects', async () => {
    // More than the buffers of a connection hold.
    const { access_url: url } = dataOf(await kept('ada', 'large.txt'))
    const controller = new AbortController()
    const response = await fetch(String(url), { signal: controller.signal })
    await response.body?.getReader().read()
    controller.abort()
    const calls = () => gateway.lines.filter(({ method }) => method === 'GET /data/:ref_id')
    await expect.poll(() => calls().at(-1)?.['outcome']).toBe('CANCELLED')
    const before = calls().length
    const whole = await fetch(String(url))
    expect(whole.status).toBe(200)
    // The call ends with the transfer, and a body that is not read ends it only once it is collected as garbage.
    await whole.arrayBuffer()
    await expect.poll(() => calls().length).toBeGreaterThan(before)
  })
})
