/** A server with what is known about it, and the words and the grade for its numbers. */
import {
  answeredIn,
  coverageText,
  hasUnreadTools,
  type KeptReport,
  type TestReport,
} from '../../records/test-reports.ts'

/** A server, the last test of itself, and the last run of the conformance suite in front of it. */
export interface ShownServer {
  readonly name: string
  readonly quality: KeptReport | undefined
  readonly conformance: KeptReport | undefined
}

/** How good a result is; `none` if nothing ran. */
export type Grade = 'good' | 'fair' | 'poor' | 'none'

/** From these scores on, a result is good, or fair. */
const GOOD = 90
const FAIR = 70

/**
 * The grade of a score; never good if fewer than half of the tools answered, or a check could not be carried out, and poor
 * if its tools are not known.
 */
export function gradeOf(report: TestReport | undefined): Grade {
  const total = report?.score?.total
  if (!report || total === undefined || total === null) return 'none'
  if (total < FAIR || hasUnreadTools(report)) return 'poor'
  const isCovered = answeredIn(report) * 2 >= (report.coverage?.listed ?? 0)
  return total >= GOOD && isCovered && report.summary.errors === 0 ? 'good' : 'fair'
}

/** The score, and how many tools it is about. */
export function scoreText(report: TestReport | undefined): string {
  if (!report) return 'not run'
  if (isUnavailable(report)) return 'unavailable'
  const total = report.score?.total ?? undefined
  return `${total === undefined ? 'nothing checked' : `${total}/100`} · ${coverageText(report)}`
}

/** Whether the server could not be tested at all. */
export function isUnavailable({ results, coverage }: TestReport): boolean {
  const isLost = results.some(({ test_id, status }) => test_id === 'server/available' && status === 'error')
  return isLost && coverage?.listed === 0
}

/** The checks of the gateway's extensions that passed, among those that apply. */
export function passedText({ summary: { passed, failed, errors } }: TestReport): string {
  const all = passed + failed + errors
  return all === 0 ? 'nothing checked' : `${passed} of ${all} passed`
}
