/** Tests a server: the protocol, its lists, what it offers, and its tools with generated cases. */
import type { Descriptor } from '../../core/descriptor.ts'
import { settingOf, type UpstreamSettings } from '../../core/settings.ts'
import { withoutSecrets } from '../../core/text/redact.ts'
import { type Redactor } from '../../core/text/redactor.ts'
import type { AuditedTool } from '../../lint/subject.ts'
import { type Report, reportOf } from '../report.ts'
import { testItems } from './items.ts'
import { judgeNames, testLists } from './lists.ts'
import { judgeMessages, testCapabilities, testDiscovery, testMalformed } from './protocol.ts'
import { Results, type ServerCheck } from './results.ts'
import { testRules } from './rules.ts'
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
}

/** The version of the checks: a new check is a new minor version. */
const SUITE_VERSION = '1.0'
/** The maximum number of cases of one tool, and of all tools together. */
const MAX_CASES = { tool: 80, all: 4000 }

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
  judgeMessages(session, results)
  const { version } = session.serverInfo
  const report = reportOf(
    {
      server_name: settings.name,
      server_version: typeof version === 'string' ? version : 'unknown',
      suite_version: SUITE_VERSION,
      tested_at: new Date(began).toISOString(),
    },
    results.all,
  )
  return { ...report, results: results.all, revision: session.revision, seed, score: scoreOf(results.all) }
}

async function runChecks(context: CheckContext, options: Options): Promise<void> {
  const { session, results } = context
  const { settings, tools: names, onTools, onProgress } = options
  onProgress('the protocol')
  await testDiscovery(session, results)
  const lists = await testLists(session, results)
  judgeNames(lists.tools ?? [], results)
  const audited = await testRules(settings, context)
  onTools(audited.map(({ name }) => name))
  await testCapabilities(session, lists, results)
  await testItems(lists, context)
  const tools = descriptorsOf(audited, settings).filter(
    ({ name }) => names.length === 0 || names.includes(name),
  )
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
  { settings, seed, undoable, onProgress }: Options,
): Promise<void> {
  const calls = tools.length > 0 ? await undoable?.() : undefined
  for (const [index, tool] of tools.entries()) {
    if (calls) {
      onProgress(`writing tool ${index + 1} of ${tools.length}: ${tool.name}`)
      const context = {
        results,
        redactor,
        revision: session.revision,
        seed,
        examples: examplesOf(tool, settings),
      }
      await testWritingTool(tool, calls, context)
      continue
    }
    const [reason = 'nothing is known of it'] = tool.classification.evidence
    results.add('results', `tool/${tool.name}`, `tool/${tool.name}/calls`, {
      status: 'skipped',
      message: `not called, because it may change something: ${reason}. See --allow-writes`,
    })
  }
}

/** The arguments of the example calls in the configuration. */
function examplesOf({ name }: Descriptor, { tools }: UpstreamSettings): readonly unknown[] {
  return settingOf(tools, name, 'examples')?.value.map(({ input }) => input) ?? []
}

/** Whether some calls of a tool only read. */
function mayRead({ classification: { op, varies } }: Descriptor): boolean {
  return op === 'read' || varies?.baseEffect === 'read'
}
