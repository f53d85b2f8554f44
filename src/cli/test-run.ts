/**
 * Runs the tests of one server or of several at once: connects as the gateway does, and ends in time even if a server does not.
 * Invariant: a server that is broken, silent or slow takes its own time alone, and has a report like the others.
 */
import type { FeatureSettings, Settings, UpstreamSettings } from '../core/settings.ts'
import { isObject } from '../core/json/json.ts'
import { durationText } from '../core/time/units.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { copiesOf } from '../testkit/prove/copies.ts'
import type { Sandbox } from '../testkit/prove/sandbox.ts'
import {
  type ServerReport,
  testServer,
  mayRead,
  unreachableReport,
  untestedReport,
  whyUntested,
} from '../testkit/server-test/server-test.ts'
import { OpeningCapture, ServerSession } from '../testkit/server-test/session.ts'
import { AnswerCapture, type UndoableCalls } from '../testkit/server-test/writing-test.ts'
import { plainSettings, settingsWith } from '../testkit/settings.ts'
import { didYouMean, UsageError } from './command.ts'
import { type Io, writeError } from './io.ts'
import { connected, openGateway, OWN_CREDENTIALS, redactorFor, withGateway } from './source.ts'
import { oneLine } from '../core/text/escape.ts'
import { excerpt, withoutSecrets } from '../core/text/redact.ts'
import { answeredText, coverageText, firstFailure } from '../records/test-reports.ts'
import { isClean } from '../testkit/report.ts'
import { countText } from '../core/text/words.ts'
import { tableLines } from './output.ts'

/** How servers are tested; durations are in milliseconds. */
export interface ServerTestSettings {
  readonly seed: number
  /** How long a response may take. */
  readonly timeout: number
  /** How long the calls of tools that read may take together. */
  readonly maxTime: number
  /** How long the whole run may take; unlimited if undefined. */
  readonly limit?: number | undefined
  /** The names of the tools to call; all if empty. */
  readonly tools: readonly string[]
  /** Whether tools that may change something are called if the call can be undone. */
  readonly withWrites: boolean
  readonly sandbox?: Sandbox | undefined
  /** Whether the server works on throw-away copies of its folders, which are a part of the sandbox. */
  readonly isCopied: boolean
}

interface Run extends ServerTestSettings {
  readonly io: Io
  /** Ends the run early. */
  readonly signal?: AbortSignal | undefined
  onProgress(text: string): void
}

/** A server was not tested, for a reason that says nothing about it. */
class NotTested extends Error {}

/** Tests a server. @throws NotTested if that cannot be done, or was to end; Error if the server cannot be reached */
export async function runTest(settings: Settings, server: UpstreamSettings, run: Run): Promise<ServerReport> {
  const { sandbox, isCopied, io, signal } = run
  if (signal?.aborted) throw untested(server, INTERRUPTED)
  if (!sandbox || !isCopied) return runHere(settings, server, run)
  const copies = await orNotTested(() => copiesOf(server, io))
  try {
    const folders = [...sandbox.folders, ...copies.folders]
    return await runHere(settings, copies.server, { ...run, sandbox: { ...sandbox, folders } })
  } finally {
    await copies.remove()
  }
}

const INTERRUPTED = 'it was interrupted'

function untested({ name }: UpstreamSettings, reason: string): Error {
  return new Error(`${name} was not tested: ${reason}`)
}

