import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { gatewayToFixture } from '../support/fixture-gateway.ts'
import type { RunningGateway } from '../support/gateway.ts'
import { runServerSuite, type SuiteRun } from './suite.ts'
import { allOf, scenarioOf, unscoredVerdictOf, verdictOf } from './verdict.ts'

describe.each(['http', 'stdio'] as const)('a server of both eras over %s', (transport) => {
  let gateway: RunningGateway
  beforeAll(async () => {
    gateway = await gatewayToFixture('both', transport)
  })
  afterAll(() => gateway.close())

  describe('for a client of 2025-11-25', () => {
    let run: SuiteRun
    beforeAll(async () => {
      run = await runServerSuite(gateway.url, { requirements: '2025-11-25' })
    })

    it('passes all 30 scored scenarios', () => {
      expect(verdictOf(run)).toEqual(allOf(30))
    })

    it('passes the 3 unscored scenarios', () => {
      expect(unscoredVerdictOf(run)).toEqual(allOf(3))
    })
  })

  describe('for a client of 2026-07-28', () => {
    let run: SuiteRun
    beforeAll(async () => {
      run = await runServerSuite(gateway.url, { requirements: '2026-07-28' })
    })

    it('passes all 37 scored scenarios', () => {
      expect(verdictOf(run)).toEqual(allOf(37))
    })

    it('passes the 3 unscored scenarios', () => {
      expect(unscoredVerdictOf(run)).toEqual(allOf(3))
    })

    it.each([
      ['http-header-validation', 14],
      ['http-custom-header-server-validation', 10],
    ])('passes every check of %s', (name, count) => {
      expect(scenarioOf(run, name)?.checks).toMatchObject({
        SUCCESS: count,
        FAILURE: 0,
        WARNING: 0,
        SKIPPED: 0,
      })
    })
  })
})
