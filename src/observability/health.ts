/** Readiness: the state of servers, store and keys. */
import type { Probe, Probes } from '../core/log.ts'

/** The state of a dependency; the reason of a failure is only in the log. */
type Check = 'ok' | 'failing' | 'starting'

interface Parts {
  /** Whether every server was tried once. */
  readonly hasStarted: boolean
  readonly upstreams: ReadonlyMap<string, { readonly problem?: string; readonly revision?: string }>
  /** The other dependencies, by name. */
  readonly probes: Probes
}

/** The result of `/ready`. */
export interface Readiness {
  readonly isReady: boolean
  readonly checks: Readonly<Record<string, Check | Readonly<Record<string, Check>>>>
}

/** Calls can be served once each server was tried, at least one is reachable, and every required dependency works. */
export async function readiness({ hasStarted, upstreams, probes }: Parts): Promise<Readiness> {
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
  }
}

/** The state of a server, by its last connection attempt. */
export function checkOf({
  problem,
  revision,
}: {
  readonly problem?: string
  readonly revision?: string
}): Check {
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
