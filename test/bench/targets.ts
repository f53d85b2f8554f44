import { fileURLToPath } from 'node:url'
import { hasNginx, launchNginx } from './nginx.ts'
import { isBuilt, launchBuilt, launchStandIn, type LaunchGateway } from './gateway.ts'
import { launchScript, type Running, type Serving } from './launch.ts'
import { bearer, type Guard } from './gateway-config.ts'
import type { Shape } from './measure.ts'
import type { Options } from './options.ts'
import { childrenOf } from './process-stats.ts'
import type { Era } from './reply.ts'

/** Something that answers calls, and which processes pay for it; the direct upstream has none. */
export interface Target {
  readonly name: string
  readonly url: string
  readonly era: Era
  readonly pids: readonly number[]
  /** The token it wants. */
  readonly token?: string
  /** Calls write, each with an idempotency key of its own. */
  readonly isKeyed?: true
  /** The shapes of load it meets, where not all. */
  readonly shapes?: readonly Shape[]
}

/** Everything that runs for a benchmark. */
export interface Field {
  readonly targets: readonly Target[]
  readonly notes: readonly string[]
  readonly gateway?: { readonly launch: LaunchGateway; readonly upstreamUrl: string }
  stop(): Promise<void>
}

/** Starts upstreams, baselines and the gateway; what cannot run is left out with a note. */
export async function startField(folder: string, options: Options): Promise<Field> {
  const running: Running[] = []
  const stop = async () => void (await Promise.all(running.map((each) => each.stop())))
  try {
    const keep = async (starting: Promise<Serving>) => {
      const serving = await starting
      running.push(serving)
      return serving
    }
    return { ...(await start(folder, options, keep)), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** As many calls at once as a budget is about, and half as many. */
const full: Shape = { concurrency: 16, bytes: 1024 }
const half: Shape = { concurrency: 8, bytes: 1024 }

/** The gateways beside those that do nothing of their own, each with its targets and where they are. */
const guards: readonly (readonly [Guard, Readonly<Record<string, string>>])[] = [
  ['guarded', { 'gateway-guarded': '' }],
  // Two processes started alike differ by more than descriptions may cost: one is measured, with and without them.
  ['full', { 'gateway-full': '/bench', 'gateway-undescribed': '/undescribed' }],
  ['keyed', { 'gateway-keyed': '' }],
  ['plain', { 'gateway-plain': '' }],
  ['safe', { 'gateway-safe': '' }],
]
const tokened = new Set(['gateway-guarded', 'gateway-full', 'gateway-undescribed'])
const comparedAtFull = new Set(['gateway-full', 'gateway-undescribed', 'gateway-plain', 'gateway-safe'])

type Keep = (starting: Promise<Serving>) => Promise<Serving>

async function start(folder: string, options: Options, keep: Keep): Promise<Omit<Field, 'stop'>> {
  const targets: Target[] = []
  const notes: string[] = []
  const isWanted = (name: string) => options.only?.includes(name) ?? true
  const add = (name: string, serving: Serving, era: Era, pids = [serving.pid]) =>
    isWanted(name) &&
    targets.push({
      name,
      url: serving.url,
      era,
      pids,
      ...(tokened.has(name) && { token: bearer() }),
      ...(name === 'gateway-keyed' && { isKeyed: true as const, shapes: [half, full] }),
      ...(comparedAtFull.has(name) && { shapes: [full] }),
    })

  const stdioCommand = [process.execPath, fileURLToPath(new URL('upstream.ts', import.meta.url)), '--stdio']
  const legacy = await keep(launchScript('upstream.ts'))
  const modern = await keep(launchScript('upstream.ts', ['--era', 'modern']))

  add('direct', legacy, 'legacy', [])
  if (hasNginx() && isWanted('nginx')) {
    const nginx = await keep(launchNginx(`${folder}/nginx`, legacy.url))
    add('nginx', nginx, 'legacy', [nginx.pid, ...childrenOf(nginx.pid)])
  } else if (isWanted('nginx')) notes.push('nginx is not installed: left out')

  add('pass-through', await keep(launchScript('pass-through.ts', [legacy.url])), 'legacy')
  // A modern client's requests have more headers and longer bodies, whoever passes them on.
  add('pass-through-modern', await keep(launchScript('pass-through.ts', [modern.url])), 'modern')
  const launch = gatewayLauncher(options)
  if (launch) {
    const http = await keep(launch(`${folder}/legacy`, { url: legacy.url }, '/ready'))
    add('gateway-legacy', http, 'legacy')
    if (options.standIn) notes.push('stand-in: no gateway-modern, a pass-through translates nothing')
    else add('gateway-modern', http, 'modern')
    for (const [guard, addresses] of options.standIn ? [] : guards) {
      const wanted = Object.entries(addresses).filter(([name]) => isWanted(name))
      if (wanted.length === 0) continue
      const own = await keep(launch(`${folder}/${guard}`, { url: legacy.url }, '/ready', guard))
      for (const [name, path] of wanted) add(name, { ...own, url: `${own.url}${path}` }, 'legacy')
    }
    const modernHttp = await keep(launch(`${folder}/modern`, { url: modern.url }, '/ready'))
    add('gateway-modern-modern', modernHttp, 'modern')
  } else notes.push('dist/main.js is not built: the gateway is left out')

  add('line-mux', await keep(launchScript('line-mux.ts', stdioCommand)), 'legacy')
  if (!launch) return { targets, notes }
  add('gateway-stdio', await keep(launch(`${folder}/stdio`, { command: stdioCommand }, '/ready')), 'legacy')
  return { targets, notes, gateway: { launch, upstreamUrl: legacy.url } }
}

function gatewayLauncher(options: Options): LaunchGateway | undefined {
  if (options.standIn) return launchStandIn
  return isBuilt() ? launchBuilt : undefined
}
