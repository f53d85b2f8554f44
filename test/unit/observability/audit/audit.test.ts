import fc from 'fast-check'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { AuditSettings } from '../../../../src/core/settings.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { Secret } from '../../../../src/core/text/secret.ts'
import { Audit } from '../../../../src/observability/audit/audit.ts'
import { verifyAudit } from '../../../../src/observability/audit/verify.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { toolCall } from '../../../support/tool-call.ts'

let folder = ''
let file = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  file = join(folder, 'audit.jsonl')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function open(more: Partial<AuditSettings> = {}): Audit {
  return new Audit({ file, maxSize: 1_000_000, ...more }, silentLog)
}

const target = { method: 'tools/call', upstream: 'files', name: 'read' }

function call(audit: Audit, index: number, given: unknown = { path: `/${index}` }): void {
  const params = Payload.of({ name: 'read', arguments: given })
  audit.called(toolCall({ requestId: `r${index}`, params }), target, { outcome: 'ok', ms: 1.5 })
}

async function write(count: number, more: Partial<AuditSettings> = {}): Promise<void> {
  const audit = open(more)
  for (let index = 0; index < count; index++) call(audit, index)
  await audit.close()
}

function lines(path = file): string[] {
  return readFileSync(path, 'utf8').split('\n').slice(0, -1)
}

function keep(changed: readonly string[], path = file): void {
  writeFileSync(path, changed.map((line) => `${line}\n`).join(''))
}

async function problem(files: readonly string[] = [file], head?: string): Promise<string | undefined> {
  const found = (await verifyAudit(files, { head })).find((each) => each.problem)?.problem
  return found && `${found.line ?? ''}: ${found.reason}`
}

