import { environment } from '../config/secrets.ts'
import { withoutSecrets } from '../core/secret-shapes.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { createGateway, type Gateway, openLog } from '../gateway.ts'
import { readOptions, readSource, serverNamed, UsageError, warn } from './options.ts'

/** `gatehouse explain <server> [tool]`: prints what happens to a call, and where each value comes from. */
export async function explain(args: readonly string[]): Promise<number> {
  const options = readOptions(args, ['config', 'log-level'])
  const [upstream, tool] = options.words
  if (upstream === undefined) throw new UsageError('name a server of the configuration')
  const source = readSource({ ...options, words: [] }, warn)
  const settings = serverNamed(upstream, source.settings)
  const only = { ...source.settings, upstreams: [settings] }
  const gateway = createGateway(only, { variables: environment(), log: openLog('error', true) })
  await gateway.warm()
  const status = gateway.statuses.get(upstream)
  const method = tool === undefined ? 'tools/list' : 'tools/call'
  const chain = gateway.chain({ upstream, method, ...(tool !== undefined && { name: tool }) })
  const inspected =
    tool === undefined ? undefined : await gateway.inspect(upstream, tool).catch(() => undefined)
  await gateway.close()
  const lines = [
    `${upstream}${tool === undefined ? '' : ` ${tool}`}`,
    `  reached by   ${reachOf(settings)}`,
    `  speaks       ${spoken(status?.revision, settings.revision)}`,
    ...(status?.problem === undefined ? [] : [`  problem      ${status.problem}`]),
    `  isolation    ${settings.isolation}`,
    `  believed     ${settings.trust ? 'yes' : 'no'} (trust: what it says of its own tools)`,
    ...(tool === undefined ? [] : toolLines(inspected)),
    `  a call of ${method} passes`,
    '    observe      one log line',
    ...chain.map(({ feature, settings: own }) => `    ${feature.padEnd(12)} ${JSON.stringify(own)}`),
    `    ${upstream.padEnd(12)} the server`,
  ]
  process.stdout.write(`${lines.join('\n')}\n`)
  return status?.problem === undefined ? 0 : 1
}

type Inspected = Awaited<ReturnType<Gateway['inspect']>>

function toolLines(inspected: Inspected): string[] {
  if (!inspected) return ['  the server lists no tool of this name']
  const { op, risk, idempotent, evidence } = inspected.entry.nature
  const scopes = inspected.scopes.map((group) => group.join(' or ')).join(', ')
  return [
    `  op           ${op}`,
    `  risk         ${risk}`,
    `  idempotent   ${idempotent ? 'yes' : 'no'}`,
    ...evidence.map((each, index) => `${index === 0 ? '  because     ' : '              '} ${each}`),
    `  scopes       ${scopes === '' ? 'none' : scopes} (needed where callers authenticate)`,
  ]
}

function reachOf({ reach, transport }: UpstreamSettings): string {
  if (reach.kind === 'command') return `a child process: ${shownWords([reach.command, ...reach.args])}`
  return `${withoutSecrets(reach.url)} (${transport === 'auto' ? 'transport found out' : `transport ${transport}, as configured`})`
}

/** A command line without what was put in for a reference to a secret, as far as that can be seen. */
function shownWords(words: readonly string[]): string {
  const line = withoutSecrets(words.join(' '))
  return line.replace(/(--?[\w-]*(?:token|secret|passw(?:or)?d|key|credentials?)\s+)[^\s-]\S*/gi, '$1***')
}

function spoken(revision: string | undefined, pinned: string): string {
  if (revision === undefined) return 'unknown: it was not reached'
  return `${revision} (${pinned === 'auto' ? 'found out by asking' : 'as configured'})`
}
