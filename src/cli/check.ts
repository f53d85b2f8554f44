/**
 * `gatehouse check`: loads the configuration, tries every server and the store, and reports every problem with
 * its line.
 */
import { logProblems } from '../core/findings.ts'
import { existsSync, readFileSync } from 'node:fs'
import { excerptOf } from '../config/excerpt.ts'
import { locateFindings } from '../config/load.ts'
import {
  ConfigError,
  type ConfigProblem,
  type Finding,
  pathText,
  problemLine,
  writeProblem,
} from '../config/problem.ts'
import { asGatewayError } from '../core/error.ts'
import type { Log } from '../core/log.ts'
import type { Settings } from '../core/settings.ts'
import { oneLine } from '../core/text/escape.ts'
import { within } from '../core/time/waiting.ts'
import { issuerProblem } from '../downstream/auth/jwt.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { mayStoreBeUnusable } from '../gateway/offline.ts'
import type { Given } from './command.ts'
import type { commands } from './commands.ts'
import { withStore } from './config-file.ts'
import { type Io, printError, write, writeError } from './io.ts'
import { countText } from '../core/text/words.ts'
import { type Output } from './output.ts'
import { readableLog, readServed, type Source, withGateway } from './source.ts'

/** The output of `gatehouse check --json`. */
interface Report {
  readonly ok: boolean
  readonly problems: readonly ConfigProblem[]
  readonly servers: readonly ServerReport[]
  /** What the watches found that could be tried. */
  readonly watches: readonly WatchReport[]
}

interface WatchReport {
  /** The event in the configuration. */
  readonly event: string
  readonly items: number
  /** Those of the first items. */
  readonly ids: readonly string[]
}

interface ServerReport {
  readonly name: string
  readonly state: 'ready' | 'not_tried' | 'unavailable'
  /** The negotiated MCP revision. */
  readonly revision?: string
  readonly problem?: string
  readonly stderr?: readonly string[]
  /** What is wrong with its lists, and what the gateway does about it. Absent if nothing is. */
  readonly findings?: readonly string[]
}

/** How long a server may take to list what it offers, where no setting says so, in milliseconds. */
const LISTING_TIMEOUT_MS = 10_000

/** `gatehouse check`: reads the configuration, connects to each server, and prints every problem at once. */
export async function check(given: Given<typeof commands.check>, io: Io): Promise<Output> {
  let source: Source
  try {
    source = readServed(given, io)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return reported({ ok: false, problems: error.problems, servers: [], watches: [] }, textOf(error), io)
  }
  const { found, ...rest } = await examine(source, io)
  return reported({ ok: found.length === 0, problems: problemsOf(found, source), ...rest }, source.text, io)

  /** Text goes to both streams. */
  function reported(report: Report, text: string | undefined, output: Io): Output {
    const code = report.ok ? 0 : 1
    if (given.json) return { json: report, text: '', code }
    writeText(report, output, text)
    return code
  }
}

type Examined = Pick<Report, 'servers' | 'watches'> & { readonly found: readonly Finding[] }

/** The problems found by connecting to the servers, the store and the token issuer. */
async function examine(source: Source, io: Io): Promise<Examined> {
  // Read-only: work that another gateway left unfinished is not resumed.
  const settings: Settings = { ...source.settings, store: { kind: 'memory' } }
  return withGateway(settings, { io, log: readableLog(io) }, async (gateway) => {
    const found: Finding[] = [...(await gateway.start()), ...(await placeProblems(source.settings, io))]
    const servers = await Promise.all(
      [...gateway.statuses].map(async ([name, { problem, stderr, revision }]): Promise<ServerReport> => {
        if (problem !== undefined) return { name, state: 'unavailable', problem, ...(stderr && { stderr }) }
        if (revision === undefined) return { name, state: 'not_tried' }
        return { name, state: 'ready', revision, ...(await listsOf(name, gateway)) }
      }),
    )
    for (const { name, problem, stderr = [] } of servers) {
      const message = [problem, ...stderr.map((line) => `    ${line}`)].join('\n')
      if (problem !== undefined) found.push({ path: ['upstreams', name], at: 'key', message })
    }
    const trials = await gateway.tryEvents()
    found.push(...trials.flatMap((trial) => trialProblem(trial, found)))
    const issuer = await issuerProblem(source.settings.auth.jwt, gateway.proxies)
    if (issuer !== undefined) found.push({ path: ['auth', 'jwt', 'issuer'], message: issuer })
    return { found, servers, watches: trials.flatMap(watchReport) }
  })
}

/** What is wrong with the lists of a server, or why they are not there. */
async function listsOf(name: string, gateway: Gateway): Promise<Pick<ServerReport, 'problem' | 'findings'>> {
  const { aggregate, aggregateTimeout } = gateway.settings.listen
  const isTogether = aggregate && gateway.statuses.size > 1
  const timeout = isTogether ? aggregateTimeout : LISTING_TIMEOUT_MS
  const late = `the server did not return its lists within ${timeout / 1000} s`
  const listed = gateway.listFindings(name).then(({ findings, error }) => ({
    ...(findings.length > 0 && { findings }),
    ...(error !== undefined && {
      problem: `the server did not return its lists: ${asGatewayError(error).message}`,
    }),
  }))
  return within(listed, timeout, { problem: isTogether ? `${late}, so /mcp leaves it out` : late })
}

