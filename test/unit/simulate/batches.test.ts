import { describe, expect, test } from 'vitest'
import { inBatches } from '../../simulate/command.ts'
import type { SimulationResult } from '../../simulate/simulation.ts'

function result(seed: number, steps: number): SimulationResult {
  return { seed, steps, duration: 1, hash: '', attempts: 1, effects: 1, faults: 0 }
}

async function run(
  batches: Parameters<typeof inBatches>[0],
  of: (seed: number, steps: number) => readonly SimulationResult[],
) {
  const asked: (readonly [seed: number, steps: number])[] = []
  const seeds: SimulationResult[] = []
  const simulated = (seed: number, steps: number): readonly SimulationResult[] => {
    asked.push([seed, steps])
    return of(seed, steps)
  }
  for await (const results of inBatches(batches, simulated)) seeds.push(...results)
  return {
    asked,
    seeds: seeds.map(({ seed }) => seed),
    steps: seeds.reduce((sum, each) => sum + each.steps, 0),
  }
}

describe('batches of simulations', () => {
  test('simulate each seed once, until there were enough steps', async () => {
    // Simulations end some steps later than they were asked to, and a batch is several of them.
    const of = (seed: number, steps: number) => {
      const count = Math.ceil(steps / 22)
      return Array.from({ length: count }, (_each, index) => result(seed + index, 22))
    }
    const { asked, seeds, steps } = await run({ first: 900, steps: 410, most: 200 }, of)
    expect(seeds).toEqual(seeds.map((_each, index) => 900 + index))
    expect(asked).toEqual([
      [900, 200],
      [910, 190],
    ])
    expect(steps).toBeGreaterThanOrEqual(410)
  })

  test('end once a rule was violated', async () => {
    const violation = { rule: 'effects-once', message: 'twice', step: 1, entries: [] }
    const of = (seed: number) => [{ ...result(seed, 5), ...(seed === 3 && { violation }) }]
    expect((await run({ first: 1, steps: 100, most: 5 }, of)).seeds).toEqual([1, 2, 3])
  })
})
