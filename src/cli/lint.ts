/** `gatehouse lint`: checks a server against the corporate profile. */
import { environment } from '../config/secrets.ts'
import { isProtected } from '../core/auth-settings.ts'
import { featureSettings, type Settings, type UpstreamSettings } from '../core/settings.ts'
import { Gateway, openLog } from '../gateway/gateway.ts'
import { audit, type AuditReport, type Audited } from '../lint/audit.ts'
import { gather, type Subject } from '../lint/subject.ts'
import { looking, readOptions, readSource, serverNamed, UsageError } from './options.ts'

/** `gatehouse lint <server>`: holds a server against the rules of the corporate standard. */
export async function lint(args: readonly string[]): Promise<number> {
  const options = readOptions(args, ['config', 'log-level', 'json', 'strict'])
  const [upstream, ...others] = options.words
  if (upstream === undefined || others.length > 0)
    throw new UsageError('name one server of the configuration')
  const { settings } = readSource({ config: options.config, envFile: options.envFile })
  const own = serverNamed(upstream, settings)
  const only: Settings = { ...looking(settings, [own]), metaTools: 'off' }
  const subject = await look(bare(only), own)
  const shown = await look(only, own)
  const report = audit({ ...subject, guards: shown.guards }, shown)
  process.stdout.write(`${options.json ? JSON.stringify(report, null, 2) : printed(report)}\n`)
  return options.strict && report.summary.serious.length > 0 ? 1 : 0
}

/** Gathers what is to be known of a server behind a gateway with these settings. */
async function look(settings: Settings, own: UpstreamSettings): Promise<Subject> {
  const { name: upstream } = own
  const gateway = new Gateway(settings, { variables: environment(), log: openLog('error', true) })
  try {
    await gateway.start()
    const { problem, revision = 'an unknown revision' } = gateway.statuses.get(upstream) ?? {}
    if (problem !== undefined) throw new Error(`${upstream} cannot be audited: ${problem}`)
    const chain = gateway.chain({ upstream, method: 'tools/call', name: 'any' })
    const guards = new Map([
      ...chain.map(({ feature, settings: each }) => [feature, each] as const),
      ...describing(settings, upstream),
    ])
    return await gather(gateway.handle, {
      settings: own,
      revision,
      guards,
      isProtected: isProtected(settings.auth),
    })
  } finally {
    await gateway.close()
  }
}

/** The features that are on for a server and wrap none of its calls. */
function describing(settings: Settings, upstream: string): (readonly [string, unknown])[] {
  return ['agent_profile', 'complete', 'contract'].flatMap((name) => {
    const own = featureSettings(settings, name, upstream)
    return own === false ? [] : [[name, own] as const]
  })
}

/** Settings under which the gateway shows a server as it is. */
function bare(settings: Settings): Settings {
  return { ...settings, listen: { ...settings.listen, isStrict: false }, features: {} }
}

// The report of `gatehouse lint` as text.

/** How much evidence of one rule is printed. */
const SHOWN = 5

/** A report as text for people. */
function printed({ upstream, revision, assertions, summary, owner: words }: AuditReport): string {
  const { pass, repaired, fail, notApplicable, serious, owner } = summary
  const unsaid = words.filter(({ said, of }) => said < of)
  return [
    `${upstream}: speaks ${revision}, held against ${assertions.length} rules`,
    '',
    ...assertions.flatMap(linesOf),
    '',
    ...(unsaid.length > 0 ? [`only its owner knows, to be said under upstreams.${upstream}:`] : []),
    ...unsaid.map(unsaidLine),
    ...(unsaid.length > 0 ? [''] : []),
    `${pass} pass, ${repaired} repaired by the gateway, ${fail} fail, ${notApplicable} not applicable`,
    ...(serious.length > 0 ? [`broken, of what must or must not be: ${serious.join(' ')}`] : []),
    ...(owner.length > 0 ? [`only the owner of the server can say: ${owner.join(' ')}`] : []),
  ].join('\n')
}

function linesOf({ id, level, status, text, evidence, fix }: Audited): string[] {
  const shown = evidence.slice(0, SHOWN).map(plain)
  const more = evidence.length - shown.length
  return [
    `${status.padEnd(14)} ${id} ${level.padEnd(9)} ${text}`,
    ...shown.map((each) => `${INDENT}${each}`),
    ...(more > 0 ? [`${INDENT}and ${more} more`] : []),
    ...(fix === undefined ? [] : [`${INDENT}fix: ${fix}`]),
  ]
}

function unsaidLine({ key, text, said, of }: AuditReport['owner'][number]): string {
  const many = key.startsWith('tools.') ? ` (said of ${said} of ${of})` : ''
  return `  ${key.padEnd(17)} ${text}${many}`
}

const INDENT = ' '.repeat(15)

/** What a server wrote must not move the cursor of the terminal. */
function plain(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}]/gu, ' ').slice(0, 300)
}
