/** Where commands leave the reports of their runs: in a file, and in the store that running gateways share. */
import type { Settings } from '../core/settings.ts'
import { openLog } from '../observability/log.ts'
import { openSharedStore } from '../gateway/offline.ts'
import { type Suite, type TestReport, TestReports } from '../records/test-reports.ts'
import { type Io, pathOf, printError } from './io.ts'
import { writePrivate } from './private-file.ts'

/** Writes a report to the file of an option. @throws Error if it cannot be written */
export function writeReport(file: string, text: string, io: Io): void {
  try {
    writePrivate(pathOf(file, io), text)
  } catch (cause) {
    throw new Error(`${file} cannot be written: its folder does not exist, or is not writable`, { cause })
  }
}

/** Leaves reports for the pages of gateways. A failure is only reported, and each report is kept by itself. */
export async function keepReports(
  suite: Suite,
  reports: readonly TestReport[],
  settings: Settings,
  io: Io,
): Promise<void> {
  if (reports.length === 0 || settings.store.kind === 'memory') return
  try {
    const store = await openSharedStore(settings, openLog('error', io))
    try {
      const kept = new TestReports(store, suite)
      for (const report of reports) await kept.keep(report).catch(notKept(`of ${report.server_name} `, io))
    } finally {
      await store.close()
    }
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
