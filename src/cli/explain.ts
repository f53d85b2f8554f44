/**
 * `gatehouse explain`: shows what the gateway would do with the calls of a tool, and why. Makes no call of it.
 */
import { environment } from '../config/secrets.ts'
import { oneLine } from '../core/text/escape.ts'
import { withoutSecrets } from '../core/text/redact.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { Gateway, openLog } from '../gateway/gateway.ts'
import { type Inspected, toolLines, toolObject, toolTable } from './format/tools.ts'
import { looking, readNamed } from './named-server.ts'
import { UsageError } from './options.ts'

/** `gatehouse explain <server> [tool]`: prints what happens to a call, and where each value comes from. */
export async function explain(args: readonly string[]): Promise<number> {
  const {
    source,
    server: settings,
    words,
    isJson,
  } = readNamed(args, ['config', 'log-level', 'json'], { isOne: true })
  if (!settings) throw new UsageError('name a server of the configuration')
  const [tool, ...others] = words
  if (others.length > 0) throw new UsageError('name one tool, or none')
  const { name: upstream } = settings
  const only = looking(source.settings, [settings])
  const gateway = new Gateway(only, { variables: environment(), log: openLog('error', true) })
  await gateway.start()
  const status = await gateway.explore(upstream)
  const method = tool === undefined ? 'tools/list' : 'tools/call'
  const chain = gateway.chain({ upstream, method, ...(tool !== undefined && { name: tool }) })
  const inspected = await inspectAll(gateway, upstream, tool).catch(() => [])
  await gateway.close()
  const isKnown = tool === undefined || inspected.length > 0
  const code = status?.problem === undefined && isKnown ? 0 : 1
  if (isJson) {
    const report = {
      server: upstream,
      reached_by: reachOf(settings),
      ...(status?.revision !== undefined && { revision: status.revision }),
      ...(status?.olderRevision !== undefined && { older_revision: status.olderRevision }),
      ...(status?.problem !== undefined && { problem: status.problem }),
      ...(status?.stderr && { stderr: status.stderr }),
      isolation: settings.isolation,
      trust: settings.trust,
      tools: inspected.map(toolObject),
      passes: { method, features: chain.map(({ feature, settings: own }) => ({ feature, settings: own })) },
    }
    process.stdout.write(`${JSON.stringify(report, null, 2)}\n`)
    return code
  }
  const lines = [
    `${upstream}${tool === undefined ? '' : ` ${tool}`}`,
    `  reached by   ${reachOf(settings)}`,
    `  speaks       ${spoken(status?.revision, settings.revision)}`,
    ...(status?.olderRevision === undefined
      ? []
      : [`  to older     ${status.olderRevision}, on connections of their own (revision: follow)`]),
    ...(status?.problem === undefined ? [] : [`  problem      ${status.problem}`]),
    ...(status?.stderr ?? []).map((line) => `  it wrote     ${line}`),
    `  isolation    ${settings.isolation}`,
    `  believed     ${settings.trust ? 'yes' : 'no'} (trust: what it says of its own tools)`,
    ...(tool === undefined ? toolTable(inspected) : toolLines(inspected[0])),
    `  a call of ${method} passes`,
    '    observe      one log line',
    ...chain.map(({ feature, settings: own }) => `    ${feature.padEnd(12)} ${JSON.stringify(own)}`),
    `    ${upstream.padEnd(12)} the server`,
  ]
  process.stdout.write(`${lines.map(oneLine).join('\n')}\n`)
  return code
}

async function inspectAll(
  gateway: Gateway,
  upstream: string,
  tool: string | undefined,
): Promise<readonly Inspected[]> {
  const names = tool === undefined ? (await gateway.entries(upstream)).map(({ name }) => name) : [tool]
  const found: Inspected[] = []
  for (const name of names) {
    const inspected = await gateway.inspect(upstream, name)
    if (inspected) found.push(inspected)
  }
  return found
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
  if (pinned === 'auto' || pinned === 'follow') return `${revision} (found out by asking)`
  return `${revision} (${revision === pinned ? 'as configured' : `its answer to ${pinned}, which is configured`})`
}
