/** `gatehouse conformance`: checks what clients of a server get through the gateway against the extension proposals. */
import type { Settings, UpstreamSettings } from '../core/settings.ts'
import { checks, suiteDocument } from '../testkit/conformance/run.ts'
import { isClean, junit, type Report, reportText } from '../testkit/report.ts'
import { runSuite } from './conformance-run.ts'
import { keepReports, writeReport } from './keep-reports.ts'
import { readNamed } from './options.ts'
import { configWords, parseWords, UsageError } from './words.ts'
import { type Io, printError, printJson, write } from './io.ts'

const optionTypes = {
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  json: { type: 'boolean' },
  junit: { type: 'string' },
  'allow-writes': { type: 'boolean' },
  suite: { type: 'boolean' },
} as const

/** `gatehouse conformance [SERVER]`: exit code 1 if a check failed or could not be carried out. */
export async function conformance(args: readonly string[], io: Io): Promise<number> {
  const separator = args.indexOf('--')
  const { values, positionals } = parseWords(separator === -1 ? args : args.slice(0, separator), optionTypes)
  if (values.suite === true) return printSuite(args, io)
  const { source, server, words } = readNamed(
    [...configWords(values), ...positionals, ...(separator === -1 ? [] : args.slice(separator))],
    ['config'],
    io,
  )
  if (separator === -1 ? words.length > 0 : positionals.length > 0)
    throw new UsageError('name one server, or none for all')
  const servers = server ? [server] : source.settings.upstreams
  if (values.junit !== undefined && servers.length > 1) throw new UsageError('name one server with --junit')
  const withWrites = values['allow-writes'] ?? false
  const reports = await runAll(source.settings, servers, { withWrites, io })
  const [first] = reports
  if (values.junit !== undefined && first) writeReport(values.junit, junit(first), io)
  if (values.json === true) printReports(reports, servers.length, io)
  else write(reports.map(reportText).join('\n'), io)
  await keepReports('conformance', reports, source.settings, io)
  return reports.length === servers.length && reports.every(isClean) ? 0 : 1
}

function printSuite(args: readonly string[], io: Io): number {
  if (args.length > 1)
    throw new UsageError('--suite prints the suite, and takes no server and no other option')
  printJson(suiteDocument(), io)
  return 0
}

/** The reports of the servers that can be reached; of the others, the reason is printed. */
async function runAll(
  settings: Settings,
  servers: readonly UpstreamSettings[],
  { withWrites, io }: { readonly withWrites: boolean; readonly io: Io },
): Promise<readonly Report[]> {
  const reports: Report[] = []
  for (const server of servers) {
    const progress = progressOf(server.name, io)
    try {
      reports.push(await runSuite(settings, server, { io, withWrites, onResult: progress.onResult }))
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      printError(message, io)
    } finally {
      progress.end()
    }
  }
  return reports
}

/** How many checks are between two lines of progress where there is no terminal. */
const LINE_EVERY = 20

/** Prints how far a run is: on one line of a terminal, else a line now and then. */
function progressOf(name: string, { stderr }: Io) {
  const isTerminal = stderr.isTTY
  return {
    onResult: (_result: unknown, done: number): void => {
      const text = `${name}: ${done} of ${checks.length} checks`
      if (isTerminal) stderr.write(`\r${text}`)
      else if (done % LINE_EVERY === 0 || done === checks.length) stderr.write(`${text}\n`)
    },
    end: (): void => {
      if (isTerminal) stderr.write('\r\u001B[K')
    },
  }
}

/** One report as it is, those of several servers in a list. */
function printReports(reports: readonly Report[], servers: number, io: Io): void {
  const [first] = reports
  if (servers === 1 && !first) return
  const value = servers === 1 ? first : { reports }
  printJson(value, io)
}
