/**
 * The latest report about each server, and the numbers of the reports before it, as commands left them: of the
 * conformance suite, which is about the gateway in front of a server, and of the test of the server itself.
 */
import { isObject, readJson } from '../core/json/json.ts'
import { Collection, hasMembers, type RecordKind } from '../durable/collection.ts'
import { withoutSecrets } from '../core/text/redact.ts'
import type { Store } from '../store/store.ts'

/** What ran. */
export type Suite = 'conformance' | 'server-test'

/** What one check found. */
interface KeptResult {
  readonly test_id: string
  readonly proposal_ref?: string
  readonly category: string
  /** What has to be true. Reports of earlier versions lack it. */
  readonly description?: string
  readonly status: 'passed' | 'failed' | 'skipped' | 'error'
  readonly message?: string
  readonly duration_ms: number
}

/** A report: what ran against a server, and what it found. Skipped checks count as neither passed nor failed. */
export interface TestReport {
  readonly server_name: string
  readonly server_version: string
  readonly suite_version: string
  /** An ISO 8601 time. */
  readonly tested_at: string
  readonly results: readonly KeptResult[]
  readonly summary: Readonly<Record<'passed' | 'failed' | 'skipped' | 'errors', number>>
  /** 0 to 100, null if nothing was checked; only of server tests. */
  readonly score?: { readonly total: number | null }
  /** Only of server tests. */
  readonly coverage?: Coverage
  /** The options of the command, with which a run finds the same; only of server tests. */
  readonly arguments?: readonly string[]
}

/** How many tools were called, and of how many of them a valid call succeeded, of those that the server lists. */
interface Coverage {
  readonly called: number
  /** Reports of earlier versions lack it: they counted calls alone. */
  readonly answered?: number
  readonly listed: number
}

/** The numbers of one run. */
export interface RunNumbers {
  readonly tested_at: string
  readonly passed: number
  /** Failed checks, and those that could not be carried out. */
  readonly failed: number
  readonly score?: number | null
  readonly called?: number
  readonly answered?: number
  readonly listed?: number
}

/** What is kept about a server. */
export interface KeptReport {
  readonly report: TestReport
  /** The runs, the oldest first; the last one is that of the report. */
  readonly history: readonly RunNumbers[]
}

/** The version of the record. Records of version 1 are a report alone, without a version. */
const VERSION = 2
/** How long a report is kept, in milliseconds. */
const TTL_MS = 365 * 86_400_000
/** How many runs are kept of each server. */
const MAX_RUNS = 50
/** How many results a kept report has; passed checks are left out first, then skipped ones. */
const MAX_RESULTS = 500
/** The longest text that is kept, in characters. */
const MAX_LENGTH = 600

/** The reports of one suite, by the names of their servers. */
export class TestReports {
  readonly #kept: Collection<KeptReport>

  constructor(store: Store, suite: Suite) {
    this.#kept = new Collection(store, { ...reportKind, prefix: prefixes[suite] })
  }

  /** Replaces the report of a server, and adds its numbers to the history. @throws SERVER_UNAVAILABLE, CONFLICT */
  async keep(report: TestReport): Promise<void> {
    await this.#kept.update(report.server_name, (before) => ({
      report,
      history: [...(before?.history ?? []), numbersOf(report)].slice(-MAX_RUNS),
    }))
  }

  /** What is kept about a server; undefined if nothing is. @throws SERVER_UNAVAILABLE */
  latest(server: string): Promise<KeptReport | undefined> {
    return this.#kept.get(server)
  }
}

const prefixes = { conformance: 'conformance:', 'server-test': 'server-test:' } as const

const reportKind: Omit<RecordKind<KeptReport>, 'prefix'> = {
  name: 'report',
  encode: ({ report, history }) => JSON.stringify({ version: VERSION, report: shortened(report), history }),
  decode: readKept,
  ttlOf: () => TTL_MS,
}

/** What failed first, as a sentence of at most so many characters; undefined if nothing did. */
export function firstFailure(
  { results }: Pick<TestReport, 'results'>,
  maxLength: number,
): string | undefined {
  const [failed] = failuresIn(results)
  return failed && shortFailure(failed, maxLength)
}

/** The checks that failed, and those that could not be carried out. */
export function failuresIn(results: TestReport['results']): TestReport['results'] {
  return results.filter(({ status }) => status === 'failed' || status === 'error')
}

/** A failed check as a sentence: what has to be true, and what was found. */
export function failureSentence({ description = '', message = '', test_id, status }: KeptResult): string {
  if (status === 'error' || description === '') return message || test_id
  const found = message.startsWith(description) ? message.slice(description.length).trim() : message
  return found === '' ? `It is not so: ${description}` : `${description.replace(/\.$/, '')}, but: ${found}`
}

