/**
 * A vitest reporter that writes what a run leaves for others to read: how many tests passed, failed and were skipped
 * (`out/test-summary.json`), and what each file cost (`out/test-files.md`, the slowest first).
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'

/** Writes the files into a folder, and removes those of an earlier run before the tests begin. */
export function runSummary(folder: string): Reporter {
  const [counts, costs] = [join(folder, 'test-summary.json'), join(folder, 'test-files.md')]
  return {
    onTestRunStart() {
      for (const file of [counts, costs]) rmSync(file, { force: true })
    },
    onTestRunEnd(modules, unhandled) {
      mkdirSync(folder, { recursive: true })
      writeFileSync(counts, JSON.stringify(count(modules, unhandled.length)) + '\n')
      writeFileSync(costs, table(modules))
    },
  }
}

// A file that cannot be loaded and an error outside any test count as one failure each.
function count(modules: readonly TestModule[], unhandled: number) {
  const states = modules.flatMap((module) =>
    [...module.children.allTests()].map((test) => test.result().state),
  )
  const broken = modules.filter((module) => module.errors().length > 0).length
  const total = (state: string) => states.filter((other) => other === state).length
  return { passed: total('passed'), failed: total('failed') + broken + unhandled, skipped: total('skipped') }
}

/** What a file cost: seconds from its start to its end, seconds of CPU, and its tests. */
interface Cost {
  readonly name: string
  readonly wall: number
  readonly cpu: number
  readonly tests: number
}

function table(modules: readonly TestModule[]): string {
  const costs = modules.map(costOf).toSorted((one, other) => other.wall - one.wall)
  const sum = (of: (cost: Cost) => number): number => costs.reduce((total, cost) => total + of(cost), 0)
  const all = {
    name: 'all',
    wall: sum(({ wall }) => wall),
    cpu: sum(({ cpu }) => cpu),
    tests: sum(({ tests }) => tests),
  }
  const rows = [all, ...costs].map(
    ({ name, wall, cpu, tests }) => `| ${wall.toFixed(1)} | ${cpu.toFixed(1)} | ${tests} | ${name} |`,
  )
  return ['| Seconds | CPU seconds | Tests | File |', '|---|---|---|---|', ...rows, ''].join('\n')
}

function costOf(module: TestModule): Cost {
  const { collectDuration, setupDuration, duration } = module.diagnostic()
  return {
    name: module.relativeModuleId,
    wall: (collectDuration + setupDuration + duration) / 1000,
    cpu: (module.meta().cpuMs ?? 0) / 1000,
    tests: [...module.children.allTests()].length,
  }
}
