import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect } from '../support/fake-client.ts'
import { gatewayToFixture } from '../support/fixture-gateway.ts'
import type { RunningGateway } from '../support/gateway.ts'
import { runServerSuite, type SuiteRun } from './suite.ts'
import { allOf, checksOf, expectedFailures, scenarioOf, unscoredVerdictOf, verdictOf } from './verdict.ts'

describe.each(['http', 'stdio'] as const)('a server of 2026-07-28 alone over %s', (transport) => {
  let gateway: RunningGateway
  beforeAll(async () => {
    gateway = await gatewayToFixture('modern', transport)
  })
  afterAll(() => gateway.close())

  it('passes all 30 scored scenarios for a client of 2025-11-25, and the 3 unscored ones', async () => {
    const run = await runServerSuite(gateway.url, { requirements: '2025-11-25' })
    expect(verdictOf(run)).toEqual(allOf(30))
    expect(unscoredVerdictOf(run)).toEqual(allOf(3))
  })
})

describe.each(['http', 'stdio'] as const)('a server of 2025-11-25 alone over %s', (transport) => {
  let gateway: RunningGateway
  let run: SuiteRun
  beforeAll(async () => {
    gateway = await gatewayToFixture('legacy', transport)
    await warm(gateway.url)
    run = await runServerSuite(gateway.url, { requirements: '2026-07-28' })
  })
  afterAll(() => gateway.close())

  it('fails exactly the expected checks for a client of 2026-07-28', async () => {
    const { scored, failures } = verdictOf(run)
    expect(scored).toBe(37)
    expect(checksOf(failures)).toEqual(await expectedFailures())
  })

  it('passes at least 34 of 37 scenarios', () => {
    expect(verdictOf(run).passed).toBeGreaterThanOrEqual(34)
  })

  // The responses have no request state and a key of the scenario's own: they belong to no call in flight.
  it('asks again after unexpected input responses, which is the only warning', () => {
    expect(checksOf(verdictOf(run).warnings)).toEqual([
      'input-required-result-ignore-extra-params:sep-2322-ignore-unexpected-params',
    ])
  })

  it('has the headers checked that it does not know', () => {
    expect(scenarioOf(run, 'http-header-validation')?.checks).toMatchObject({ SUCCESS: 14, FAILURE: 0 })
  })
})

// The suite allows 600 ms for a client with elicitation, which the start of a process alone may take.
async function warm(url: string): Promise<void> {
  for (const capabilities of [{}, { elicitation: {} }]) {
    const client = await connect({ transport: 'http', url, revision: '2026-07-28', capabilities })
    await client.close()
  }
}
