import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../support/condition.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import { runCommand } from '../../support/gateway.ts'
import { clientOf, codeOf, folder, gatewayProcessTo } from '../../support/journey.ts'
import { type Notes, notes } from '../../support/notes.ts'
import { needsRedis, type RedisServer, startRedis } from '../../support/redis-server.ts'
import type { Json } from '../../support/server/json.ts'

const add = (text: string, meta: Json = {}): Json => ({ name: 'add', arguments: { text }, _meta: meta })

async function clientWith(server: Notes, store: string, config: Json = {}): Promise<FakeClient> {
  const gateway = await gatewayProcessTo({ notes: server.upstream }, { config: { store, ...config } })
  return clientOf(gateway, { revision: '2026-07-28' })
}

/** A separate disk of this size, until the end of the test; nothing if mounting is not permitted. */
function disk(size: string): { readonly path: string; remount(option: string): void } | undefined {
  const path = folder()
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'none', path], { stdio: 'pipe' })
  } catch (error) {
    process.stderr.write(`Tests with a disk of their own are left out: ${String(error)}\n`)
    return undefined
  }
  onTestFinished(() => void execFileSync('umount', ['-l', path]))
  return { path, remount: (option) => void execFileSync('mount', ['-o', `remount,${option}`, path]) }
}

describe('a store in a folder', () => {
  it('on a full disk: no call runs that could not be recorded, and no record is lost', async ({ skip }) => {
    const own = disk('4m')
    if (!own) return skip()
    const server = await notes()
    const client = await clientWith(server, join(own.path, 'store'))
    await client.request('transaction/begin', { transaction_id: 't' })
    await client.request('tools/call', add('before', { transaction_id: 't', idempotency_key: 'k' }))
    const ballast = join(own.path, 'ballast')
    expect(() => writeFileSync(ballast, Buffer.alloc(8_000_000))).toThrow('ENOSPC')
    // The remaining space is used up first.
    let last: Awaited<ReturnType<typeof client.request>> | undefined
    for (let index = 0; codeOf(last ?? {}) !== 'SERVER_UNAVAILABLE'; index++) {
      expect(index).toBeLessThan(500)
      last = await client.request('tools/call', add('x'.repeat(20_000), { idempotency_key: `fill-${index}` }))
    }
    const done = server.calls.length
    expect(JSON.stringify(last)).toMatch(/full|be recorded/)
    const step = await client.request('tools/call', add('step', { transaction_id: 't' }))
    expect(codeOf(step)).toBe('SERVER_UNAVAILABLE')
    expect(server.calls).toHaveLength(done)
    // Calls that record nothing continue, and recorded results are known.
    expect((await client.request('tools/call', add('bare'))).result?.['isError']).not.toBe(true)
    const again = await client.request(
      'tools/call',
      add('before', { transaction_id: 't', idempotency_key: 'k' }),
    )
    expect(again.result?.['_meta']).toMatchObject({ was_replay: true })
    expect((await client.request('transaction/status', { transaction_id: 't' })).result).toMatchObject({
      status: 'active',
    })
    rmSync(ballast)
    await until(async () => {
      const { result } = await client.request('tools/call', add('after', { idempotency_key: 'after' }))
      return result?.['isError'] !== true
    }, 'room to be found')
    expect((await client.request('transaction/rollback', { transaction_id: 't' })).result).toMatchObject({
      status: 'rolled_back',
    })
    expect(server.calls.filter((call) => call.startsWith('drop'))).toEqual(['drop before'])
    expect(server.calls.filter((call) => call === 'add before')).toHaveLength(1)
  })

  it.for(['a missing folder', 'an empty folder'] as const)(
    '%s on a full disk keeps the gateway from starting, and is created once there is space',
    async (what, { skip }) => {
      const own = disk('4m')
      if (!own) return skip()
      const [server, store, file] = [await notes(), join(own.path, 'store'), join(folder(), 'c.yaml')]
      if (what === 'an empty folder') mkdirSync(store)
      const ballast = join(own.path, 'ballast')
      expect(() => writeFileSync(ballast, Buffer.alloc(8_000_000))).toThrow('ENOSPC')
      writeFileSync(file, JSON.stringify({ store, features: 'none', upstreams: { notes: server.upstream } }))
      for (const command of [['serve', '--port', '0'], ['stdio'], ['check']]) {
        const { code, signal, stdout, stderr } = await runCommand([...command, '--config', file])
        expect([code, signal, command, `${stdout}${stderr}`]).toEqual([
          1,
          null,
          command,
          expect.stringContaining('the disk is full. Free some space'),
        ])
      }
      rmSync(ballast)
      const client = await clientWith(server, store)
      const { result } = await client.request('tools/call', add('first', { idempotency_key: 'k' }))
      expect(result?.['_meta']).toMatchObject({ was_replay: false })
    },
  )

  it.for([
    ['that is read-only', 'is not writable'],
    ['that contains another file', 'it is not a store'],
    ['that is truncated', 'its end is missing'],
    ['that is a file', 'is a file'],
  ] as const)(
    '%s keeps the gateway from starting, is named with its path, and is left unchanged',
    async ([what, reason], { skip }) => {
      const home = folder()
      let store = join(home, 'store')
      let kept: string | undefined
      if (what.includes('read-only')) {
        const own = disk('4m')
        if (!own) return skip()
        store = join(own.path, 'store')
        mkdirSync(store)
        own.remount('ro')
      } else if (what.includes('is a file')) {
        writeFileSync((kept = store), 'mine')
      } else {
        mkdirSync(store)
        kept = join(store, 'data.mdb')
        writeFileSync(kept, what.includes('truncated') ? await torn() : 'something else')
      }
      const before = kept === undefined ? undefined : readFileSync(kept)
      const file = join(home, 'gateway.config.yaml')
      writeFileSync(file, `store: ${store}\nupstreams:\n  away: https://127.0.0.1:9\n`)
      for (const command of [['serve', '--port', '0'], ['stdio'], ['check'], ['tx', 'list']]) {
        const { code, stdout, stderr } = await runCommand([...command, '--config', file])
        expect([code, command, `${stdout}${stderr}`]).toEqual([1, command, expect.stringContaining(reason)])
        // No address is printed if the gateway does not start.
        if (command[0] === 'serve') expect(stdout).toBe('')
        if (command[0] !== 'tx') expect(`${stdout}${stderr}`).toContain('gateway.config.yaml:1:8 store: ')
      }
      if (kept !== undefined) expect(readFileSync(kept).equals(before ?? Buffer.alloc(0))).toBe(true)
    },
  )
})

