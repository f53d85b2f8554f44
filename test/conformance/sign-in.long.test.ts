import { describe, expect, it } from 'vitest'
import { authCommand, authScenarios, runClientScenario } from './suite.ts'
import { allOf, verdictOf } from './verdict.ts'

// The suite is the server and its authorization server here, and the gateway is the OAuth client. No failure is expected.
describe.each(['2026-07-28', '2025-11-25', '2025-03-26'] as const)(
  'sign-in to a suite server that speaks %s',
  async (specVersion) => {
    it.each(await authScenarios(specVersion))('the gateway passes %s', async (scenario) => {
      const run = await runClientScenario(authCommand, { scenario, specVersion }, { isForced: true })
      expect(verdictOf(run)).toEqual(allOf(1))
      expect(run.exitCode).toBe(0)
    })
  },
)
