/**
 * Tests a server: the protocol, its lists, what it offers, the rules of `gatehouse lint` that are about MCP itself, and its tools
 * with generated cases. The score is how much of each area holds; docs/server-tests.md has the table of weights.
 */
import { isoTime } from '../../core/time/waiting.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { withoutSecrets } from '../../core/text/redact.ts'
import type { Redactor } from '../../core/text/redactor.ts'
import { type AuditedTool, gather, type Subject } from '../../lint/subject.ts'
import type { Sandbox } from '../prove/sandbox.ts'
import { type Report, reportOf } from '../report.ts'
import { examplesOf, failureText, shown } from './examples.ts'
import { testItems, judgeNames, testLists } from './lists.ts'
import { judgeMessages, testCapabilities, testDiscovery, testMalformed } from './protocol.ts'
import { type Coverage, Results, type ServerCheck, type Area } from './results.ts'
import { testInSandbox, testWritingTool, type UndoableCalls } from './writing-test.ts'
import { type CheckContext, ServerLost, type ServerSession, absenceOf } from './session.ts'
import { testReadingTool } from './tool-test.ts'
import type { Handler } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import { assertions } from '../../lint/audit.ts'

interface ServerTest {
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
export async function testServer(session: ServerSession, options: ServerTest): Promise<ServerReport> {
  const { now, seed, settings } = options
  const began = now()
  const results = new Results((text) => withoutSecrets(options.redactor.text(text)))
  try {
    await runChecks({ session, results, redactor: options.redactor }, options)
  } catch (error) {
    if (!(error instanceof ServerLost)) throw error
    const message = `The rest of the checks was not carried out: ${error.message}`
    results.about('server').add('robustness', 'available', { status: 'error', message })
  }
  for (const name of results.unanswered)
    results
      .about(`tool/${name}`)
      .skip('results', 'success', 'no valid call succeeded: give an example in the configuration')
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
    tested_at: isoTime(began),
  }
  return { ...reportOf(subject, all), results: all, revision, seed, score: scoreOf(all), coverage }
}

async function runChecks(context: CheckContext, options: ServerTest): Promise<void> {
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
    results
      .about('list/tools')
      .skip(
        'results',
        'left-out',
        `${wanted.length - tools.length} tools are not called: only the first ${MAX_TOOLS} are`,
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
  options: ServerTest,
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
  { settings, seed, undoable, sandbox, onProgress }: ServerTest,
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
      const message = `not called, because it may change something: ${reason}. See --allow-writes and --sandbox`
      results.about(`tool/${tool.name}`).skip('results', 'calls', message)
    }
  }
}

/** Whether some calls of a tool only read. */
export function mayRead({ classification: { op, varies } }: Descriptor): boolean {
  return op === 'read' || varies?.baseEffect === 'read'
}

/** The weight of each area. Areas without a check do not count. */
export const weights: Readonly<Record<Exclude<Area, 'latency'>, number>> = {
  protocol: 25,
  definitions: 15,
  results: 20,
  refusals: 20,
  errors: 10,
  robustness: 10,
}

interface Score {
  /** 0 to 100; null if nothing was checked. */
  readonly total: number | null
  /** The score of each area that was checked. */
  readonly areas: Readonly<Partial<Record<Area, number>>>
}

/**
 * The score of the checks: in each area the share of subjects, such as a tool, of which every check passed. It is rounded
 * down, so that 100 means that nothing failed.
 */
export function scoreOf(checks: readonly ServerCheck[]): Score {
  const carriedOut = checks.filter(({ status }) => status !== 'skipped')
  const shares = Object.entries(weights).flatMap(([area, weight]) => {
    const own = carriedOut.filter(({ category }) => category === area)
    if (own.length === 0) return []
    const subjects = new Set(own.map(({ subject }) => subject))
    const broken = new Set(own.filter(({ status }) => status !== 'passed').map(({ subject }) => subject))
    // A server that is lost is not robust, whatever it did before.
    const share = broken.has('server') ? 0 : (subjects.size - broken.size) / subjects.size
    return [{ area, weight, share }]
  })
  const sum = shares.reduce((total, { weight }) => total + weight, 0)
  const reached = shares.reduce((total, { weight, share }) => total + weight * share, 0)
  return {
    total: sum === 0 ? null : Math.floor((reached / sum) * 100 + 1e-9),
    areas: Object.fromEntries(shares.map(({ area, share }) => [area, Math.floor(share * 100 + 1e-9)])),
  }
}

/** The rules, by the area that they belong to. The others are about the corporate profile, or are checked in calls. */
const areas: ReadonlyMap<string, Area> = new Map([
  ...['C008', 'C087', 'C100', 'C105', 'C118', 'C173'].map((id) => [id, 'protocol'] as const),
  ...['C121', 'C124', 'C126', 'C127', 'C158', 'C159', 'C172'].map((id) => [id, 'definitions'] as const),
  ['C177', 'results'],
])

/** Adds the results of the rules, and returns the tools with their classification. @throws ServerLost */
async function testRules(
  settings: UpstreamSettings,
  { session, results, redactor }: CheckContext,
): Promise<Subject['tools']> {
  const subject = await gather(handlerOf(session, redactor), {
    settings,
    revision: session.revision,
    guards: new Map(),
    isProtected: false,
  })
  session.mustGoOn()
  for (const { id, text, check } of assertions) {
    const area = areas.get(id)
    if (area === undefined) continue
    const { status, evidence } = check(subject)
    const isFailed = status === 'fail'
    results.add(area, `lint/${id}`, `lint/${id}`, {
      description: text,
      status: status === 'not applicable' ? 'skipped' : isFailed ? 'failed' : 'passed',
      message: isFailed
        ? `${text} ${evidence.slice(0, 3).join('; ')}`
        : status === 'not applicable'
          ? evidence[0]
          : text,
    })
  }
  return subject.tools
}

/** The server as a handler: without anything that the gateway does. */
function handlerOf(session: ServerSession, redactor: Redactor): Handler {
  const cursors = new Set<string>()
  return async ({ method, params }) => {
    // The result of the handshake, which no server repeats.
    if (method === 'server/discover') return { kind: 'result', result: Payload.of(session.discovered) }
    const answer = await session.request(method, params.fields)
    if (answer.kind !== 'result') {
      const relayed = answer.kind === 'error' ? { relayed: Payload.of(answer.error) } : {}
      throw new GatewayError(
        'UPSTREAM_ERROR',
        shown(failureText(answer) ?? absenceOf(answer), redactor),
        relayed,
      )
    }
    const { nextCursor, ...rest } = answer.result
    // A list that does not end is found by another check; it is read twice.
    const key = `${method} ${String(params.fields.cursor)} ${String(nextCursor)}`
    const isLoop =
      nextCursor === params.fields.cursor || (cursors.has(`${key} twice`) && nextCursor !== undefined)
    if (nextCursor !== undefined) cursors.add(cursors.has(key) ? `${key} twice` : key)
    return { kind: 'result', result: Payload.of(isLoop ? rest : answer.result) }
  }
}