/** The beginning of the file of a store. */
async function torn(): Promise<Buffer> {
  const server = await notes()
  const store = join(folder(), 'store')
  const client = await clientWith(server, store)
  for (let index = 0; index < 20; index++)
    await client.request('tools/call', add('x'.repeat(2000), { idempotency_key: `k${index}` }))
  return readFileSync(join(store, 'data.mdb')).subarray(0, 20_000)
}

describe('a store in Redis', needsRedis, () => {
  let redis: RedisServer
  beforeAll(async () => void (redis = await startRedis()))
  afterAll(() => redis?.stop())
  let count = 0
  const store = (): string => `${redis.url}/${count++}`

  it('that disappears during a call: the call completes, is marked as unrecorded, and runs once', async () => {
    const server = await notes()
    const client = await clientWith(server, store())
    const params = add('slow', { idempotency_key: 'k' })
    const first = client.request('tools/call', params)
    await until(() => server.calls.length === 1, 'the call')
    await redis.stop()
    server.release()
    const { result } = await first
    expect(result).toMatchObject({ structuredContent: { text: 'slow' } })
    expect(result?.['_meta']).toMatchObject({ 'dev.gatehouse/unrecorded': true })
    // Concurrent callers receive the result, and none of them runs the call.
    const second = await client.request('tools/call', params)
    expect(second.result).toMatchObject({ structuredContent: { text: 'slow' } })
    expect(codeOf(await client.request('tools/call', add('other', { idempotency_key: 'l' })))).toBe(
      'SERVER_UNAVAILABLE',
    )
    await redis.start()
    const again = await until(async () => {
      const { result: told } = await client.request('tools/call', params)
      const meta = told?.['_meta'] as Json | undefined
      return meta?.['was_replay'] === true && meta['dev.gatehouse/unrecorded'] === undefined && meta
    }, 'the record')
    expect(again).toMatchObject({ idempotency_key: 'k' })
    await until(async () => {
      const { result: told } = await client.request('tools/call', add('other', { idempotency_key: 'l' }))
      return told?.['isError'] !== true
    }, 'the store to be back')
    expect(server.calls).toEqual(['add slow', 'add other'])
  })

  it('that is unresponsive for a while: the step is in doubt, and its transaction can be rolled back', async () => {
    const server = await notes()
    const client = await clientWith(server, store())
    const t = { transaction_id: 't' }
    await client.request('transaction/begin', t)
    await client.request('tools/call', add('first', t))
    const step = client.request('tools/call', add('slow', t))
    await until(() => server.calls.length === 2, 'the step')
    redis.freeze()
    try {
      server.release()
      expect(codeOf(await step)).toBe('OUTCOME_UNKNOWN')
      const next = await client.request('tools/call', add('next', t))
      expect(codeOf(next)).toBe('SERVER_UNAVAILABLE')
      expect(server.calls).toHaveLength(2)
    } finally {
      redis.thaw()
    }
    const ended = await until(async () => {
      const reply = await client.request('transaction/rollback', t)
      return reply.result?.['status'] !== undefined && reply.result
    }, 'the store to be back')
    const { steps_compensated: undone } = ended as { readonly steps_compensated: readonly Json[] }
    expect(undone.at(-1)).toEqual({ step_id: 'step-1', status: 'compensated', state: 'unknown' })
    expect(server.calls).toContain('drop first')
    // By then the outcome of the step is known, or reported as unknown.
    const isSure = ended['status'] === 'rolled_back'
    expect(server.calls.includes('drop slow')).toBe(isSure)
    if (!isSure) expect(undone[0]).toMatchObject({ step_id: 'step-2', status: 'compensation_failed' })
  })
})
