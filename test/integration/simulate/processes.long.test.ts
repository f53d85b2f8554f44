import { expect, test } from 'vitest'
import type { SimulationResult } from '../../simulate/simulation.ts'
import { runCommandProcess } from '../../support/gateway-process.ts'
import { simulator } from '../../support/simulator.ts'
import { isSoak } from '../../support/soak.ts'

// More steps than one process simulates. `test/unit/simulate/batches.test.ts` shows for every run how they are divided.
test.runIf(isSoak)('a long simulation runs in several processes, and each seed once', async () => {
  const words = ['--seed', '900', '--steps', '410000', '--json']
  const { code, stdout } = await runCommandProcess(words, { program: simulator })
  const { seeds, steps } = JSON.parse(stdout) as {
    readonly seeds: readonly SimulationResult[]
    readonly steps: number
  }
  expect(seeds.flatMap(({ seed, violation }) => (violation ? [{ seed, violation }] : []))).toEqual([])
  expect(code).toBe(0)
  expect(seeds.map(({ seed }) => seed)).toEqual(seeds.map((_each, index) => 900 + index))
  expect(steps).toBe(seeds.reduce((sum, each) => sum + each.steps, 0))
  expect(steps).toBeGreaterThanOrEqual(410_000)
})
