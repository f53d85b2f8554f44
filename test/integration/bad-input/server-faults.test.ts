import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { fakeServerCommand } from '../../support/fake-server.ts'
import { badMessages, httpFaults } from '../../support/faults.ts'
import { type FaultyServer, startFaultyServer } from '../../support/faulty-server.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { codeOf } from '../../support/structured-error.ts'

const main = fileURLToPath(new URL('../../fixtures/faulty-server/main.ts', import.meta.url))
const program = { command: [process.execPath, main], revision: '2025-11-25' }
const sane = fakeServerCommand({ revision: '2025-11-25' })
const revisions = ['2026-07-28', '2025-11-25'] as const

let web: FaultyServer
let gateway: RunningGateway
const clients: FakeClient[] = []

beforeAll(async () => {
  web = await startFaultyServer()
  // What is answered may take longer: a line over the limit is read first.
  const waiting = [...untied, 'silent', 'huge_line'].map((name) => [name, { timeout: '1s' }])
  const child = { ...program, tools: Object.fromEntries(waiting) }
  const dying = ['exits', 'exits_in_line', 'killed'].map((name) => [name.replaceAll('_', '-'), program])
  gateway = await startGateway({
    // Connection resets need no confirmation.
    features: { confirm: 'off' },
    upstreams: {
      web: { url: web.url, revision: '2025-11-25', transport: 'streamable' },
      child,
      ...Object.fromEntries(dying),
      sane: { command: [sane.command, ...sane.args] },
    },
  })
})
afterAll(async () => {
  for (const client of clients) await client.close()
  await gateway.close()
  await web.close()
})

async function client(upstream: string, revision: (typeof revisions)[number] = '2026-07-28') {
  const connected = await connect({ revision, transport: 'http', url: `${gateway.url}/${upstream}` })
  clients.push(connected)
  return connected
}

async function answersWell(upstream: string): Promise<void> {
  const reply = await (await client(upstream)).request('tools/call', { name: 'good' })
  expect(textOf(reply)).toBe('good')
}

/** The outcome of a message that is invalid on any transport; those with a number are forwarded as errors. */
const outcomes: Readonly<Record<string, string | number>> = {
  both: -32000,
  empty_error: -32603,
  odd_error: -32603,
}
/** If no message can be matched to the call, the deadline ends it. */
const untied = ['no_json', 'cut_off', 'no_object', 'wrong_id', 'nested', 'batch_of_junk']
const lost = ['half_event', 'stream_of_junk', 'empty_stream', 'reset', 'reset_in_body', 'reset_in_stream']
const unavailable = ['gone', 'broken', 'bad_gateway', 'unauthorized']

function outcomeOverHttp(name: string): string {
  if (lost.includes(name)) return 'OUTCOME_UNKNOWN'
  if (name === 'too_many') return 'RATE_LIMIT_EXCEEDED'
  return unavailable.includes(name) ? 'SERVER_UNAVAILABLE' : 'UPSTREAM_ERROR'
}

describe.each(revisions)('behind a client of %s an HTTP server that', (revision) => {
  const names = [...Object.keys(badMessages), ...Object.keys(httpFaults)]

  test.concurrent.each(names)('responds with "%s" ends the call with a structured error', async (name) => {
    const reply = await (await client('web', revision)).request('tools/call', { name })
    const expected = outcomes[name] ?? outcomeOverHttp(name)
    expect(typeof expected === 'number' ? reply.error?.['code'] : codeOf(reply)).toBe(expected)
  })
})

describe.each(revisions)('behind a client of %s a stdio server that', (revision) => {
  test.concurrent.each(Object.keys(badMessages))(
    'responds with "%s" ends the call with a structured error',
    async (name) => {
      const reply = await (await client('child', revision)).request('tools/call', { name })
      const expected = outcomes[name] ?? (untied.includes(name) ? 'OPERATION_TIMEOUT' : 'UPSTREAM_ERROR')
      expect(typeof expected === 'number' ? reply.error?.['code'] : codeOf(reply)).toBe(expected)
    },
  )

  test('never responds has its call end at the deadline', async () => {
    const reply = await (await client('child', revision)).request('tools/call', { name: 'silent' })
    expect(codeOf(reply)).toBe('OPERATION_TIMEOUT')
  })

  test.each(['binary', 'twice', 'chatty', 'asks_nonsense'])(
    'is "%s" around its response is understood',
    async (name) => {
      const connected = await client('child', revision)
      expect(textOf(await connected.request('tools/call', { name }))).toBe('good')
      await answersWell('child')
      expect(connected.violations).toEqual([])
    },
  )

  test('sends a line over the limit loses only that response', async () => {
    const connected = await client('child', revision)
    const huge = connected.request('tools/call', { name: 'huge_line' })
    expect(codeOf(await huge)).toBe('OPERATION_TIMEOUT')
    await answersWell('child')
  })

  test.each(['exits', 'exits_in_line', 'killed'])(
    '"%s" during a call leaves its outcome unknown and is restarted',
    async (name) => {
      const upstream = name.replaceAll('_', '-')
      const connected = await client(upstream, revision)
      expect(codeOf(await connected.request('tools/call', { name }))).toBe('OUTCOME_UNKNOWN')
      await answersWell(upstream)
    },
  )
})

test('faults on one connection do not affect other calls on it', async () => {
  const connected = await client('web')
  const names = [...Object.keys(badMessages), ...Object.keys(httpFaults)].filter((name) => name !== 'gone')
  const calls = names.flatMap((name) => [
    connected.request('tools/call', { name }).then(() => 'good'),
    connected.request('tools/call', { name: 'good' }).then(textOf),
  ])
  expect(new Set(await Promise.all(calls))).toEqual(new Set(['good']))
})

test('faults of one server do not affect other servers', async () => {
  const other = await client('sane')
  const faults = ['web', 'child', 'exits', 'killed'].map(async (upstream) => {
    const name = upstream === 'exits' || upstream === 'killed' ? upstream : 'cut_off'
    return codeOf(await (await client(upstream)).request('tools/call', { name }))
  })
  const calls = Array.from({ length: 20 }, () =>
    other.request('tools/call', { name: 'big', arguments: { bytes: 5 } }),
  )
  expect(new Set((await Promise.all(calls)).map(textOf))).toEqual(new Set(['xxxxx']))
  expect(await Promise.all(faults)).not.toContain('')
  expect(other.violations).toEqual([])
})
