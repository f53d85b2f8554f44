import { expect, it } from 'vitest'
import { authCommand, runClientScenario } from './suite.ts'
import { allOf, verdictOf } from './verdict.ts'

// Two of the scenarios of sign-in.long.test.ts, which need most of what the others need.
it.concurrent.each(['auth/authorization-server-migration', 'auth/dpop-nonce'])(
  'the gateway signs in to a suite server in %s',
  async (scenario) => {
    const selection = { scenario, specVersion: '2026-07-28' }
    const run = await runClientScenario(authCommand, selection, { isForced: true })
    expect(verdictOf(run)).toEqual(allOf(1))
    expect(run.exitCode).toBe(0)
  },
)
