/** `gatehouse test`: tests one server, or all of a configuration, with calls generated from the schemas of their tools. */
import { availableParallelism } from 'node:os'
import type { UpstreamSettings } from '../core/settings.ts'
import { oneLine } from '../core/text/escape.ts'
import { milliseconds } from '../core/time/units.ts'
import { readSandbox, type Sandbox } from '../testkit/prove/sandbox.ts'
import { isClean, junitOfServers, reportText } from '../testkit/report.ts'
import { type ServerReport, whyUntested } from '../testkit/server-test/server-test.ts'
import { coverageText } from '../records/test-reports.ts'
import { type Io, print, printJson, write, writeError } from './io.ts'
import { keepReports, writeReport } from './keep-reports.ts'
import { readNamed, type Source } from './options.ts'
import { mustBeOwn } from './private-file.ts'
import { isConfirmed, planOf, planText, resultTable, testServers } from './test-batch.ts'
import { runTest, type TestOptions } from './test-run.ts'
import { watching } from './test-watch.ts'
import { configWords, parseWords, UsageError } from './words.ts'

/** How long a request waits for its response by default, and how long a run takes at most. */
const DEFAULT_TIMEOUT = '10s'
const DEFAULT_MAX_TIME = '100s'
/** The time of a server among others, as a multiple of that for the calls of its tools that read. */
const WHOLE_TIME = 2
/** How many servers are tested at once: they wait more than they compute. */
const DEFAULT_JOBS = Math.min(16, Math.max(4, 2 * availableParallelism()))
const MAX_JOBS = 64
/** The sandbox that is a copy of what each server works on. */
const COPY = 'copy'

const optionTypes = {
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  all: { type: 'boolean' },
  jobs: { type: 'string' },
  tool: { type: 'string', multiple: true },
  'allow-writes': { type: 'boolean' },
  sandbox: { type: 'string', multiple: true },
  watch: { type: 'boolean' },
  seed: { type: 'string' },
  timeout: { type: 'string' },
  'max-time': { type: 'string' },
  junit: { type: 'string' },
  json: { type: 'boolean' },
} as const

interface Options extends TestOptions {
  readonly io: Io
  /** The options of the command that decide what is found. */
  readonly given: readonly string[]
  readonly isAll: boolean
  readonly jobs: number
  readonly isWatching: boolean
  readonly junit: string | undefined
  readonly isJson: boolean
}

/** `gatehouse test [SERVER | --all]`: exit code 1 if a check fails. */
export async function test(args: readonly string[], io: Io): Promise<number> {
  const separator = args.indexOf('--')
  const { values, positionals } = parseWords(separator === -1 ? args : args.slice(0, separator), optionTypes)
  const options: Options = {
    io,
    isAll: values.all ?? false,
    jobs: jobsOf(values.jobs),
    isWatching: values.watch ?? false,
    junit: values.junit,
    isJson: values.json ?? false,
    seed: seedOf(values.seed ?? '1'),
    timeout: durationOf(values.timeout ?? DEFAULT_TIMEOUT, '--timeout'),
    maxTime: durationOf(values['max-time'] ?? DEFAULT_MAX_TIME, '--max-time'),
    tools: values.tool ?? [],
    withWrites: values['allow-writes'] ?? false,
    sandbox: sandboxOf(values.sandbox ?? [], io),
    isCopied: values.sandbox?.includes(COPY) ?? false,
    given: [
      ...(values['allow-writes'] ? ['--allow-writes'] : []),
      ...(values.sandbox ?? []).flatMap((place) => ['--sandbox', place]),
      ...(['seed', 'timeout', 'max-time'] as const).flatMap((name) =>
        values[name] === undefined ? [] : [`--${name}`, values[name]],
      ),
    ],
  }
  if (options.isJson && options.junit !== undefined)
    throw new UsageError('give either --json or --junit FILE')
  if (options.withWrites && options.sandbox) throw new UsageError('give either --allow-writes or --sandbox')
  const isOne = separator !== -1 || positionals.length > 0
  if (isOne && options.isAll) throw new UsageError('give either one server or --all')
  if (isOne && values.jobs !== undefined) throw new UsageError('--jobs is for several servers')
  if (!isOne && options.tools.length > 0) throw new UsageError('--tool is for one server: name it')
  const named = [...configWords(values), ...positionals, ...(separator === -1 ? [] : args.slice(separator))]
  const { source, server, words } = readNamed(named, ['config'], io)
  if (words.length > 0) throw new UsageError(`"${words[0]}" is not expected: give one server, or --all`)
  const isAgreed = server || options.isAll ? () => true : await agreement(source, options)
  if (!isAgreed) return 1
  const run = (now: Source, signal?: AbortSignal): Promise<number> =>
    server
      ? testOne(now, serverIn(now, server), { ...options, signal })
      : testAll(now, { ...options, signal }, isAgreed)
  return options.isWatching ? watching(source, server?.name, { io, run }) : run(source, untilStopped(io))
}

