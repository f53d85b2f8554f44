import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../support/condition.ts'
import { type CommandProcess, startCommandProcess } from '../../support/gateway-process.ts'
import { runCommand } from '../../support/gateway.ts'
import { clientOf } from '../../support/journey.ts'
import { skipWithout } from '../../support/needs.ts'
import { hasRedis, needsRedis, type RedisServer, startRedis } from '../../support/redis-server.ts'
import { openRoom, type Room } from '../../support/room.ts'
import { steadyPort } from '../../support/steady-port.ts'
import { isObject, type Json } from '../../support/server/json.ts'

interface Gateway {
  readonly url: string
  readonly command: CommandProcess
}

function configFile(room: Room, store: string, unsend: Json = {}): string {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-restart-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'gateway.config.yaml')
  const tools = { send: { undo: 'unsend(text=$.args.text)' }, unsend }
  const upstreams = { room: { url: room.url, revision: '2025-11-25', tools } }
  const features = { confirm: 'off', transactions: { uncompensable: 'allow' } }
  writeFileSync(file, JSON.stringify({ store, features, upstreams }))
  return file
}

async function start(config: string): Promise<Gateway> {
  const command = startCommandProcess(['serve', '--config', config, '--port', '0'])
  onTestFinished(() => command.close())
  const url = await until(() => /^Gatehouse serves (\S+)$/m.exec(command.stdout())?.[1], 'the address')
  return { url: `${new URL(url).origin}/mcp`, command }
}

async function tx(config: string, ...args: string[]) {
  const { code, stdout, stderr } = await runCommand(['tx', ...args, '--config', config])
  return { code, stdout, stderr }
}

async function statusOf(gateway: Gateway, wanted: string): Promise<Json> {
  const client = await clientOf(gateway)
  return until(
    async () => {
      const { result } = await client.request('transaction/status', t)
      return isObject(result) && result['status'] === wanted && result
    },
    wanted,
    60_000,
  )
}

const t = { transaction_id: 't' }
const send = (text: string): Json => ({ name: 'send', arguments: { text }, ...t })

let redis: RedisServer | undefined
beforeAll(async () => {
  redis = hasRedis() ? await startRedis() : undefined
  // So that commands have nothing to warn of.
  await redis?.tell('CONFIG SET appendfsync always')
})
afterAll(() => redis?.stop())
let count = 0

/** Stores that no other test uses. */
const stores = [
  { kind: 'a folder', store: () => './store' },
  { kind: 'Redis', store: () => `${redis?.url}/${count++}` },
]

