/**
 * The report of a run of checks against a server: what ran, what it found, and how long it took. One shape for every
 * command that checks, printed as text, JSON or JUnit XML.
 */
import { oneLine } from '../core/text/escape.ts'
import { escapeHtml } from '../core/web.ts'

/** `error` is a check that could not be carried out; `skipped` one that does not apply, whose message says why. */
export type CheckStatus = 'passed' | 'failed' | 'skipped' | 'error'

/** The result of one check. */
export interface CheckResult {
  /** Unique in the report. */
  readonly test_id: string
  /** The document that the check is about, such as a section of a specification. */
  readonly proposal_ref?: string
  readonly category: string
  /** What has to be true, as a sentence. */
  readonly description?: string
  readonly status: CheckStatus
  /** What was found, or why nothing was checked. Without secrets. */
  readonly message?: string
  readonly duration_ms: number
}

/** What a report is about. */
interface Subject {
  readonly server_name: string
  readonly server_version: string
  readonly suite_version: string
  /** When the run began, as an ISO 8601 time. */
  readonly tested_at: string
}

/** A run of checks against one server. */
export interface Report extends Subject {
  readonly results: readonly CheckResult[]
  readonly summary: Readonly<Record<'passed' | 'failed' | 'skipped' | 'errors', number>>
}

/** The report of these results. */
export function reportOf(subject: Subject, results: readonly CheckResult[]): Report {
  const count = (status: CheckStatus): number => results.filter((each) => each.status === status).length
  const summary = {
    passed: count('passed'),
    failed: count('failed'),
    skipped: count('skipped'),
    errors: count('error'),
  }
  return { ...subject, results, summary }
}

/** Whether nothing failed, and every check that applies was carried out. */
export function isClean({ summary }: Report): boolean {
  return summary.failed === 0 && summary.errors === 0
}

/** A report as lines of text: a line for each check, and the numbers at the end. */
export function reportText({ server_name, server_version, suite_version, results, summary }: Report): string {
  const width = Math.max(0, ...results.map(({ test_id }) => test_id.length))
  const lines = results.map(({ status, test_id, message }) => {
    const text = message === undefined ? '' : `  ${oneLine(message)}`
    return `${status.padEnd(7)}  ${oneLine(test_id).padEnd(width)}${text}`.trimEnd()
  })
  const { passed, failed, skipped, errors } = summary
  const counts = `${passed} passed, ${failed} failed, ${skipped} skipped${errors > 0 ? `, ${errors} not carried out` : ''}`
  return [
    oneLine(`${server_name} ${server_version}, suite ${suite_version}`),
    '',
    ...lines,
    '',
    counts,
    '',
  ].join('\n')
}

/** A report as JUnit XML, with a suite for each category, as test runners and CI systems read it. */
export function junit(report: Report): string {
  const categories = Map.groupBy(report.results, ({ category }) => category)
  const suites = [...categories].map(([category, results]) => suite(category, results, report))
  return junitDocument(report.server_name, report.results, suites)
}

/** Several reports as JUnit XML, with a suite for each server, whose properties are its score and its coverage. */
export function junitOfServers(
  reports: readonly (Report & {
    readonly score: { readonly total: number | null }
    readonly coverage: { readonly called: number; readonly answered: number; readonly listed: number }
  })[],
): string {
  const suites = reports.map((report) => {
    const { score, coverage, server_version } = report
    const properties = {
      score: score.total ?? 'none',
      tools_called: coverage.called,
      tools_answered: coverage.answered,
      tools_listed: coverage.listed,
      server_version,
    }
    return suite(report.server_name, report.results, report, properties)
  })
  const all = reports.flatMap(({ results }) => results)
  return junitDocument('gatehouse test', all, suites)
}

function junitDocument(name: string, results: readonly CheckResult[], suites: readonly string[]): string {
  const head = `<testsuites name="${xml(name)}" ${totals(results)}>`
  return ['<?xml version="1.0" encoding="UTF-8"?>', head, ...suites, '</testsuites>', ''].join('\n')
}

function suite(
  name: string,
  results: readonly CheckResult[],
  { tested_at, server_name }: Report,
  properties: Readonly<Record<string, string | number>> = {},
): string {
  const cases = results.map(({ test_id, category, status, message = '', duration_ms }) => {
    const head = `    <testcase classname="${xml(`${server_name}.${category}`)}" name="${xml(test_id)}" time="${seconds(duration_ms)}"`
    const tag = { passed: undefined, failed: 'failure', skipped: 'skipped', error: 'error' }[status]
    return tag === undefined ? `${head}/>` : `${head}><${tag} message="${xml(message)}"/></testcase>`
  })
  const listed = Object.entries(properties).map(
    ([key, value]) => `      <property name="${key}" value="${xml(String(value))}"/>`,
  )
  const head = listed.length === 0 ? [] : ['    <properties>', ...listed, '    </properties>']
  const attributes = `name="${xml(name)}" ${totals(results)} timestamp="${xml(tested_at)}"`
  return [`  <testsuite ${attributes}>`, ...head, ...cases, '  </testsuite>'].join('\n')
}

function totals(results: readonly CheckResult[]): string {
  const count = (status: CheckStatus): number => results.filter((each) => each.status === status).length
  const time = results.reduce((sum, { duration_ms }) => sum + duration_ms, 0)
  return `tests="${results.length}" failures="${count('failed')}" errors="${count('error')}" skipped="${count('skipped')}" time="${seconds(time)}"`
}

function seconds(milliseconds: number): string {
  return (milliseconds / 1000).toFixed(3)
}

/** A text as an attribute of XML 1.0; characters that XML excludes become escapes of JSON. */
function xml(text: string): string {
  return escapeHtml(oneLine(text.toWellFormed()))
}
