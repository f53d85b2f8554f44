import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { exportSPKI, generateKeyPair } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Issuer, startIssuer } from '../../support/auth/issuer.ts'
import { post, type RawReply, usual } from '../../support/client/raw.ts'
import { modern } from '../../support/fronts.ts'
import { type GatewayProcess, startGatewayProcess } from '../../support/gateway-process.ts'
import { codeOf } from '../../support/journey.ts'
import { postHead, readSocket, tcp } from '../../support/raw-socket.ts'
import { schemaBombs } from '../../support/schema-bombs.ts'
import { type ScriptedServer, scriptedServer } from '../../support/scripted-server.ts'
import type { HeaderMap } from '../../support/server/journal.ts'
import { isObject, type Json, parse } from '../../support/server/json.ts'
import { WAIT_TIMEOUT_MS } from '../../support/condition.ts'
import { repetitions } from '../../support/soak.ts'

/**
 * The maximum heap size, in mebibytes, beyond which the process ends; and the maximum memory of the process, in bytes.
 * Both limit the process, not a request, since a test cannot control when the memory of a request is collected.
 */
const HEAP = 320
const MEMORY = 640 * 1024 * 1024

let issuer: Issuer
let gateway: GatewayProcess
let servers: ScriptedServer[]
let good: string
let trickle: { readonly socket: Socket; readonly answer: Promise<string> }

beforeAll(async () => {
  issuer = await startIssuer()
  const bombs = Object.entries(schemaBombs()).map(([name, inputSchema]) => ({ name, inputSchema }))
  servers = [await serverWith([{ name: 'echo', inputSchema: { type: 'object' } }]), await serverWith(bombs)]
  const [calm, bombing] = servers.map(({ url }) => ({ url, scopes: { all: ['*'] } }))
  const auth = { jwt: { issuer: issuer.url, audience: 'gateway', jwks: issuer.jwks } }
  gateway = await startGatewayProcess(
    {
      auth,
      limits: { rate: 'off' },
      features: { validate: { input: 'strict' } },
      upstreams: { calm, bombing },
    },
    { env: { NODE_OPTIONS: `--max-old-space-size=${HEAP}` } },
  )
  good = await issuer.sign({ scope: 'all' })
  trickle = await trickling()
})
afterAll(async () => {
  trickle.socket.destroy()
  await gateway.close()
  for (const server of servers) await server.close()
  await issuer.close()
})

/** The result of an attack. */
interface Expected {
  readonly status: number | readonly number[]
  readonly code?: string
}

/** Makes an attack, and checks its limits: time, memory, and that the next call works. */
async function withstands(attack: () => Promise<RawReply>, { status, code }: Expected): Promise<void> {
  const start = performance.now()
  const reply = await attack()
  expect(performance.now() - start).toBeLessThan(WAIT_TIMEOUT_MS)
  expect([status].flat()).toContain(reply.status)
  if (code === undefined) expect(codeIn(reply)).not.toBe('SERVER_ERROR')
  else expect(codeIn(reply)).toBe(code)
  await goesOn()
  expect(memory()).toBeLessThan(MEMORY)
}

async function goesOn(): Promise<void> {
  const reply = await call('echo', { text: 'still here' })
  expect([reply.status, reply.text]).toEqual([200, expect.stringContaining('still here')])
}

function call(name: string, args: Json, server = 'calm', token = good): Promise<RawReply> {
  const { message, headers } = modern('tools/call', { name, arguments: args })
  return send(JSON.stringify(message), headers, server, token)
}

function send(body: string | Buffer, headers: HeaderMap, server = 'calm', token = good): Promise<RawReply> {
  return post(`${gateway.origin}/mcp/${server}`, body, { authorization: `Bearer ${token}`, ...headers })
}

