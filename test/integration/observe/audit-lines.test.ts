import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { expect, it } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { Gateway } from '../../../src/gateway/gateway.ts'
import { until } from '../../support/condition.ts'
import { initialize } from '../../support/fronts.ts'
import { folder, httpServer } from '../../support/journey.ts'
import type { Json } from '../../support/server/json.ts'
import { silentLog } from '../../support/silent-log.ts'

/** The audit log of `gatehouse stdio` after its client has written these lines. */
async function recorded(lines: readonly string[]): Promise<Json[]> {
  const server = await httpServer()
  const file = join(folder(), 'audit.jsonl')
  const config = {
    observe: { audit: file },
    upstreams: { one: { url: server.url, revision: '2025-11-25' } },
  }
  const { settings } = loadSettings(JSON.stringify({ store: 'memory', ...config }), {
    file: '/tmp/gateway.config.yaml',
    env: {},
  })
  const gateway = new Gateway(settings, { variables: {}, log: silentLog })
  const [input, output] = [new PassThrough(), new PassThrough()]
  const served = gateway.stdio(input, output)
  let said = ''
  output.on('data', (chunk: Buffer) => void (said += chunk.toString()))
  for (const [index, line] of lines.entries()) {
    input.write(`${line}\n`)
    await until(() => said.split('\n').length > index + 1, `the answer to ${line}`)
  }
  input.end()
  await served
  await gateway.close()
  return readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Json)
}

function request(id: number, method: string, params: Json = {}): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method, params })
}

it('C202 the audit log contains messages refused on stdio, with their principal', async () => {
  const events = await recorded(['no message', JSON.stringify(initialize())])
  expect(events.slice(1)).toMatchObject([
    { event: 'refused', request: 'stdio', principal: 'anonymous', code: 'PARSE_ERROR' },
  ])
})

it('C202 the audit log contains stdio messages refused before they become a call, without a handshake', async () => {
  const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' }
  const events = await recorded([request(1, 'tools/list', { _meta: meta })])
  expect(events.slice(1)).toMatchObject([{ event: 'refused', request: 'stdio', code: 'INVALID_INPUT' }])
})

it('C201 the audit log contains permission requests and vendor methods', async () => {
  const events = await recorded([
    JSON.stringify(initialize()),
    request(2, 'permissions/check', { tool: 'echo' }),
    request(3, 'permissions/negotiate', { requested_scopes: ['read:one'] }),
    request(4, 'vendor/method'),
    request(5, 'tools/list'),
  ])
  expect(events.slice(1)).toMatchObject([
    { event: 'call', method: 'permissions/check', outcome: 'ok' },
    { event: 'call', method: 'permissions/negotiate', outcome: 'ok' },
    { event: 'call', method: 'vendor/method' },
  ])
  expect(events).toHaveLength(4)
})
