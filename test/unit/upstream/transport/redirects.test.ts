import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { createHttpClient, exchangeHttp } from '../../../../src/upstream/transport/http-client.ts'

/** The status and requests of an exchange with a server that redirects with `status` from each path to the next. */
async function exchange(method: 'GET' | 'POST', status: number, paths: readonly string[]) {
  const seen: string[] = []
  const server = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (part: string) => void (text += part))
    request.on('end', () => {
      const next = paths[seen.push(`${request.method} ${request.url} ${text}`.trim())]
      response
        .writeHead(next === undefined ? 200 : status, next === undefined ? {} : { location: next })
        .end()
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  onTestFinished(() => server.close().closeAllConnections())
  const client = createHttpClient(
    new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/a/mcp`),
    {},
  )
  onTestFinished(() => client.connections.destroy())
  const heads: number[] = []
  const onHead = (head: { readonly status: number }): void => void heads.push(head.status)
  const body = method === 'POST' ? { body: 'x' } : {}
  const answer = await exchangeHttp(client, { method, headers: {}, onHead, ...body })
  expect(heads).toEqual([answer.status])
  return { status: answer.status, seen }
}

const hops = ['', 'two', '/b/three', 'four?q=1', './', '../end/']
const followed = ['/a/mcp', '/a/two', '/b/three', '/b/four?q=1', '/b/', '/end/']

it.each([307, 308])(
  'five redirects with %i are followed with the body, each from the one before',
  async (status) => {
    const { status: last, seen } = await exchange('POST', status, hops)
    expect([last, seen]).toEqual([200, followed.map((path) => `POST ${path} x`)])
  },
)

it.each([301, 302, 303, 307, 308])('redirects of GET with %i are followed', async (status) => {
  const { status: last, seen } = await exchange('GET', status, hops)
  expect([last, seen]).toEqual([200, followed.map((path) => `GET ${path}`)])
})

it.each([
  ['POST', 301, ['', '/b']],
  ['POST', 303, ['', '/b']],
  ['GET', 302, ['', 'http://localhost/b']],
  ['POST', 307, ['', 'https://127.0.0.1/a/mcp']],
  ['POST', 307, ['', '//[']],
] as const)('%s %i is not followed to %j', async (method, status, paths) => {
  const { status: last, seen } = await exchange(method, status, paths)
  expect([last, seen.length]).toEqual([status, 1])
})

it('a loop of redirects ends', async () => {
  const { status, seen } = await exchange(
    'POST',
    307,
    Array.from({ length: 20 }, () => '/a/mcp'),
  )
  expect([status, seen.length]).toEqual([307, 6])
})
