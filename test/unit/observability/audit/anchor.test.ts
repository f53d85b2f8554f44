import { existsSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Log } from '../../../../src/core/log.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { Audit } from '../../../../src/observability/audit/audit.ts'
import { Anchor, type Anchors, createAnchors } from '../../../../src/observability/audit/anchor.ts'
import { verifyAudit } from '../../../../src/observability/audit/verify.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { toolCall } from '../../../support/tool-call.ts'

let folder = ''
let file = ''
let store = new MemoryStore()
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  file = join(folder, 'audit.jsonl')
  store = new MemoryStore()
})
afterEach(() => {
  vi.useRealTimers()
  rmSync(folder, { recursive: true, force: true })
})

const anchorsOf = (host = ''): Anchors => createAnchors(() => store, { host, ttl: 1_000_000 })

function open(log: Log = silentLog): Audit {
  return new Audit({ file, maxSize: 1_000_000 }, log, anchorsOf())
}

function call(audit: Audit, index: number): void {
  const params = Payload.of({ name: 'read', arguments: { index } })
  const target = { method: 'tools/call', upstream: 'files', name: 'read' }
  audit.called(toolCall({ requestId: `r${index}`, params }), target, { outcome: 'ok', ms: 1.5 })
}

async function write(count: number, log?: Log): Promise<void> {
  const audit = open(log)
  for (let index = 0; index < count; index++) call(audit, index)
  await audit.close()
}

const lines = (): string[] => readFileSync(file, 'utf8').split('\n').slice(0, -1)

/** Truncates the log to this many lines, and adapts the head file. */
function cut(count: number, headFile: 'fits' | 'is gone' | 'is empty'): void {
  const kept = lines().slice(0, count)
  writeFileSync(file, kept.map((line) => `${line}\n`).join(''))
  const { seq, hash } = JSON.parse(kept.at(-1) ?? '{}')
  if (headFile === 'is gone') rmSync(`${file}.head`)
  else if (headFile === 'is empty') truncateSync(`${file}.head`, 0)
  else writeFileSync(`${file}.head`, `${JSON.stringify({ seq, hash }).padEnd(127)}\n`)
}

async function verified(anchors: Anchors | undefined = anchorsOf()) {
  const [verdict] = await verifyAudit([file], { anchorOf: async (path) => anchors?.read(path) })
  if (!verdict) throw new Error('There is no verdict.')
  return verdict
}

describe('the anchored end of an audit log', () => {
  it('the end is recorded in the store when the log is closed', async () => {
    await write(3)
    expect(await verified()).toMatchObject({ lines: 4, anchored: 4 })
    expect((await verified()).problem).toBeUndefined()
  })

  it.each(['fits', 'is gone', 'is empty'] as const)(
    'truncation is detected even if the head file beside the log %s',
    async (headFile) => {
      await write(5)
      cut(2, headFile)
      const { problem } = await verified()
      expect(problem).toMatchObject({ reason: 'line(s) 3 to 6 of the log are missing at the end' })
      // Only the store reveals it.
      expect((await verifyAudit([file]))[0]?.problem).toBeUndefined()
    },
  )

  it('replaced lines at the end are detected', async () => {
    await write(5)
    cut(2, 'fits')
    const other = new Audit({ file, maxSize: 1_000_000 }, silentLog)
    for (let index = 0; index < 6; index++) call(other, index + 100)
    await other.close()
    expect((await verified()).problem).toMatchObject({ reason: 'is not the line that was written here' })
  })

  it('truncation is reported by the next gateway that opens the log, and recorded in it', async () => {
    await write(5)
    cut(2, 'fits')
    const told: unknown[] = []
    const log = {
      ...silentLog,
      error: (event: string, fields?: object) => void told.push({ event, ...fields }),
    }
    await write(9, log)
    expect(told).toEqual([{ event: 'audit.missing', file, from: 3, to: 6 }])
    expect(lines().some((line) => line.includes('"event":"missing","from":3,"to":6'))).toBe(true)
    expect((await verified()).problem).toMatchObject({ reason: 'reports that line(s) 3 to 6 are missing' })
    await write(1, log)
    expect(told).toHaveLength(1)
  })

  it('the anchor is updated at most once a second', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const put = vi.spyOn(store, 'put')
    const anchor = new Anchor({ path: file, head: { seq: 0, hash: '' } }, anchorsOf(), () =>
      expect.unreachable(),
    )
    for (let seq = 1; seq <= 500; seq++) {
      anchor.follow({ seq, hash: `hash of ${seq}` })
      await vi.advanceTimersByTimeAsync(10)
    }
    expect(put.mock.calls.length).toBeGreaterThanOrEqual(4)
    expect(put.mock.calls.length).toBeLessThanOrEqual(5)
    anchor.follow({ seq: 501, hash: 'the last' })
    await anchor.close()
    expect(await anchorsOf().read(file)).toEqual({ seq: 501, hash: 'the last' })
    expect(put.mock.calls.length).toBeLessThanOrEqual(6)
  })

  it('the anchor is updated after the store recovers, and never before it was compared', async () => {
    await write(5)
    cut(2, 'fits')
    const get = vi.spyOn(store, 'get').mockRejectedValue(new Error('away'))
    await write(1)
    get.mockRestore()
    expect((await verified()).problem).toBeDefined()
    expect(existsSync(`${file}.head`)).toBe(true)
  })

  it('the anchor is specific to the host and file', async () => {
    await write(3)
    expect((await verified(anchorsOf('other'))).anchored).toBeUndefined()
    expect(await anchorsOf().read(`${file}x`)).toBeUndefined()
  })
})

describe('a log with a file for each of several processes', () => {
  const other = (): string => join(folder, 'audit.2.jsonl')

  /** Two processes at once write to it. */
  async function writeBoth(): Promise<void> {
    const both = [open(), open()]
    for (const [index, audit] of both.entries()) call(audit, index)
    for (const audit of both) await audit.close()
  }

  const verdicts = () =>
    verifyAudit([file], { anchorOf: async (path) => anchorsOf().read(path) }).then((all) =>
      all.map(({ files, lines: count, problem }) => ({ files, count, problem: problem?.reason })),
    )

  it('is verified as a whole by the name of the first file', async () => {
    await writeBoth()
    expect(await verdicts()).toEqual([
      { files: [file], count: 2, problem: undefined },
      { files: [other()], count: 2, problem: undefined },
    ])
    const [line = ''] = readFileSync(other(), 'utf8').split('\n')
    writeFileSync(other(), readFileSync(other(), 'utf8').replace(line, line.replace('"pid":', '"pid":1')))
    expect((await verdicts())[1]?.problem).toBeDefined()
  })

  it('is broken without the file of one of them, whose lines the store knows', async () => {
    await writeBoth()
    rmSync(other())
    rmSync(`${other()}.head`)
    expect((await verdicts())[1]).toEqual({
      files: [other()],
      count: 0,
      problem: 'does not exist, but the store knows lines of it',
    })
  })
})
