import { describe, expect, it, test } from 'vitest'
import { validator } from '../../../../src/core/schema/schema.ts'
import { type Check, type Context, CheckFailure, Skip } from '../../../../src/testkit/conformance/check.ts'
import { runChecks, checks, suiteDocument } from '../../../../src/testkit/conformance/run.ts'
import { type CheckResult, type CheckStatus, isClean, type Report } from '../../../../src/testkit/report.ts'
import { hasSchema, schemaText } from '../../../support/published-schemas.ts'

const SCHEMA = 'proposals/conformance.schema.json'

// The runner uses the name and the settings of a context, and passes the rest on to the checks.
const context = { name: 'files', settings: (feature: string) => feature !== 'undo' && {} } as Context

const clean = (text: string): string => text.replaceAll('secret-value', '***')

function checkOf(run: Check['run'], more: Partial<Check> = {}): Check {
  return {
    test_id: 'CONF-T',
    proposal_ref: 'proposal-5',
    category: 'idempotency',
    description: 'A test.',
    run,
    ...more,
  }
}

async function resultOf(
  check: Check,
): Promise<{ readonly report: Report; readonly result: CheckResult | undefined }> {
  const report = await runChecks([check], context, { version: '1.0.0', clean })
  return { report, result: report.results[0] }
}

const endings: readonly (readonly [CheckStatus, Check['run'], string | undefined])[] = [
  ['passed', () => Promise.resolve(), undefined],
  ['failed', () => Promise.reject(new CheckFailure('it is 1, expected 2')), 'it is 1, expected 2'],
  ['skipped', () => Promise.reject(new Skip('there is nothing to check')), 'there is nothing to check'],
  ['error', () => Promise.reject(new Error('no connection')), 'no connection'],
  ['error', () => Promise.reject(new TypeError('a mistake of the check')), 'a mistake of the check'],
]

describe('a check', () => {
  it.each(endings)('is %s if it ends so', async (status, run, message) => {
    const { report, result } = await resultOf(checkOf(run))
    expect(result).toMatchObject({ test_id: 'CONF-T', proposal_ref: 'proposal-5', status })
    expect(result?.message).toBe(message)
    expect(isClean(report)).toBe(status === 'passed' || status === 'skipped')
    expect(report.summary.passed).toBe(status === 'passed' ? 1 : 0)
  })

  it('of a feature that is off is skipped with the reason, and does not run', async () => {
    const ran: string[] = []
    const run = async (): Promise<void> => void ran.push('run')
    const { report, result } = await resultOf(checkOf(run, { needs: ['errors', 'undo'] }))
    expect(result).toMatchObject({ status: 'skipped', message: 'features.undo is off' })
    expect(report.summary).toEqual({ passed: 0, failed: 0, skipped: 1, errors: 0 })
    expect(ran).toEqual([])
  })

  it('has a message without secrets and of bounded length', async () => {
    const text = `secret-value ${'x'.repeat(10_000)}`
    const { result } = await resultOf(checkOf(() => Promise.reject(new CheckFailure(text))))
    expect(result?.message).toMatch(/^\*\*\* x+…$/)
    expect(result?.message?.length).toBeLessThanOrEqual(501)
  })
})

describe('the suite', () => {
  it('has the seven checks of the proposals, and at least one for each of the fifteen', () => {
    const ids = checks.map(({ test_id }) => test_id)
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids).toEqual(expect.arrayContaining([1, 2, 3, 4, 5, 6, 7].map((number) => `CONF-00${number}`)))
    const proposals = new Set(checks.map(({ proposal_ref }) => proposal_ref))
    expect([...proposals].toSorted()).toEqual(
      Array.from({ length: 15 }, (_each, index) => `proposal-${index + 1}`).toSorted(),
    )
  })

  it('numbers its own checks by their proposal', () => {
    for (const { test_id, proposal_ref } of checks.filter((each) => each.test_id.length > 'CONF-000'.length))
      expect([test_id, proposal_ref]).toEqual([test_id, `proposal-${Number(test_id.slice(5, 7))}`])
  })

  it('has a check in every category', () => {
    const categories = [
      'error_handling',
      'idempotency',
      'manifest',
      'permissions',
      'streaming',
      'transactions',
    ]
    expect([...new Set(checks.map(({ category }) => category))].toSorted()).toEqual(categories)
  })
})

test.skipIf(!hasSchema(SCHEMA))('the suite and a report match the published schema', async () => {
  const check = validator(JSON.parse(schemaText(SCHEMA)))
  expect(check(suiteDocument())).toEqual([])
  const { report } = await resultOf(checkOf(() => Promise.reject(new CheckFailure('no'))))
  expect(check(report)).toEqual([])
  expect(check({ ...report, tested_at: 7 })).not.toEqual([])
})
