import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { parseProxy } from '../../../../src/core/proxy.ts'
import { createOAuthHttp } from '../../../../src/upstream/oauth/oauth-http.ts'
import {
  baseHeaders,
  createHttpClient,
  exchangeHttp,
} from '../../../../src/upstream/transport/http-client.ts'
import { freePort } from '../../../support/child-process.ts'
import { forwardProxy } from '../../../support/forward-proxy.ts'
import { selfSigned } from '../../../support/self-signed.ts'

/** A server on loopback that answers with what it got. */
async function echo(): Promise<number> {
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(
      JSON.stringify({
        path: request.url,
        host: request.headers.host,
        own: request.headers['proxy-authorization'],
      }),
    )
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

/** One request to a URL through a proxy. */
function through(proxy: string, url = 'http://mcp.corp.invalid/mcp?a=1') {
  const client = createHttpClient(new URL(url), {}, parseProxy(proxy))
  onTestFinished(() => void client.connections.destroy())
  return exchangeHttp(client, { method: 'POST', headers: baseHeaders(client, 'POST'), body: '{}' })
}

describe('a call through a proxy', () => {
  test('reaches a server whose name only the proxy knows', async () => {
    const proxy = await forwardProxy(await echo())
    const answer = await through(proxy.url)
    expect(JSON.parse(answer.body)).toEqual({ path: '/mcp?a=1', host: 'mcp.corp.invalid' })
    expect(proxy.used).toEqual(['POST http://mcp.corp.invalid/mcp?a=1'])
  })

  test('is a tunnel to an https server, whose certificate is checked for its own name', async () => {
    const server = createTlsServer(selfSigned, (_request, response) => response.end('{}'))
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    onTestFinished(() => void server.close())
    const proxy = await forwardProxy((server.address() as AddressInfo).port)
    await expect(through(proxy.url, 'https://mcp.corp.invalid/mcp')).rejects.toMatchObject({
      code: 'SERVER_UNAVAILABLE',
      extra: { forOperator: expect.stringContaining('certificate is not trusted') },
    })
    expect(proxy.used).toEqual(['CONNECT mcp.corp.invalid:443'])
  })

  test('has the credentials of the proxy, which the server does not get', async () => {
    const authorization = `Basic ${Buffer.from('me:p@ss').toString('base64')}`
    const proxy = await forwardProxy(await echo(), { authorization })
    const answer = await through(`http://me:p%40ss@127.0.0.1:${proxy.port}`)
    expect(JSON.parse(answer.body)).not.toHaveProperty('own')
  })

  test.each(['http://mcp.corp.invalid/mcp', 'https://mcp.corp.invalid/mcp'])(
    'that requires credentials fails as not sent, without the given ones (%s)',
    async (url) => {
      const proxy = await forwardProxy(await echo(), { authorization: 'Basic other' })
      const error = await through(`http://me:my-password@127.0.0.1:${proxy.port}`, url).catch(
        (each: unknown) => each,
      )
      expect(error).toMatchObject({
        code: 'SERVER_UNAVAILABLE',
        extra: {
          isUnsent: true,
          forOperator: expect.stringContaining(`Check that the proxy ${proxy.url} permits`),
        },
      })
      expect(JSON.stringify(error) + String((error as { cause: unknown }).cause)).not.toMatch(
        /my-password|bWU6/,
      )
    },
  )

  test('that refuses a tunnel fails as not sent', async () => {
    const proxy = await forwardProxy(await echo(), { refusal: 403 })
    await expect(through(proxy.url, 'https://mcp.corp.invalid/mcp')).rejects.toMatchObject({
      code: 'SERVER_UNAVAILABLE',
      extra: { isUnsent: true },
    })
  })

  test.each(['http://mcp.corp.invalid/mcp', 'https://mcp.corp.invalid/mcp'])(
    'that is down names the proxy (%s)',
    async (url) => {
      const proxy = `http://127.0.0.1:${await freePort()}`
      await expect(through(proxy, url)).rejects.toMatchObject({
        code: 'SERVER_UNAVAILABLE',
        message: 'The server cannot be reached: through its proxy, the connection is refused.',
        extra: {
          isUnsent: true,
          forOperator: expect.stringContaining(`The proxy is ${proxy}. Nothing listens`),
        },
      })
    },
  )
})

describe('a request to an authorization server through a proxy', () => {
  const http = (mayBePrivate: boolean, proxy: string) => {
    const made = createOAuthHttp(mayBePrivate, () => parseProxy(proxy))
    onTestFinished(() => made.close())
    return made
  }

  test('goes through it, in a tunnel', async () => {
    const proxy = await forwardProxy(await echo(), { refusal: 403 })
    await expect(http(true, proxy.url).send('https://login.corp.invalid/token')).rejects.toMatchObject({
      code: 'SERVER_UNAVAILABLE',
    })
    expect(proxy.used).toEqual(['CONNECT login.corp.invalid:443'])
  })

  test('is made if only the proxy knows the name that a public server gave', async () => {
    const proxy = await forwardProxy(await echo(), { refusal: 403 })
    await expect(http(false, proxy.url).send('https://login.example.invalid/token')).rejects.toThrow(
      'cannot be reached',
    )
    expect(proxy.used).toEqual(['CONNECT login.example.invalid:443'])
  })

  test.each([
    'https://127.0.0.1/',
    'https://10.1.2.3/',
    'https://[fd00::1]/',
    'https://localhost./',
    'https://login.internal/',
    'https://intranet/',
  ])('is not made to %s, which a public server named', async (url) => {
    const proxy = await forwardProxy(await echo())
    await expect(http(false, proxy.url).send(url)).rejects.toThrow('private network')
    expect(proxy.used).toEqual([])
  })
})