describe('the audit log', () => {
  it('C201 a call is recorded with its caller, outcome and a digest of its arguments', async () => {
    const audit = open()
    const logFields = new Map([['rule', 'deny']])
    const client = {
      era: 'modern',
      revision: '2026-07-28',
      capabilities: {},
      info: { name: 'host', version: '2' },
    } as const
    const params = Payload.of({ name: 'read', arguments: { b: 1, a: 'private' } })
    audit.called(toolCall({ params, logFields, client }), target, {
      outcome: 'PERMISSION_DENIED',
      code: 'PERMISSION_DENIED',
      ms: 2,
    })
    await audit.close()
    const line = JSON.parse(lines().at(-1) ?? '')
    expect(line).toMatchObject({
      seq: 2,
      event: 'call',
      request_id: 'r1',
      principal: 'anonymous',
      client: 'host 2',
      upstream: 'files',
      method: 'tools/call',
      tool: 'read',
      rule: 'deny',
      outcome: 'PERMISSION_DENIED',
      code: 'PERMISSION_DENIED',
      arguments_digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      ms: 2,
    })
    expect(lines().join()).not.toContain('private')
  })

  it('equal arguments have equal digests in any key order, which depend on the digest key if there is one', async () => {
    const audit = open()
    call(audit, 1, { a: 1, b: 'x' })
    call(audit, 2, { b: 'x', a: 1.0 })
    await audit.close()
    const again = open({ key: new Secret('a key of sixteen characters') })
    call(again, 3, { a: 1, b: 'x' })
    await again.close()
    const digests = lines().flatMap((line) => JSON.parse(line).arguments_digest ?? [])
    expect(digests[0]).toBe(digests[1])
    expect(digests[2]).toMatch(/^hmac-sha256:/)
    expect(digests[2]?.slice(-64)).not.toBe(digests[0]?.slice(-64))
  })

  it('C201 calls whose arguments cannot be serialized are recorded', async () => {
    const deep = '['.repeat(20_000) + ']'.repeat(20_000)
    const audit = open()
    for (const given of [{ a: 1 }, JSON.parse(`{"toString":1,"a":${deep}}`), JSON.parse(deep), { b: 2 }])
      call(audit, 1, given)
    await audit.close()
    expect(lines()).toHaveLength(5)
    expect(await problem()).toBeUndefined()
  })

  it('the arguments of queued calls are not retained', async () => {
    let read = 0
    const given = {
      get path() {
        return ++read
      },
    }
    const audit = open()
    for (let index = 0; index < 1000; index++) call(audit, index, given)
    expect(read).toBeGreaterThanOrEqual(500)
    await audit.close()
    expect(lines()).toHaveLength(1001)
    expect(await problem()).toBeUndefined()
  })

  it('C202 refused requests are recorded', async () => {
    const audit = open()
    const error = new GatewayError('TOKEN_EXPIRED', 'The token has expired.')
    audit.refused({ requestId: 'r9', error, request: 'POST /mcp', address: '127.0.0.1' })
    await audit.close()
    expect(JSON.parse(lines().at(-1) ?? '')).toMatchObject({
      event: 'refused',
      request_id: 'r9',
      request: 'POST /mcp',
      code: 'TOKEN_EXPIRED',
    })
  })

  it('C202 sign-ins to servers are recorded without credentials', async () => {
    const audit = open()
    audit.signedIn({ step: 'begun', upstream: 'files', principal: 'user:alice' })
    audit.signedIn({ step: 'failed', upstream: 'files', principal: 'user:alice', code: 'STATE_INVALID' })
    await audit.close()
    const written = lines().map((line) => JSON.parse(line))
    expect(written.slice(1)).toMatchObject([
      { event: 'sign_in', step: 'begun', upstream: 'files', principal: 'user:alice' },
      { event: 'sign_in', step: 'failed', code: 'STATE_INVALID' },
    ])
  })

  it('commands of operators are recorded', async () => {
    const audit = open()
    audit.ordered({ order: 'rollback', by: 'root', transaction: 't', caller: 'token:agent' })
    await audit.close()
    expect(JSON.parse(lines()[1] ?? '')).toMatchObject({
      event: 'order',
      order: 'rollback',
      principal: 'root',
      via: 'command_line',
      transaction: 't',
      caller: 'token:agent',
    })
  })

  it('a cancelled operation is recorded with its name', async () => {
    const audit = open()
    audit.ordered({ order: 'cancel', by: 'root', operation: 'o', caller: 'token:agent' })
    await audit.close()
    const line = JSON.parse(lines()[1] ?? '')
    expect(line).toMatchObject({ event: 'order', order: 'cancel', operation: 'o', caller: 'token:agent' })
    expect(line).not.toHaveProperty('transaction')
  })

  it('a decision on a call is recorded with the digest of its arguments', async () => {
    const audit = open()
    const given = { path: '/srv/a' }
    audit.decided({
      approval: 'a1',
      by: 'anna',
      via: 'password',
      verdict: 'approved',
      caller: 'token:agent',
      upstream: 'files',
      tool: 'delete_file',
      given,
    })
    call(audit, 1, given)
    await audit.close()
    const [approval, made] = lines()
      .slice(1)
      .map((line) => JSON.parse(line))
    expect(approval).toMatchObject({
      event: 'approval',
      approval: 'a1',
      principal: 'anna',
      via: 'password',
      verdict: 'approved',
      caller: 'token:agent',
      upstream: 'files',
      tool: 'delete_file',
      arguments_digest: made.arguments_digest,
    })
    expect(JSON.stringify(approval)).not.toContain('/srv/a')
  })

  it('the hash chain continues across restarts', async () => {
    await write(3)
    await write(2)
    expect(lines()).toHaveLength(7)
    expect(await problem()).toBeUndefined()
  })

  it('the file is readable by its owner only', async () => {
    await write(1)
    const { statSync } = await import('node:fs')
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })

  it('a truncated line is kept, and the log continues after it', async () => {
    await write(2)
    appendFileSync(file, '{"seq":4,"time":"2026')
    await write(1)
    expect(lines().map((line) => line.includes('"event":"torn"'))).toEqual([
      false,
      false,
      false,
      false,
      true,
      false,
      false,
    ])
    expect(await problem()).toBeUndefined()
    keep(lines().map((line, index) => (index === 3 ? '{"seq":4,"time":"2027' : line)))
    expect(await problem()).toBe('4: is not a line of an audit log')
  })

  it('the log continues after a crash within the first line or after a line without its end', async () => {
    writeFileSync(file, '{"seq":1,"ti')
    await write(1)
    expect(await problem()).toBeUndefined()
    writeFileSync(file, readFileSync(file, 'utf8').trimEnd())
    await write(1)
    expect(await problem()).toBeUndefined()
  })

  it('a file with other content is never written', async () => {
    writeFileSync(file, 'upstreams:\n  a: b\n')
    expect(() => open()).toThrow('not an audit log')
    expect(readFileSync(file, 'utf8')).toBe('upstreams:\n  a: b\n')
  })

  it('the queue of lines is limited, and lost lines are counted', async () => {
    const audit = open({ maxSize: 1e9 })
    for (let index = 0; index < 50_010; index++) call(audit, index)
    await audit.close()
    const events = lines().map((line): { event?: string; count?: number } => JSON.parse(line))
    expect(events.filter(({ event }) => event === 'dropped')).toMatchObject([{ count: expect.any(Number) }])
    const kept = events.filter(({ event }) => event === 'call').length
    expect(kept + (events.find(({ event }) => event === 'dropped')?.count ?? 0)).toBe(50_010)
    expect(kept).toBeLessThan(50_001)
  })

  it('close ends even if the remaining lines cannot be written', async () => {
    await write(1)
    // The file is full, and its successor cannot be created.
    mkdirSync(join(`${file}.1`, 'folder'), { recursive: true })
    await write(1, { maxSize: 100, keep: 1 })
    expect(lines()).toHaveLength(2)
  })

  it('lines that went missing while the log was closed are reported', async () => {
    await write(5)
    keep(lines().slice(0, 3))
    await write(1)
    expect(await problem()).toMatch(/^4: reports that line\(s\) 4 to 6 are missing$/)
  })

  it('one process writes a file, and another uses the next file meanwhile', async () => {
    const first = open()
    const second = open()
    call(first, 1)
    call(second, 2)
    await Promise.all([first.close(), second.close()])
    const next = join(folder, 'audit.2.jsonl')
    expect([lines().length, lines(next).length]).toEqual([2, 2])
    expect(await problem([file, next])).toBeUndefined()
    await write(1)
    expect(lines()).toHaveLength(4)
  })

  it('the lock of a dead process is taken over, that of a live one is not', async () => {
    const lock = (pid: number): void =>
      writeFileSync(`${file}.lock`, JSON.stringify({ pid, host: hostname(), token: 'x' }))
    lock(2 ** 22 + 1)
    await write(1)
    expect(lines()).toHaveLength(2)
    lock(process.ppid)
    await write(1)
    expect(lines()).toHaveLength(2)
    expect(lines(join(folder, 'audit.2.jsonl'))).toHaveLength(2)
  })

  it.each([3_600_000, -3_600_000])(
    'the lock of another machine is as old as its file system says, by a clock %i ms off',
    async (off) => {
      const lock = (): void =>
        writeFileSync(`${file}.lock`, JSON.stringify({ pid: 1, host: 'another-machine', token: 'x' }))
      lock()
      vi.useFakeTimers({ now: Date.now() + off, toFake: ['Date'] })
      onTestFinished(() => void vi.useRealTimers())
      await write(1)
      expect([existsSync(file), lines(join(folder, 'audit.2.jsonl')).length]).toEqual([false, 2])
      utimesSync(`${file}.lock`, 1, 1)
      await write(1)
      expect(lines()).toHaveLength(2)
    },
  )

  it('a lock that was taken over is exclusive, also within the process', async () => {
    await write(1)
    writeFileSync(`${file}.lock`, JSON.stringify({ pid: 2 ** 22 + 1, host: hostname(), token: 'x' }))
    const [first, second] = [open(), open()]
    call(first, 1)
    call(second, 2)
    await Promise.all([first.close(), second.close()])
    expect([lines().length, lines(join(folder, 'audit.2.jsonl')).length]).toEqual([4, 2])
  })

  it('a full file is rotated, and the configured number of files is kept', async () => {
    for (let round = 0; round < 5; round++) await write(4, { maxSize: 500, keep: 2 })
    expect([1, 2, 3].map((number) => existsSync(`${file}.${number}`))).toEqual([true, true, false])
    const files = [file, `${file}.1`, `${file}.2`]
    expect(await problem(files)).toBeUndefined()
    rmSync(`${file}.1`)
    expect(await problem([file, `${file}.2`])).toMatch(/missing/)
  })
})

