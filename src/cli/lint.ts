/** `gatehouse lint`: checks a server against the corporate profile. */
import { environment } from '../config/secrets.ts'
import { isProtected } from '../core/auth-settings.ts'
import { featureSettings, type Settings, type UpstreamSettings } from '../core/settings.ts'
import { Gateway, openLog } from '../gateway/gateway.ts'
import { audit } from '../lint/audit.ts'
import { printed } from '../lint/print.ts'
import { gather, type Subject } from '../lint/subject.ts'
import { looking } from './named-server.ts'
import { readOptions, readSource, serverNamed, UsageError } from './options.ts'

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
