import { existsSync } from 'node:fs'
import { locateFindings } from '../config/load.ts'
import { type ConfigProblem, type Finding, pathText, problemLine } from '../config/problem.ts'
import { environment } from '../config/secrets.ts'
import { tellProblems } from '../core/finding.ts'
import type { Log } from '../core/log.ts'
import type { Settings } from '../core/settings.ts'
import { createGateway, issuerProblem, openLog } from '../gateway.ts'
import { isStoreDoubtful, openSharedStore } from '../offline.ts'
import { readServed, type Source } from './options.ts'

/** `gatehouse check`: reads the configuration, connects to each server, and prints every problem at once. */
export async function check(args: readonly string[]): Promise<number> {
  const [, source] = readServed(args, ['config', 'log-level'])
  const log = openLog('error', true)
  // It only looks: what another gateway left unfinished is not taken up.
  const settings: Settings = { ...source.settings, store: { kind: 'memory' } }
  const gateway = createGateway(settings, { variables: environment(), log })
  const found: Finding[] = [...(await gateway.warm()), ...(await storeProblems(source.settings))]
  for (const [name, { problem, revision }] of gateway.statuses) {
    if (problem !== undefined) found.push({ path: ['upstreams', name], at: 'key', message: problem })
    else if (revision !== undefined) process.stdout.write(`${name}: ready, speaks ${revision}\n`)
    else process.stdout.write(`${name}: not tried, since each caller has credentials of its own\n`)
  }
  await gateway.close()
  const issuer = await issuerProblem(source.settings.auth.jwt)
  if (issuer !== undefined) found.push({ path: ['auth', 'jwt', 'issuer'], message: issuer })
  for (const problem of problemsOf(found, source)) process.stderr.write(`${problemLine(problem)}\n`)
  return found.length === 0 ? 0 : 1
}

/** What is wrong with the store where a glance at it tells, before anybody is served. */
export async function foresee({ settings }: Source): Promise<readonly Finding[]> {
  return isStoreDoubtful(settings) ? storeProblems(settings) : []
}

/** Why the store can not be used, where there is one. */
async function storeProblems(settings: Settings): Promise<Finding[]> {
  const { store } = settings
  if (store.kind === 'memory' || (store.kind === 'folder' && !existsSync(store.path))) return []
  const opened = openSharedStore(settings, openLog('error', true))
  return opened.then(
    (found) => found.close().then(() => []),
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
  if (isServing) tellProblems(found, log)
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
