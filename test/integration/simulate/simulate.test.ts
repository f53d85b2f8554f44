import { spawnSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { mutated } from '../../support/mutation.ts'
import { plantedBugs } from '../../support/planted-bugs.ts'
import { simulator } from '../../support/simulator.ts'
import { isSoak, repetitions } from '../../support/soak.ts'

/** More than one simulation, of which the first takes 20,000 steps at least. */
const STEPS = repetitions(34_000, 48_000)

/** Of a fleet, in which each step is one of several gateways. */
const FLEET_STEPS = repetitions(1000, 200_000)

interface Seed {
  readonly seed: number
  readonly steps: number
  readonly hash: string
  readonly effects: number
  readonly violation?: unknown
}

function simulate(...args: string[]) {
  const [node = '', ...program] = simulator
  const { status, stdout, stderr } = spawnSync(node, [...program, ...args], {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
  return { status, stdout, stderr }
}

function seedsOf(stdout: string): readonly Seed[] {
  return (JSON.parse(stdout) as { readonly seeds: readonly Seed[] }).seeds
}

describe('the simulator', () => {
  it('the same seed gives the same history in another process, and another seed does not', () => {
    const [one, again, other] = ['7', '7', '8'].map((seed) =>
      simulate('--seed', seed, '--steps', '4000', '--json'),
    )
    expect(one?.status).toBe(0)
    const [first, second, third] = [one, again, other].map((run) => seedsOf(run?.stdout ?? '')[0])
    expect(first?.effects).toBeGreaterThan(10)
    expect(first?.steps).toBeGreaterThanOrEqual(4000)
    expect(second).toEqual(first)
    expect(third?.hash).not.toBe(first?.hash)
  })

  it('a simulation does not depend on those before it in its process', () => {
    const both = seedsOf(simulate('--seed', '22', '--steps', String(STEPS), '--json').stdout)
    expect(both.map(({ seed }) => seed)).toEqual([22, 23])
    const alone = seedsOf(
      simulate('--seed', '23', '--steps', String(STEPS - (both[0]?.steps ?? 0)), '--json').stdout,
    )
    expect(alone[0]?.hash).toBe(both[1]?.hash)
  })

  it('prints a line for each seed, and that no rule was violated', () => {
    const { status, stdout } = simulate('--seed', '3', '--steps', '1000', '--gateways', '1')
    expect(status).toBe(0)
    expect(stdout).toMatch(
      /^seed 3 {2}\d+ steps {2}\d+ attempts, \d+ effects, \d+ faults, \d+ s simulated {2}[\da-f]{32}-[\da-f]{8}\n/,
    )
    expect(stdout).toMatch(/passed {3}answers-stay\n/)
    expect(stdout).toMatch(/15 passed, 0 failed, 0 skipped\n$/)
  })

  it('a fleet keeps all rules', () => {
    const once = () => simulate('--fleet', '--seed', '4', '--steps', String(FLEET_STEPS), '--json')
    const { status, stdout } = once()
    expect(seedsOf(stdout).flatMap(({ violation }) => violation ?? [])).toEqual([])
    expect(status).toBe(0)
    expect(seedsOf(stdout)[0]?.effects).toBeGreaterThan(10)
    if (isSoak) expect(seedsOf(once().stdout)).toEqual(seedsOf(stdout))
  })

  it('takes the features of a configuration, and none of its servers', () => {
    const file = join(mkdtempSync(join(tmpdir(), 'simulate-')), 'gateway.config.yaml')
    writeFileSync(file, 'upstreams: { real: never-run }\nfeatures: { idempotency: off, transactions: off }\n')
    const [result] = seedsOf(simulate('--config', file, '--seed', '1', '--steps', '4000', '--json').stdout)
    // Without the features, nothing keeps their promises.
    expect(result?.violation).toBeDefined()
  })

  it.each([
    [['--seed', 'x'], '--seed must be a whole number from 0 to 2147483647'],
    [['--steps', '0'], '--steps must be a whole number from 1 to 1000000000'],
    [['--gateways', '11'], '--gateways must be a whole number from 1 to 10'],
    [['shop'], 'this command takes options only'],
    [['--config', '/nowhere.yaml'], '/nowhere.yaml does not exist'],
  ])('%j is wrong', (args, message) => {
    const { status, stderr } = simulate(...args)
    expect(status).toBeGreaterThan(0)
    expect(stderr).toContain(message)
  })
})

it.each(plantedBugs)('a bug for the simulation to find can be planted: $name', (bug) => {
  expect(() => mutated(bug)).not.toThrow()
})
