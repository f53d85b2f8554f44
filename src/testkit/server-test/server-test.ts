/** Tests a server: the protocol, its lists, what it offers, and its tools with generated cases. */
import type { Descriptor } from '../../core/descriptor.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { withoutSecrets } from '../../core/text/redact.ts'
import { type Redactor } from '../../core/text/redactor.ts'
import type { AuditedTool } from '../../lint/subject.ts'
import type { Sandbox } from '../prove/sandbox.ts'
import { type Report, reportOf } from '../report.ts'
import { examplesOf } from './examples.ts'
import { testItems } from './items.ts'
import { judgeNames, testLists } from './lists.ts'
import { judgeMessages, testCapabilities, testDiscovery, testMalformed } from './protocol.ts'
import { type Coverage, Results, type ServerCheck } from './results.ts'
import { testRules } from './rules.ts'
import { testInSandbox } from './sandbox-test.ts'
import { type Score, scoreOf } from './score.ts'
import { type CheckContext, ServerLost, type ServerSession } from './session.ts'
import { testReadingTool } from './tool-test.ts'
import { testWritingTool, type UndoableCalls } from './writing-test.ts'

interface Options {
  readonly settings: UpstreamSettings
  readonly redactor: Redactor
  readonly seed: number
  /** The names of the tools to test; all if empty. */
  readonly tools: readonly string[]
  /** How long the run may take, in milliseconds. */
  readonly maxTime: number
  readonly now: () => number
  /** Opens a gateway in which calls can be undone; undefined if no tool that may change something is called. */
  readonly undoable?: (() => Promise<UndoableCalls>) | undefined
  /** Where tools that may change something are called without an undo. */
  readonly sandbox?: Sandbox | undefined
  /** Called with the names of all tools of the server, before the first call; an error of it ends the run. */
  onTools(names: readonly string[]): void
  onProgress(text: string): void
}

/** The report of a test of a server. */
export interface ServerReport extends Report {
  readonly results: readonly ServerCheck[]
  readonly revision: string
  readonly seed: number
  readonly score: Score
  readonly coverage: Coverage
}

/** The version of the checks: a new check is a new minor version. */
const SUITE_VERSION = '1.1'
/** The check that a server is tested, which is only in reports about others. */
const UNTESTED = 'server/tested'
/** The maximum number of cases of one tool, and of all tools together. */
const MAX_CASES = { tool: 80, all: 4000 }

/** How many tools are called. */
const MAX_TOOLS = 1000

/** Runs all checks against a connected server. */
export async function testServer(session: ServerSession, options: Options): Promise<ServerReport> {
  const { now, seed, settings } = options
  const began = now()
  const results = new Results((text) => withoutSecrets(options.redactor.text(text)))
  try {
    await runChecks({ session, results, redactor: options.redactor }, options)
  } catch (error) {
    if (!(error instanceof ServerLost)) throw error
    results.add('robustness', 'server', 'server/available', {
      status: 'error',
      message: `The rest of the checks was not carried out: ${error.message}`,
    })
  }
  for (const name of results.unanswered)
    results.add('results', `tool/${name}`, `tool/${name}/success`, {
      status: 'skipped',
      message: 'no valid call succeeded: give an example in the configuration',
    })
  judgeMessages(session, results)
  const { version } = session.serverInfo
  return serverReport(results, {
    name: settings.name,
    version: typeof version === 'string' ? version : 'unknown',
    revision: session.revision,
    seed,
    began,
  })
}

interface Tested {
  readonly name: string
  readonly seed: number
  /** When the run began, in milliseconds since 1970. */
  readonly began: number
}

/** The report about a server that could not be tested. */
export function unreachableReport(message: string, tested: Tested): ServerReport {
  const results = new Results((text) => text)
  results.add('robustness', 'server', 'server/available', { status: 'error', message })
  return serverReport(results, { ...tested, version: 'unknown', revision: 'unknown' })
}

/** The report about a server that was not tested, for a reason that is not of the server: it has no score. */
export function untestedReport(message: string, tested: Tested): ServerReport {
  const results = new Results((text) => text)
  results.add('robustness', 'server', UNTESTED, { status: 'skipped', message })
  return serverReport(results, { ...tested, version: 'unknown', revision: 'unknown' })
}

