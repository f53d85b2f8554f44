import { Redactor } from '../../../src/core/text/redactor.ts'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { GatewayError } from '../../../src/core/error.ts'
import type { Log } from '../../../src/core/log.ts'
import type { Refusal } from '../../../src/core/audit-step.ts'
import type { Settings } from '../../../src/core/settings.ts'
import type { OpenLog } from '../../../src/observability/log.ts'
import { Observing } from '../../../src/observability/observing.ts'
import { silentLog } from '../../support/silent-log.ts'

let folder = ''
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))))
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function settings(
  observe: Readonly<Record<string, unknown>>,
  env: Readonly<Record<string, string>> = {},
): Settings {
  const text = JSON.stringify({ upstreams: { a: { command: 'some-server', env } }, observe })
  return loadSettings(text, { file: join(folder, 'gateway.config.yaml'), env: {} }).settings
}

function observing(log: Log | OpenLog = silentLog): Observing {
  return new Observing({
    log,
    pendingApprovals: async () => 0,
    deadLetters: async () => 0,
    references: async () => undefined,
    levels: () => ({ upstreams: [], sessions: 0, operations: {} }),
    isMethod: () => true,
    isOutcome: () => true,
    isListed: () => false,
  })
}

function refusal(code: 'TOKEN_EXPIRED' | 'FORBIDDEN', reason?: string): Refusal {
  const error = new GatewayError(code, 'no', reason === undefined ? {} : { reason })
  return { requestId: 'r1', error, request: 'POST /mcp', address: '127.0.0.1' }
}

const file = (name: string): string => join(folder, name)
const lines = (name: string): string[] => readFileSync(file(name), 'utf8').trim().split('\n')

describe('observation settings', () => {
  it('the audit log is opened only while clients are served', async () => {
    const observed = observing()
    observed.apply(settings({ audit: 'audit.jsonl' }))
    expect(existsSync(file('audit.jsonl'))).toBe(false)
    observed.serve({ transport: 'tcp' })
    observed.refused(refusal('FORBIDDEN'))
    await observed.close()
    expect(lines('audit.jsonl')).toHaveLength(2)
  })

  it('the audit log moves to another file with the settings and stays open otherwise', async () => {
    const observed = observing()
    observed.apply(settings({ audit: 'one.jsonl' }))
    observed.serve({ transport: 'tcp' })
    observed.apply(settings({ audit: { file: 'one.jsonl', keep: 2 } }))
    observed.refused(refusal('FORBIDDEN'))
    observed.apply(settings({ audit: 'two.jsonl' }))
    observed.refused(refusal('FORBIDDEN'))
    observed.apply(settings({}))
    observed.refused(refusal('FORBIDDEN'))
    await observed.close()
    await expect.poll(() => [lines('one.jsonl').length, lines('two.jsonl').length]).toEqual([2, 2])
    expect(existsSync(file('one.2.jsonl'))).toBe(false)
  })

  it('invalid new settings keep the old ones in effect', async () => {
    const observed = observing()
    observed.apply(settings({ audit: 'one.jsonl' }))
    observed.serve({ transport: 'tcp' })
    const before = observed.audit
    expect(() => observed.apply(settings({ audit: '/proc/none/audit.jsonl' }))).toThrow('ENOENT')
    expect(observed.audit).toBe(before)
    await observed.close()
  })

  it('C063 the log redacts the secrets of the settings', () => {
    const told: unknown[] = []
    const redactor = new Redactor()
    const log: OpenLog = { ...silentLog, redactor, configure: (given) => told.push(given) }
    observing(log).apply(settings({ log: { level: 'warn' } }, { KEY: 'env-secret' }))
    expect(told).toEqual([{ level: 'warn' }])
    expect(redactor.text('the env-secret')).toBe('the ***')
  })

  it('C109 a refusal is logged without the content of the request', async () => {
    const observed = observing({
      ...silentLog,
      info: (_event, fields) => expect(fields).not.toHaveProperty('headers'),
    })
    observed.apply(settings({ audit: 'audit.jsonl' }))
    observed.serve({ transport: 'tcp' })
    observed.refused(refusal('TOKEN_EXPIRED', 'expired'))
    await observed.close()
    const { seq, time, prev, hash, ...line } = JSON.parse(lines('audit.jsonl').at(-1) ?? '')
    expect([seq, typeof time, typeof prev, typeof hash]).toEqual([2, 'string', 'string', 'string'])
    expect(line).toEqual({
      event: 'refused',
      request_id: 'r1',
      address: '127.0.0.1',
      request: 'POST /mcp',
      code: 'TOKEN_EXPIRED',
      reason: 'expired',
    })
  })

  it('C208 refused authentications are counted by reason, and other refusals are logged', async () => {
    const told: unknown[] = []
    const observed = observing({ ...silentLog, info: (event, fields) => told.push({ event, ...fields }) })
    observed.apply(settings({}))
    observed.refused(refusal('TOKEN_EXPIRED', 'expired'))
    observed.refused(refusal('FORBIDDEN'))
    expect((await observed.page())?.text).toContain('gatehouse_auth_failures_total{reason="expired"} 1')
    expect(told).toEqual([
      {
        event: 'refused',
        request_id: 'r1',
        request: 'POST /mcp',
        code: 'FORBIDDEN',
        reason: 'no',
        address: '127.0.0.1',
      },
    ])
  })

  it('there are no metrics if they are off', async () => {
    const observed = observing()
    observed.apply(settings({ metrics: false }))
    expect(await observed.page()).toBeUndefined()
  })

  it('no tracing code is loaded unless configured', async () => {
    const observed = observing()
    observed.apply(settings({}))
    await observed.opened
    expect([observed.isTraced, observed.tracing]).toEqual([false, undefined])
    observed.apply(settings({ traces: { endpoint: 'http://127.0.0.1:9' } }))
    await observed.opened
    expect(observed.tracing).toBeDefined()
    observed.apply(settings({}))
    expect([observed.isTraced, observed.tracing]).toEqual([false, undefined])
    await observed.close()
  })
})