describe('a token', () => {
  const now = Math.floor(Date.now() / 1000)
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = (): Json => ({
    iss: issuer.url,
    aud: 'gateway',
    sub: 'eve',
    scope: 'all',
    iat: now,
    exp: now + 600,
  })
  const unsigned = (header: Json, more: Json = {}): string =>
    `${part(header)}.${part({ ...claims(), ...more })}`
  const refused = { status: 401, code: 'AUTHENTICATION_REQUIRED' }
  type Make = () => string | Promise<string>
  const tokens: readonly (readonly [string, Make] | readonly [string, Make, Expected])[] = [
    [
      'signed with another key',
      async () => issuer.sign({}, { key: (await generateKeyPair('RS256')).privateKey }),
    ],
    [
      'with modified claims',
      async () => {
        const [header, , signature] = (await issuer.sign()).split('.')
        return [header, part({ ...claims(), sub: 'admin' }), signature].join('.')
      },
    ],
    ['that is truncated', () => good.slice(0, -20)],
    ['without a signature', () => `${good.split('.').slice(0, 2).join('.')}.`],
    ['that has expired', () => issuer.sign({ exp: now - 3600 }), { status: 401, code: 'TOKEN_EXPIRED' }],
    ['that is not valid yet', () => issuer.sign({ nbf: now + 3600 })],
    ['without an expiry', () => issuer.sign({ exp: undefined })],
    ['for another audience', () => issuer.sign({ aud: 'another' })],
    ['of another issuer', () => issuer.sign({ iss: 'https://idp.example.com' })],
    ['with a subject of 5,000 characters', () => issuer.sign({ sub: 'x'.repeat(5000) })],
    ['of the algorithm none', () => `${unsigned({ alg: 'none', typ: 'JWT' })}.`],
    [
      'signed with the public key as an HMAC secret',
      async () => {
        const text = unsigned({ alg: 'HS256', kid: issuer.kid })
        const key = await exportSPKI(issuer.key)
        return `${text}.${createHmac('sha256', key).update(text).digest('base64url')}`
      },
    ],
    [
      'with an embedded key',
      async () =>
        `${unsigned({ alg: 'RS256', jwk: { kty: 'RSA', n: 'AQAB', e: 'AQAB' }, jku: `${gateway.origin}/x` })}.AAAA`,
    ],
    ['with a path as key id', () => `${unsigned({ alg: 'RS256', kid: '../../../../etc/passwd' })}.AAAA`],
    [
      'with unknown critical headers',
      () => `${unsigned({ alg: 'RS256', kid: issuer.kid, crit: ['bomb'], bomb: true })}.AAAA`,
    ],
    ['that is nested', () => `${Buffer.from('['.repeat(7000)).toString('base64url')}.e30.AAAA`],
    ['of dots', () => '.'.repeat(15_000)],
    ['of non-text bytes', () => Buffer.from([0xff, 0xfe, 0xe9, 0x80]).toString('latin1')],
    ['of 15 KB', () => 'a'.repeat(15 * 1024)],
    [
      'of 15 KB in the form of a JWT',
      () =>
        `${part({ alg: 'RS256', kid: issuer.kid })}.${part({ x: 'a'.repeat(10_000) })}.${'A'.repeat(900)}`,
    ],
    ['of 100 KB', () => 'a'.repeat(100 * 1024), { status: 431 }],
  ]

  it.each(tokens)('%s is refused', async (...[, make, expected = refused]) => {
    const token = await make()
    await withstands(() => call('echo', {}, 'calm', token), expected)
  })

  it('with an unknown key id does not make the gateway fetch keys for each request', async () => {
    const before = issuer.fetches
    const replies = await Promise.all(
      Array.from({ length: 300 }, (_, index) =>
        call('echo', {}, 'calm', `${unsigned({ alg: 'RS256', kid: `key-${index}x` })}.AAAA`),
      ),
    )
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([401]))
    expect(issuer.fetches - before).toBeLessThan(5)
    await goesOn()
  })
})

describe('headers', () => {
  const floods: readonly (readonly [string, HeaderMap])[] = [
    ['by the thousand', Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`x-${index}`, 'x']))],
    ['of 100 KB', { 'x-long': 'x'.repeat(100 * 1024) }],
    ['of 100 KB in a cookie', { cookie: `a=${'b; c='.repeat(20_000)}` }],
  ]
  it.each(floods)('%s are refused', async (_name, headers) => {
    await withstands(
      async () => {
        const socket = await tcp(gateway.origin)
        socket.write(postHead(headers))
        const text = await readSocket(socket)
        return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]), headers: {}, text, events: [] }
      },
      { status: 431 },
    )
  })

  it('that are many and small are accepted', async () => {
    const { message, headers } = modern('tools/call', { name: 'echo', arguments: {} })
    const many = Object.fromEntries(Array.from({ length: 900 }, (_, index) => [`a${index}`, '1']))
    await withstands(() => send(JSON.stringify(message), { ...many, ...headers }), { status: 200 })
  })
})

