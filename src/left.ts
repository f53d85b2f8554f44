import type { Active } from './active.ts'
import type { RemainingQuota, Quota } from './core/record.ts'
import type { Principal } from './core/principal.ts'
import type { Target } from './core/target.ts'

interface Asked {
  readonly principal: Principal
  /** The server, and its tool as it knows it. */
  readonly upstream: string | undefined
  readonly name: string | undefined
  /** What a server says is left of its own limit. */
  quota(upstream: string): Quota | undefined
}

/**
 * What is left to a caller to call: of its budget, where a call costs something; else of the limit that leaves it
 * least, be it one of the gateway or that of the server.
 */
export async function remainingQuotaOf(
  active: readonly Active[],
  { principal, upstream, name, quota }: Asked,
): Promise<RemainingQuota | undefined> {
  const target: Target = {
    method: 'tools/call',
    ...(upstream !== undefined && { upstream }),
    ...(name !== undefined && { name }),
  }
  const own = await Promise.all(
    active.map(async ({ contribution, isOn }) =>
      // Numbers are left out where the store that counts is away.
      isOn(upstream) ? contribution.remainingQuota?.(target, principal).catch(() => undefined) : undefined,
    ),
  )
  const server = upstream === undefined ? undefined : quota(upstream)
  const all = [
    ...own.flatMap((each) => each ?? []),
    ...(server ? [{ ...server, of: 'server' } as const] : []),
  ]
  const [least] = all.toSorted((one, other) => one.remaining - other.remaining)
  return all.find((each) => each.of === 'budget') ?? least
}
