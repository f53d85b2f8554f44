// A server that sends requests during its calls in the older era, as servers on the official SDK may. 2026-07-28 has no
// such requests, so older clients pass only if their calls use their own era. The suites of both eras run concurrently,
// through one gateway with its default settings.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { gatewayToFixture } from '../support/fixture-gateway.ts'
import type { RunningGateway } from '../support/gateway.ts'
import { runServerSuite, type SuiteRun } from './suite.ts'
import { allOf, unscoredVerdictOf, verdictOf } from './verdict.ts'

describe.each(['http', 'stdio'] as const)('a server that asks by requests, over %s', (transport) => {
  let gateway: RunningGateway
  let runs: readonly [SuiteRun, SuiteRun]
  beforeAll(async () => {
    gateway = await gatewayToFixture('both', transport, { style: { ASKING: 'requests' } })
    runs = await Promise.all([
      runServerSuite(gateway.url, { requirements: '2025-11-25' }),
      runServerSuite(gateway.url, { requirements: '2026-07-28' }),
    ])
  })
  afterAll(() => gateway.close())

  it('passes for a client of 2025-11-25', () => {
    expect(verdictOf(runs[0])).toEqual(allOf(30))
    expect(unscoredVerdictOf(runs[0])).toEqual(allOf(3))
  })

  it('passes for a client of 2026-07-28', () => {
    expect(verdictOf(runs[1])).toEqual(allOf(37))
    expect(unscoredVerdictOf(runs[1])).toEqual(allOf(3))
  })

  it('passes the edition of the suite that is published as the latest', async () => {
    const run = await runServerSuite(gateway.url, { edition: '0.1' })
    expect(verdictOf(run)).toEqual(allOf(30))
  })
})
