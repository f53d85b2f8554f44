/** `gatehouse lint`: checks a server against the corporate profile. */
import { isProtected } from '../core/auth-settings.ts'
import { featureSettings, type Settings, type UpstreamSettings } from '../core/settings.ts'
import { audit, type AuditReport, type Audited } from '../lint/audit.ts'
import { gather, type Subject } from '../lint/subject.ts'
import { toolFix } from '../lint/tools.ts'
import type { Given } from './command.ts'
import type { commands } from './commands.ts'
import type { Io } from './io.ts'
import type { Output } from './output.ts'
import { readableLog, readOnlySettings, readServer, withGateway } from './source.ts'

type LintOptions = Given<typeof commands.lint>

/** `gatehouse lint SERVER`: checks a server against the rules of the corporate profile. */
export async function lint(given: LintOptions, io: Io): Promise<Output> {
  const { source, server } = readServer({ ...given, server: { name: given.server } }, io)
  const only: Settings = { ...readOnlySettings(source.settings, [server]), metaTools: 'off' }
  const log = readableLog(io, given.logLevel)
  const subject = await inspect(withoutFeatures(only), server, { io, isUnchecked: true, log })
  if (given.fix || given.for !== undefined) return fixes(server.name, subject, given.for)
  const listed = await inspect(only, server, { io, isUnchecked: false, log })
  const report = audit({ ...subject, guards: listed.guards }, listed)
  const code = given.strict && report.summary.serious.length > 0 ? 1 : 0
  return { json: report, text: printed(report), code }
}

/** What the owner of a server should change in the entries of its tools, for a provider or for all. */
function fixes(upstream: string, { lists }: Subject, provider: LintOptions['for']): Output {
  const entries = lists.get('tools/list')?.items ?? []
  const found = entries.flatMap((entry, index) => toolFix(entry, index, provider) ?? [])
  const text = found.map(({ tool, problems, patch }) =>
    [
      tool,
      ...problems.map((each) => `  ${plain(each)}`),
      ...(patch ? [JSON.stringify(patch, null, 2)] : []),
    ].join('\n'),
  )
  const none = `${upstream}: no tool has a schema that clients or providers refuse`
  return { json: { upstream, tools: found }, text: found.length > 0 ? text.join('\n\n') : none, code: 0 }
}

/** Inspects a server through a gateway with these settings. */
function inspect(
  settings: Settings,
  server: UpstreamSettings,
  options: Parameters<typeof withGateway>[1],
): Promise<Subject> {
  const { name: upstream } = server
  return withGateway(settings, options, async (gateway) => {
    await gateway.start()
    const { problem, revision = 'an unknown revision' } = gateway.statuses.get(upstream) ?? {}
    if (problem !== undefined) throw new Error(`${upstream} cannot be audited: ${problem}`)
    const chain = gateway.chain({ upstream, method: 'tools/call', name: 'any' })
    const guards = new Map([
      ...chain.map(({ feature, settings: each }) => [feature, each] as const),
      ...describingFeatures(settings, upstream),
    ])
    const auth = isProtected(settings.auth)
    return gather(gateway.handle, { settings: server, revision, guards, isProtected: auth })
  })
}

/** The features that are on for a server but add no middleware to its calls. */
function describingFeatures(settings: Settings, upstream: string): (readonly [string, unknown])[] {
  return ['agent_profile', 'complete', 'contract'].flatMap((name) => {
    const feature = featureSettings(settings, name, upstream)
    return feature === false ? [] : [[name, feature] as const]
  })
}

/** Settings with which the gateway exposes a server unchanged. */
function withoutFeatures(settings: Settings): Settings {
  return { ...settings, listen: { ...settings.listen, isStrict: false }, features: {} }
}

// The report of `gatehouse lint` as text.

/** How many items of evidence are printed for one rule. */
const MAX_EVIDENCE = 5

/** A report as text. */
function printed({ upstream, revision, assertions, summary, owner: facts }: AuditReport): string {
  const { pass, repaired, fail, notApplicable, serious, owner } = summary
  const missing = facts.filter(({ said: configured, of }) => configured < of)
  return [
    `${upstream}: MCP ${revision}, checked against ${assertions.length} rules`,
    '',
    ...assertions.flatMap(linesOf),
    '',
    ...(missing.length > 0 ? [`only its owner knows; set it under upstreams.${upstream}:`] : []),
    ...missing.map(missingFactLine),
    ...(missing.length > 0 ? [''] : []),
    `${pass} pass, ${repaired} repaired by the gateway, ${fail} fail, ${notApplicable} not applicable`,
    ...(serious.length > 0 ? [`broken MUST and MUST NOT rules: ${serious.join(' ')}`] : []),
    ...(owner.length > 0 ? [`only the owner of the server can provide: ${owner.join(' ')}`] : []),
  ].join('\n')
}

function linesOf({ id, level, status, text, evidence, fix }: Audited): string[] {
  const listed = evidence.slice(0, MAX_EVIDENCE).map(plain)
  const more = evidence.length - listed.length
  return [
    `${status.padEnd(14)} ${id} ${level.padEnd(9)} ${text}`,
    ...listed.map((each) => `${INDENT}${each}`),
    ...(more > 0 ? [`${INDENT}and ${more} more`] : []),
    ...(fix === undefined ? [] : [`${INDENT}fix: ${fix}`]),
  ]
}

function missingFactLine({ key, text, said: configured, of }: AuditReport['owner'][number]): string {
  const many = key.startsWith('tools.') ? ` (set for ${configured} of ${of})` : ''
  return `  ${key.padEnd(17)} ${text}${many}`
}

const INDENT = ' '.repeat(15)

/** Removes control characters, so that text of a server cannot control the terminal. */
function plain(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}]/gu, ' ').slice(0, 300)
}
