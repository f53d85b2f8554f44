import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { foreignFile } from '../support/foreign.ts'

/** A revision the official suite has a frozen requirement set for. */
export type Revision = '2025-11-25' | '2026-07-28'

/** What one scenario found. */
export interface Scenario {
  readonly name: string
  /** No check failed, and at least one was made. Warnings (a SHOULD) are ignored. */
  readonly passed: boolean
  /** Whether it is scored; outside a requirement set every scenario is. */
  readonly scored: boolean
  /** The number of checks by result. */
  readonly checks: Readonly<Record<CheckStatus, number>>
  /** One line per failed check: its id and what was wrong. */
  readonly failures: readonly string[]
  readonly warnings: readonly string[]
}

/** The scored scenarios of a requirement set, and those that only run. */
interface Requirements {
  readonly scored: readonly string[]
  readonly notScored: readonly string[]
}

/** Reads what a run wrote to `folder`; without `scored` every scenario is scored. */
export async function readScenarios(
  folder: string,
  leg: 'server' | 'client',
  scored?: readonly string[],
): Promise<Scenario[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const runs = entries
    .filter((entry) => entry.isDirectory() && timestamp.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
  const scenarios = await Promise.all(
    runs.map(async (run) => {
      const path = relative(folder, run).replace(timestamp, '')
      const name = leg === 'server' ? path.replace(/^server-/, '') : path
      const isScored = scored?.includes(name) ?? true
      return scenarioOf(name, isScored, await readChecks(join(run, 'checks.json')))
    }),
  )
  return scenarios.sort((a, b) => a.name.localeCompare(b.name))
}

/** Reads the frozen requirement set of a revision. */
export async function requirementsOf(revision: Revision, leg: 'server' | 'client'): Promise<Requirements> {
  const file = foreignFile(`@modelcontextprotocol/conformance/requirements/${revision}.yaml`)
  const set = requirementSet.parse(parse(await readFile(file, 'utf8')))
  const notScored = set.not_scored.filter((entry) => entry.leg === leg).map((entry) => entry.scenario)
  return { scored: set[leg], notScored }
}

const statuses = ['SUCCESS', 'FAILURE', 'WARNING', 'SKIPPED', 'INFO'] as const
type CheckStatus = (typeof statuses)[number]

const check = z.object({
  id: z.string(),
  status: z.enum(statuses),
  description: z.string().optional(),
  errorMessage: z.string().optional(),
})

const requirementSet = z.object({
  server: z.array(z.string()),
  client: z.array(z.string()),
  not_scored: z.array(z.object({ scenario: z.string(), leg: z.enum(['server', 'client']) })).default([]),
})

// The suite names a folder after the scenario and the time it started it.
const timestamp = /-\d{4}-\d{2}-\d{2}T[\d-]+Z$/

type Check = z.output<typeof check>

// A scenario that crashed or did not apply leaves a folder without this file.
async function readChecks(file: string): Promise<Check[]> {
  const content = await readFile(file, 'utf8').catch(() => '[]')
  return z.array(check).parse(JSON.parse(content))
}

function scenarioOf(name: string, scored: boolean, found: readonly Check[]): Scenario {
  const checks = { SUCCESS: 0, FAILURE: 0, WARNING: 0, SKIPPED: 0, INFO: 0 }
  for (const { status } of found) checks[status]++
  const failures = found.length === 0 ? ['no check was made'] : linesOf(found, 'FAILURE')
  return {
    name,
    scored,
    passed: failures.length === 0,
    checks,
    failures,
    warnings: linesOf(found, 'WARNING'),
  }
}

function linesOf(found: readonly Check[], status: CheckStatus): string[] {
  return found
    .filter((one) => one.status === status)
    .map((one) => `${one.id}: ${one.errorMessage ?? one.description ?? ''}`)
}
