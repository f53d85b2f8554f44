/** Readiness: the state of servers, store and keys. */
import type { Probe, Probes } from '../core/log.ts'

/** The state of a dependency; the reason of a failure is only in the log. */
type Check = 'ok' | 'failing' | 'starting'

/** What the readiness of a gateway depends on. */
interface Dependencies {
  /** Whether every server was tried once. */
  readonly hasStarted: boolean
  readonly upstreams: ReadonlyMap<string, ServerState>
  /** The other dependencies, by name. */
  readonly probes: Probes
  /** Whether an operator paused writes. */
  readonly isPaused?: boolean
}

/** A server by its last connection attempt. */
interface ServerState {
  readonly problem?: string
  readonly revision?: string
}

/** The result of `/ready`. */
interface Readiness {
  readonly isReady: boolean
  readonly checks: Readonly<Record<string, Check | Readonly<Record<string, Check>>>>
  /** Set while writes are paused, which takes nothing away from readiness: reads are served. */
  readonly writes?: 'paused'
}

/** Calls can be served once each server was tried, at least one is reachable, and every required dependency works. */
export async function readiness({
  hasStarted,
  upstreams,
  probes,
  isPaused = false,
}: Dependencies): Promise<Readiness> {
  const servers = [...upstreams].map(([name, status]) => [name, checkOf(status)] as const)
  const others = await Promise.all(
    Object.entries(probes).map(async ([name, probe]) => [name, await probed(probe)] as const),
  )
  const isServed = [...upstreams.values()].some(({ problem }) => problem === undefined)
  return {
    isReady:
      hasStarted &&
      isServed &&
      others.every(([name, check]) => check === 'ok' || probes[name]?.isNeeded === false),
    checks: { upstreams: Object.fromEntries(servers), ...Object.fromEntries(others) },
    ...(isPaused && { writes: 'paused' }),
  }
}

/** The state of a server, by its last connection attempt. */
export function checkOf({ problem, revision }: ServerState): Check {
  if (problem !== undefined) return 'failing'
  return revision === undefined ? 'starting' : 'ok'
}

async function probed(probe: Probe): Promise<Check> {
  try {
    return (await probe.works()) ? 'ok' : 'failing'
  } catch {
    return 'failing'
  }
}
