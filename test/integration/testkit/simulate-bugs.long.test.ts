import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { plant, plantedBugs } from '../../support/planted-bugs.ts'

const root = join(import.meta.dirname, '../../..')

afterAll(() => {
  rmSync(join(root, 'out/planted'), { recursive: true, force: true })
})

function simulate(main: string, seed: number, steps: number) {
  const args = [main, 'simulate', '--seed', String(seed), '--steps', String(steps)]
  const { status, stdout } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
  return { status, stdout }
}

/** A bug must show within so many steps of one seed, which is sought among the first ones. */
const MAX_STEPS = 10_000
const SEEDS = Array.from({ length: 40 }, (_, index) => index + 1)

it.each(plantedBugs.map((bug, index) => ({ bug, index, name: bug.name })))(
  'the simulation finds that $name',
  ({ bug, index }) => {
    const main = plant(bug, `bug-${index}`)
    // Any change of the product shifts what the seeds do.
    const seed = [bug.seed, ...SEEDS].find((each) => {
      const { status, stdout } = simulate(main, each, bug.steps)
      const [, step, rule] = /^Seed \d+, step (\d+): ([\w-]+): /m.exec(stdout) ?? []
      return status === 1 && rule === bug.rule && Number(step) <= MAX_STEPS
    })
    expect(seed).toBeDefined()
    expect(simulate(join(root, 'dist/main.js'), seed ?? 0, bug.steps).status).toBe(0)
  },
  240_000,
)
