import { spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import fc from 'fast-check'
import { open as openLmdb } from 'lmdb'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { LmdbStore } from '../../../src/store/lmdb/store.ts'
import { blobContract } from '../../support/blob-contract.ts'
import { collectionContract } from '../../support/collection-contract.ts'
import { until } from '../../support/condition.ts'
import { logContract } from '../../support/log-contract.ts'
import { silentLog } from '../../support/silent-log.ts'
import { storeContract } from '../../support/store-contract.ts'

const LINE_FEED = 0x0a
const CHILD = join(import.meta.dirname, '../../support/store-child.ts')
let directory = ''
let now = 0
const opened: LmdbStore[] = []

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-store-'))
  now = Date.now()
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()))
  await rm(directory, { recursive: true, force: true })
})

async function start(folder = join(directory, 'store'), limit?: number): Promise<LmdbStore> {
  const store = new LmdbStore(folder, silentLog, {
    clock: () => now,
    rest: 500,
    ...(limit !== undefined && { limit }),
  })
  opened.push(store)
  await store.opened()
  return store
}

function run(task: string, name: string, folder = join(directory, 'store')) {
  const child = spawn(process.execPath, [CHILD, folder, task, name], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  return { child, output: text(child.stdout) }
}

describe('the store in a folder', () => {
  describe('in use', () => {
    let store: LmdbStore
    beforeEach(async () => {
      // Buckets are counted by the clock of the process.
      vi.useFakeTimers({ toFake: ['performance'] })
      store = await start()
    })
    afterEach(() => void vi.useRealTimers())
    storeContract(() => ({
      store,
      pass: async (milliseconds) => {
        now += milliseconds
        vi.advanceTimersByTime(milliseconds)
      },
    }))
    describe('collections', () => {
      collectionContract(() => ({
        store,
        pass: async (milliseconds) => {
          now += milliseconds
          vi.advanceTimersByTime(milliseconds)
        },
      }))
    })
    describe('blobs', () => {
      blobContract(() => store.blobs, true)
    })
    logContract(() => ({
      store,
      pass: async (milliseconds) => {
        now += milliseconds
        vi.advanceTimersByTime(milliseconds)
      },
    }))
  })

  it('is private to the user', async () => {
    await start()
    const mode = (path: string): number => statSync(path).mode & 0o777
    expect(mode(join(directory, 'store'))).toBe(0o700)
    expect(mode(join(directory, 'store/data.mdb'))).toBe(0o600)
    expect(mode(join(directory, 'store/lock.mdb'))).toBe(0o600)
  })

  it('keeps every confirmed write when its process is killed', { timeout: 30_000 }, async () => {
    for (const promises of [1, 50, 150, 400, 1000]) {
      const { child, output } = run('write', `round-${promises}`)
      await told(child.stdout, promises)
      child.kill('SIGKILL')
      // The last line may be cut off.
      const lines = (await output).split('\n').slice(0, -1)
      expect(lines.length).toBeGreaterThan(0)
      const store = await start()
      expect(store.unavailableReason).toBeUndefined()
      for (const line of lines) {
        const [state = '', key = ''] = line.split(' ')
        const found = await store.get(key)
        const isKept = found === 'ended' || (state === 'begun' && found === 'begun')
        expect({ line, isKept }).toEqual({ line, isKept: true })
      }
      await opened.pop()?.close()
    }
  })

  it(
    'is shared by processes: exactly one wins each claim, and no update is lost',
    { timeout: 30_000 },
    async () => {
      const all = ['one', 'two', 'three'].map((name) => run('compete', name))
      const outputs = await Promise.all(all.map(({ output }) => output))
      const won = outputs.join('').trim().split('\n').sort()
      expect(won).toHaveLength(500)
      expect(new Set(won).size).toBe(500)
      expect(await (await start()).get('call:count')).toBe('600')
    },
  )

  it('groups the writes of successive calls into one commit', async () => {
    const folder = join(directory, 'store')
    const store = await start(folder)
    const looking = openLmdb({ path: folder, noSubdir: false })
    const commits = (): number => (looking.getStats() as { readonly lastTxnId: number }).lastTxnId
    const before = commits()
    const bursts = 20
    for (let burst = 0; burst < bursts; burst++) {
      const writes: Promise<void>[] = []
      for (let at = 0; at < 8; at++) {
        writes.push(store.put(`rate:${at}`, 'value', 60_000))
        await new Promise(setImmediate)
      }
      await Promise.all(writes)
    }
    // A machine that pauses for longer than the commit delay makes more than one commit of some bursts.
    expect(commits() - before).toBeLessThan(1.5 * bursts)
    await looking.close()
  })

  it('sees at once what another process wrote', async () => {
    const [one, other] = [await start(), await start()]
    await one.put('key:x', 'a', 60_000)
    expect(await other.get('key:x')).toBe('a')
    await other.put('key:x', 'b', 60_000)
    expect(await one.setIfAbsent('key:x', 'c', 60_000)).toBe('b')
  })

  it('removes expired entries', async () => {
    const store = await start()
    await Promise.all(
      Array.from({ length: 300 }, (_each, index) => store.put(`call:${index}`, 'x'.repeat(5000), 50)),
    )
    await store.put('call:kept', 'x', 60_000)
    const before = Number((await store.describe()).used)
    now += 100
    await until(async () => Number((await store.describe()).used) < before / 5, 'the store to be swept')
    expect(await store.get('call:kept')).toBe('x')
  })

  it('removes expired entries faster if there are many', async () => {
    const store = await start()
    const keys = Array.from({ length: 3000 }, (_each, index) => `call:of/${index}`)
    await Promise.all(keys.map((key) => store.put(key, 'x'.repeat(500), 1000)))
    const before = Number((await store.describe()).used)
    now += 1001
    // At the usual pace it would take six seconds.
    await until(async () => Number((await store.describe()).used) < before / 5, 'the store to be swept', 3000)
  })

  it('refuses writes without space, keeps all other data, and continues once there is space', async () => {
    const store = await start(undefined, 2 * 1024 * 1024)
    const value = 'x'.repeat(20_000)
    const fill = async (): Promise<number> => {
      for (let index = 0; ; index++)
        await store
          .put(`call:${index}`, value, 60_000)
          .catch((error) => Promise.reject(Object.assign(error, { index })))
    }
    const failure = await fill().catch((error: unknown) => error)
    expect(failure).toMatchObject({
      code: 'SERVER_UNAVAILABLE',
      message: 'The store of the gateway is full.',
    })
    expect(store.unavailableReason).toContain('it contains 2 MB, its maximum')
    for (let index = 0; index < Number((failure as { index: number }).index); index++) {
      expect(await store.get(`call:${index}`)).toBe(value)
    }
    now += 60_001
    await until(() => store.unavailableReason === undefined, 'room to be made')
    await store.put('call:again', value, 60_000)
    expect(await store.get('call:again')).toBe(value)
  })

  it('reports what is wrong with an unusable folder, and leaves it unchanged', async () => {
    const cases: readonly [prepare: (folder: string) => void | Promise<void>, reason: string][] = [
      [(folder) => writeFileSync(join(folder, 'data.mdb'), 'something else entirely'), 'it is not a store'],
      [(folder) => writeFileSync(join(folder, 'data.mdb'), Buffer.alloc(100_000)), 'it is not a store'],
      [makeForeign, 'it is a database of another program'],
      [makeNewer, 'it was written by a newer version of Gatehouse (format 2)'],
      [(folder) => makeTorn(folder, (whole) => whole.subarray(0, 20_000)), 'its end is missing'],
      [(folder) => makeTorn(folder, (whole) => whole.fill(0x5a, 3 * 4096, 400 * 4096)), 'was damaged'],
    ]
    for (const [index, [prepare, reason]] of cases.entries()) {
      const folder = join(directory, String(index))
      mkdirSync(folder)
      await prepare(folder)
      const before = readFileSync(join(folder, 'data.mdb'))
      const store = await start(folder)
      expect(store.unavailableReason).toContain(`the store in ${folder} cannot be used: `)
      expect(store.unavailableReason).toContain(reason)
      await expect(store.get('key:x')).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
      await expect(store.put('key:x', 'y', 1000)).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
      expect(readFileSync(join(folder, 'data.mdb')).equals(before)).toBe(true)
    }
  })

  it('reports a path that is a file, and a folder without write permission', async () => {
    writeFileSync(join(directory, 'file'), '')
    expect((await start(join(directory, 'file'))).unavailableReason).toContain('a file of that name exists')
    expect((await start('/proc/gatehouse')).unavailableReason).toContain('cannot be used')
  })

  it.runIf(process.getuid?.() !== 0)('reports a read-only folder', async () => {
    const folder = join(directory, 'readonly')
    mkdirSync(folder)
    chmodSync(folder, 0o500)
    expect((await start(folder)).unavailableReason).toContain('it is not writable')
  })

  it(
    'never crashes the process, wherever its file is truncated or overwritten',
    { timeout: 30_000 },
    async () => {
      const whole = join(directory, 'whole')
      mkdirSync(whole)
      await makeTorn(whole, (bytes) => bytes)
      const bytes = readFileSync(join(whole, 'data.mdb'))
      const property = fc.asyncProperty(
        fc.oneof(fc.nat(3 * 4096), fc.nat(bytes.length)),
        fc.integer({ min: 1, max: 30_000 }),
        fc.boolean(),
        async (at, length, isCut) => {
          const folder = mkdtempSync(join(directory, 'torn-'))
          const end = Math.min(at + length, bytes.length)
          const torn = isCut ? bytes.subarray(0, at) : Buffer.from(bytes).fill(0xa5, at, end)
          writeFileSync(join(folder, 'data.mdb'), torn)
          const { child, output } = run('look', '', folder)
          expect(await output).toMatch(/^(?:refused|found \d+)\n$/)
          expect(child.signalCode).toBeNull()
        },
      )
      await fc.assert(property, { numRuns: 20 })
    },
  )
})

/** Waits until so many lines were written. */
function told(stream: Readable, lines: number): Promise<void> {
  let left = lines
  return new Promise((resolve) => {
    stream.on('data', (chunk: Buffer) => {
      left -= chunk.filter((byte) => byte === LINE_FEED).length
      if (left <= 0) resolve()
    })
  })
}

async function makeForeign(folder: string): Promise<void> {
  const database = openLmdb({ path: folder, noSubdir: false, overlappingSync: false })
  await database.put('greeting', { hello: 'world' })
  await database.close()
}

async function makeNewer(folder: string): Promise<void> {
  const options = { path: folder, encoding: 'string' as const, useVersions: true, overlappingSync: false }
  const database = openLmdb<string, string>(options)
  await database.put('gatehouse', 'zzzzzzzz format 2', 1)
  await database.close()
}

async function makeTorn(folder: string, change: (whole: Buffer) => Buffer): Promise<void> {
  const store = new LmdbStore(folder, silentLog)
  await Promise.all(
    Array.from({ length: 400 }, (_each, index) =>
      store.put(`call:${index}`, 'x'.repeat(index * 20), 3_600_000),
    ),
  )
  await store.close()
  const file = join(folder, 'data.mdb')
  expect(existsSync(file)).toBe(true)
  writeFileSync(file, change(readFileSync(file)))
}
