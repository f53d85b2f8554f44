import { expect, it } from 'vitest'
import { type CommandOptions, runCommandProcess } from '../../support/gateway-process.ts'
import { mutated } from '../../support/mutation.ts'
import { type PlantedBug, plantedBugs } from '../../support/planted-bugs.ts'
import { simulator } from '../../support/simulator.ts'
import { variantsOf } from '../../support/soak.ts'

function simulate(
  { isFleet, faults, steps }: PlantedBug,
  seed: number,
  options: CommandOptions = { program: simulator },
) {
  const words = ['--seed', String(seed), '--steps', String(steps)]
  if (isFleet) words.push('--fleet')
  if (faults) words.push('--faults', faults)
  return runCommandProcess(words, options)
}

/** A bug must show within so many steps of one seed, which is sought among the first ones. */
const MAX_STEPS = 10_000
const SEEDS = Array.from({ length: 40 }, (_, index) => index + 1)

/** One bug for each rule in the ordinary run, and one of those that only fleets show. */
const bugs = variantsOf(plantedBugs, ({ rule, isFleet }, index) => {
  return plantedBugs.findIndex((other) => other.rule === rule && other.isFleet === isFleet) === index
})

it.each(bugs)('the simulation finds that $name', async (bug) => {
  const planted = mutated(bug, simulator)
  const isFound = async (seed: number): Promise<boolean> => {
    const { code, stdout } = await simulate(bug, seed, planted)
    const [, step, rule] = /^Seed \d+, step (\d+): ([\w-]+): /m.exec(stdout) ?? []
    return code === 1 && rule === bug.rule && Number(step) <= MAX_STEPS
  }
  // Any change of the product shifts what the seeds do.
  let found: number | undefined
  for (const seed of [bug.seed, ...SEEDS]) if (found === undefined && (await isFound(seed))) found = seed
  expect(found).toBeDefined()
  expect((await simulate(bug, found ?? 0)).code).toBe(0)
})
