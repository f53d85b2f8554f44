/** Limits concurrent calls, globally and per caller. */
import { isGuarded } from '../core/settings.ts'
import { GatewayError } from '../core/error.ts'
import { limitScope } from '../core/principal.ts'
import { Registry } from '../core/registry.ts'
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
    const running = new Registry<string, { count: number }>()
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
          const limits = [
            ...(together === undefined ? [] : [{ limit: together, of: '' }]),
            ...(alone === undefined ? [] : [{ limit: alone, of: `${upstream} ` }]),
          ]
          if (limits.length === 0) return undefined
          return (next) => (call) => {
            // An internal call is part of a counted call, or cleans up after one.
            if (call.internal) return next(call)
            const keys = limits.map(({ of }) => of + call.principal.id)
            const full = limits.find(
              ({ limit }, index) => (running.get(keys[index] ?? '')?.count ?? 0) >= limit,
            )
            if (full) return Promise.reject(refusal(full.limit, full.of === '' ? 'principal' : 'upstream'))
            for (const key of keys) acquire(running, key)
            return next(call).finally(() => {
              for (const key of keys) release(running, key)
            })
          }
        },
        dryRun: 'same',
      },
    }
  },
}

function acquire(running: Registry<string, { count: number }>, key: string): void {
  const found = running.get(key)
  if (found) found.count++
  else running.set(key, { count: 1 })
}

function release(running: Registry<string, { count: number }>, key: string): void {
  const found = running.get(key)
  if (found && --found.count === 0) running.delete(key)
}

function refusal(limit: number, scope: string): GatewayError {
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
