/** What is left of the limits that apply to the calls of a caller. */
import type { Target } from '../core/call.ts'
import type { Quota, RemainingQuota } from '../core/descriptor.ts'
import type { Principal } from '../core/principal.ts'
import type { ActiveFeature } from './features.ts'

interface QuotaRequest {
  readonly principal: Principal
  /** The server, and the name of its tool on that server. */
  readonly upstream: string | undefined
  readonly name: string | undefined
  /** The remaining rate limit that a server reports. */
  quota(upstream: string): Quota | undefined
}

/**
 * The remaining quota of a caller: of its budget if calls have a cost, else of the most restrictive limit of the
 * gateway or the server.
 */
export async function remainingQuotaOf(
  active: readonly ActiveFeature[],
  { principal, upstream, name, quota }: QuotaRequest,
): Promise<RemainingQuota | undefined> {
  const target: Target = {
    method: 'tools/call',
    ...(upstream !== undefined && { upstream }),
    ...(name !== undefined && { name }),
  }
  const limits = await Promise.all(
    active.map(async ({ instance, isOn }) =>
      // Omitted if the store with the counters is unavailable.
      isOn(upstream) ? instance.remainingQuota?.(target, principal).catch(() => undefined) : undefined,
    ),
  )
  const server = upstream === undefined ? undefined : quota(upstream)
  const all = [
    ...limits.flatMap((each) => each ?? []),
    ...(server ? [{ ...server, of: 'server' } as const] : []),
  ]
  const [lowest] = all.toSorted((one, other) => one.remaining - other.remaining)
  return all.find((each) => each.of === 'budget') ?? lowest
}