describe('a body', () => {
  const ok = { status: 200 }
  const invalid = { status: [200, 400], code: 'INVALID_INPUT' }
  const broken = { status: 400, code: 'PARSE_ERROR' }
  const around = (args: string): string => {
    const { message } = modern('tools/call', { name: 'echo', arguments: {} })
    return JSON.stringify(message).replace('"arguments":{}', `"arguments":${args}`)
  }
  const bodies: readonly (readonly [string, () => string | Buffer, Expected])[] = [
    [
      'nested 100,000 deep in arguments',
      () => around(`{"x":${'['.repeat(100_000)}${']'.repeat(100_000)}}`),
      { status: [200, 400] },
    ],
    [
      'nested 100,000 deep in objects',
      () => around(`${'{"x":'.repeat(100_000)}1${'}'.repeat(100_000)}`),
      { status: [200, 400] },
    ],
    ['nested 300 deep', () => around(`{"x":${'['.repeat(300)}${']'.repeat(300)}}`), invalid],
    ['that never closes', () => '['.repeat(500_000), broken],
    ['that never closes its objects', () => '{"a":'.repeat(150_000), broken],
    ['with an array of 400,000', () => around(`{"x":[${'1,'.repeat(400_000)}1]}`), ok],
    ['with an array of 200,000 objects', () => around(`{"x":[${'{},'.repeat(200_000)}{}]}`), ok],
    [
      'with 60,000 keys',
      () => around(`{${Array.from({ length: 60_000 }, (_, index) => `"k${index}":1`).join()}}`),
      ok,
    ],
    ['with one key 100,000 times', () => around(`{${'"k":1,'.repeat(100_000)}"k":2}`), { status: 400 }],
    [
      'with two names',
      () => around('{}').replace('"name":"echo"', '"name":"gone","name":"echo"'),
      { status: [200, 400] },
    ],
    ['with a number of 900,000 digits', () => around(`{"x":${'9'.repeat(900_000)}}`), ok],
    [
      'with numbers beyond all bounds',
      () => around('{"x":[1e400,-1e400,1e-400,123456789012345678901234567890]}'),
      ok,
    ],
    ['with a string of escapes', () => around(`{"x":"${String.raw`\u0000`.repeat(150_000)}"}`), ok],
    ['with lone surrogates', () => around(String.raw`{"x":"\ud800\udc00\ud800"}`), ok],
    [
      'with keys of prototypes',
      () => around('{"__proto__":{"isAdmin":true},"constructor":{"prototype":{"x":1}}}'),
      ok,
    ],
    ['of spaces', () => ' '.repeat(1_000_000), broken],
    [
      'of 20,000 messages',
      () => `[${'{"jsonrpc":"2.0","id":1,"method":"ping"},'.repeat(20_000)}1]`,
      { status: [200, 400] },
    ],
    ['that is not UTF-8', () => Buffer.alloc(500_000, 0xff), broken],
    [
      'with an id of 500 KB',
      () => around('{}').replace('"id":1', `"id":"${'i'.repeat(500_000)}"`),
      { status: [200, 400] },
    ],
    ['of 2 MB', () => 'x'.repeat(2 * 1024 * 1024), { status: 413, code: 'PAYLOAD_TOO_LARGE' }],
  ]
  it.each(bodies)('%s gets the expected response', async (_name, make, expected) => {
    const { headers } = modern('tools/call', { name: 'echo', arguments: {} })
    await withstands(() => send(make(), headers), expected)
  })

  it('with a method or name of 400 KB gets a response', async () => {
    const long = 'x'.repeat(400_000)
    const method = { jsonrpc: '2.0', id: 1, method: long, params: {} }
    const name = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: long } }
    for (const message of [method, name])
      await withstands(() => send(JSON.stringify(message), {}), { status: [200, 400, 404] })
  })
})

