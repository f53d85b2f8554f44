// Data of servers that are not behind the gateway: what is downloaded, and what is refused.
import { createHash } from 'node:crypto'
import type { RequestListener } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { buildConnector } from 'undici'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createDialer } from '../../../../src/features/dialer.ts'
import {
  checksumOf,
  download,
  type ForeignData,
} from '../../../../src/features/references/transfer/import.ts'
import { References } from '../../../../src/records/references.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { ada } from '../../../support/reference-world.ts'
import { selfSigned } from '../../../support/self-signed.ts'
import { toolCall } from '../../../support/tool-call.ts'

const URL_OF_DATA = 'https://hooks.test/a/report.csv?sig=secret'

/** A server at a public address, by its name, and a gateway that may download from it. */
async function foreign(
  listener: RequestListener,
  { addresses = ['93.184.215.14'], allowHosts = ['Hooks.Test'], total = 1_000_000 } = {},
) {
  const requests: string[] = []
  const server = createServer(selfSigned, (request, response) => {
    requests.push(String(request.url))
    listener(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const reach = buildConnector({ ca: selfSigned.cert, allowH2: false })
  const opener = createDialer({
    allow: [],
    resolve: async () => addresses,
    connect: (options, callback) =>
      reach({ ...options, hostname: '127.0.0.1', port: String(port) }, callback),
  })
  const store = new MemoryStore()
  const references = new References(store, { total })
  const call = toolCall({ principal: ada })
  const run = (data: Partial<ForeignData> = {}) =>
    download(call, { url: URL_OF_DATA, ...data }, { references, opener, allowHosts, ttl: 60_000 })
  return { run, requests, store, references }
}

const sum = (algorithm: string, text: string): string => createHash(algorithm).update(text).digest('hex')

const csv: RequestListener = (_request, response) => {
  response.setHeader('content-type', 'text/csv').end('a,b\n1,2\n')
}

describe('foreign data', () => {
  it.each([undefined, 'sha256', 'md5'] as const)(
    'is kept for its caller, with a checksum by %s',
    async (algorithm) => {
      const { run, references, requests } = await foreign(csv)
      const value = algorithm && { algorithm, value: sum(algorithm, 'a,b\n1,2\n').toUpperCase() }
      const kept = await run({ checksum: checksumOf(value) })
      expect(kept).toMatchObject({ type: 'text/csv', name: 'report.csv', size: 8 })
      expect(kept.sha256).toBe(sum('sha256', 'a,b\n1,2\n'))
      expect(await references.find(ada, kept.id)).toEqual(kept)
      expect(await references.find({ id: 'bob' }, kept.id)).toBeUndefined()
      expect(JSON.stringify(kept)).not.toContain('secret')
      expect(requests).toEqual(['/a/report.csv?sig=secret'])
    },
  )

  it('has the type that its first bytes say', async () => {
    const png = Buffer.from('89504e470d0a1a0a0000', 'hex')
    const { run } = await foreign((_request, response) => {
      response.setHeader('content-type', 'application/octet-stream').end(png)
    })
    expect(await run()).toMatchObject({ type: 'image/png', size: 10 })
  })

  it.each([
    ['/a/report.csv', undefined, 'report.csv'],
    ['/a/report.csv', 'attachment; filename="../the report.csv"', 'the report.csv'],
    ['/s/9f86d081884c7d659a2feaa0c55ad015', undefined, 'download'],
    ['/s/9f86d081884c7d659a2feaa0c55ad015.csv', undefined, 'download'],
    ['/s/eyJhbGciOi.eyJzdWIiOi.c2ln', undefined, 'download'],
    ['/', undefined, 'download'],
  ])('at %s with %j is called %s', async (path, disposition, name) => {
    const { run } = await foreign((_request, response) => {
      if (disposition !== undefined) response.setHeader('content-disposition', disposition)
      response.end('data')
    })
    expect(await run({ url: `https://hooks.test${path}` })).toMatchObject({ name })
  })

  it.each<[what: string, url: string, code: string]>([
    ['at a URL that is too long', `https://hooks.test/${'x'.repeat(2048)}`, 'INVALID_INPUT'],
    ['of a host that is not allowed', 'https://other.test/x', 'PERMISSION_DENIED'],
    ['of a host whose name ends with an allowed one', 'https://evil-hooks.test/x', 'PERMISSION_DENIED'],
    ['over http', 'http://hooks.test/x', 'INVALID_INPUT'],
    ['with a user', 'https://hooks.test@other.test/x', 'INVALID_INPUT'],
    ['in a file', 'file:///etc/passwd', 'INVALID_INPUT'],
    ['without a URL', 'hooks.test', 'INVALID_INPUT'],
  ])('%s is refused without a request', async (_what, url, code) => {
    const { run, requests } = await foreign(csv)
    await expect(run({ url })).rejects.toMatchObject({ code, extra: { field: 'access_url' } })
    expect(requests).toEqual([])
  })

  it.each([['127.0.0.1'], ['10.1.2.3'], ['169.254.169.254'], ['::1'], ['93.184.215.14', '192.168.0.1']])(
    'of an allowed host at %s is refused without a request',
    async (...addresses) => {
      const { run, requests } = await foreign(csv, { addresses })
      await expect(run()).rejects.toMatchObject({ code: 'PERMISSION_DENIED', extra: { reason: 'address' } })
      expect(requests).toEqual([])
    },
  )

  it.each<[what: string, listener: RequestListener, code: string, message: string]>([
    [
      'a redirect',
      (_request, response) => response.writeHead(302, { location: 'https://other.test/' }).end(),
      'UPSTREAM_ERROR',
      'redirect',
    ],
    ['an error', (_request, response) => response.writeHead(404).end('no'), 'UPSTREAM_ERROR', 'status 404'],
    [
      'encoded data',
      (_request, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end('x'),
      'UPSTREAM_ERROR',
      'encoded',
    ],
    [
      'half of it',
      (_request, response) => {
        response.writeHead(200, { 'content-length': '5000' }).write('x'.repeat(2000))
        setTimeout(() => response.destroy(), 50)
      },
      'SERVER_UNAVAILABLE',
      'connection',
    ],
  ])('is not kept if its server answers with %s', async (_what, listener, code, message) => {
    const { run, store } = await foreign(listener)
    const error: unknown = await run().catch((each: unknown) => each)
    expect(error).toMatchObject({ code, message: expect.stringContaining(message) })
    expect(JSON.stringify([error, String(error)])).not.toContain('secret')
    expect(await store.blobs.list()).toEqual([])
  })

  it('is not kept if its checksum differs, or if it is too large', async () => {
    const checked = await foreign(csv)
    const checksum = checksumOf({ algorithm: 'sha256', value: sum('sha256', 'other') })
    await expect(checked.run({ checksum })).rejects.toMatchObject({
      code: 'CONFLICT',
      extra: { reason: 'checksum' },
    })
    const endless = await foreign(
      (_request, response) => {
        const write = (): void => {
          while (!response.destroyed && response.write('x'.repeat(10_000)));
          if (!response.destroyed) response.once('drain', write)
        }
        write()
      },
      { total: 100_000 },
    )
    await expect(endless.run()).rejects.toMatchObject({ code: 'QUOTA_EXHAUSTED' })
    for (const { store } of [checked, endless]) expect(await store.blobs.list()).toEqual([])
  })
})

it.each([
  [7],
  ['abc'],
  [{ algorithm: 'sha1', value: 'a'.repeat(40) }],
  [{ algorithm: 'md5', value: 'x'.repeat(32) }],
])('a checksum %j is refused', (value) => {
  expect(() => checksumOf(value)).toThrow('checksum must be')
})
