/** The latest report of the conformance suite for each server, as a command left it. */
import { isObject, readJson } from '../core/json/json.ts'
import type { Store } from '../store/store.ts'

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
export interface ConformanceReport {
  readonly server_name: string
  readonly server_version: string
  readonly suite_version: string
  /** An ISO 8601 time. */
  readonly tested_at: string
  readonly results: readonly KeptResult[]
  readonly summary: Readonly<Record<'passed' | 'failed' | 'skipped' | 'errors', number>>
}

/** How long a report is kept, in milliseconds. */
const TTL_MS = 365 * 86_400_000

/** The latest reports. */
export class ConformanceReports {
  readonly #store: Pick<Store, 'get' | 'put'>

  constructor(store: Pick<Store, 'get' | 'put'>) {
    this.#store = store
  }

  /** Replaces the report of a server. @throws SERVER_UNAVAILABLE */
  async keep(report: ConformanceReport): Promise<void> {
    await this.#store.put(keyOf(report.server_name), JSON.stringify(report), TTL_MS)
  }

  /** The report of a server; undefined if none was kept. @throws SERVER_UNAVAILABLE */
  async latest(server: string): Promise<ConformanceReport | undefined> {
    const text = await this.#store.get(keyOf(server))
    const value = text === undefined ? undefined : readJson(text)
    return isReport(value) ? value : undefined
  }
}

function keyOf(server: string): string {
  return `conformance:${server}`
}

/** Whether a value of the store has the members that this version reads. */
function isReport(value: unknown): value is ConformanceReport {
  if (!isObject(value)) return false
  const { server_name: name, server_version: version, suite_version: suite, tested_at: at } = value
  const { results, summary } = value
  return (
    [name, version, suite, at].every((each) => typeof each === 'string') &&
    Array.isArray(results) &&
    results.every((each) => isObject(each) && typeof each.test_id === 'string') &&
    isObject(summary) &&
    ['passed', 'failed', 'skipped', 'errors'].every((count) => typeof summary[count] === 'number')
  )
}