describe('a server schema that', () => {
  const text = `${'a'.repeat(50_000)}!`
  const misfit = { status: 200, code: 'INVALID_INPUT' }
  const ok = { status: 200 }
  const calls: readonly (readonly [string, string, Json, Expected])[] = [
    ['has a pattern that backtracks', 'pattern', { text }, misfit],
    ['has a backtracking pattern, for other text', 'pattern', { text: 'a!'.repeat(25_000) }, misfit],
    ['has several backtracking patterns', 'patterns', { text }, misfit],
    ['has a backtracking pattern for keys', 'pattern_keys', { [text]: 1, [text.slice(0, -1)]: 1 }, misfit],
    ['refers to itself', 'self', { x: 1 }, ok],
    ['refers in a circle', 'loop', { x: 1 }, ok],
    ['doubles at each level', 'doubling', { x: 1 }, ok],
    ['doubles its anyOf at each level', 'doubling_any', { x: 1 }, ok],
    ['doubles its oneOf at each level', 'doubling_one', { x: 1 }, ok],
    ['has nested anyOf', 'nested_any', { x: 1 }, ok],
    ['is 1,000 levels deep', 'deep', { x: 1 }, ok],
    ['has 50,000 properties', 'wide', { p0: 1 }, ok],
    ['has 10 MB', 'huge', { x: 1 }, ok],
    ['is at another URL', 'elsewhere', { x: 1 }, ok],
    [
      'compares each item with each other',
      'unique',
      { list: Array.from({ length: 50_000 }, (_, index) => ({ index })) },
      ok,
    ],
    ['names prototypes', 'proto', { constructor: 'x' }, ok],
    ['is invalid', 'nonsense', { x: 1 }, ok],
  ]

  it('is hostile does not keep its tool from being listed', async () => {
    const { message, headers } = modern('tools/list')
    await withstands(() => send(JSON.stringify(message), headers, 'bombing'), { status: 200 })
  })

  it.each(calls)('%s is checked in bounded time, or not at all', async (_name, tool, args, expected) => {
    await withstands(() => call(tool, args, 'bombing'), expected)
  })
})

/** How many names are made up, of each kind: many more than lines that may be added. */
const NAMES = repetitions(1000, 5000)

it('made-up names do not grow the metrics', async () => {
  const linesOf = async (): Promise<number> => {
    const reply = await fetch(`${gateway.origin}/metrics`, { headers: { authorization: `Bearer ${good}` } })
    expect(reply.status).toBe(200)
    return (await reply.text()).split('\n').length
  }
  const before = await linesOf()
  await crowd(NAMES, async (index) => {
    const token = await issuer.sign({ sub: `caller-${index}`, scope: 'all' })
    const name = `tool_${index}`
    const { message, headers } = modern('tools/call', { name, arguments: {}, _meta: {} })
    await made(message, headers, token)
  })
  await crowd(NAMES, async (index) => {
    const { message, headers } = modern(`method/${index}`)
    await made(message, headers, good)
  })
  expect((await linesOf()) - before).toBeLessThan(200)
  expect(await linesOf()).toBeLessThan(3000)
  expect(memory()).toBeLessThan(MEMORY)
  await goesOn()
})

it('a body sent byte by byte is cut off, and does not block others meanwhile', async () => {
  await goesOn()
  expect(await trickle.answer).toMatch(/^(HTTP\/1\.1 408 |$)/)
  await goesOn()
})

/** A body sent byte by byte, for as long as the other side accepts it. */
async function trickling(): Promise<typeof trickle> {
  const socket = await tcp(gateway.origin)
  socket.write(postHead({ ...usual, authorization: `Bearer ${good}`, 'content-length': '100000' }))
  const timer = setInterval(() => void socket.write(' '), 250)
  socket.on('close', () => clearInterval(timer))
  return { socket, answer: readSocket(socket, undefined, 300_000) }
}

async function made(message: Json, headers: HeaderMap, token: string): Promise<void> {
  const all = { ...usual, ...headers, authorization: `Bearer ${token}` }
  const reply = await fetch(gateway.url, { method: 'POST', headers: all, body: JSON.stringify(message) })
  await reply.arrayBuffer()
  expect(reply.status).toBeLessThan(500)
}

/** Repeats a task this often, a few at a time. */
async function crowd(count: number, act: (index: number) => Promise<void>): Promise<void> {
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < count) await act(next++)
  }
  await Promise.all(Array.from({ length: 16 }, worker))
}

function serverWith(tools: readonly Json[]): Promise<ScriptedServer> {
  return scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({ tools }),
      'tools/call': ({ params }) => {
        const { arguments: args } = params
        const text = isObject(args) && typeof args['text'] === 'string' ? args['text'].slice(0, 100) : 'done'
        return { content: [{ type: 'text', text }] }
      },
    },
  )
}

/** The memory of the gateway process, in bytes; zero if the system does not report it. */
function memory(): number {
  try {
    const kilobytes = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8'))?.[1]
    return Number(kilobytes ?? 0) * 1024
  } catch {
    return 0
  }
}

function codeIn({ text, events }: RawReply): unknown {
  const value = parse(events.at(-1)?.data ?? text)
  return isObject(value) ? codeOf(value) : undefined
}
