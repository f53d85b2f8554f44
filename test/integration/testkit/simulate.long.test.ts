import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { SimulationResult } from '../../../src/testkit/simulate/simulation.ts'

const main = join(import.meta.dirname, '../../../dist/main.js')

test('a long simulation runs in several processes, and each seed once', { timeout: 280_000 }, () => {
  const words = ['simulate', '--seed', '900', '--steps', '410000', '--json']
  const { status, stdout } = spawnSync(process.execPath, [main, ...words], {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
  const { seeds, steps } = JSON.parse(stdout) as {
    readonly seeds: readonly SimulationResult[]
    readonly steps: number
  }
  expect(seeds.flatMap(({ seed, violation }) => (violation ? [{ seed, violation }] : []))).toEqual([])
  expect(status).toBe(0)
  expect(seeds.map(({ seed }) => seed)).toEqual(seeds.map((_each, index) => 900 + index))
  expect(steps).toBe(seeds.reduce((sum, each) => sum + each.steps, 0))
  expect(steps).toBeGreaterThanOrEqual(410_000)
})
