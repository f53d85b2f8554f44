import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { LmdbStore } from '../../../src/store/lmdb/store.ts'
import { until } from '../../support/condition.ts'
import { type Command, type Finished, runCommand, startCommand } from '../../support/gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { silentLog } from '../../support/silent-log.ts'

const config = { upstreams: { memory: { command: publishedServer('@modelcontextprotocol/server-memory') } } }

describe('gatehouse store', () => {
  let folder = ''
  let gateway: Command
  const file = (): string => join(folder, 'gateway.config.yaml')
  const run = (...args: string[]): Promise<Finished> => runCommand(['store', ...args, '--config', file()])

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'gatehouse-store-'))
    writeFileSync(file(), JSON.stringify(config))
    gateway = startCommand(['serve', '--config', file(), '--port', '0'])
    await until(() => existsSync(join(folder, '.gatehouse/data.mdb')), 'the store')
    await until(async () => (await run('info')).stdout.includes('contract'), 'the last entry of the gateway')
  })
  afterAll(async () => {
    await gateway.close()
    rmSync(folder, { recursive: true, force: true })
  })

  it('prints information about the store beside the file while a gateway uses it', async () => {
    expect(statSync(join(folder, '.gatehouse')).mode & 0o777).toBe(0o700)
    const { code, stdout } = await run('info')
    expect(code).toBe(0)
    expect(stdout).toContain(join(folder, '.gatehouse'))
    expect(stdout).toMatch(/^ {2}key +[1-9]/m)
    const json: unknown = JSON.parse((await run('info', '--json')).stdout)
    expect(json).toMatchObject({ kind: 'LMDB', entries: { key: expect.any(Number) } })
  })

  it('exports everything to a private file, and imports it elsewhere without overwriting anything', async () => {
    const store = new LmdbStore(join(folder, '.gatehouse'), silentLog)
    await store.put('session:a', 'first "line"\nsecond ✓', 3_600_000)
    await store.close()
    const exported = join(folder, 'export.jsonl')
    expect(await run('export', exported)).toMatchObject({ code: 0 })
    expect(statSync(exported).mode & 0o777).toBe(0o600)
    expect(await run('export', exported)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('--force'),
    })
    chmodSync(exported, 0o644)
    expect(await run('export', exported, '--force')).toMatchObject({ code: 0 })
    expect(statSync(exported).mode & 0o777).toBe(0o600)
    // The gateway may have written its heartbeat between the two.
    await until(async () => {
      await run('export', exported, '--force')
      return (await run('export')).stdout === readFileSync(exported, 'utf8')
    }, 'the same on the output')

    const other = join(folder, 'other.yaml')
    writeFileSync(other, JSON.stringify({ ...config, store: './other' }))
    const into = (...args: string[]): Promise<Finished> =>
      runCommand(['store', 'import', exported, '--config', other, ...args])
    expect((await into()).stdout).toMatch(/^imported ([2-9]|\d\d) entries\n/)
    const target = new LmdbStore(join(folder, 'other'), silentLog)
    expect(await target.get('session:a')).toBe('first "line"\nsecond ✓')
    await target.put('session:a', 'changed', 3_600_000)
    expect((await into()).stdout).toMatch(/^imported 0 entries, kept ([2-9]|\d\d) existing ones/)
    expect(await target.get('session:a')).toBe('changed')
    expect((await into('--force')).stdout).toMatch(/^imported ([2-9]|\d\d) entries\n/)
    expect(await target.get('session:a')).toContain('second')
    await target.close()
  })

  it('refuses a file that is no export, names the line, and imports nothing of it', async () => {
    const header = '{"format":"gatehouse-store","version":1}'
    const cases = [
      ['', 'is empty'],
      ['{"format":"something"}', ':1: not a file of gatehouse store export'],
      ['{"format":"gatehouse-store","version":2}', ':1: exported by an incompatible version'],
      [`${header}\n{"key":"session:bad","value":"x","until":99999999999999}\n{"key":1}`, ':3: not an entry'],
      [`${header}\n{"key":"session:bad","value":"x"`, ':2: not an entry'],
    ] as const
    for (const [text, reason] of cases) {
      const path = join(folder, 'bad.jsonl')
      writeFileSync(path, text)
      const { code, stderr } = await run('import', path)
      expect(code).toBe(1)
      expect(stderr).toContain(reason)
    }
    expect((await run('export')).stdout).not.toContain('session:bad')
    expect(await run('import', join(folder, 'missing'))).toMatchObject({ code: 1 })
    expect(await run('sell')).toMatchObject({ code: 2 })
  })

  it('creates no store for a command that only reads', async () => {
    const path = join(folder, 'none.yaml')
    writeFileSync(path, JSON.stringify({ ...config, store: './none' }))
    for (const action of ['info', 'export']) {
      const { code, stderr } = await runCommand(['store', action, '--config', path])
      expect(code).toBe(1)
      expect(stderr).toContain(`${join(folder, 'none')} contains no store`)
    }
    expect(existsSync(join(folder, 'none'))).toBe(false)
  })

  it('is refused for a store that does not outlive its process', async () => {
    const path = join(folder, 'memory.yaml')
    writeFileSync(path, JSON.stringify({ ...config, store: 'memory' }))
    const { code, stderr } = await runCommand(['store', 'info', '--config', path])
    expect(code).toBe(1)
    expect(stderr).toContain('store: memory exists only')
  })

  it('reports an unusable store in one line from serve and check, and leaves it unchanged', async () => {
    const path = join(folder, 'broken.yaml')
    writeFileSync(path, JSON.stringify({ store: './broken', ...config }))
    mkdirSync(join(folder, 'broken'))
    writeFileSync(join(folder, 'broken/data.mdb'), 'not a database')
    for (const command of [['serve', '--port', '0'], ['check']]) {
      const { code, stderr } = await runCommand([...command, '--config', path])
      expect(code).toBe(1)
      const lines = stderr
        .split('\n')
        .filter((line) => line.includes('cannot be used') && !line.startsWith('{'))
      expect(lines).toHaveLength(1)
      expect(lines[0]).toContain(`${path}:1:`)
      expect(lines[0]).toContain(join(folder, 'broken'))
    }
    expect(readFileSync(join(folder, 'broken/data.mdb'), 'utf8')).toBe('not a database')
  })
})