/** A failed check as a sentence, without secrets and not longer than so many characters. */
export function shortFailure(result: KeptResult, maxLength: number): string {
  const sentence = withoutSecrets(failureSentence(result).slice(0, MAX_EXAMINED))
  if (sentence.length <= maxLength) return sentence
  const cut = sentence.slice(0, maxLength).toWellFormed()
  // Of a long word, such as a name, its beginning says more than nothing.
  const isLong = (/\S+$/.exec(cut)?.[0].length ?? 0) > LONG_WORD
  return `${isLong ? cut : cut.replace(/\S+$/, '')}…`
}

/** A word over this length is cut, in characters. */
const LONG_WORD = 20
/** How much of a sentence is examined for secrets, in characters. */
const MAX_EXAMINED = 20_000

/** How many tools answered, in words. */
export function coverageText(report: Pick<TestReport, 'results' | 'coverage'>): string {
  return hasUnreadTools(report) ? 'tools could not be listed' : answeredText([report])
}

/** How many tools of several servers answered, in words. */
export function answeredText(reports: readonly Pick<TestReport, 'coverage'>[]): string {
  const listed = reports.reduce((sum, { coverage }) => sum + (coverage?.listed ?? 0), 0)
  const answered = reports.reduce((sum, report) => sum + answeredIn(report), 0)
  return listed === 0 ? 'no tools' : `${answered} of ${listed} tools answered`
}

/** Of how many tools a valid call succeeded, as far as the report says it. */
export function answeredIn({ coverage }: Pick<TestReport, 'coverage'>): number {
  return coverage?.answered ?? coverage?.called ?? 0
}

/** Whether the tools of a server are not known: it was lost before, or what it lists cannot be read. */
export function hasUnreadTools({ results, coverage }: Pick<TestReport, 'results' | 'coverage'>): boolean {
  const ids = new Set(failuresIn(results).map(({ test_id: id }) => id))
  return coverage?.listed === 0 && (ids.has('list/tools/pages') || ids.has('server/available'))
}

function readKept(text: string): KeptReport | undefined {
  const value = readJson(text)
  if (isReport(value)) return { report: value, history: [numbersOf(value)] }
  if (!isObject(value) || value.version !== VERSION || !isReport(value.report)) return undefined
  const history: readonly unknown[] = Array.isArray(value.history) ? value.history : []
  return { report: value.report, history: history.filter(isRun).slice(-MAX_RUNS) }
}

function numbersOf({ tested_at, summary, score, coverage }: TestReport): RunNumbers {
  return {
    tested_at,
    passed: summary.passed,
    failed: summary.failed + summary.errors,
    ...(score && { score: score.total }),
    ...coverage,
  }
}

const order = ['failed', 'error', 'skipped', 'passed']

/** A report with at most so many results, in their order, and without long texts. What a result is about is in its id. */
function shortened(report: TestReport): object {
  const byStatus = report.results.toSorted(
    (one, other) => order.indexOf(one.status) - order.indexOf(other.status),
  )
  const kept = new Set(byStatus.slice(0, MAX_RESULTS))
  const results = report.results.flatMap((each) =>
    kept.has(each) ? [withBoundedTexts({ ...each, subject: undefined })] : [],
  )
  return { ...withBoundedTexts(report), results }
}

function withBoundedTexts(value: object): object {
  return Object.fromEntries(
    Object.entries(value).map(([key, member]: [string, unknown]) => [
      key,
      typeof member === 'string' && member.length > MAX_LENGTH
        ? `${member.slice(0, MAX_LENGTH).toWellFormed()}…`
        : member,
    ]),
  )
}

const hasReport = hasMembers<TestReport>({
  string: ['server_name', 'server_version', 'suite_version', 'tested_at'],
  list: ['results'],
})
const isResult = hasMembers<KeptResult>({ string: ['test_id'] })
const hasCounts = hasMembers<TestReport['summary']>({ number: ['passed', 'failed', 'skipped', 'errors'] })

/** Whether a value of the store has the members that this version reads. */
function isReport(value: unknown): value is TestReport {
  if (!hasReport(value)) return false
  const { results, summary, score, coverage, arguments: options } = value
  return (
    results.every(isResult) &&
    hasCounts(summary) &&
    (options === undefined ||
      (Array.isArray(options) && options.every((each) => typeof each === 'string'))) &&
    (score === undefined || (isObject(score) && isScore(score.total))) &&
    (coverage === undefined ||
      (isObject(coverage) &&
        [coverage.called, coverage.listed, coverage.answered ?? 0].every((each) => typeof each === 'number')))
  )
}

function isRun(value: unknown): value is RunNumbers {
  if (!isObject(value)) return false
  const { tested_at: at, passed, failed, score, called, answered, listed } = value
  return (
    typeof at === 'string' &&
    [passed, failed].every((each) => typeof each === 'number') &&
    (score === undefined || isScore(score)) &&
    [called, answered, listed].every((each) => each === undefined || typeof each === 'number')
  )
}

function isScore(value: unknown): value is number | null {
  return value === null || typeof value === 'number'
}
