/** Leaves the reports of commands in the store that running gateways share, for their pages. */
import type { Settings } from '../core/settings.ts'
import { type Suite, type TestReport, TestReports } from '../records/test-reports.ts'
import type { Store } from '../store/store.ts'
import { withStore } from './config-file.ts'
import { type Io, printError } from './io.ts'

/** Leaves reports for the pages of gateways. A failure is only reported, and each report is kept by itself. */
export async function keepReports(
  suite: Suite,
  reports: readonly TestReport[],
  settings: Settings,
  io: Io,
): Promise<void> {
  if (reports.length === 0 || settings.store.kind === 'memory') return
  try {
    const keep = async (store: Store): Promise<void> => {
      const kept = new TestReports(store, suite)
      for (const report of reports) await kept.keep(report).catch(notKept(`of ${report.server_name} `, io))
    }
    await withStore(settings, io, keep, 'error')
  } catch (error) {
    notKept('', io)(error)
  }
}

function notKept(which: string, io: Io): (error: unknown) => void {
  return (error) => {
    const message = error instanceof Error ? error.message : String(error)
    printError(`the report ${which}is not at /conformance: ${message}`, io)
  }
}
