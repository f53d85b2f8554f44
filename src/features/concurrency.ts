/** Limits concurrent calls, globally and per caller. */
import { isGuarded } from '../core/settings.ts'
import { GatewayError } from '../core/error.ts'
import { limitScope } from '../core/principal.ts'
import { isListening, isPage, isVendorRequest } from '../protocol/methods.ts'
import type { Feature } from './feature.ts'
import { type ConcurrencySettings, DEFAULT_MAX_CALLS, concurrencySchema } from './settings/admit.ts'

/** Requests that are work for a server. Lists are one request to all servers, and subscriptions are idle. */
const counted: ReadonlySet<string> = new Set([
  'tools/call',
  'prompts/get',
  'resources/read',
  'completion/complete',
])

/** Limits how many calls each caller may have in flight in this process. Calls that wait for a person do not count. */
export const concurrency: Feature<ConcurrencySettings> = {
  ...concurrencySchema,
  create: (settings, { gateway }) => {
    /** How many calls of each caller run, at all servers and at each. */
    const all = new Map<string, number>()
    const each = new Map<string, Map<string, number>>()
    return {
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
          if (together !== undefined) limits.push({ limit: together, running: all, scope: 'principal' })
          if (alone !== undefined && upstream !== undefined) {
            const running = each.get(upstream) ?? new Map<string, number>()
            each.set(upstream, running)
            limits.push({ limit: alone, running, scope: 'upstream' })
          }
          if (limits.length === 0) return undefined
          return (next) => async (call) => {
            // An internal call is part of a counted call, or cleans up after one.
            if (call.internal) return next(call)
            const { id } = call.principal
            for (const { limit, running, scope } of limits)
              if ((running.get(id) ?? 0) >= limit) throw refusal(limit, scope)
            for (const { running } of limits) running.set(id, (running.get(id) ?? 0) + 1)
            try {
              return await next(call)
            } finally {
              for (const { running } of limits) release(running, id)
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
  /** How many run, by the id of the caller. */
  readonly running: Map<string, number>
  readonly scope: 'principal' | 'upstream'
}

function release(running: Map<string, number>, caller: string): void {
  const left = (running.get(caller) ?? 0) - 1
  if (left > 0) running.set(caller, left)
  else running.delete(caller)
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
