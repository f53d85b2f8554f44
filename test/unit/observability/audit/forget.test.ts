import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { AuditSettings } from '../../../../src/core/settings.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { Audit } from '../../../../src/observability/audit/audit.ts'
import { encodeLine, origin, readLine } from '../../../../src/observability/audit/file.ts'
import { countNaming, personHash } from '../../../../src/observability/audit/forget.ts'
import { verifyAudit } from '../../../../src/observability/audit/verify.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { toolCall } from '../../../support/tool-call.ts'

/** With commas, quotes, a backslash, an emoji, and characters that JSON escapes. */
const odd = 'user:cn=Änna "O\\u0027Neil\\", ou=<b>🦊, \u{2028}x'
const target = { method: 'tools/call', upstream: 'files', name: 'read' }
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

function call(audit: Audit, principal: string, approvedBy?: string): void {
  const logFields = new Map(approvedBy === undefined ? [] : [['approved_by', approvedBy]])
  const params = Payload.of({ name: 'read', arguments: {} })
  audit.called(toolCall({ principal: { id: principal }, params, logFields }), target, {
    outcome: 'ok',
    ms: 1,
  })
}

function order(person: string) {
  return { person: personHash(person), by: 'operator' }
}

function linesOf(path = file): string[] {
  return readFileSync(path, 'utf8').split('\n').slice(0, -1)
}

async function verdict(files: readonly string[] = [file]) {
  const [{ problem, lines, forgotten, orders } = { problem: undefined, lines: 0, forgotten: 0, orders: [] }] =
    await verifyAudit(files)
  return { problem: problem && `${problem.line ?? ''}: ${problem.reason}`, lines, forgotten, orders }
}