async function runHere(
  settings: Settings,
  server: UpstreamSettings,
  { io, limit, signal, withWrites, ...run }: Run,
): Promise<ServerReport> {
  const capture = new OpeningCapture()
  const gateway = openGateway(plainSettings(settings, server), { io, intercept: capture.intercept })
  const redactor = redactorFor(settings, io)
  const writes = new WritingGateway(settings, server, io)
  let session: ServerSession | undefined
  let timer: NodeJS.Timeout | undefined
  const ended: { reason?: string } = {}
  const end = (reason: string): void => {
    ended.reason ??= reason
    session?.end(reason)
    writes.end(reason)
    void gateway.close()
  }
  const mustGoOn = (): void => {
    if (ended.reason !== undefined) throw untested(server, ended.reason)
  }
  const stop = (): void => end(INTERRUPTED)
  signal?.addEventListener('abort', stop)
  if (limit !== undefined)
    timer = setTimeout(() => end(`the time for this server, ${durationText(limit)}, is over`), limit)
  try {
    // It may have been while the copies were made.
    if (signal?.aborted) stop()
    mustGoOn()
    const revision = await connected(gateway, server).finally(mustGoOn)
    if (revision === undefined) throw new NotTested(`${server.name} cannot be tested: ${OWN_CREDENTIALS}`)
    const { open, era } = await capture.take()
    mustGoOn()
    session = new ServerSession({
      open,
      era,
      revision,
      isHttp: server.reach.kind === 'url',
      timeout: run.timeout,
      startTimeout: server.startTimeout,
      now: () => performance.now(),
    })
    await session.connect()
    return await testServer(session, {
      ...run,
      settings: server,
      redactor,
      onTools: (names) => checkTools(run.tools, names),
      undoable: withWrites ? () => writes.open() : undefined,
      now: Date.now,
    })
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
    await session?.close()
    await Promise.all([gateway.close(), writes.close()])
  }
}

async function orNotTested<Made>(make: () => Made | Promise<Made>): Promise<Made> {
  try {
    return await make()
  } catch (cause) {
    throw new NotTested(cause instanceof Error ? cause.message : String(cause), { cause })
  }
}

function checkTools(wanted: readonly string[], names: readonly string[]): void {
  const missing = wanted.find((name) => !names.includes(name))
  if (missing !== undefined)
    throw new UsageError(`the server has no tool "${missing}"${didYouMean(missing, names)}`)
}

/** A gateway whose calls can be undone, for tools that may change something. */
class WritingGateway {
  readonly #settings: Settings
  readonly #server: UpstreamSettings
  readonly #io: Io
  #gateway: Gateway | undefined
  #calls: UndoableCalls | undefined
  /** Why no further call is made. */
  #end: string | undefined

  constructor(settings: Settings, server: UpstreamSettings, io: Io) {
    this.#settings = settings
    this.#server = server
    this.#io = io
  }

