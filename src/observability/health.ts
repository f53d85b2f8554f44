/** Readiness: the state of servers, store and keys. */
import type { Probe, Probes } from '../core/log.ts'

/** How a part of the gateway does; why it fails is for the log alone. */
type Check = 'ok' | 'failing' | 'starting'

interface Parts {
  /** Every server was tried once. */
  readonly isWarm: boolean
  readonly upstreams: ReadonlyMap<string, { readonly problem?: string; readonly revision?: string }>
  /** The other parts, by name. */
  readonly probes: Probes
}

/** What `/ready` answers. */
export interface Readiness {
  readonly isReady: boolean
  readonly checks: Readonly<Record<string, Check | Readonly<Record<string, Check>>>>
}

/** Calls can be served once each server was tried, one at least can be reached, and every needed part works. */
export async function readiness({ isWarm, upstreams, probes }: Parts): Promise<Readiness> {
  const servers = [...upstreams].map(([name, status]) => [name, checkOf(status)] as const)
  const others = await Promise.all(
    Object.entries(probes).map(async ([name, probe]) => [name, await probed(probe)] as const),
  )
  const isServed = [...upstreams.values()].some(({ problem }) => problem === undefined)
  return {
    isReady:
      isWarm &&
      isServed &&
      others.every(([name, check]) => check === 'ok' || probes[name]?.isNeeded === false),
    checks: { upstreams: Object.fromEntries(servers), ...Object.fromEntries(others) },
  }
}

/** How a server does, by how the last attempt to reach it ended. */
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