describe('verification of an audit log', () => {
  it('every modified line is found', async () => {
    await write(6)
    const sound = lines()
    for (const [index, line] of sound.entries()) {
      keep(sound.with(index, line.replace(/"time":"2/, '"time":"1')))
      expect(await problem()).toBe(`${index + 1}: was altered`)
    }
  })

  it('every removed line is found', async () => {
    await write(6)
    const sound = lines()
    for (const index of sound.keys()) {
      keep(sound.toSpliced(index, 1))
      expect(await problem()).toMatch(/missing/)
    }
  })

  it('lines that are swapped, duplicated or from another log are found', async () => {
    await write(6)
    const sound = lines()
    const [, , third = '', fourth = ''] = sound
    keep(sound.with(2, fourth).with(3, third))
    expect(await problem()).toMatch(/^3: comes after line/)
    keep(sound.toSpliced(3, 0, third))
    expect(await problem()).toMatch(/^4: is out of order/)
    rmSync(`${file}.head`)
    rmSync(file)
    await write(6)
    keep(lines().with(2, third))
    expect(await problem()).toBe('3: does not follow the previous line')
  })

  it('lines removed at the end are found by the head file or a given head', async () => {
    await write(6)
    const sound = lines()
    const head = JSON.parse(sound.at(-1) ?? '').hash
    keep(sound.slice(0, 4))
    expect(await problem()).toMatch(/line\(s\) 5 to 7 of the log are missing at the end/)
    rmSync(`${file}.head`)
    expect(await problem()).toBeUndefined()
    expect(await problem([file], head)).toMatch(/missing/)
    keep(sound)
    expect(await problem([file], head)).toBeUndefined()
  })

  it('a completely rewritten log is found', async () => {
    await write(6)
    const head = readFileSync(`${file}.head`)
    rmSync(file)
    rmSync(`${file}.head`)
    // The same calls in the same millisecond would have the same lines.
    const audit = open()
    for (let index = 0; index < 6; index++) call(audit, index, { path: '/other' })
    await audit.close()
    writeFileSync(`${file}.head`, head)
    expect(await problem()).toBe('7: is not the line that was written here')
  })

  it('any modified character is found', async () => {
    await write(3)
    const sound = readFileSync(file)
    await fc.assert(
      fc.asyncProperty(fc.nat(sound.length - 1), fc.integer({ min: 1, max: 127 }), async (at, by) => {
        const changed = Buffer.from(sound)
        changed[at] = (changed[at] ?? 0) ^ by
        writeFileSync(file, changed)
        expect(await problem()).toBeDefined()
      }),
      { numRuns: 200 },
    )
  })
})
