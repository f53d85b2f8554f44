import fc from 'fast-check'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
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
  it('C201 tells who did what, how it ended, and names the arguments without telling them', async () => {
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

  it('names equal arguments alike, whatever the order of their keys, and only with the key where there is one', async () => {
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

  it('C201 tells of every call, also of those whose arguments nobody could make a text of', async () => {
    const deep = '['.repeat(20_000) + ']'.repeat(20_000)
    const audit = open()
    for (const given of [{ a: 1 }, JSON.parse(`{"toString":1,"a":${deep}}`), JSON.parse(deep), { b: 2 }])
      call(audit, 1, given)
    await audit.close()
    expect(lines()).toHaveLength(5)
    expect(await problem()).toBeUndefined()
  })

  it('keeps no arguments of many calls that wait to be written', async () => {
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

  it('C202 tells of requests that were turned away', async () => {
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

  it('C202 tells who signs in to which server, and nothing that would let others in', async () => {
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

  it('tells who ordered what at the command line', async () => {
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

  it('tells what a person decided on a call, whose arguments have the digest they have in the call', async () => {
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

  it('is unbroken over several lives of the process', async () => {
    await write(3)
    await write(2)
    expect(lines()).toHaveLength(7)
    expect(await problem()).toBeUndefined()
  })

  it('is for this user alone', async () => {
    await write(1)
    const { statSync } = await import('node:fs')
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })

  it('keeps a line that was cut off, and goes on after it', async () => {
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

  it('goes on where a process died before the end of its first line, and after a line without its end', async () => {
    writeFileSync(file, '{"seq":1,"ti')
    await write(1)
    expect(await problem()).toBeUndefined()
    writeFileSync(file, readFileSync(file, 'utf8').trimEnd())
    await write(1)
    expect(await problem()).toBeUndefined()
  })

  it('does not write to a file that is something else', async () => {
    writeFileSync(file, 'upstreams:\n  a: b\n')
    expect(() => open()).toThrow('not an audit log')
    expect(readFileSync(file, 'utf8')).toBe('upstreams:\n  a: b\n')
  })

  it('keeps so many lines that wait and no more, and says how many it has not', async () => {
    const audit = open({ maxSize: 1e9 })
    for (let index = 0; index < 50_010; index++) call(audit, index)
    await audit.close()
    const events = lines().map((line): { event?: string; count?: number } => JSON.parse(line))
    expect(events.filter(({ event }) => event === 'dropped')).toMatchObject([{ count: expect.any(Number) }])
    const kept = events.filter(({ event }) => event === 'call').length
    expect(kept + (events.find(({ event }) => event === 'dropped')?.count ?? 0)).toBe(50_010)
    expect(kept).toBeLessThan(50_001)
  })

  it('ends although what is left cannot be written', async () => {
    await write(1)
    // The file is full, and what should be put in its place stands in the way.
    mkdirSync(join(`${file}.1`, 'folder'), { recursive: true })
    await write(1, { maxSize: 100, keep: 1 })
    expect(lines()).toHaveLength(2)
  })

  it('says so when lines are missing while it was closed', async () => {
    await write(5)
    keep(lines().slice(0, 3))
    await write(1)
    expect(await problem()).toMatch(/^4: reports that line\(s\) 4 to 6 are missing$/)
  })

  it('is written to by one process: another takes the next file, until the first has ended', async () => {
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

  it('takes over the lock of a process that has died, not of one that lives', async () => {
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

  it('holds a lock it took over as one of its own, also where it had the file before', async () => {
    await write(1)
    writeFileSync(`${file}.lock`, JSON.stringify({ pid: 2 ** 22 + 1, host: hostname(), token: 'x' }))
    const [first, second] = [open(), open()]
    call(first, 1)
    call(second, 2)
    await Promise.all([first.close(), second.close()])
    expect([lines().length, lines(join(folder, 'audit.2.jsonl')).length]).toEqual([4, 2])
  })

  it('begins the next file when one is full, and keeps as many as it should', async () => {
    for (let round = 0; round < 5; round++) await write(4, { maxSize: 500, keep: 2 })
    expect([1, 2, 3].map((number) => existsSync(`${file}.${number}`))).toEqual([true, true, false])
    const files = [file, `${file}.1`, `${file}.2`]
    expect(await problem(files)).toBeUndefined()
    rmSync(`${file}.1`)
    expect(await problem([file, `${file}.2`])).toMatch(/missing/)
  })
})

describe('checking an audit log', () => {
  it('finds each line that was altered', async () => {
    await write(6)
    const sound = lines()
    for (const [index, line] of sound.entries()) {
      keep(sound.with(index, line.replace(/"time":"2/, '"time":"1')))
      expect(await problem()).toBe(`${index + 1}: was altered`)
    }
  })

  it('finds each line that was removed', async () => {
    await write(6)
    const sound = lines()
    for (const index of sound.keys()) {
      keep(sound.toSpliced(index, 1))
      expect(await problem()).toMatch(/missing/)
    }
  })

  it('finds lines that changed places, stand twice, or come from another log', async () => {
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

  it('finds lines that were removed at the end, by the head beside the file or one that was noted', async () => {
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

  it('finds a log that was written anew as a whole', async () => {
    await write(6)
    const head = readFileSync(`${file}.head`)
    rmSync(file)
    rmSync(`${file}.head`)
    await write(6)
    writeFileSync(`${file}.head`, head)
    expect(await problem()).toBe('7: is not the line that was written here')
  })

  it('finds any changed character', async () => {
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
