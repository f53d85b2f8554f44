import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { gatewayProgram } from '../support/gateway-process.ts'
import { openClientScenarios, runClientScenario } from './suite.ts'
import { allOf, verdictOf } from './verdict.ts'

// The suite is the server here and checks what the gateway sends.
const client = fileURLToPath(new URL('../fixtures/conformance-client.ts', import.meta.url))
const command = [process.execPath, client]

describe.each(['2025-11-25', '2026-07-28'] as const)('a suite server that speaks %s', async (revision) => {
  const scenarios = await openClientScenarios(revision)

  describe.each(['legacy', 'modern'] as const)('to a client of the %s era', (era) => {
    it.each(scenarios)('passes through the gateway in %s', async (scenario) => {
      const env = { GATEHOUSE_COMMAND: JSON.stringify(gatewayProgram()), CLIENT_ERA: era }
      const run = await runClientScenario(command, { scenario, specVersion: revision }, { env })
      expect(verdictOf(run)).toEqual(allOf(1))
      expect(run.exitCode).toBe(0)
    })
  })
})
