import { createServer, type RequestListener } from 'node:http'
import { lookup } from 'node:dns/promises'
import type { AddressInfo } from 'node:net'
import { hostname } from 'node:os'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { describe, expect, it, onTestFinished } from 'vitest'
import { isPrivateAddress } from '../../../../src/core/address.ts'
import { checkUrl, createOAuthHttp } from '../../../../src/upstream/oauth/oauth-http.ts'

async function listening(answer: RequestListener): Promise<string> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function http(mayBePrivate: boolean) {
  const made = createOAuthHttp(mayBePrivate)
  onTestFinished(() => made.close())
  return made
}

describe('a request to an authorization server', () => {
  it('redirects of a GET are followed a few times, those of a POST never', async () => {
    const requests: string[] = []
    const url = await listening((request, response) => {
      requests.push(`${request.method} ${request.url}`)
      const location = request.url === '/once' ? '/there' : '/again'
      if (request.url === '/there') return void response.end('here')
      response.writeHead(302, { location }).end()
    })
    expect(await (await http(true).send(`${url}/once`)).text()).toBe('here')
    expect((await http(true).send(`${url}/always`)).status).toBe(302)
    expect(requests).toHaveLength(2 + 4)
    expect((await http(true).send(`${url}/once`, { method: 'POST', body: 'a' })).status).toBe(302)
    expect(requests.at(-1)).toBe('POST /once')
  })

  it('a redirect to an address that is not permitted is refused', async () => {
    const url = await listening((_request, response) =>
      response.writeHead(302, { location: 'http://mcp.example.com/' }).end(),
    )
    await expect(http(true).send(url)).rejects.toThrow('must be https: http://mcp.example.com')
  })

  it('the response size is limited', async () => {
    const url = await listening((_request, response) => response.end('x'.repeat(300 * 1024)))
    await expect(http(true).send(url)).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
  })

  it.each([
    ['gzip', gzipSync],
    ['br', brotliCompressSync],
    ['identity', (body: Buffer) => body],
  ])('a response with a byte order mark in %s is decoded', async (coding, encode) => {
    const url = await listening((_request, response) => {
      response.setHeader('content-encoding', coding)
      response.end(encode(Buffer.from('\uFEFF{"issuer":"https://login.example"}')))
    })
    const answer = await http(true).send(url)
    expect(await answer.json()).toEqual({ issuer: 'https://login.example' })
  })

  it('the size of a decoded response is limited', async () => {
    const url = await listening((_request, response) => {
      response.setHeader('content-encoding', 'gzip')
      response.end(gzipSync('x'.repeat(300 * 1024)))
    })
    await expect(http(true).send(url)).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
  })

  it.each([
    'http://10.0.0.1/token',
    'http://169.254.169.254/latest/meta-data',
    'ftp://login.example/token',
    'javascript:alert(1)',
    'http://login.example/token',
    'no url',
  ])('requests to this URL are always refused: %s', async (url) => {
    await expect(http(true).send(url)).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    expect(() => checkUrl(url, true)).toThrow('authorization server')
  })

  it.each([
    'https://127.0.0.1/token',
    'http://localhost:8080/token',
    'https://10.1.2.3/token',
    'https://[::1]/token',
    'https://[::ffff:192.168.0.1]/token',
    'https://169.254.169.254/token',
    'https://2130706433/token',
    'https://0x7f.1/token',
  ])('requests to %s are refused if a public server named it', async (url) => {
    await expect(http(false).send(url)).rejects.toMatchObject({
      message: expect.stringContaining('private network'),
    })
  })

  it('requests to a host that resolves to a private network are refused', async () => {
    // The host's own name resolves without DNS.
    const { address } = await lookup(hostname())
    const what = isPrivateAddress(address) ? /private network/ : /cannot be reached/
    await expect(http(false).send(`https://${hostname()}:1/`)).rejects.toMatchObject({
      message: expect.stringMatching(what),
    })
  })
})
