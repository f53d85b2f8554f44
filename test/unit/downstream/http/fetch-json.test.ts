import { once } from 'node:events'
import { createServer } from 'node:http'
import { gzipSync } from 'node:zlib'
import { afterAll, describe, expect, it } from 'vitest'
import { noProxy } from '../../../../src/core/proxy.ts'
import { fetchJson } from '../../../../src/downstream/http/fetch-json.ts'

const asked: string[] = []
const server = createServer((incoming, outgoing) => {
  const path = incoming.url ?? ''
  asked.push(path)
  if (path === '/redirect') outgoing.writeHead(302, { location: '/good' }).end()
  else if (path === '/large') outgoing.end(JSON.stringify({ text: 'x'.repeat(1024 * 1024) }))
  else if (path === '/endless') {
    const more = setInterval(() => outgoing.write(' '.repeat(64 * 1024)), 1)
    outgoing.on('close', () => clearInterval(more))
  } else if (path === '/gzip') {
    outgoing.setHeader('content-encoding', 'gzip')
    outgoing.end(gzipSync('\uFEFF{"a":1}'))
  } else if (path === '/bomb') {
    outgoing.setHeader('content-encoding', 'gzip')
    outgoing.end(gzipSync(JSON.stringify({ text: 'x'.repeat(1024 * 1024) })))
  } else if (path === '/cut') {
    outgoing.writeHead(200, { 'content-length': 100 }).write('{')
    setImmediate(() => outgoing.destroy())
  } else outgoing.end({ '/good': '{"a":1}', '/list': '[]', '/broken': '{' }[path] ?? '')
})
server.listen(0, '127.0.0.1')
await once(server, 'listening')
const address = server.address()
const origin = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`
afterAll(() => void server.close())

describe('fetchJson', () => {
  it('fetchJson returns an object', async () => {
    await expect(fetchJson(`${origin}/good`, noProxy)).resolves.toEqual({ a: 1 })
  })

  it('fetchJson decodes what is compressed, or begins with a byte order mark', async () => {
    await expect(fetchJson(`${origin}/gzip`, noProxy)).resolves.toEqual({ a: 1 })
  })

  it.each(['redirect', 'large', 'bomb', 'endless', 'cut', 'list', 'broken'])(
    'fetchJson fails on a %s response',
    async (path) => {
      await expect(fetchJson(`${origin}/${path}`, noProxy)).rejects.toThrow(Error)
      if (path === 'redirect') expect(asked.at(-1)).toBe('/redirect')
    },
  )

  it('fetchJson requires https for other hosts', async () => {
    await expect(fetchJson('http://example.com/', noProxy)).rejects.toThrow('is not https')
    await expect(fetchJson('http://127.0.0.1.example.com/', noProxy)).rejects.toThrow('is not https')
    await expect(fetchJson('file:///etc/passwd', noProxy)).rejects.toThrow('is not https')
  })

  it('fetchJson fails if the connection is refused', async () => {
    await expect(fetchJson('http://127.0.0.1:1/', noProxy)).rejects.toThrow(Error)
  })
})
