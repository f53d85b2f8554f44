/** The suite, as all checks and as a document in the form of the proposal; and a run of them, with its report. */
import { within } from '../../core/time/waiting.ts'
import { type CheckResult, type CheckStatus, type Report, reportOf } from '../report.ts'
import { type Check, type Context, CheckFailure, Skip } from './check.ts'
import { latestModern } from '../../core/revisions.ts'
import { errorChecks } from './errors.ts'
import { idempotencyChecks, transactionChecks } from './effects.ts'
import { referenceChecks, stateChecks } from './kept-data.ts'
import { manifestChecks } from './manifest.ts'
import { confirmationChecks, permissionChecks } from './permissions.ts'
import { serverChecks } from './server-calls.ts'
import { eventChecks, streamingChecks } from './streaming.ts'

interface RunReporting {
  readonly version: string
  /** Removes secrets from a message. */
  clean(text: string): string
  /** Called after each check. */
  onResult?(result: CheckResult, done: number): void
}

/** The time that a check may take, in milliseconds. */
const CHECK_TIMEOUT_MS = 60_000

/** The longest message of a result, in characters. */
const MAX_MESSAGE_LENGTH = 500

/** Runs checks. Never throws for what a check finds. */
export async function runChecks(
  checks: readonly Check[],
  context: Context,
  options: RunReporting,
): Promise<Report> {
  const testedAt = new Date().toISOString()
  const results: CheckResult[] = []
  for (const check of checks) {
    // One after another: checks change the data of the built-in server, and time is a part of some.
    const result = await resultOf(check, context, options)
    results.push(result)
    options.onResult?.(result, results.length)
  }
  const subject = {
    server_name: context.name,
    server_version: options.version,
    suite_version: SUITE_VERSION,
    tested_at: testedAt,
  }
  return reportOf(subject, results)
}

async function resultOf(check: Check, context: Context, { clean }: RunReporting): Promise<CheckResult> {
  const { test_id, proposal_ref, category, description } = check
  const start = performance.now()
  const { status, message } = await outcomeOf(check, context)
  const text = message === undefined ? undefined : shortened(clean(message))
  const duration = Math.round((performance.now() - start) * 10) / 10
  return {
    test_id,
    proposal_ref,
    category,
    description,
    status,
    ...(text !== undefined && { message: text }),
    duration_ms: duration,
  }
}

interface Found {
  readonly status: CheckStatus
  readonly message?: string
}

async function outcomeOf(check: Check, context: Context): Promise<Found> {
  const off = check.needs?.find((feature) => context.settings(feature) === false)
  if (off !== undefined) return { status: 'skipped', message: `features.${off} is off` }
  const ran = check.run(context).then((): Found => ({ status: 'passed' }), foundBy)
  const late: Found = { status: 'error', message: `not finished within ${CHECK_TIMEOUT_MS / 1000} s` }
  return within(ran, CHECK_TIMEOUT_MS, late)
}

function foundBy(error: unknown): Found {
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof CheckFailure) return { status: 'failed', message }
  return { status: error instanceof Skip ? 'skipped' : 'error', message }
}

function shortened(text: string): string {
  return text.length > MAX_MESSAGE_LENGTH ? `${text.slice(0, MAX_MESSAGE_LENGTH).toWellFormed()}…` : text
}

/** Changes with every added, removed or changed check. */
const SUITE_VERSION = '1.0.0'

/** All checks, in the order in which they run. */
export const checks: readonly Check[] = [
  ...manifestChecks,
  ...errorChecks,
  ...idempotencyChecks,
  ...permissionChecks,
  ...confirmationChecks,
  ...stateChecks,
  ...transactionChecks,
  ...streamingChecks,
  ...referenceChecks,
  ...eventChecks,
  ...serverChecks,
]

/** The suite as a document: what each check is about. */
export function suiteDocument() {
  return {
    metadata: {
      suite_version: SUITE_VERSION,
      mcp_spec_version: latestModern.name,
      total_tests: checks.length,
    },
    tests: checks.map(({ test_id, proposal_ref, description, category }) => {
      return { test_id, proposal_ref, description, category }
    }),
  }
}
