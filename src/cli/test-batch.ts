/**
 * Tests all servers of a configuration, several at once. Invariant: a server that is broken, silent or slow takes its own
 * time alone, and has a report like the others.
 */
import { createInterface } from 'node:readline/promises'
import type { Settings, UpstreamSettings } from '../core/settings.ts'
import { oneLine } from '../core/text/escape.ts'
import { excerpt, withoutSecrets } from '../core/text/redact.ts'
import { openLog } from '../observability/log.ts'
import { Gateway } from '../gateway/gateway.ts'
import { answeredText, coverageText, firstFailure } from '../records/test-reports.ts'
import {
  mayRead,
  type ServerReport,
  unreachableReport,
  untestedReport,
  whyUntested,
} from '../testkit/server-test/server-test.ts'
import { isClean } from '../testkit/report.ts'
import { settingsWith } from '../testkit/settings.ts'
import { type Io, writeError } from './io.ts'
import { tableLines } from './table.ts'
import { NotTested, runTest, type TestOptions } from './test-run.ts'
import { UsageError } from './words.ts'

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
  options: Batch & TestOptions & { readonly signal?: AbortSignal | undefined },
): Promise<readonly ServerReport[]> {
  const { io, jobs, seed, signal } = options
  const progress = new Progress(upstreams.length, io)
  writeError(`testing ${count(upstreams.length, 'server')}, at most ${jobs} at once\n`, io)
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
    `${count(reports.length, 'server')}: ${counts}; ${answeredText(reports)}`,
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

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
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

async function serverPlan(settings: Settings, server: UpstreamSettings, io: Io): Promise<Plan> {
  const gateway = new Gateway(settingsWith([], settings, { server }), {
    variables: io.env,
    log: openLog('error', io),
  })
  try {
    const status = await gateway.explore(server.name)
    if (status?.problem !== undefined) throw new Error(`cannot be reached: ${status.problem}`)
    if (status?.revision === undefined)
      throw new Error('cannot be tested: each caller has its own credentials for it')
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
  } finally {
    await gateway.close()
  }
}

/** How many names of tools are on the line of a server. */
const MAX_NAMES = 20

/** What a test would call, for people. */
export function planText(plan: readonly Plan[], { withWrites, sandbox }: TestOptions): string {
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

/** @throws UsageError without a terminal */
export async function isConfirmed(servers: number, { stdin, stderr }: Io): Promise<boolean> {
  if (!stdin.isTTY) throw new UsageError('add --all to test these servers, or name one of them')
  const terminal = createInterface({ input: stdin, output: stderr })
  const answer = await terminal.question(
    `Test ${servers === 1 ? 'this server' : `these ${servers} servers`}? [y/N] `,
  )
  terminal.close()
  return /^y(es)?$/i.test(answer.trim())
}
