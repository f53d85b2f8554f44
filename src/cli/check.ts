/**
 * `gatehouse check`: loads the configuration, tries every server and the store, and reports every problem with
 * its line.
 */
import { existsSync, readFileSync } from 'node:fs'
import { locateFindings } from '../config/load.ts'
import { ConfigError, type ConfigProblem, type Finding, pathText, problemLine } from '../config/problem.ts'
import { environment } from '../config/secrets.ts'
import { logProblems } from '../core/finding.ts'
import type { Log } from '../core/log.ts'
import type { Settings } from '../core/settings.ts'
import { Gateway, issuerProblem, openLog } from '../gateway/gateway.ts'
import { isStoreDoubtful, openSharedStore } from '../gateway/offline.ts'
import { excerptOf } from './format/excerpt.ts'
import { readOptions, readServed, type Source } from './options.ts'

/** What `gatehouse check --json` prints. */
interface Report {
  readonly ok: boolean
  readonly problems: readonly ConfigProblem[]
  readonly servers: readonly ServerReport[]
}

interface ServerReport {
  readonly name: string
  readonly state: 'ready' | 'not_tried' | 'unavailable'
  /** The revision of MCP it speaks. */
  readonly revision?: string
  readonly problem?: string
  readonly stderr?: readonly string[]
}

/** `gatehouse check`: reads the configuration, connects to each server, and prints every problem at once. */
export async function check(args: readonly string[]): Promise<number> {
  const isJson = readOptions(args, ['config', 'log-level', 'json']).json
  const report = isJson ? writeJson : writeText
  let source: Source
  try {
    source = readServed(args, ['config', 'log-level', 'json'])[1]
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return report({ ok: false, problems: error.problems, servers: [] }, textOf(error))
  }
  const { found, servers } = await examine(source)
  return report({ ok: found.length === 0, problems: problemsOf(found, source), servers }, source.text)
}

/** What is wrong once the servers, the store and the issuer of tokens were asked. */
async function examine(
  source: Source,
): Promise<{ readonly found: readonly Finding[]; readonly servers: readonly ServerReport[] }> {
  // It only looks: what another gateway left unfinished is not taken up.
  const settings: Settings = { ...source.settings, store: { kind: 'memory' } }
  const gateway = new Gateway(settings, { variables: environment(), log: openLog('error', true) })
  const found: Finding[] = [...(await gateway.start()), ...(await storeProblems(source.settings))]
  const servers = [...gateway.statuses].map(([name, { problem, stderr, revision }]): ServerReport => {
    if (problem !== undefined) return { name, state: 'unavailable', problem, ...(stderr && { stderr }) }
    return revision === undefined ? { name, state: 'not_tried' } : { name, state: 'ready', revision }
  })
  for (const { name, problem, stderr = [] } of servers) {
    const message = [problem, ...stderr.map((line) => `    ${line}`)].join('\n')
    if (problem !== undefined) found.push({ path: ['upstreams', name], at: 'key', message })
  }
  await gateway.close()
  const issuer = await issuerProblem(source.settings.auth.jwt)
  if (issuer !== undefined) found.push({ path: ['auth', 'jwt', 'issuer'], message: issuer })
  return { found, servers }
}

/** The text of the file that could not be used, to show lines of it. */
function textOf({ problems }: ConfigError): string | undefined {
  const file = problems.find(({ line }) => line > 0)?.file
  return file !== undefined && existsSync(file) ? readFileSync(file, 'utf8') : undefined
}

function writeJson(report: Report): number {
  process.stdout.write(`${JSON.stringify(report, null, 2)}\n`)
  return report.ok ? 0 : 1
}

function writeText({ ok, problems, servers }: Report, text: string | undefined): number {
  for (const { name, state, revision } of servers) {
    if (state === 'ready') process.stdout.write(`${name}: ready, speaks ${revision}\n`)
    if (state === 'not_tried')
      process.stdout.write(`${name}: not tried, since each caller has credentials of its own\n`)
  }
  for (const problem of problems) {
    process.stderr.write(`${problemLine(problem)}\n`)
    if (text !== undefined) process.stderr.write(excerptOf(problem, text))
  }
  const ready = servers.filter(({ state }) => state === 'ready').length
  const summary = [
    counted(problems.length, 'problem'),
    ...(servers.length > 0 ? [`${ready} of ${counted(servers.length, 'server')} ready`] : []),
  ].join(', ')
  if (ok) process.stdout.write(`${summary}\n`)
  else process.stderr.write(`${summary}\n`)
  return ok ? 0 : 1
}

function counted(number: number, thing: string): string {
  return `${number === 0 ? 'no' : number} ${thing}${number === 1 ? '' : 's'}`
}

/** The problems of the store that show at start, before any client is served. */
export async function foresee({ settings }: Source): Promise<readonly Finding[]> {
  return isStoreDoubtful(settings) ? storeProblems(settings) : []
}

/** Why the store cannot be used, where there is one. */
async function storeProblems(settings: Settings): Promise<Finding[]> {
  const { store } = settings
  if (store.kind === 'memory') return []
  // A folder that is not there yet is made at the start, unless what was promised there is gone.
  if (store.kind === 'folder' && !existsSync(store.path) && !isStoreDoubtful(settings)) return []
  const opened = openSharedStore(settings, openLog('error', true))
  return opened.then(
    async (found) => {
      const { unavailableReason: problem } = found
      await found.close()
      return problem === undefined
        ? []
        : [{ path: ['store'], message: `the store cannot be used: ${problem}` }]
    },
    (error: unknown) => [
      { path: ['store'], message: error instanceof Error ? error.message : String(error) },
    ],
  )
}

/** Tells people at the terminal what was found. */
export function tell(found: readonly Finding[], source: Source): void {
  for (const each of problemsOf(found, source)) process.stderr.write(`gatehouse: ${problemLine(each)}\n`)
}

/** Tells what was found once the servers were asked. Whether the gateway serves nevertheless. */
export function goesOn(found: readonly Finding[], source: Source, log: Log): boolean {
  const isServing = found.every(({ isMinor }) => isMinor === true)
  if (isServing) logProblems(found, log)
  else tell(found, source)
  return isServing
}

/** What was found later on, at its place in the file. */
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