type EventTrial = Awaited<ReturnType<Gateway['tryEvents']>>[number]

/** The problem of a watch, unless its call or its server has one that is known. */
function trialProblem(
  { path, server, found: trial }: EventTrial,
  known: readonly Finding[],
): readonly Finding[] {
  if (!('problem' in trial)) return []
  const at = [...path, trial.key]
  const isKnown = known.some((each) => {
    const about = pathText(each.path)
    return about === pathText(at) || about === pathText(['upstreams', server])
  })
  return isKnown ? [] : [{ path: at, message: trial.problem }]
}

function watchReport({ path, found }: EventTrial): readonly WatchReport[] {
  return 'problem' in found ? [] : [{ event: pathText(path), ...found }]
}

/** The text of the invalid file, for excerpts. */
function textOf({ problems }: ConfigError): string | undefined {
  const file = problems.find(({ line }) => line > 0)?.file
  return file !== undefined && existsSync(file) ? readFileSync(file, 'utf8') : undefined
}

function writeText({ ok, problems, servers, watches }: Report, io: Io, text?: string): void {
  for (const { name, state, revision, findings = [] } of servers) {
    if (state === 'ready') write(`${name}: ready, MCP ${revision}\n`, io)
    for (const finding of findings) write(`  ${finding}\n`, io)
    if (state === 'not_tried') write(`${name}: not tried, because each caller has its own credentials\n`, io)
  }
  for (const { event, items, ids } of watches) {
    const first = ids.length > 0 ? `: ${ids.map(oneLine).join(', ')}${items > ids.length ? ', …' : ''}` : ''
    write(`${event}: ${counted(items, 'item')}${first}\n`, io)
  }
  for (const problem of problems) {
    writeError(`${problemLine(problem)}\n`, io)
    if (text !== undefined) writeError(excerptOf(problem, text), io)
  }
  const ready = servers.filter(({ state }) => state === 'ready').length
  const summary = [
    counted(problems.length, 'problem'),
    ...(servers.length > 0 ? [`${ready} of ${countText(servers.length, 'server')} ready`] : []),
  ].join(', ')
  if (ok) write(`${summary}\n`, io)
  else writeError(`${summary}\n`, io)
}

function counted(number: number, thing: string): string {
  return number === 0 ? `no ${thing}s` : countText(number, thing)
}

/** The problems of the store and of the audit log that are detected at startup, before any client is served. */
export async function checkPlaces({ settings }: Source, io: Io): Promise<readonly Finding[]> {
  return mayStoreBeUnusable(settings) ? placeProblems(settings, io) : auditProblems(settings)
}

async function placeProblems(settings: Settings, io: Io): Promise<readonly Finding[]> {
  return [...(await storeProblems(settings, io)), ...auditProblems(settings)]
}

/** Reports an audit log that cannot be written. */
function auditProblems({ observe: { audit } }: Settings): Finding[] {
  const problem = audit && writeProblem(audit.file)
  if (!audit || problem === undefined) return []
  const fix = 'set `observe.audit` to the path of a file that this user can write, or `off`'
  return [{ path: ['observe', 'audit'], message: `the audit log ${audit.file} ${problem}: ${fix}` }]
}

/** Reports a store that cannot be used. */
async function storeProblems(settings: Settings, io: Io): Promise<Finding[]> {
  const { store } = settings
  if (store.kind === 'memory') return []
  // A missing folder is created at startup, unless it existed before and its data is lost.
  if (store.kind === 'folder' && !existsSync(store.path) && !mayStoreBeUnusable(settings)) {
    const problem = writeProblem(store.path)
    return problem === undefined
      ? []
      : [
          {
            path: ['store'],
            message: `the folder ${store.path} ${problem}: give this user write access, or name another folder`,
          },
        ]
  }
  try {
    return await withStore(
      settings,
      io,
      async (found) => {
        const problem = found.unavailableReason
        if (problem !== undefined)
          return [{ path: ['store'], message: `the store cannot be used: ${problem}` }]
        for (const weakness of (await found.weaknesses?.()) ?? [])
          writeError(`warning: store: ${weakness}\n`, io)
        return []
      },
      'error',
    )
  } catch (error) {
    return [{ path: ['store'], message: error instanceof Error ? error.message : String(error) }]
  }
}

/** Prints problems to stderr. */
export function printProblems(found: readonly Finding[], source: Source, io: Io): void {
  for (const each of problemsOf(found, source)) printError(problemLine(each), io)
}

/** Reports problems found after connecting to the servers. Returns whether the gateway can serve nevertheless. */
export function reportStartup(
  found: readonly Finding[],
  source: Source,
  { io, log }: { readonly io: Io; readonly log: Log },
): boolean {
  const isServing = found.every(({ isMinor }) => isMinor === true)
  if (isServing) logProblems(found, log)
  else printProblems(found, source, io)
  return isServing
}

/** Findings with their positions in the configuration file. */
export function problemsOf(found: readonly Finding[], { file, text }: Source): readonly ConfigProblem[] {
  if (file !== undefined && text !== undefined) return locateFindings(found, text, file)
  return found.map(({ path, message }) => ({
    file: 'command line',
    line: 0,
    column: 0,
    path: pathText(path),
    message,
  }))
}
