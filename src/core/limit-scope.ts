import { canonical } from './json.ts'

/** What limits the calls to a server: what holds for those to all servers together, and what for its own alone. */
export interface LimitScope<Limit> {
  readonly together?: Limit
  readonly alone?: Limit
}

/** How often each caller may call where nothing is configured, and callers are told apart or the profile is `corporate`. */
export const DEFAULT_RATE = '60/minute'

/**
 * Which limits hold, from what is configured for all and for one server. One that is configured for the server
 * stands beside that for all, and in place of the one that holds where nothing is configured.
 */
export function limitScope<Limit>(
  common: Limit | 'off' | undefined,
  own: Limit | 'off' | undefined,
  unsaid: Limit | undefined,
): LimitScope<Limit> {
  if (own === 'off') return {}
  // What a server has from that for all is the same list in another copy.
  const isOwn = own !== undefined && canonical(own) !== canonical(common)
  const together = common ?? (isOwn ? undefined : unsaid)
  return {
    ...(together !== undefined && together !== 'off' && { together }),
    ...(isOwn && { alone: own }),
  }
}
