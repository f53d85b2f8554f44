import { expect, it } from 'vitest'
import { Payload } from '../../../../src/core/payload.ts'
import { conformance } from '../../../../src/features/conformance/conformance.ts'
import { type TestReport, TestReports } from '../../../../src/records/test-reports.ts'
import { featureDeps, type ServiceStubs } from '../../../support/feature-deps.ts'
import { toolCall } from '../../../support/tool-call.ts'

function reportOf(more: Partial<TestReport> = {}): TestReport {
  const message = 'word '.repeat(100)
  const result = { category: 'results', description: 'It is so.', message, duration_ms: 1 }
  const results = (['passed', 'failed', 'skipped', 'error'] as const).flatMap((status) =>
    Array.from({ length: 40 }, (_none, at) => ({ ...result, test_id: `tool/${status}/${at}`, status })),
  )
  return {
    server_name: 'dd',
    server_version: '1.0.0',
    suite_version: '1.0.0',
    tested_at: '2026-11-26T21:00:00.000Z',
    results,
    summary: { passed: 40, failed: 40, skipped: 40, errors: 40 },
    ...more,
  }
}

async function answerWith(deps: ServiceStubs) {
  const services = featureDeps({ servers: () => ['dd'], ...deps })
  const [tool] = conformance.create(() => ({}), services).builtins?.tools ?? []
  const target = { method: 'tools/call', upstream: 'dd', name: 'get_conformance_report' }
  return { services, call: () => tool?.handle(toolCall({ target, params: Payload.of({}) })) }
}

it('a model gets the numbers and the failures of both reports, and where the rest is', async () => {
  const { services, call } = await answerWith({})
  await new TestReports(services.store, 'conformance').keep(reportOf())
  const tested = { score: { total: 40 }, coverage: { called: 9, answered: 3, listed: 9 } }
  await new TestReports(services.store, 'server-test').keep(reportOf(tested))
  const outcome = await call()
  const fields = outcome?.kind === 'result' ? outcome.result.fields : {}
  const { structuredContent: content } = fields
  expect(content).toMatchObject({
    summary: { passed: 40 },
    results: { length: 30 },
    server_test: { ...tested, summary: { failed: 40 }, results: { length: 30 } },
    more: expect.stringContaining('http://127.0.0.1:8900/conformance/dd'),
  })
  const text = JSON.stringify(content)
  expect(text).not.toMatch(/tool\/(?:passed|skipped)|"history"/)
  expect(text.length).toBeLessThan(25_000)
})

it('a model that asks where nothing has run gets both commands', async () => {
  const { call } = await answerWith({})
  const outcome = await call()
  expect(JSON.stringify(outcome)).toMatch(/gatehouse test dd and gatehouse conformance dd\b/)
})
