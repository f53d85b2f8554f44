/** A vitest reporter that says at the end of a run which tests were left out for want of a program, and how to get it. */
import type { Reporter, TestCase, TestModule, TestSuite } from 'vitest/node'
import type { Need } from './needs.ts'

/** Goes after the reporters that print a summary. */
export function leftOut(write: (text: string) => void = (text) => process.stdout.write(text)): Reporter {
  return {
    onTestRunEnd(modules) {
      for (const [{ program, get }, count] of missingFor(modules))
        write(`Left out: ${count} ${count === 1 ? 'test needs' : 'tests need'} ${program} (${get})\n`)
    },
  }
}

function missingFor(modules: readonly TestModule[]): Iterable<readonly [Need, number]> {
  const found = new Map<string, readonly [Need, number]>()
  const skipped = modules.flatMap((module) => [...module.children.allTests('skipped')])
  for (const need of skipped.map(needOf)) {
    if (!need) continue
    const [, count] = found.get(need.program) ?? [need, 0]
    found.set(need.program, [need, count + 1])
  }
  return found.values()
}

/** What a test needs itself, or else the nearest suite around it. */
function needOf(task: TestCase | TestSuite): Need | undefined {
  const { missing } = task.meta()
  if (missing) return missing
  return task.parent.type === 'suite' ? needOf(task.parent) : undefined
}
