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

it.each(plantedBugs.map((bug, index) => ({ bug, index, name: bug.name })))(
  'the simulation finds that $name',
  ({ bug, index }) => {
    const found = simulate(plant(bug, `bug-${index}`), bug.seed, bug.steps)
    const violation = /^Seed (\d+), step (\d+): ([\w-]+): /m.exec(found.stdout)
    expect(found.status).toBe(1)
    expect(violation?.slice(1)).toEqual([String(bug.seed), expect.any(String), bug.rule])
    expect(Number(violation?.[2])).toBeLessThanOrEqual(10_000)
    const without = simulate(join(root, 'dist/main.js'), bug.seed, bug.steps)
    expect(without.status).toBe(0)
  },
  120_000,
)
