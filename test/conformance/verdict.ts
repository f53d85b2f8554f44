import { readFile } from 'node:fs/promises'
import { parse } from 'yaml'
import { z } from 'zod'
import type { Scenario } from './results.ts'
import type { SuiteRun } from './suite.ts'

/** The verdict of a run: how many scenarios are scored, and their problems, as `scenario:check: message`. */
export interface Verdict {
  readonly scored: number
  readonly passed: number
  readonly failures: readonly string[]
  readonly warnings: readonly string[]
}

/** Summarizes the scored scenarios. */
export function verdictOf({ scenarios }: SuiteRun): Verdict {
  return sumUp(scenarios.filter((scenario) => scenario.scored))
}

/** Summarizes the unscored scenarios, without the extension for tasks. */
export function unscoredVerdictOf({ scenarios }: SuiteRun): Verdict {
  return sumUp(scenarios.filter(({ name, scored }) => !scored && !name.startsWith('tasks-')))
}

/** Every scored scenario passed, without a warning. */
export function allOf(scored: number): Verdict {
  return { scored, passed: scored, failures: [], warnings: [] }
}

/** Findings as an expected-failures file names them: `scenario:check`. */
export function checksOf(findings: readonly string[]): string[] {
  return findings.map((finding) => finding.split(': ', 1).join()).sort()
}

/** The one scenario of this name in a run. */
export function scenarioOf({ scenarios }: SuiteRun, name: string): Scenario | undefined {
  return scenarios.find((scenario) => scenario.name === name)
}

/** Reads the checks a modern client in front of a legacy server is expected to fail. */
export async function expectedFailures(): Promise<string[]> {
  const file = new URL('expected-failures.yml', import.meta.url)
  return baseline.parse(parse(await readFile(file, 'utf8'))).server.sort()
}

const baseline = z.object({ server: z.array(z.string()) })

function sumUp(scenarios: readonly Scenario[]): Verdict {
  return {
    scored: scenarios.length,
    passed: scenarios.filter((scenario) => scenario.passed).length,
    failures: scenarios.flatMap(({ name, failures }) => failures.map((line) => `${name}:${line}`)),
    warnings: scenarios.flatMap(({ name, warnings }) => warnings.map((line) => `${name}:${line}`)),
  }
}
