import { afterAll, beforeEach, afterEach, describe, expect, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { startFakeServer } from '../../support/fake-server.ts'
import { type Front, initialize, modern, stdioFront, wellAnswered } from '../../support/fronts.ts'
import { configFile } from '../../support/gateway-with.ts'
import { type CommandProcess, startCommandProcess } from '../../support/gateway-process.ts'

const server = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
const config = await configFile({ limits: { body: '4KB' }, upstreams: { fake: server.url } })
afterAll(async () => {
  await config.remove()
  await server.close()
})

let gateway: CommandProcess
beforeEach(() => {
  gateway = startCommandProcess(['stdio', '--config', config.path])
})
afterEach(() => gateway.close())

const revisions = ['2025-11-25', '2026-07-28'] as const

describe.each(revisions)('a client of %s on stdio', (revision) => {
  test('that sends a line over the limit receives an error, and can continue', async () => {
    const front = await stdioFront(gateway, revision)
    for (const bytes of [
      'x'.repeat(5000),
      JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping', params: { x: 'y'.repeat(5000) } }),
    ]) {
      const { message } = await front.send(bytes)
      expect(message).toMatchObject({
        id: null,
        error: { code: -32005, data: { code: 'PAYLOAD_TOO_LARGE' } },
      })
    }
    expect(await front.call()).toBe(wellAnswered)
  })

  test('that reuses the id of a pending request receives an error', async () => {
    const front = await stdioFront(gateway, revision)
    const params = { name: 'hang' }
    const call =
      revision === '2026-07-28'
        ? modern('tools/call', params, 5).message
        : { jsonrpc: '2.0', id: 5, method: 'tools/call', params }
    const { message } = await front.send(`${JSON.stringify(call)}\n${JSON.stringify(call)}`)
    expect(message).toMatchObject({ id: 5, error: { code: -32600, data: { code: 'INVALID_REQUEST' } } })
    expect(await front.call()).toBe(wellAnswered)
  })

  test('that sends CRLF line endings, chunks split anywhere and empty lines is understood', async () => {
    await stdioFront(gateway, revision)
    const request =
      revision === '2026-07-28'
        ? modern('tools/list', {}, 'cut').message
        : { jsonrpc: '2.0', id: 'cut', method: 'ping' }
    for (const byte of Buffer.from(`\r\n\n${JSON.stringify(request)}\r\n\r\n`))
      gateway.stdin.write(Uint8Array.of(byte))
    await until(() => gateway.stdout().includes('"id":"cut"'), 'the answer')
    expect(gateway.stdout()).not.toContain('"error":{')
  })

  test('that ends in the middle of a line causes no failure', async () => {
    const front = await stdioFront(gateway, revision)
    expect(await front.call()).toBe(wellAnswered)
    gateway.stdin.end('{"jsonrpc":"2.0","id":1,')
    expect(await gateway.ended).toMatchObject({ code: 0 })
  })

  test('that ends during a call ends the gateway', async () => {
    await stdioFront(gateway, revision)
    const params = { name: 'hang' }
    const call =
      revision === '2026-07-28'
        ? modern('tools/call', params, 5).message
        : { jsonrpc: '2.0', id: 5, method: 'tools/call', params }
    gateway.stdin.end(`${JSON.stringify(call)}\n`)
    expect(await gateway.ended).toMatchObject({ code: 0 })
  })
})

describe('a client on stdio', () => {
  const cases: readonly (readonly [string, (front: Front) => Promise<unknown>, object])[] = [
    [
      'without a handshake cannot begin one later',
      (front) => front.send(JSON.stringify(initialize('2025-11-25', 9))),
      { id: 9, error: { code: -32022, data: { supported: ['2026-07-28'], requested: '2025-11-25' } } },
    ],
    [
      'without a handshake must send protocol metadata with every request',
      (front) => front.send('{"jsonrpc":"2.0","id":9,"method":"tools/list"}'),
      { id: 9, error: { code: -32602 } },
    ],
    [
      'without a handshake cannot send a batch',
      (front) => front.send('[{"jsonrpc":"2.0","id":9,"method":"tools/list"}]'),
      { id: null, error: { code: -32600 } },
    ],
    [
      'without a handshake cannot ping',
      (front) => front.send(JSON.stringify(modern('ping', {}, 9).message)),
      { id: 9, error: { code: -32601 } },
    ],
    [
      'that requests a future version receives the supported versions',
      (front) => {
        const { message } = modern(
          'tools/list',
          { _meta: { 'io.modelcontextprotocol/protocolVersion': '2031-01-01' } },
          9,
        )
        return front.send(JSON.stringify(message))
      },
      { id: 9, error: { code: -32022, data: { supported: ['2026-07-28'] } } },
    ],
  ]
  test.each(cases)('%s', async (_name, send, expected) => {
    const front = await stdioFront(gateway, '2026-07-28')
    expect(await send(front)).toMatchObject({ message: expected })
    expect(await front.call()).toBe(wellAnswered)
  })

  test('that completed the handshake cannot repeat it', async () => {
    const front = await stdioFront(gateway)
    expect(await front.send(JSON.stringify(initialize('2025-06-18', 9)))).toMatchObject({
      message: { id: 9, error: { code: -32600 } },
    })
    expect(await front.call()).toBe(wellAnswered)
  })

  test('whose first line is invalid can still begin', async () => {
    gateway.stdin.write('hello\n\x00\n[]\n{"jsonrpc":"2.0","id":1,"result":{}}\n')
    await until(() => gateway.stdout().split('\n').length > 3, 'three refusals')
    const front = await stdioFront(gateway)
    expect(await front.call()).toBe(wellAnswered)
  })

  test('that sends a request before the handshake receives an error that requires it', async () => {
    gateway.stdin.write('{"jsonrpc":"2.0","id":0,"method":"tools/list"}\n')
    await until(() => gateway.stdout().includes('initialize must be the first request'), 'the refusal')
    expect(await (await stdioFront(gateway)).call()).toBe(wellAnswered)
  })
})