describe('a person in the audit log', () => {
  it('is forgotten: its lines become stubs of the same length, and the chain keeps its hashes', async () => {
    const audit = open()
    call(audit, 'user:anna')
    call(audit, odd)
    call(audit, 'user:ben', `user:carl, ${odd}, user:dora`)
    audit.decided({
      approval: 'a1',
      by: odd,
      via: 'sign_in',
      verdict: 'approved',
      caller: 'user:ben',
      upstream: 'files',
      tool: 'read',
      given: {},
    })
    call(audit, 'user:cn=Änna')
    await audit.close()
    const before = linesOf()
    const again = open()
    expect(await again.forget(order(odd))).toBe(3)
    call(again, odd)
    await again.close()
    const after = linesOf()
    expect(after.slice(0, before.length).map((line) => readLine(line)?.hash)).toEqual(
      before.map((line) => readLine(line)?.hash),
    )
    const stubs = [2, 3, 4].map((index) => after[index] ?? '')
    for (const [index, stub] of stubs.entries()) {
      expect(Buffer.byteLength(stub)).toBe(Buffer.byteLength(before[index + 2] ?? ''))
      expect(Object.keys(JSON.parse(stub) as object)).toEqual(['seq', 'time', 'event', 'prev', 'hash'])
    }
    expect(after[1]).toBe(before[1])
    expect(after[5]).toBe(before[5])
    const ordered = JSON.parse(after.at(-2) ?? '') as object
    expect(ordered).toMatchObject({
      order: 'forget',
      principal: 'operator',
      person: personHash(odd),
      lines: '3-5',
    })
    expect(await verdict()).toEqual({ problem: undefined, lines: 9, forgotten: 3, orders: [8] })
    expect(await countNaming(file, personHash(odd))).toBe(1)
  })

  it('is forgotten in rotated files, while the process that writes them goes on', async () => {
    const audit = open({ maxSize: 2000 })
    for (let index = 0; index < 30; index++) {
      call(audit, index % 3 === 0 ? 'user:anna' : 'user:ben')
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    const [lines] = await Promise.all([audit.forget(order('user:anna')), writing(audit)])
    expect(lines).toBeGreaterThanOrEqual(10)
    await audit.forget(order('user:anna'))
    await audit.close()
    const files = [file, ...Array.from({ length: 40 }, (_each, index) => `${file}.${index + 1}`)].filter(
      (each) => isThere(each),
    )
    expect(files.length).toBeGreaterThan(1)
    const all = files.flatMap((each) => linesOf(each)).join('\n')
    expect(all).not.toContain('user:anna')
    const found = await verdict(files)
    expect(found).toMatchObject({ problem: undefined, forgotten: 20 })
    expect(found.lines).toBeGreaterThan(50)
  })

  it('cannot be used to hide lines: a stub that no later order names is a break', async () => {
    const audit = open()
    for (const who of ['user:anna', 'user:ben', 'user:anna']) call(audit, who)
    await audit.forget(order('user:anna'))
    call(audit, 'user:ben')
    await audit.close()
    const lines = linesOf()
    const { seq, prev, hash } = readLine(lines[2] ?? '') ?? {}
    const hidden = JSON.stringify({ seq, time: '2026-11-21T10:00:00.000Z', event: 'forgotten', prev, hash })
    writeFileSync(
      file,
      lines
        .with(2, hidden)
        .map((line) => `${line}\n`)
        .join(''),
    )
    expect((await verdict()).problem).toBe('3: was forgotten, and no later line of these files orders that')
    // What is not covered by the hash may say nothing.
    const { hash: digest, ...stub } = JSON.parse(lines[1] ?? '') as Record<string, unknown>
    const forged = JSON.stringify({ ...stub, note: 'nothing happened', hash: digest })
    writeFileSync(
      file,
      lines
        .with(1, forged)
        .map((line) => `${line}\n`)
        .join(''),
    )
    expect((await verdict()).problem).toBe('2: was altered')
    // An order for lines after it orders nothing.
    const first = encodeLine(origin, { event: 'order', order: 'forget', lines: '1-99' })
    const second = { seq: 2, hash: 'f'.repeat(64) }
    const stubLine = JSON.stringify({ seq: 2, event: 'forgotten', prev: first.head.hash, hash: second.hash })
    const third = encodeLine(second, { event: 'call' })
    rmSync(`${file}.head`)
    writeFileSync(file, `${first.line}${stubLine}\n${third.line}`)
    expect((await verdict()).problem).toBe('2: was forgotten, and no later line of these files orders that')
    const fourth = encodeLine(third.head, { event: 'order', order: 'forget', lines: '2' })
    writeFileSync(file, `${first.line}${stubLine}\n${third.line}${fourth.line}`)
    expect(await verdict()).toEqual({ problem: undefined, lines: 4, forgotten: 1, orders: [4] })
  })

  it('is not forgotten where nothing names it, and whoever orders to forget stays named', async () => {
    const audit = open()
    call(audit, 'user:anna')
    expect(await audit.forget({ person: personHash('user:nobody'), by: 'operator' })).toBe(0)
    expect(await audit.forget({ person: personHash('user:anna'), by: 'user:boss' })).toBe(1)
    expect(await audit.forget(order('user:boss'))).toBe(0)
    await audit.close()
    expect(linesOf().at(-1)).toContain('user:boss')
    expect(await verdict()).toMatchObject({ problem: undefined, lines: 3, forgotten: 1 })
  })

  it('names many lines in several orders', async () => {
    const audit = open()
    for (let index = 0; index < 404; index++) call(audit, index % 2 === 0 ? 'user:anna' : 'user:ben')
    expect(await audit.forget(order('user:anna'))).toBe(202)
    await audit.close()
    expect(await verdict()).toMatchObject({ problem: undefined, forgotten: 202, orders: [406, 407] })
  })
})

function isThere(path: string): boolean {
  try {
    readFileSync(path)
    return true
  } catch {
    return false
  }
}

/** Calls that end while the log is looked through. */
async function writing(audit: Audit): Promise<void> {
  for (let index = 0; index < 30; index++) {
    call(audit, index % 3 === 0 ? 'user:anna' : 'user:ben')
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
}