  async open(): Promise<UndoableCalls> {
    const answers = new AnswerCapture(() => performance.now())
    const { features } = this.#settings
    const plain = plainSettings(this.#settings, this.#server)
    const needed = ['idempotency', 'transactions', 'undo'].flatMap((name) => {
      const own = features[name]
      return own ? [[name, name === 'transactions' ? withDerivation(own) : own] as const] : []
    })
    const gateway = openGateway(
      {
        ...plain,
        hasMethods: true,
        features: Object.fromEntries(needed),
        upstreams: plain.upstreams.map((each) => ({ ...each, tools: this.#server.tools })),
      },
      { io: this.#io, intercept: answers.intercept },
    )
    this.#gateway = gateway
    await gateway.start()
    const doubt = (tool: string): Promise<string | undefined> => doubtOf(gateway, this.#server.name, tool)
    const failure = this.#end
    return (this.#calls = {
      handle: gateway.handle,
      answers,
      doubt,
      ...(failure !== undefined && { failure }),
    })
  }

  /** No further call is made, for this reason. */
  end(reason: string): void {
    this.#end ??= reason
    if (this.#calls) this.#calls.failure ??= reason
  }

  async close(): Promise<void> {
    await this.#gateway?.close()
  }
}

/** The settings of transactions, with undo rules also from proofs and lists. */
function withDerivation({ common, upstreams }: FeatureSettings): FeatureSettings {
  const derived = (own: unknown): unknown => (isObject(own) ? { ...own, auto_undo: true } : own)
  return {
    common: derived(common),
    upstreams: Object.fromEntries(Object.entries(upstreams).map(([name, own]) => [name, derived(own)])),
  }
}

/** Why the calls of a tool cannot be undone with certainty. */
async function doubtOf(gateway: Gateway, server: string, tool: string): Promise<string | undefined> {
  const undoing = (await gateway.inspect(server, tool))?.undoing
  if (!undoing) return 'the server does not list it any more'
  const { how, from, rule, isProved, why, caveats } = undoing
  const isCertain = from === 'configuration' || isProved === true
  if (rule && how === 'exact' && isCertain) return undefined
  if (rule && !isCertain)
    return 'its undo is only a proposal: set undo of the tool, as gatehouse plan prints it, or give --sandbox'
  return `it cannot be undone with certainty: ${[...caveats, ...why][0] ?? 'no undo is known'}. See --sandbox`
}

interface Batch {
  readonly io: Io
  /** How many servers are tested at once. */
  readonly jobs: number
}

/**
 * Tests all servers, but those whose turn has not come when `signal` is aborted. Never throws for what a server does.
 */
export async function testServers(
  { upstreams, ...settings }: Settings,
  options: Batch & ServerTestSettings & { readonly signal?: AbortSignal | undefined },
): Promise<readonly ServerReport[]> {
  const { io, jobs, seed, signal } = options
  const progress = new Progress(upstreams.length, io)
  writeError(`testing ${countText(upstreams.length, 'server')}, at most ${jobs} at once\n`, io)
  try {
    const test = async (server: UpstreamSettings): Promise<ServerReport> => {
      const { name } = server
      const began = Date.now()
      progress.note(name, 'connecting')
      const onProgress = (text: string): void => progress.note(name, text)
      const report = await runTest({ ...settings, upstreams }, server, { ...options, onProgress }).catch(
        (error: unknown) => {
          const message = error instanceof Error ? error.message : String(error)
          const isOurs = error instanceof NotTested || options.signal?.aborted === true
          return (isOurs ? untestedReport : unreachableReport)(withoutSecrets(message), { name, seed, began })
        },
      )
      progress.ended(name, `${scoreText(report)} (${secondsSince(began)} s)`)
      return report
    }
    return await atMost(jobs, upstreams, test, signal)
  } finally {
    progress.close()
  }
}

/** Runs something for each item, for so many at once, until `signal`. The results are in the order of the items. */
async function atMost<Item, Result>(
  jobs: number,
  items: readonly Item[],
  run: (item: Item) => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result[]> {
  const results: Result[] = []
  const queue = items.entries()
  const work = async (): Promise<void> => {
    for (const [at, item] of queue) if (!signal?.aborted) results[at] = await run(item)
  }
  await Promise.all(Array.from({ length: Math.min(jobs, items.length) }, work))
  // Without the places of items that were left out.
  return Object.values(results)
}

/** The longest line about what is running, in characters. */
const MAX_LINE = 100

/** Says on stderr how far a batch is: a line for each server that ends, and in a terminal what is running. */
class Progress {
  readonly #count: number
  readonly #io: Io
  readonly #running = new Map<string, string>()
  #done = 0

  constructor(count: number, io: Io) {
    this.#count = count
    this.#io = io
  }

  note(name: string, what: string): void {
    this.#running.set(name, what)
    this.#show()
  }

  ended(name: string, result: string): void {
    this.#running.delete(name)
    this.#done += 1
    this.#clear()
    writeError(`${oneLine(`[${this.#done} of ${this.#count}] ${name}: ${result}`)}\n`, this.#io)
    this.#show()
  }

  close(): void {
    this.#clear()
  }

  #show(): void {
    if (!this.#io.stderr.isTTY) return
    this.#clear()
    const text = [...this.#running].map(([name, what]) => `${name}: ${what}`).join(' | ')
    writeError(oneLine(text).slice(0, MAX_LINE).toWellFormed(), this.#io)
  }

  #clear(): void {
    if (this.#io.stderr.isTTY) this.#io.stderr.write('\r\u001B[K')
  }
}

/** The longest sentence in a cell, in characters. */
const MAX_SENTENCE = 120

/** The scores of servers as a table, and their sums. */
export function resultTable(reports: readonly ServerReport[]): string {
  const rows = reports.map((report) => {
    const why = whyUntested(report)
    if (why !== undefined) return [report.server_name, '-', '', '', '', `not tested: ${excerpt(why)}`]
    return [
      report.server_name,
      String(report.score.total ?? '-'),
      coverageText(report),
      String(report.summary.passed),
      String(report.summary.failed + report.summary.errors),
      firstFailure(report, MAX_SENTENCE) ?? '',
    ]
  })
  const tested = reports.filter((report) => whyUntested(report) === undefined)
  const left = reports.length - tested.length
  const clean = tested.filter(isClean).length
  const broken = tested.length - clean
  const counts = `${clean} without a failure, ${broken} with failures${left > 0 ? `, ${left} not tested` : ''}`
  return [
    ...tableLines([['SERVER', 'SCORE', 'TOOLS', 'PASSED', 'FAILED', 'WHAT FAILED FIRST'], ...rows]),
    '',
    `${countText(reports.length, 'server')}: ${counts}; ${answeredText(reports)}`,
    ...(broken > 0 ? ['gatehouse test SERVER prints all that failed'] : []),
  ].join('\n')
}

function scoreText(report: ServerReport): string {
  const { total } = report.score
  const score = total === null ? 'nothing was checked' : `${total}/100`
  return whyUntested(report) === undefined ? `${score}, ${coverageText(report)}` : 'not tested'
}

function secondsSince(began: number): string {
  return ((Date.now() - began) / 1000).toFixed(1)
}

/** What a test of a server would call. */
interface Plan {
  readonly server: string
  readonly called: readonly string[]
  /** The tools that may change something, with the reason. */
  readonly others: readonly { readonly name: string; readonly why: string }[]
  readonly problem?: string
}

/** Reads the lists of tools, without calling any. */
export function planOf(settings: Settings, { io, jobs }: Batch): Promise<readonly Plan[]> {
  return atMost(jobs, settings.upstreams, async (server) => {
    try {
      return await serverPlan(settings, server, io)
    } catch (error) {
      const problem = withoutSecrets(error instanceof Error ? error.message : String(error))
      return { server: server.name, called: [], others: [], problem }
    }
  })
}

function serverPlan(settings: Settings, server: UpstreamSettings, io: Io): Promise<Plan> {
  return withGateway(settingsWith([], settings, { server }), { io }, async (gateway) => {
    const { problem, revision } = (await gateway.explore(server.name)) ?? {}
    if (problem !== undefined) throw new Error(`cannot be reached: ${problem}`)
    if (revision === undefined) throw new Error(`cannot be tested: ${OWN_CREDENTIALS}`)
    const tools = await gateway.entries(server.name)
    const others = tools.filter((tool) => !mayRead(tool))
    return {
      server: server.name,
      called: tools.filter(mayRead).map(({ name }) => name),
      others: others.map(({ name, classification: { evidence } }) => ({
        name,
        why: evidence[0] ?? 'nothing is known of it',
      })),
    }
  })
}

/** How many names of tools are on the line of a server. */
const MAX_NAMES = 20

/** What a test would call, for people. */
export function planText(plan: readonly Plan[], { withWrites, sandbox }: ServerTestSettings): string {
  const left = sandbox
    ? 'called in the sandbox'
    : withWrites
      ? 'called if they can be undone'
      : 'left out, they may change something'
  return plan
    .flatMap(({ server, called, others, problem }) => {
      if (problem !== undefined) return [`${server}: ${excerpt(problem)}`]
      const lines = [
        `  called: ${namesText(called)}`,
        `  ${left}: ${namesText(others.map(({ name, why }) => `${name} (${why})`))}`,
      ]
      const shown = lines.filter((_line, at) => (at === 0 ? called : others).length > 0)
      return [`${server}: ${called.length} of ${called.length + others.length} tools only read`, ...shown]
    })
    .map(oneLine)
    .join('\n')
}

function namesText(names: readonly string[]): string {
  const more = names.length - MAX_NAMES
  return `${names.slice(0, MAX_NAMES).join(', ')}${more > 0 ? `, and ${more} more` : ''}`
}
