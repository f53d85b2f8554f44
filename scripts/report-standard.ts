import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { filesOfRows } from '../test/support/standard.ts'
import { type Ran, standardReport } from '../test/support/standard-report.ts'

// Runs the tests whose names start with a row of the corporate profile, and writes the result of each row.
// Given a JSON report of vitest, reads that instead of running the tests.
const root = join(import.meta.dirname, '..')
const [given] = process.argv.slice(2)
const report = standardReport(testsIn(given ?? run()))
writeFileSync(join(root, 'standard-report.md'), report.text)
const lines = report.text.split('\n')
console.log([lines[2], ...lines.filter((line) => line.startsWith('- '))].join('\n'))
if (!report.isComplete) process.exitCode = 1

function run(): string {
  const file = join(root, 'out/standard.json')
  mkdirSync(join(root, 'out'), { recursive: true })
  rmSync(file, { force: true })
  const vitest = join(root, 'node_modules/vitest/vitest.mjs')
  // The other projects repeat these tests, or have none of them.
  const projects = ['unit', 'integration', 'conformance', 'long'].flatMap((name) => ['--project', name])
  const only = ['--testNamePattern', 'C\\d{3} ', ...projects, ...filesOfRows()]
  const args = [vitest, 'run', ...only, '--reporter=json', `--outputFile=${file}`]
  spawnSync(process.execPath, args, { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] })
  return file
}

interface VitestReport {
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    readonly assertionResults: readonly {
      readonly title: string
      readonly ancestorTitles: readonly string[]
      readonly status: string
    }[]
  }[]
}

function testsIn(file: string): Ran[] {
  const { testResults }: VitestReport = JSON.parse(readFileSync(file, 'utf8'))
  return testResults.flatMap(({ name, status, assertionResults }) => {
    // A file that cannot be loaded may contain tests of any row.
    if (status === 'failed' && assertionResults.length === 0) return [{ names: [name], state: 'not loaded' }]
    return (
      assertionResults
        // Tests excluded by the name pattern are not results.
        .filter((each) => each.status !== 'skipped' && each.status !== 'pending')
        .map((each) => ({ names: [...each.ancestorTitles, each.title], state: each.status }))
    )
  })
}
