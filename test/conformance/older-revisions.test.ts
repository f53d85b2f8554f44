import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { gatewayToFixture } from '../support/fixture-gateway.ts'
import type { RunningGateway } from '../support/gateway.ts'
import { runServerSuite } from './suite.ts'
import { allOf, verdictOf } from './verdict.ts'

describe.each(['both', 'modern'] as const)('a server with ERA=%s', (era) => {
  let gateway: RunningGateway
  beforeAll(async () => {
    gateway = await gatewayToFixture(era, 'http')
  })
  afterAll(() => gateway.close())

  it.each([
    ['2025-06-18', 27],
    ['2025-03-26', 1],
  ])('passes every scenario for a client of %s', async (specVersion, count) => {
    const run = await runServerSuite(gateway.url, { suite: 'all', specVersion })
    expect(verdictOf(run)).toEqual(allOf(count))
  })
})
