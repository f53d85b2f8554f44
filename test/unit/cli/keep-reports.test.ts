import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { keepReports } from '../../../src/cli/keep-reports.ts'
import { fromArguments } from '../../../src/config/load.ts'
import { openSharedStore } from '../../../src/gateway/offline.ts'
import { type TestReport, TestReports } from '../../../src/records/test-reports.ts'
import { memoryIo } from '../../support/memory-io.ts'
import { silentLog } from '../../support/silent-log.ts'

function reportOf(server_name: string): TestReport {
  return {
    server_name,
    server_version: '1',
    suite_version: '1',
    tested_at: '2026-11-26T21:00:00.000Z',
    results: [],
    summary: { passed: 1, failed: 0, skipped: 0, errors: 0 },
  }
}

it('a report that a store does not take leaves the others in it', async () => {
  const path = mkdtempSync(join(tmpdir(), 'gatehouse-reports-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  const store = { kind: 'folder', path } as const
  const io = memoryIo()
  const settings = { ...fromArguments(['node'], { env: {} }), store }
  // A key that is longer than those of the store may be.
  const long = 'x'.repeat(5000)
  await keepReports('server-test', ['one', long, 'two'].map(reportOf), settings, io)
  const opened = await openSharedStore({ store }, silentLog)
  onTestFinished(() => opened.close())
  const kept = new TestReports(opened, 'server-test')
  expect(await Promise.all(['one', 'two'].map((name) => kept.latest(name)))).toMatchObject([
    { report: { server_name: 'one' } },
    { report: { server_name: 'two' } },
  ])
  expect(io.written.stderr).toMatch(/^gatehouse: the report of xxx.* is not at \/conformance: .+\n$/)
})
