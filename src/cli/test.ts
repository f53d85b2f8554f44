/** `gatehouse test`: tests one server, or all of a configuration, with calls generated from the schemas of their tools. */
import { availableParallelism } from 'node:os'
import type { UpstreamSettings } from '../core/settings.ts'
import { oneLine } from '../core/text/escape.ts'
import { durationText } from '../core/time/units.ts'
import type { Sandbox } from '../testkit/prove/sandbox.ts'
import { isClean, junitOfServers, reportText } from '../testkit/report.ts'
import { type ServerReport, whyUntested } from '../testkit/server-test/server-test.ts'
import { coverageText } from '../records/test-reports.ts'
import { confirmed } from './ask.ts'
import { type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { type Io, write, writeError, printError } from './io.ts'
import { keepReports } from './keep-reports.ts'
import { type Output, printOutput } from './output.ts'
import { writeReport } from './private-file.ts'
import { sandboxIn } from './prove.ts'
import { readServers, type Source, textIn } from './source.ts'
import { planOf, planText, resultTable, runTest, type ServerTestSettings, testServers } from './test-run.ts'
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { ConfigError, problemLine } from '../config/problem.ts'
import { type FileWatcher, watchFile } from '../config/watch.ts'

/** How long a request waits for its response by default, and how long a run takes at most, in milliseconds. */
const DEFAULT_TIMEOUT_MS = 10_000
const DEFAULT_MAX_TIME_MS = 100_000
/** The time of a server among others, as a multiple of that for the calls of its tools that read. */
const WHOLE_TIME = 2
/** How many servers are tested at once: they wait more than they compute. */
const DEFAULT_JOBS = Math.min(16, Math.max(4, 2 * availableParallelism()))
/** The sandbox that is a copy of what each server works on. */
const COPY = 'copy'

type TestGiven = Given<typeof commands.test>

/** A test of one server or several. */
interface Testing extends ServerTestSettings {
  readonly io: Io
  /** The command line. */
  readonly given: TestGiven
  readonly jobs: number
  readonly signal?: AbortSignal | undefined
}

/** `gatehouse test [SERVER | --all]`: exit code 1 if a check fails. */
export async function test(given: TestGiven, io: Io): Promise<Output> {
  const { server: named, all, jobs, tool: tools, allowWrites: withWrites } = given
  const testing: Testing = {
    io,
    given,
    jobs: jobs ?? DEFAULT_JOBS,
    seed: given.seed ?? 1,
    timeout: given.timeout ?? DEFAULT_TIMEOUT_MS,
    maxTime: given.maxTime ?? DEFAULT_MAX_TIME_MS,
    tools,
    withWrites,
    sandbox: sandboxOf(given.sandbox, io),
    isCopied: given.sandbox.includes(COPY),
  }
  if (given.json && given.junit !== undefined) throw new UsageError('give either --json or --junit FILE')
  if (withWrites && testing.sandbox) throw new UsageError('give either --allow-writes or --sandbox')
  if (named && all) throw new UsageError('give either one server or --all')
  if (named && jobs !== undefined) throw new UsageError('--jobs is for several servers')
  if (!named && tools.length > 0) throw new UsageError('--tool is for one server: name it')
  const { source, server } = readServers(given, io)
  const isAgreed = server || all ? () => true : await agreement(source, testing)
  if (!isAgreed) return 1
  const run = (now: Source, signal?: AbortSignal): Promise<number> =>
    server
      ? testOne(now, serverIn(now, server), { ...testing, signal })
      : testAll(now, { ...testing, signal }, isAgreed)
  return given.watch ? watching(source, server?.name, { io, run }) : run(source, untilStopped(io))
}

/** Aborted when the process is to stop: the run then ends its servers and deletes its copies. */
function untilStopped(io: Io): AbortSignal {
  const stopping = new AbortController()
  void io.untilStopped(io.stderr.isTTY).then(() => stopping.abort())
  return stopping.signal
}

/** The settings that a server has by now. @throws Error if it was removed */
function serverIn({ settings, file }: Source, { name }: UpstreamSettings): UpstreamSettings {
  const found = settings.upstreams.find((each) => each.name === name)
  if (!found) throw new Error(`${file} has no server "${name}" any more`)
  return found
}

async function testOne(source: Source, server: UpstreamSettings, testing: Testing): Promise<number> {
  const { io, given } = testing
  const onProgress = (text: string): void => writeError(`${oneLine(text)}\n`, io)
  const report = await runTest(source.settings, server, { ...testing, onProgress })
  await printOutput({ json: report, text: textOf(report) }, given.json, io)
  if (given.junit !== undefined) writeReport(given.junit, junitOfServers([report]), io)
  // A part of the tools says nothing about the server.
  if (given.tool.length === 0) await keep([report], source, testing)
  return isClean(report) ? 0 : 1
}

async function testAll(source: Source, testing: Testing, isAgreed: Agreement): Promise<number> {
  const { io, given, maxTime, signal } = testing
  const all = source.settings.upstreams
  const upstreams = all.filter(({ name }) => isAgreed(name))
  if (upstreams.length < all.length)
    writeError('servers that were added to the configuration are not tested: --all tests them too\n', io)
  const settings = { ...source.settings, upstreams }
  const reports = await testServers(settings, { ...testing, limit: maxTime * WHOLE_TIME })
  await printOutput({ json: { reports }, text: resultTable(reports) }, given.json, io)
  if (given.junit !== undefined) writeReport(given.junit, junitOfServers(reports), io)
  const tested = reports.filter((report) => whyUntested(report) === undefined)
  await keep(tested, source, testing)
  return tested.length > 0 && tested.every(isClean) && signal?.aborted !== true ? 0 : 1
}

/** Leaves the reports of servers of a configuration in its store, with the options that decide what is found. */
async function keep(
  reports: readonly ServerReport[],
  { settings, file }: Source,
  { io, given, signal }: Testing,
): Promise<void> {
  if (file === undefined || signal?.aborted === true) return
  const words = [
    ...(given.allowWrites ? ['--allow-writes'] : []),
    ...given.sandbox.flatMap((place) => ['--sandbox', place]),
    ...(given.seed === undefined ? [] : ['--seed', `${given.seed}`]),
    ...(given.timeout === undefined ? [] : ['--timeout', durationText(given.timeout)]),
    ...(given.maxTime === undefined ? [] : ['--max-time', durationText(given.maxTime)]),
  ]
  const kept = reports.map((report) => ({ ...report, ...(words.length > 0 && { arguments: words }) }))
  await keepReports('server-test', kept, settings, io)
}

/** Whether a server, by its name, may be tested. */
type Agreement = (name: string) => boolean

/** Prints which tools would be called, and asks for agreement. @throws UsageError without a terminal */
async function agreement({ settings }: Source, testing: Testing): Promise<Agreement | undefined> {
  const { io, given } = testing
  const plan = await planOf(settings, testing)
  const text = `${planText(plan, testing)}\n`
  // What is asked belongs to the question, and is no part of the result.
  if (io.stdin.isTTY || given.json) writeError(text, io)
  else write(text, io)
  const names = new Set(plan.map(({ server }) => server))
  const question = `Test ${plan.length === 1 ? 'this server' : `these ${plan.length} servers`}?`
  const isConfirmed = await confirmed(question, 'add --all to test these servers, or name one of them', io)
  return isConfirmed ? (name) => names.has(name) : undefined
}

/** @throws UsageError */
function sandboxOf(places: readonly string[], io: Io): Sandbox | undefined {
  if (places.length === 0) return undefined
  return sandboxIn(
    places.filter((place) => place !== COPY),
    io,
  )
}

function textOf(report: ServerReport): string {
  const listed = report.results.filter(
    ({ status, message = '' }) => status !== 'passed' || message.startsWith('warning'),
  )
  const { total, areas } = report.score
  const parts = Object.entries(areas).map(([area, share]) => `${area} ${share}`)
  const score = total === null ? 'nothing was checked' : `score ${total} of 100: ${parts.join(', ')}`
  return `${reportText({ ...report, results: listed })}${score}\n${coverageText(report)}`
}

interface Watched {
  readonly io: Io
  run(source: Source, signal: AbortSignal): Promise<number>
}

/** Runs until the process is to stop; the exit code is that of the last run. `server` is the only one that is tested. */
export async function watching(
  source: Source,
  server: string | undefined,
  { io, run }: Watched,
): Promise<number> {
  const stopping = new AbortController()
  const stopped = io.untilStopped(true).then(() => stopping.abort())
  let now = source
  let code = 0
  while (!stopping.signal.aborted) {
    // Watched before the run, so that a change during it is not missed.
    const change = new Change(now, server, io.cwd)
    try {
      code = await run(now, stopping.signal)
    } catch (error) {
      code = 1
      for (const line of linesOf(error)) printError(line, io)
    }
    if (!stopping.signal.aborted) writeError('waiting for a change; Ctrl-C ends it\n', io)
    const text = await Promise.race([change.text, stopped])
    change.close()
    if (typeof text === 'string') now = reread(now, text, io)
  }
  return code
}

/** The changed settings; those before if the file has mistakes, which are printed. */
function reread(source: Source, text: string, io: Io): Source {
  try {
    return { ...source, text, settings: source.read(text) }
  } catch (error) {
    for (const line of linesOf(error)) printError(line, io)
    printError('the settings before the change are tested', io)
    return { ...source, text }
  }
}

function linesOf(error: unknown): readonly string[] {
  if (error instanceof ConfigError) return error.problems.map(problemLine)
  return [error instanceof Error ? error.message : String(error)]
}

/** The first change of the files of some servers. */
class Change {
  /** The text of the configuration as it is then; empty without one. */
  readonly text: Promise<string>
  readonly #watchers: readonly FileWatcher[]

  constructor({ file, text = '', settings, variables }: Source, server: string | undefined, folder: string) {
    const { promise, resolve: changed } = Promise.withResolvers<string>()
    this.text = promise
    const servers = settings.upstreams.filter(({ name }) => server === undefined || name === server)
    const others = [
      ...(variables === undefined ? [] : [variables.file]),
      ...servers.flatMap((each) => filesOf(each, folder)),
    ]
    this.#watchers = [
      ...(file === undefined ? [] : [watchFile(file, { text, onChange: changed })]),
      ...[...new Set(others)].map((each) =>
        watchFile(each, {
          text: textIn(each),
          onChange: () => changed(file === undefined ? '' : textIn(file)),
        }),
      ),
    ]
  }

  close(): void {
    for (const watcher of this.#watchers) watcher.close()
  }
}

/** Larger files are not watched, in bytes. */
const MAX_SIZE = 2_000_000

/** The files among the words of the command that starts a server, such as `server.js`; not a program of the path. */
function filesOf({ reach }: UpstreamSettings, folder: string): readonly string[] {
  if (reach.kind === 'url') return []
  const { command, args, cwd = folder } = reach
  const own = /[\\/]/.test(command) ? [command] : []
  return [...own, ...args].map((word) => resolve(cwd, word)).filter(isSmallFile)
}

function isSmallFile(path: string): boolean {
  try {
    const found = statSync(path)
    return found.isFile() && found.size <= MAX_SIZE
  } catch {
    return false
  }
}
