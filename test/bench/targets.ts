import { fileURLToPath } from 'node:url'
import { mkdirSync } from 'node:fs'
import type { Build } from './builds.ts'
import { hasNginx, launchNginx } from './nginx.ts'
import { launchOf, launchStandIn, type LaunchGateway } from './gateway.ts'
import { launchScript, type Running, type Serving } from './launch.ts'
import { bearer, type Guard } from './gateway-config.ts'
import type { Shape } from './measure.ts'
import type { Options } from './options.ts'
import type { Pinning } from './pin.ts'
import { childrenOf } from './process-stats.ts'
import type { Era } from './reply.ts'

/** Something that answers calls, and which processes pay for it; the direct upstream has none. */
export interface Target {
  readonly name: string
  /** Absent if it is the working copy, or no gateway. */
  readonly build?: string
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
  readonly launch: LaunchGateway
  readonly upstreamUrl: string
  stop(): Promise<void>
}

/** What targets are made of. */
export interface Ground {
  readonly folder: string
  readonly options: Options
  /** The first one is the working copy. */
  readonly builds: readonly [Build, ...Build[]]
  readonly pin?: Pinning | undefined
}

/** Which target each target is compared with. */
export const baselines: Readonly<Record<string, string>> = {
  nginx: 'pass-through',
  'gateway-legacy': 'pass-through',
  'gateway-guarded': 'pass-through',
  'gateway-full': 'pass-through',
  'gateway-undescribed': 'pass-through',
  'gateway-keyed': 'pass-through',
  'gateway-plain': 'pass-through',
  'gateway-safe': 'pass-through',
  'gateway-modern': 'pass-through-modern',
  'gateway-modern-modern': 'pass-through-modern',
  'gateway-stdio': 'line-mux',
}

/** Starts upstreams, baselines and gateways; what cannot run is left out with a note. */
export async function startField(ground: Ground): Promise<Field> {
  const running: Running[] = []
  const stop = async () => void (await Promise.all(running.map((each) => each.stop())))
  try {
    const keep = async (starting: Promise<Serving>) => {
      const serving = await starting
      running.push(serving)
      return serving
    }
    return { ...(await start(ground, keep)), stop }
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

async function start(ground: Ground, keep: Keep): Promise<Omit<Field, 'stop'>> {
  const { folder, options, builds, pin } = ground
  const targets: Target[] = []
  const notes: string[] = []
  const isWanted = (name: string) => options.only?.includes(name) ?? true
  const add = (
    name: string,
    serving: Serving,
    era: Era,
    { pids = [serving.pid], build }: { readonly pids?: readonly number[]; readonly build?: Named } = {},
  ) => {
    if (!isWanted(name)) return
    for (const pid of pids) pin?.measured(pid)
    targets.push({
      name,
      ...build,
      url: serving.url,
      era,
      pids,
      ...(tokened.has(name) && { token: bearer() }),
      ...(name === 'gateway-keyed' && { isKeyed: true as const, shapes: [half, full] }),
      ...(comparedAtFull.has(name) && { shapes: [full] }),
    })
  }

  const stdioCommand = [process.execPath, fileURLToPath(new URL('upstream.ts', import.meta.url)), '--stdio']
  const legacy = await keep(launchScript('upstream.ts'))
  const modern = await keep(launchScript('upstream.ts', ['--era', 'modern']))
  for (const { pid } of [legacy, modern]) pin?.others(pid)

  add('direct', legacy, 'legacy', { pids: [] })
  if (hasNginx() && isWanted('nginx')) {
    const nginx = await keep(launchNginx(`${folder}/nginx`, legacy.url))
    add('nginx', nginx, 'legacy', { pids: [nginx.pid, ...childrenOf(nginx.pid)] })
  } else if (isWanted('nginx')) notes.push('nginx is not installed: left out')

  add('pass-through', await keep(launchScript('pass-through.ts', [legacy.url])), 'legacy')
  // A modern client's requests have more headers and longer bodies, whoever passes them on.
  add('pass-through-modern', await keep(launchScript('pass-through.ts', [modern.url])), 'modern')
  const mux = await keep(launchScript('line-mux.ts', stdioCommand))
  add('line-mux', mux, 'legacy')

  /** Of a build that refuses its configuration, or does not start, this is left out. */
  const from = async (build: Build, starting: () => Promise<void>) => {
    if (build.name === undefined) return starting()
    await starting().catch((error: unknown) => {
      notes.push(`${build.name}: left out, ${error instanceof Error ? error.message : String(error)}`)
    })
  }
  for (const build of builds) {
    const launch = options.standIn ? launchStandIn : launchOf(build)
    const named = { build: build.name === undefined ? {} : { build: build.name } }
    const own = `${folder}/${build.commit}`
    mkdirSync(own, { recursive: true })
    const modes = ['gateway-legacy', 'gateway-modern'].some(isWanted)
    if (modes)
      await from(build, async () => {
        const http = await keep(launch(`${own}/legacy`, { url: legacy.url }, '/ready'))
        add('gateway-legacy', http, 'legacy', named)
        if (!options.standIn) add('gateway-modern', http, 'modern', named)
      })
    for (const [guard, addresses] of options.standIn ? [] : guards) {
      const wanted = Object.entries(addresses).filter(([name]) => isWanted(name))
      if (wanted.length === 0) continue
      await from(build, async () => {
        const serving = await keep(launch(`${own}/${guard}`, { url: legacy.url }, '/ready', guard))
        for (const [name, path] of wanted)
          add(name, { ...serving, url: `${serving.url}${path}` }, 'legacy', named)
      })
    }
    if (isWanted('gateway-modern-modern'))
      await from(build, async () => {
        const serving = await keep(launch(`${own}/modern`, { url: modern.url }, '/ready'))
        add('gateway-modern-modern', serving, 'modern', named)
      })
    if (isWanted('gateway-stdio'))
      await from(build, async () => {
        const serving = await keep(launch(`${own}/stdio`, { command: stdioCommand }, '/ready'))
        add('gateway-stdio', serving, 'legacy', named)
        for (const pid of childrenOf(serving.pid)) pin?.others(pid)
      })
  }
  for (const pid of childrenOf(mux.pid)) pin?.others(pid)
  return {
    targets,
    notes,
    launch: options.standIn ? launchStandIn : launchOf(builds[0]),
    upstreamUrl: legacy.url,
  }
}

type Named = { readonly build?: string }