/** Aborted when the process is to stop: the run then ends its servers and deletes its copies. */
function untilStopped(io: Io): AbortSignal {
  const stopping = new AbortController()
  void io.untilStopped({ onHangUp: io.stderr.isTTY }).then(() => stopping.abort())
  return stopping.signal
}

type Run = Options & { readonly signal?: AbortSignal | undefined }

/** The settings that a server has by now. @throws Error if it was removed */
function serverIn({ settings, file }: Source, { name }: UpstreamSettings): UpstreamSettings {
  const found = settings.upstreams.find((each) => each.name === name)
  if (!found) throw new Error(`${file} has no server "${name}" any more`)
  return found
}

async function testOne(source: Source, server: UpstreamSettings, options: Run): Promise<number> {
  const { io, isJson, junit: file, tools } = options
  const onProgress = (text: string): void => writeError(`${oneLine(text)}\n`, io)
  const report = await runTest(source.settings, server, { ...options, onProgress })
  if (isJson) printJson(report, io)
  else write(printed(report), io)
  if (file !== undefined) writeReport(file, junitOfServers([report]), io)
  // A part of the tools says nothing about the server.
  if (tools.length === 0) await keep([report], source, options)
  return isClean(report) ? 0 : 1
}

async function testAll(source: Source, options: Run, isAgreed: Agreement): Promise<number> {
  const { io, isJson, junit: file, maxTime, signal } = options
  const all = source.settings.upstreams
  const upstreams = all.filter(({ name }) => isAgreed(name))
  if (upstreams.length < all.length)
    writeError('servers that were added to the configuration are not tested: --all tests them too\n', io)
  const settings = { ...source.settings, upstreams }
  const reports = await testServers(settings, { ...options, limit: maxTime * WHOLE_TIME })
  if (isJson) printJson({ reports }, io)
  else print(resultTable(reports), io)
  if (file !== undefined) writeReport(file, junitOfServers(reports), io)
  const tested = reports.filter((report) => whyUntested(report) === undefined)
  await keep(tested, source, options)
  return tested.length > 0 && tested.every(isClean) && signal?.aborted !== true ? 0 : 1
}

/** Leaves the reports of servers of a configuration in its store. */
async function keep(
  reports: readonly ServerReport[],
  { settings, file }: Source,
  { io, given, signal }: Run,
): Promise<void> {
  if (file === undefined || signal?.aborted === true) return
  const kept = reports.map((report) => ({ ...report, ...(given.length > 0 && { arguments: given }) }))
  await keepReports('server-test', kept, settings, io)
}

/** Whether a server, by its name, may be tested. */
type Agreement = (name: string) => boolean

/** Prints which tools would be called, and asks for agreement. @throws UsageError without a terminal */
async function agreement({ settings }: Source, options: Options): Promise<Agreement | undefined> {
  const { io, jobs, isJson } = options
  const plan = await planOf(settings, { io, jobs })
  const text = `${planText(plan, options)}\n`
  // What is asked belongs to the question, and is no part of the result.
  if (io.stdin.isTTY || isJson) writeError(text, io)
  else write(text, io)
  const names = new Set(plan.map(({ server }) => server))
  return (await isConfirmed(plan.length, io)) ? (name) => names.has(name) : undefined
}

/** @throws UsageError */
function sandboxOf(texts: readonly string[], io: Io): Sandbox | undefined {
  if (texts.length === 0) return undefined
  try {
    const sandbox = readSandbox(
      texts.filter((text) => text !== COPY),
      io.cwd,
    )
    for (const folder of sandbox.folders) mustBeOwn(folder)
    return sandbox
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

function jobsOf(text: string | undefined): number {
  if (text === undefined) return DEFAULT_JOBS
  const jobs = Number(text)
  if (!/^\d{1,3}$/.test(text) || jobs < 1 || jobs > MAX_JOBS)
    throw new UsageError(`--jobs must be a number from 1 to ${MAX_JOBS}`)
  return jobs
}

function seedOf(text: string): number {
  const seed = Number(text)
  if (!/^\d{1,9}$/.test(text)) throw new UsageError('--seed must be a number from 0 to 999999999')
  return seed
}

function durationOf(text: string, option: string): number {
  try {
    return milliseconds(text)
  } catch {
    throw new UsageError(`${option} must be a duration such as 500ms, 10s or 2m`)
  }
}

function printed(report: ServerReport): string {
  const listed = report.results.filter(
    ({ status, message = '' }) => status !== 'passed' || message.startsWith('warning'),
  )
  const { total, areas } = report.score
  const parts = Object.entries(areas).map(([area, share]) => `${area} ${share}`)
  const score = total === null ? 'nothing was checked' : `score ${total} of 100: ${parts.join(', ')}`
  return `${reportText({ ...report, results: listed })}${score}\n${coverageText(report)}\n`
}
