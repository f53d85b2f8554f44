/** Limits concurrent calls, globally and per caller. */
import { isGuarded, isStoreShared } from '../core/settings.ts'
import { GatewayError } from '../core/error.ts'
import { limitScope } from '../core/principal.ts'
import { Permits } from '../durable/permits.ts'
import { isListening, isPage, isVendorRequest } from '../protocol/methods.ts'
import { callerHash } from '../records/principal.ts'
import type { Feature } from './feature.ts'
import { type ConcurrencySettings, DEFAULT_MAX_CALLS, concurrencySchema } from './settings/admit.ts'

/** Requests that are work for a server. Lists are one request to all servers, and subscriptions are idle. */
const counted: ReadonlySet<string> = new Set([
  'tools/call',
  'prompts/get',
  'resources/read',
  'completion/complete',
])

/** Limits how many calls each caller may have in flight. Calls that wait for a person do not count. */
export const concurrency: Feature<ConcurrencySettings> = {
  ...concurrencySchema,
  create: (settings, { gateway, identity: { membership }, store }) => {
    const permits = new Permits({ store, membership, isShared: isStoreShared(gateway.settings) })
    return {
      close: () => permits.close(),
      calls: {
        middleware: ({ upstream, method }) => {
          // Programs read many pages of the gateway at once, which is no work for servers.
          if (isPage(method) || isListening(method)) return undefined
          if (!counted.has(method) && !isVendorRequest(method)) return undefined
          const own = upstream === undefined ? undefined : settings(upstream).concurrency
          const { together, alone } = limitScope(
            settings().concurrency,
            own,
            isGuarded(gateway.settings) ? DEFAULT_MAX_CALLS : undefined,
          )
          const limits: Limit[] = []
          if (together !== undefined) limits.push({ limit: together, suffix: '', scope: 'principal' })
          if (alone !== undefined && upstream !== undefined)
            limits.push({ limit: alone, suffix: `:${encodeURIComponent(upstream)}`, scope: 'upstream' })
          if (limits.length === 0) return undefined
          return (next) => async (call) => {
            // An internal call is part of a counted call, or cleans up after one.
            if (call.internal) return next(call)
            const caller = callerHash(call.principal.id)
            const taken: string[] = []
            try {
              for (const { limit, suffix, scope } of limits) {
                const name = `${caller}${suffix}`
                const isTaken = permits.take(name, limit)
                if (!(isTaken instanceof Promise ? await isTaken : isTaken)) throw refusal(limit, scope)
                taken.push(name)
              }
              return await next(call)
            } finally {
              for (const name of taken) permits.return(name)
            }
          }
        },
        dryRun: 'same',
      },
    }
  },
}

/** How many calls of one caller may run. */
interface Limit {
  readonly limit: number
  /** What is counted: the part of the name of the permits after the caller. */
  readonly suffix: string
  readonly scope: 'principal' | 'upstream'
}

function refusal(limit: number, scope: Limit['scope']): GatewayError {
  return new GatewayError(
    'OVERLOADED',
    `Too many concurrent calls: each caller may have ${limit} in flight.`,
    {
      suggestion: 'Wait for one of them to finish.',
      retryAfterSeconds: 1,
      details: { limit, remaining: 0, scope },
      status: 429,
    },
  )
}
