// Everything that runs for one launch: servers, bare programs, and gateways of all builds.
import { fileURLToPath } from 'node:url'
import type { Build } from './builds.ts'
import type { Tool } from './client.ts'
import { bearer, isProtected, type Setup, type Upstream } from './gateway-config.ts'
import { type LaunchGateway, launchOf, launchStandIn } from './gateway.ts'
import { launchScript, type Running } from './launch.ts'
import type { Shape } from './measure.ts'
import type { Options } from './options.ts'
import type { Pinning } from './pin.ts'
import { childrenOf } from './process-stats.ts'
import { hasRedis, launchRedis } from './redis.ts'
import type { Era } from './reply.ts'
import { chosen, type Server, shapesOf, type TargetKind, targets } from './targets.ts'

/** Something that answers calls, and which processes pay for it; the server itself has none. */
export interface Target {
  readonly name: string
  /** Absent if it is the working copy, or no gateway. */
  readonly build?: string
  readonly url: string
  readonly era: Era
  readonly pids: readonly number[]
  /** The token it wants. */
  readonly token?: string
  /** The tool that is called, `get_text` if absent. */
  readonly tool?: Tool
  /** Each call has an idempotency key of its own. */
  readonly isKeyed?: true
  readonly shapes: readonly Shape[]
}

/** What targets are made of. */
export interface Ground {
  readonly folder: string
  readonly options: Options
  /** The first one is the working copy. */
  readonly builds: readonly [Build, ...Build[]]
  readonly pin?: Pinning | undefined
}

const stdioCommand = [process.execPath, fileURLToPath(new URL('upstream.ts', import.meta.url)), '--stdio']
const serverArguments = { legacy: [], modern: ['--era', 'modern'], events: ['--events'] } as const

/** The processes of one launch. What cannot run is left out with a note. */
export class Field {
  readonly targets: Target[] = []
  readonly notes: string[] = []
  readonly #ground: Ground
  readonly #running: Running[] = []
  readonly #servers = new Map<Server, Upstream>()
  readonly #hasRedis = hasRedis()

  constructor(ground: Ground) {
    this.#ground = ground
  }

  async start(): Promise<void> {
    const { options, builds } = this.#ground
    for (const name of chosen(options.only)) {
      const kind = targets[name]
      if (kind === undefined) continue
      const { setup } = kind
      if (setup === undefined) await this.#startBare(name, kind)
      else for (const build of builds) await this.#startGateway(name, { ...kind, setup }, build)
    }
  }

  /** The milliseconds until `/health` answers, of gateways that end then. */
  async startTimes(times: number): Promise<number[]> {
    const { folder, builds } = this.#ground
    const upstream = await this.#server('legacy')
    const took: number[] = []
    for (let time = 0; time < times; time++) {
      const start = { folder: `${folder}/start-${time}`, setup: 'none', path: '/health' } as const
      const started = performance.now()
      const running = await this.#launcher(builds[0])(upstream, start)
      took.push(performance.now() - started)
      await running.stop()
    }
    return took
  }

  async stop(): Promise<void> {
    await Promise.all(this.#running.map((each) => each.stop()))
  }

  async #startBare(name: string, kind: TargetKind): Promise<void> {
    const upstream = await this.#server(kind.server)
    if (name === 'direct') {
      if ('url' in upstream) this.#add(name, kind, { url: upstream.url })
      return
    }
    this.#add(name, kind, await this.#keep(launchStandIn(upstream, { folder: '', setup: 'none' })))
  }

  /** An earlier build that refuses its configuration, or does not start, is left out. */
  async #startGateway(
    name: string,
    kind: TargetKind & { readonly setup: Setup },
    build: Build,
  ): Promise<void> {
    const { folder, options } = this.#ground
    if (options.standIn && kind.client !== eraOf(kind.server))
      return this.#leaveOut(name, 'a stand-in translates nothing')
    if (kind.setup === 'keyed-redis' && !this.#hasRedis)
      return this.#leaveOut(name, 'there is no redis-server')
    const own = `${folder}/${name}-${build.commit}`
    try {
      const upstream = await this.#server(kind.server)
      const redis = kind.setup === 'keyed-redis' ? await this.#startRedis(`${own}-redis`) : undefined
      const start = { folder: own, setup: kind.setup, redisUrl: redis }
      this.#add(name, kind, await this.#keep(this.#launcher(build)(upstream, start)), build.name)
    } catch (error) {
      if (build.name === undefined) throw error
      this.#leaveOut(`${name} of ${build.name}`, error instanceof Error ? error.message : String(error))
    }
  }

  #leaveOut(name: string, reason: string): void {
    this.notes.push(`${name} is left out: ${reason}`)
  }

  #add(
    name: string,
    kind: TargetKind,
    serving: { readonly url: string; readonly pid?: number },
    build?: string,
  ): void {
    const { pin, options } = this.#ground
    const pids = serving.pid === undefined ? [] : [serving.pid]
    for (const pid of pids) {
      pin?.measured(pid)
      // The server that it started on stdio is no part of it.
      for (const child of childrenOf(pid)) pin?.others(child)
    }
    this.targets.push({
      name,
      ...(build !== undefined && { build }),
      url: serving.url,
      era: kind.client,
      pids,
      ...(kind.setup && isProtected(kind.setup) && { token: bearer() }),
      ...(kind.tool && { tool: kind.tool }),
      ...(kind.isKeyed && { isKeyed: true }),
      shapes: shapesOf(kind, options.quick),
    })
  }

  /** Starts a server the first time that it is needed. One on stdio is started by what stands in front of it. */
  async #server(kind: Server): Promise<Upstream> {
    if (kind === 'stdio') return { command: stdioCommand }
    const known = this.#servers.get(kind)
    if (known) return known
    const server = await this.#keep(launchScript('upstream.ts', serverArguments[kind]))
    this.#ground.pin?.others(server.pid)
    this.#servers.set(kind, server)
    return server
  }

  async #startRedis(folder: string): Promise<string> {
    const redis = await this.#keep(launchRedis(folder))
    this.#ground.pin?.others(redis.pid)
    return redis.url
  }

  #launcher(build: Build): LaunchGateway {
    return this.#ground.options.standIn ? launchStandIn : launchOf(build)
  }

  async #keep<Kind extends Running>(starting: Promise<Kind>): Promise<Kind> {
    const running = await starting
    this.#running.push(running)
    return running
  }
}

function eraOf(server: Server): Era {
  return server === 'modern' ? 'modern' : 'legacy'
}
