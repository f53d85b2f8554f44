import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { createSocket } from 'node:dgram'
import { gzipSync } from 'node:zlib'
import { Resolver } from 'node:dns/promises'
import type { AddressInfo, Server } from 'node:net'
import { buildConnector } from 'undici'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createDialer, type DialRequest, foreignAddresses } from '../../../src/features/dialer.ts'
import { parseProxy } from '../../../src/core/proxy.ts'
import { forwardProxy } from '../../support/forward-proxy.ts'
import { selfSigned } from '../../support/self-signed.ts'

const MESSAGE: Omit<DialRequest, 'url'> = {
  headers: { 'content-type': 'application/json' },
  body: '{}',
  timeoutMs: 5000,
  maxResponseBytes: 0,
}

/** A connector that records what would be dialled, and dials nothing. */
function recording() {
  const dialled: string[] = []
  const connect: buildConnector.connector = ({ hostname, port, protocol }, callback) => {
    dialled.push(`${protocol}//${hostname}:${port || (protocol === 'https:' ? '443' : '80')}`)
    callback(Object.assign(new Error('not in a test'), { code: 'ECONNREFUSED' }), null)
  }
  return { dialled, connect }
}

/** A resolver that knows these names, and counts its queries. */
function namesOf(names: Readonly<Record<string, readonly (readonly string[])[]>>) {
  const asked: string[] = []
  const resolve = (host: string): Promise<readonly string[]> => {
    const answers = names[host]
    const before = asked.filter((each) => each === host).length
    asked.push(host)
    const answer = answers?.[Math.min(before, answers.length - 1)]
    return answer ? Promise.resolve(answer) : Promise.reject(new Error('ENOTFOUND'))
  }
  return { asked, resolve }
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  onTestFinished(() => {
    if ('closeAllConnections' in server) (server as ReturnType<typeof createServer>).closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

/** A receiver on loopback, with a dialer that may reach it. */
async function receiver(listener: RequestListener) {
  const origin = `http://127.0.0.1:${await listening(createServer(listener))}`
  return { origin, dialer: createDialer({ allow: [origin] }) }
}

const refusedUrls = {
  'another scheme': [
    'http://hooks.example/x',
    'http://8.8.8.8/x',
    'ftp://hooks.example/x',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'gopher://hooks.example/x',
    'ws://hooks.example/x',
  ],
  'no absolute URL': ['', '/hook', '//hooks.example/x', 'hooks.example', 'https://', 'https:// /x'],
  credentials: [
    'https://user@hooks.example/x',
    'https://user:pass@hooks.example/x',
    'https://hooks.example:x@127.0.0.1/',
    'https://:@hooks.example@127.0.0.1/',
  ],
  'a host that is no address': ['https://256.1.1.1/', 'https://1.2.3.4.5/', 'https://0x100000000/'],
  length: [`https://hooks.example/${'x'.repeat(2048)}`],
}

const refusedAddresses = {
  loopback: [
    'https://127.0.0.1/',
    'https://127.0.0.1:8443/x?y=1',
    'https://127.1/',
    'https://127.0.1/',
    'https://2130706433/',
    'https://0177.0.0.1/',
    'https://017700000001/',
    'https://0x7f.0.0.1/',
    'https://0x7f000001/',
    'https://0x7F.1/',
    'https://127.0.0.1./',
    'https://127.255.255.254/',
    'https://１２７.０.０.１/',
    'https://127。0。0。1/',
    'https://%31%32%37.0.0.1/',
    'https://[::1]/',
    'https://[0:0:0:0:0:0:0:1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[::ffff:7f00:1]/',
    'https://[::127.0.0.1]/',
    'https:\\\\127.0.0.1\\x',
    'https:127.0.0.1',
  ],
  private: [
    'https://10.0.0.1/',
    'https://167772161/',
    'https://172.16.0.1/',
    'https://172.31.255.255/',
    'https://192.168.0.1/',
    'https://192.168.1/',
    'https://[::ffff:10.0.0.1]/',
    'https://[fc00::1]/',
    'https://[fd12:3456::1]/',
    'https://[fec0::1]/',
  ],
  'link-local': [
    'https://169.254.1.1/',
    'https://2851995649/',
    'https://[fe80::1]/',
    'https://[::ffff:a9fe:101]/',
  ],
  'carrier-grade NAT': ['https://100.64.0.1/', 'https://100.127.255.255/'],
  metadata: [
    'https://169.254.169.254/latest/meta-data/',
    'https://2852039166/',
    'https://0xa9fea9fe/',
    'https://0251.0376.0251.0376/',
    'https://169.254.170.2/',
    'https://100.100.100.200/',
    'https://168.63.129.16/',
    'https://192.0.0.192/',
    'https://[fd00:ec2::254]/',
    'https://[fd20:ce::254]/',
    'https://[::ffff:169.254.169.254]/',
    'https://[64:ff9b::a9fe:a9fe]/',
  ],
  unspecified: ['https://0.0.0.0/', 'https://0/', 'https://0x0/', 'https://0.1.2.3/', 'https://[::]/'],
  'multicast and broadcast': [
    'https://224.0.0.1/',
    'https://239.255.255.250/',
    'https://255.255.255.255/',
    'https://4294967295/',
    'https://[ff02::1]/',
  ],
  'other special networks': [
    'https://192.0.2.1/',
    'https://198.18.0.1/',
    'https://198.51.100.7/',
    'https://203.0.113.7/',
    'https://240.0.0.1/',
    'https://[2001:db8::1]/',
    'https://[2002:7f00:1::]/',
    'https://[2001::1]/',
    'https://[100::1]/',
  ],
}

const refusedNames = {
  'localhost.': ['127.0.0.1'],
  localhost: ['::1', '127.0.0.1'],
  'rebound.example': ['127.0.0.1'],
  'mapped.example': ['::ffff:127.0.0.1'],
  'inner.example': ['10.1.2.3'],
  'metadata.google.internal': ['169.254.169.254'],
  'zone.example': ['fe80::1%eth0'],
  'nat.example': ['100.64.0.9'],
  'nothing.example': ['0.0.0.0'],
  'one-private.example': ['93.184.216.34', '10.0.0.1'],
  'private-first.example': ['192.168.0.1', '93.184.216.34'],
  'mixed-families.example': ['93.184.216.34', '::1'],
  'late.example': ['1.1.1.1', '1.0.0.1', '8.8.8.8', '8.8.4.4', '9.9.9.9', '127.0.0.1'],
  'no-address.example': ['not an address'],
  'other-name.example': ['localhost'],
}

function rows(table: Readonly<Record<string, readonly string[]>>) {
  return Object.entries(table).flatMap(([kind, urls]) => urls.map((url) => [kind, url] as const))
}

describe('webhook dialer: nothing is dialled', () => {
  it.each(rows(refusedUrls))('%s: %s', async (_kind, url) => {
    const { dialled, connect } = recording()
    const { asked, resolve } = namesOf({})
    const outcome = await createDialer({ allow: [], resolve, connect }).post({ ...MESSAGE, url })
    expect(outcome).toEqual({ kind: 'failed', reason: 'url' })
    expect([...dialled, ...asked]).toEqual([])
  })

  it.each(rows(refusedAddresses))('%s: %s', async (_kind, url) => {
    const { dialled, connect } = recording()
    const { asked, resolve } = namesOf({})
    const outcome = await createDialer({ allow: [], resolve, connect }).post({ ...MESSAGE, url })
    expect(outcome).toEqual({ kind: 'failed', reason: 'address' })
    expect([...dialled, ...asked]).toEqual([])
  })

  it.each(Object.entries(refusedNames))('%s, which resolves to %j', async (name, addresses) => {
    const { dialled, connect } = recording()
    const { resolve } = namesOf({ [name.replace(/\.$/, '')]: [addresses] })
    const outcome = await createDialer({ allow: [], resolve, connect }).post({
      ...MESSAGE,
      url: `https://${name}/`,
    })
    expect(outcome).toEqual({ kind: 'failed', reason: 'address' })
    expect(dialled).toEqual([])
  })

  it('names that cannot be resolved', async () => {
    const { dialled, connect } = recording()
    const { resolve } = namesOf({ 'empty.example': [[]] })
    const dialer = createDialer({ allow: [], resolve, connect })
    for (const url of ['https://empty.example/', 'https://unknown.example/'])
      expect(await dialer.post({ ...MESSAGE, url })).toEqual({ kind: 'failed', reason: 'dns' })
    expect(dialled).toEqual([])
  })

  it.each([
    ['a metadata address is never allowed', 'http://169.254.169.254', ['http://169.254.169.254/']],
    ['another port', 'http://127.0.0.1:9000', ['http://127.0.0.1:9001/', 'http://127.0.0.1/']],
    ['another scheme', 'http://127.0.0.1:9000', ['https://127.0.0.1:9000/']],
    ['another host', 'http://localhost:9000', ['http://127.0.0.1:9000/', 'http://localhost.example:9000/']],
  ])('outside of what is allowed: %s', async (_title, origin, urls) => {
    const { dialled, connect } = recording()
    const { resolve } = namesOf({ localhost: [['127.0.0.1']], 'localhost.example': [['127.0.0.1']] })
    const dialer = createDialer({ allow: [origin], resolve, connect })
    for (const url of urls) expect(await dialer.post({ ...MESSAGE, url })).toMatchObject({ kind: 'failed' })
    expect(dialled).toEqual([])
  })

  it('an allowed name that comes to resolve to a metadata address', async () => {
    const { dialled, connect } = recording()
    const { resolve } = namesOf({ 'hooks.corp': [['10.0.0.7'], ['169.254.169.254']] })
    const dialer = createDialer({ allow: ['https://hooks.corp'], resolve, connect })
    const request = { ...MESSAGE, url: 'https://hooks.corp/x' }
    expect(await dialer.post(request)).toEqual({ kind: 'failed', reason: 'connection' })
    expect(await dialer.post(request)).toEqual({ kind: 'failed', reason: 'address' })
    expect(dialled).toEqual(['https://10.0.0.7:443'])
  })
})

describe('webhook dialer: what is dialled is what was checked', () => {
  it('a name that resolves differently the next time is resolved once for each delivery', async () => {
    const { dialled, connect } = recording()
    const { asked, resolve } = namesOf({ 'rebind.example': [['93.184.216.34'], ['127.0.0.1']] })
    const dialer = createDialer({ allow: [], resolve, connect })
    const request = { ...MESSAGE, url: 'https://rebind.example:8443/x' }
    expect(await dialer.post(request)).toEqual({ kind: 'failed', reason: 'connection' })
    expect(asked).toHaveLength(1)
    expect(await dialer.post(request)).toEqual({ kind: 'failed', reason: 'address' })
    expect(dialled).toEqual(['https://93.184.216.34:8443'])
  })

  it('public addresses of both families are tried in turn, up to four', async () => {
    const { dialled, connect } = recording()
    const { resolve } = namesOf({
      'many.example': [['2606:4700::1111', '1.1.1.1', '1.0.0.1', '8.8.8.8', '8.8.4.4']],
    })
    await createDialer({ allow: [], resolve, connect }).post({ ...MESSAGE, url: 'https://many.example/' })
    expect(dialled).toEqual([
      'https://2606:4700::1111:443',
      'https://1.1.1.1:443',
      'https://1.0.0.1:443',
      'https://8.8.8.8:443',
    ])
  })

  it('the connection goes to the address, and the request names the host', async () => {
    let host: string | undefined
    const server = createServer((request, response) => {
      host = request.headers.host
      response.end()
    })
    const origin = `http://hooks.test:${await listening(server)}`
    const { resolve } = namesOf({ 'hooks.test': [['127.0.0.1']] })
    const outcome = await createDialer({ allow: [origin], resolve }).post({ ...MESSAGE, url: `${origin}/x` })
    expect(outcome).toMatchObject({ kind: 'response', status: 200 })
    expect(`http://${host}`).toBe(origin)
  })

  it('TLS verifies the name of the host, not the address', async () => {
    const server = createTlsServer(selfSigned, (_request, response) => response.end())
    const port = await listening(server)
    const { resolve } = namesOf({ 'hooks.test': [['127.0.0.1']], 'other.test': [['127.0.0.1']] })
    const allow = [`https://hooks.test:${port}`, `https://other.test:${port}`]
    const trusting = createDialer({
      allow,
      resolve,
      connect: buildConnector({ ca: selfSigned.cert, allowH2: false }),
    })
    const [hooks, other] = allow.map((url) => ({ ...MESSAGE, url }))
    if (!hooks || !other) throw new Error('two requests')
    expect(await trusting.post(hooks)).toMatchObject({ kind: 'response', status: 200 })
    expect(await trusting.post(other)).toEqual({ kind: 'failed', reason: 'tls' })
    expect(await createDialer({ allow, resolve }).post(hooks)).toEqual({ kind: 'failed', reason: 'tls' })
  })
})

describe('webhook dialer: the exchange', () => {
  it('the path and query arrive as they are in the URL', async () => {
    const seen: unknown[] = []
    const { origin, dialer } = await receiver((request, response) => {
      seen.push(request.method, request.url, request.headers['x-mcp-subscription-id'])
      request.on('data', (chunk: Buffer) => seen.push(chunk.toString()))
      request.on('end', () => response.writeHead(204).end())
    })
    const url = `${origin}/hook/a%2Fb?i=7&k=a+b%20c`
    const headers = { 'x-mcp-subscription-id': 'sub_1' }
    expect(await dialer.post({ ...MESSAGE, url, headers, body: '{"é":1}' })).toMatchObject({ status: 204 })
    expect(seen).toEqual(['POST', '/hook/a%2Fb?i=7&k=a+b%20c', 'sub_1', '{"é":1}'])
  })

  it('a file is read with GET, and not at an address that is not public', async () => {
    const { origin, dialer } = await receiver((request, response) => {
      response.end(JSON.stringify([request.method, request.headers['content-length']]))
    })
    const request = { headers: {}, timeoutMs: 5000, maxResponseBytes: 100 }
    const outcome = await dialer.get({ ...request, url: `${origin}/file` })
    expect(outcome).toMatchObject({ status: 200, body: '["GET",null]' })
    const { dialled, connect } = recording()
    const { resolve } = namesOf({ 'inner.example': [['10.0.0.1']] })
    const strict = createDialer({ allow: [], resolve, connect })
    expect(await strict.get({ ...request, url: 'https://inner.example/file' })).toEqual({
      kind: 'failed',
      reason: 'address',
    })
    expect(dialled).toEqual([])
  })

  it.each([301, 302, 303, 307, 308])('a redirect with status %d is not followed', async (status) => {
    const paths: (string | undefined)[] = []
    const { origin, dialer } = await receiver((request, response) => {
      paths.push(request.url)
      response.writeHead(status, { location: `${origin}/next` }).end()
    })
    expect(await dialer.post({ ...MESSAGE, url: `${origin}/first` })).toMatchObject({
      kind: 'response',
      status,
    })
    expect(paths).toEqual(['/first'])
  })

  it('the response is read up to its limit, also where it does not end', async () => {
    const { origin, dialer } = await receiver((_request, response) => {
      const timer = setInterval(() => response.write('x'.repeat(1000)), 1)
      response.on('close', () => clearInterval(timer))
    })
    const outcome = await dialer.post({ ...MESSAGE, url: origin, maxResponseBytes: 4096 })
    expect(outcome).toEqual({ kind: 'response', status: 200, retryAfter: undefined, body: 'x'.repeat(4096) })
    expect(await dialer.post({ ...MESSAGE, url: origin })).toMatchObject({ status: 200, body: '' })
  })

  it('a receiver that does not answer costs no more than the timeout', async () => {
    const { origin, dialer } = await receiver(() => undefined)
    const started = performance.now()
    expect(await dialer.post({ ...MESSAGE, url: origin, timeoutMs: 200 })).toEqual({
      kind: 'failed',
      reason: 'timeout',
    })
    expect(performance.now() - started).toBeLessThan(4000)
  })

  it('a resolver that does not answer costs no more than the timeout, and nothing is dialled', async () => {
    const { dialled, connect } = recording()
    const resolve = (): Promise<never> => new Promise(() => undefined)
    const dialer = createDialer({ allow: [], resolve, connect })
    const request = { ...MESSAGE, url: 'https://slow.example/', timeoutMs: 50 }
    expect(await dialer.post(request)).toEqual({ kind: 'failed', reason: 'timeout' })
    expect(dialled).toEqual([])
  })

  it('the caller can abort a request', async () => {
    const controller = new AbortController()
    const { origin, dialer } = await receiver(() => controller.abort())
    expect(await dialer.post({ ...MESSAGE, url: origin, signal: controller.signal })).toEqual({
      kind: 'failed',
      reason: 'aborted',
    })
  })

  it('a port where nothing listens is a failed connection', async () => {
    const server = createServer()
    const origin = `http://127.0.0.1:${await listening(server)}`
    await new Promise((done) => server.close(done))
    expect(await createDialer({ allow: [origin] }).post({ ...MESSAGE, url: origin })).toEqual({
      kind: 'failed',
      reason: 'connection',
    })
  })

  it('each request has a connection of its own', async () => {
    const sockets = new Set<unknown>()
    const { origin, dialer } = await receiver((request, response) => {
      sockets.add(request.socket)
      response.end()
    })
    for (let i = 0; i < 3; i++) await dialer.post({ ...MESSAGE, url: origin })
    expect(sockets.size).toBe(3)
  })
})

/** A name server on loopback that answers questions for A and AAAA records with these; others do not exist. */
async function nameServer(records: Readonly<Record<string, readonly number[]>>): Promise<Resolver> {
  const server = createSocket('udp4')
  server.on('message', (query, { port, address }) => {
    const end = query.indexOf(0, 12) + 5
    const data = records[query.readUInt16BE(end - 4) === 1 ? 'A' : 'AAAA']
    const head = Buffer.from(query.subarray(0, 12))
    head.writeUInt16BE(data ? 0x8180 : 0x8183, 2)
    head.writeUInt16BE(data ? 1 : 0, 6)
    head.writeUInt16BE(0, 10)
    const record = data
      ? [0xc0, 12, 0, data.length === 4 ? 1 : 28, 0, 1, 0, 0, 0, 60, 0, data.length, ...data]
      : []
    server.send(Buffer.concat([head, query.subarray(12, end), Buffer.from(record)]), port, address)
  })
  await new Promise<void>((done) => server.bind(0, '127.0.0.1', done))
  onTestFinished(() => void server.close())
  const resolver = new Resolver({ timeout: 1000, tries: 1 })
  resolver.setServers([`127.0.0.1:${server.address().port}`])
  return resolver
}

describe('webhook dialer: name servers', () => {
  const A = [93, 184, 216, 34]
  const AAAA = [0x26, 0x06, 0x47, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x11]
  it.each([
    ['both families', { A, AAAA }, ['93.184.216.34', '2606:4700::1111']],
    ['IPv4 alone', { A }, ['93.184.216.34']],
    ['IPv6 alone', { AAAA }, ['2606:4700::1111']],
  ])('a name with %s', async (_title, records, addresses) =>
    expect(await foreignAddresses('hooks.example', await nameServer(records))).toEqual(addresses),
  )

  it('a name without addresses is a failure', async () => {
    const resolver = await nameServer({})
    await expect(foreignAddresses('hooks.example', resolver)).rejects.toMatchObject({ code: 'ENOTFOUND' })
  })

  it('an allowed name is resolved like every program on this machine does', async () => {
    const port = await listening(createServer((_request, response) => response.end()))
    const origin = `http://localhost:${port}`
    expect(await createDialer({ allow: [origin] }).post({ ...MESSAGE, url: origin })).toMatchObject({
      status: 200,
    })
  })
})

describe('a request through a proxy', () => {
  /** A dialer whose requests go through a proxy that refuses them, and what arrives there. */
  async function proxied(allow: readonly string[] = [], names: Parameters<typeof namesOf>[0] = {}) {
    const { url, used } = await forwardProxy(1, { refusal: 403 })
    const { dialled, connect } = recording()
    const { resolve } = namesOf(names)
    return {
      used,
      dialled,
      dialer: createDialer({ allow, resolve, connect, proxies: () => parseProxy(url) }),
    }
  }

  it('is a tunnel to the name, and no other connection is made', async () => {
    const { used, dialled, dialer } = await proxied([], { 'hooks.example': [['8.8.8.8']] })
    const outcome = await dialer.post({ ...MESSAGE, url: 'https://hooks.example:8443/x' })
    expect(outcome).toEqual({ kind: 'failed', reason: 'connection' })
    expect([used, dialled]).toEqual([['CONNECT hooks.example:8443'], []])
  })

  it('is made for a name that only the proxy knows', async () => {
    const { used, dialer } = await proxied()
    await dialer.post({ ...MESSAGE, url: 'https://hooks.example/x' })
    expect(used).toEqual(['CONNECT hooks.example:443'])
  })

  it.each(Object.values(refusedAddresses).flat())('is not made to %s', async (url) => {
    const { used, dialer } = await proxied()
    expect(await dialer.post({ ...MESSAGE, url })).toEqual({ kind: 'failed', reason: 'address' })
    expect(used).toEqual([])
  })

  it.each(Object.values(refusedUrls).flat())('is not made to %s either', async (url) => {
    const { used, dialer } = await proxied()
    expect(await dialer.post({ ...MESSAGE, url })).toEqual({ kind: 'failed', reason: 'url' })
    expect(used).toEqual([])
  })

  it.each(['10.1.2.3', '127.0.0.1', '169.254.169.254', '100.100.100.200', 'fd00::1'])(
    'is not made to a name that resolves to %s here',
    async (address) => {
      const { used, dialer } = await proxied([], { 'hooks.example': [['8.8.8.8', address]] })
      const url = 'https://hooks.example/x'
      expect(await dialer.post({ ...MESSAGE, url })).toEqual({ kind: 'failed', reason: 'address' })
      expect(await dialer.get({ ...MESSAGE, url })).toEqual({ kind: 'failed', reason: 'address' })
      expect(await dialer.open({ ...MESSAGE, url })).toEqual({ kind: 'failed', reason: 'address' })
      expect(used).toEqual([])
    },
  )

  it.each([
    'https://intranet/',
    'https://db.internal/',
    'https://printer.local/',
    'https://metadata.google.internal/',
    'https://localhost/',
    'https://x.localhost./',
  ])('is not made to %s, a name of private networks without an address here', async (url) => {
    const { used, dialer } = await proxied()
    expect(await dialer.post({ ...MESSAGE, url })).toEqual({ kind: 'failed', reason: 'address' })
    expect(used).toEqual([])
  })

  it('is made to an allowed origin in a private network, but not to a reserved address', async () => {
    const allow = ['https://hooks.internal', 'https://meta.internal']
    const { used, dialer } = await proxied(allow, { 'meta.internal': [['169.254.169.254']] })
    await dialer.post({ ...MESSAGE, url: 'https://hooks.internal/x' })
    expect(await dialer.post({ ...MESSAGE, url: 'https://meta.internal/x' })).toMatchObject({
      reason: 'address',
    })
    expect(used).toEqual(['CONNECT hooks.internal:443'])
  })

  it('delivers and reads the response, encoded or not', async () => {
    const got: string[] = []
    const { origin } = await receiver((request, response) => {
      got.push(String(request.headers.host))
      response.setHeader('content-encoding', 'gzip')
      response.end(gzipSync('challenge'))
    })
    const { url, used } = await forwardProxy(Number(new URL(origin).port))
    const allow = ['http://hooks.corp.test']
    const dialer = createDialer({ allow, resolve: async () => ['10.0.0.5'], proxies: () => parseProxy(url) })
    const outcome = await dialer.post({ ...MESSAGE, url: 'http://hooks.corp.test/x', maxResponseBytes: 100 })
    expect(outcome).toMatchObject({ kind: 'response', status: 200, body: 'challenge' })
    expect([got, used]).toEqual([['hooks.corp.test'], ['POST http://hooks.corp.test/x']])
  })
})