describe.each(stores)('when a gateway with a $kind store is killed', ({ kind, store }) => {
  beforeEach((context) => {
    if (kind === 'Redis') skipWithout(needsRedis, context)
  })

  it('in the middle of a rollback, the next gateway continues it and compensates nothing twice', async () => {
    const room = await openRoom()
    const config = configFile(room, store(), { idempotent: true })
    const first = await start(config)
    const client = await clientOf(first)
    await client.request('transaction/begin', t)
    for (const text of ['a', 'b', 'c']) await client.request('tools/call', send(text))
    room.silent = 'unsend b'
    client.request('transaction/rollback', t).catch(() => undefined)
    await until(() => room.calls.includes('unsend b'), 'the second compensation')
    first.command.signal('SIGKILL')
    await first.command.ended
    room.silent = undefined
    const second = await start(config)
    expect(await statusOf(second, 'rolled_back')).toMatchObject({
      steps_compensated: ['step-3', 'step-2', 'step-1'].map((id) => ({ step_id: id, status: 'compensated' })),
    })
    expect(room.messages.size).toBe(0)
    expect(room.calls).toEqual(['send a', 'send b', 'send c', 'unsend c', 'unsend b', 'unsend b', 'unsend a'])
  })

  it('in the middle of a compensation that is not idempotent, it is left for manual resolution', async () => {
    const room = await openRoom()
    const config = configFile(room, store())
    const first = await start(config)
    const client = await clientOf(first)
    await client.request('transaction/begin', t)
    for (const text of ['a', 'b']) await client.request('tools/call', send(text))
    room.silent = 'unsend b'
    client.request('transaction/rollback', t).catch(() => undefined)
    await until(() => room.calls.includes('unsend b'), 'the first compensation')
    first.command.signal('SIGKILL')
    await first.command.ended
    const second = await start(config)
    expect(await statusOf(second, 'partially_rolled_back')).toMatchObject({
      needs_attention: true,
      steps_compensated: [
        { step_id: 'step-2', status: 'compensation_failed', error: { code: 'OUTCOME_UNKNOWN' } },
        { step_id: 'step-1', status: 'compensated' },
      ],
    })
    expect(room.calls).toEqual(['send a', 'send b', 'unsend b', 'unsend a'])
    const listed = await tx(config, 'list')
    expect(listed.stdout).toMatch(/^needs attention {2}\S+ {2}t {2}anonymous {2}2 steps\n$/)
    expect((await tx(config, 'show', 't')).stdout).toContain('not undone: OUTCOME_UNKNOWN')
    expect((await tx(config, 'ack', 't')).stdout).toContain('acknowledged')
    expect(await statusOf(second, 'partially_rolled_back')).toMatchObject({
      needs_attention: false,
      acknowledged_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    })
    expect(await tx(config, 'ack', 't')).toMatchObject({ code: 1, stdout: '' })
  })

  it('while the server of its steps is down, the rollback completes once both are back', async () => {
    const port = await steadyPort()
    const room = await openRoom({ port })
    const config = configFile(room, store())
    const first = await start(config)
    const client = await clientOf(first)
    await client.request('transaction/begin', t)
    for (const text of ['a', 'b']) await client.request('tools/call', send(text))
    await room.end()
    expect((await client.request('transaction/rollback', t)).result).toMatchObject({
      status: 'partially_rolled_back',
      needs_attention: true,
      next_retry_at: expect.any(String),
    })
    first.command.signal('SIGKILL')
    await first.command.ended
    const second = await start(config)
    expect((await tx(config, 'list')).stdout).toMatch(/^needs attention {2}/)
    const reopened = await openRoom({ port, before: room })
    expect(await statusOf(second, 'rolled_back')).toMatchObject({ needs_attention: false })
    expect(reopened.calls).toEqual(['unsend b', 'unsend a'])
    expect(reopened.messages.size).toBe(0)
  })

  it('in the middle of a step, its transaction continues and the step is in doubt', async () => {
    const room = await openRoom()
    const config = configFile(room, store())
    const first = await start(config)
    const client = await clientOf(first)
    await client.request('transaction/begin', t)
    await client.request('tools/call', send('a'))
    room.silent = 'send b'
    client.request('tools/call', send('b')).catch(() => undefined)
    await until(() => room.calls.includes('send b'), 'the step')
    first.command.signal('SIGKILL')
    await first.command.ended
    const second = await start(config)
    const again = await clientOf(second)
    expect((await again.request('tools/call', send('c'))).result).toMatchObject({
      transaction: { step_id: 'step-3' },
    })
    expect((await again.request('transaction/rollback', t)).result).toMatchObject({
      status: 'partially_rolled_back',
      steps_compensated: [
        { step_id: 'step-3', status: 'compensated' },
        { step_id: 'step-2', status: 'compensated', error: { code: 'OUTCOME_UNKNOWN' } },
        { step_id: 'step-1', status: 'compensated' },
      ],
    })
    expect(room.messages.size).toBe(0)
  })

  it('and not restarted, the command line performs the rollback', async () => {
    const room = await openRoom()
    const config = configFile(room, store())
    const first = await start(config)
    const client = await clientOf(first)
    await client.request('transaction/begin', { ...t, description: 'two messages' })
    for (const text of ['a', 'b']) await client.request('tools/call', send(text))
    first.command.signal('SIGKILL')
    await first.command.ended
    expect(await tx(config, 'list')).toMatchObject({
      stderr: '',
      stdout: expect.stringContaining('two messages'),
    })
    const { code, stdout, stderr } = await tx(config, 'rollback', 't', '--reason', 'it is late')
    expect([code, stderr]).toEqual([0, ''])
    const undone = 'undone; cannot tell whether the state is the old one'
    expect(stdout).toBe(`t: rolled back\n  step-2       ${undone}\n  step-1       ${undone}\n`)
    expect(room.messages.size).toBe(0)
    const shown: Json = JSON.parse((await tx(config, 'show', 't', '--json')).stdout)
    expect(shown).toMatchObject({
      status: 'rolled_back',
      reason: expect.stringMatching(/^operator .+: it is late$/),
    })
  })

  it('never, the command line leaves the rollback to the running gateway', async () => {
    const room = await openRoom()
    const config = configFile(room, store())
    const gateway = await start(config)
    const client = await clientOf(gateway)
    await client.request('transaction/begin', t)
    await client.request('tools/call', send('a'))
    await client.request('tools/call', { name: 'shout', arguments: { text: 'b' }, ...t })
    const { code, stdout } = await tx(config, 'rollback', 't')
    expect(code).toBe(1)
    expect(stdout).toContain('t: needs attention')
    expect(stdout).toContain('step-2       not undone: COMPENSATION_UNAVAILABLE')
    expect(stdout).toContain('gatehouse tx ack t')
    expect([...room.messages]).toEqual(['b'])
    expect(await statusOf(gateway, 'partially_rolled_back')).toMatchObject({ needs_attention: true })
    expect(await tx(config, 'rollback', 't')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('cannot be rolled back: it is partially rolled back'),
    })
    expect(await tx(config, 'show', 'x')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('no such transaction: "x"'),
    })
  })
})