/** Why a server was not tested at all, though nothing is wrong with it; undefined if it was. */
export function whyUntested({ results }: ServerReport): string | undefined {
  return results.find(({ test_id: id }) => id === UNTESTED)?.message
}

function serverReport(
  { all, coverage }: Results,
  { name, version, revision, seed, began }: Tested & { readonly version: string; readonly revision: string },
): ServerReport {
  const subject = {
    server_name: name,
    server_version: version,
    suite_version: SUITE_VERSION,
    tested_at: new Date(began).toISOString(),
  }
  return { ...reportOf(subject, all), results: all, revision, seed, score: scoreOf(all), coverage }
}

async function runChecks(context: CheckContext, options: Options): Promise<void> {
  const { session, results } = context
  const { settings, tools: chosen, onTools, onProgress } = options
  onProgress('the protocol')
  await testDiscovery(session, results)
  const lists = await testLists(session, results)
  judgeNames(lists.tools ?? [], results)
  const audited = await testRules(settings, context)
  const names = audited.map(({ name }) => name)
  results.listed(names)
  onTools(names)
  await testCapabilities(session, lists, results)
  await testItems(lists, context)
  const wanted = descriptorsOf(audited, settings).filter(
    ({ name }) => chosen.length === 0 || chosen.includes(name),
  )
  const tools = wanted.slice(0, MAX_TOOLS)
  if (wanted.length > tools.length)
    results.add('results', 'list/tools', 'list/tools/left-out', {
      status: 'skipped',
      message: `${wanted.length - tools.length} tools are not called: only the first ${MAX_TOOLS} are`,
    })
  await testReads(tools.filter(mayRead), context, options)
  // After the calls, because some servers end.
  onProgress('malformed messages')
  await testMalformed(session, results)
  await session.close()
  await testWrites(
    tools.filter((tool) => !mayRead(tool)),
    context,
    options,
  )
}

/** The tools of a server, each name once. */
function descriptorsOf(
  audited: readonly AuditedTool[],
  { name: upstream }: UpstreamSettings,
): readonly Descriptor[] {
  const all = audited.map(({ name, ...rest }): Descriptor => ({ upstream, kind: 'tool', name, ...rest }))
  return [...new Map(all.map((tool) => [tool.name, tool])).values()]
}

async function testReads(
  tools: readonly Descriptor[],
  context: CheckContext,
  options: Options,
): Promise<void> {
  const { settings, seed, maxTime, now, onProgress } = options
  const end = now() + maxTime
  const most = Math.max(8, Math.min(MAX_CASES.tool, Math.floor(MAX_CASES.all / Math.max(1, tools.length))))
  for (const [index, tool] of tools.entries()) {
    onProgress(`tool ${index + 1} of ${tools.length}: ${tool.name}`)
    // What one tool leaves of its share is for the others.
    const deadline = now() + (end - now()) / (tools.length - index)
    await testReadingTool(tool, {
      ...context,
      seed,
      most,
      examples: examplesOf(tool, settings),
      deadline,
      now,
    })
  }
}

async function testWrites(
  tools: readonly Descriptor[],
  { session, results, redactor }: CheckContext,
  { settings, seed, undoable, sandbox, onProgress }: Options,
): Promise<void> {
  const calls = tools.length > 0 && !sandbox ? await undoable?.() : undefined
  for (const [index, tool] of tools.entries()) {
    const revision = session.revision
    const context = { results, redactor, revision, seed, examples: examplesOf(tool, settings) }
    if (sandbox ?? calls) onProgress(`writing tool ${index + 1} of ${tools.length}: ${tool.name}`)
    if (sandbox) await testInSandbox(tool, sandbox, { ...context, session })
    else if (calls) await testWritingTool(tool, calls, context)
    else {
      const [reason = 'nothing is known of it'] = tool.classification.evidence
      results.add('results', `tool/${tool.name}`, `tool/${tool.name}/calls`, {
        status: 'skipped',
        message: `not called, because it may change something: ${reason}. See --allow-writes and --sandbox`,
      })
    }
  }
}

/** Whether some calls of a tool only read. */
export function mayRead({ classification: { op, varies } }: Descriptor): boolean {
  return op === 'read' || varies?.baseEffect === 'read'
}
