import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'

/** A vitest reporter that writes how many tests passed, failed and were skipped to a file, as JSON. */
export function ciSummary(file: string): Reporter {
  return {
    onTestRunEnd(modules, unhandled) {
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, JSON.stringify(count(modules, unhandled.length)) + '\n')
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
