/** Limits the calls in flight, for all callers and for each. */
import { GatewayError } from '../core/error.ts'
import { limitScope } from '../core/principal.ts'
import { Registry } from '../core/registry.ts'
import { isPage, isVendorRequest } from '../protocol/methods.ts'
import type { Feature } from './feature.ts'

interface Settings {
  readonly concurrency?: number | 'off'
}

/** What holds where nothing is configured and callers are told apart. */
const DEFAULT_MAX_CALLS = 8

/** What a server works on. Lists are one request to all servers, and what listens does not work. */
const counted: ReadonlySet<string> = new Set([
  'tools/call',
  'prompts/get',
  'resources/read',
  'completion/complete',
])

/** Bounds how many calls each caller may have under way in this process. One that waits for a person is not. */
export const concurrency: Feature<Settings> = {
  name: 'concurrency',
  place: 'limits',
  schema: {
    type: 'object',
    properties: {
      concurrency: {
        type: ['integer', 'string'],
        minimum: 1,
        pattern: '^off$',
        errorMessage: 'must be off, or a whole number from 1',
        description: `How many calls each caller may have under way at once; more are refused. Counted by each gateway process. Where it is not given, ${DEFAULT_MAX_CALLS} with authentication or the corporate profile, else off.`,
      },
    },
  },
  create: (settings, { gateway: { isGuarded } }) => {
    const running = new Registry<string, { count: number }>()
    return {
      middleware: ({ upstream, method }) => {
        // Programs read many pages of the gateway at once, and no server works on them.
        if (isPage(method) || (!counted.has(method) && !isVendorRequest(method))) return undefined
        const own = upstream === undefined ? undefined : settings(upstream).concurrency
        const { together, alone } = limitScope(
          settings().concurrency,
          own,
          isGuarded ? DEFAULT_MAX_CALLS : undefined,
        )
        const limits = [
          ...(together === undefined ? [] : [{ limit: together, of: '' }]),
          ...(alone === undefined ? [] : [{ limit: alone, of: `${upstream} ` }]),
        ]
        if (limits.length === 0) return undefined
        return (next) => (call) => {
          // An internal call is part of a call that has a place, or clears up after one.
          if (call.internal) return next(call)
          const keys = limits.map(({ of }) => of + call.principal.id)
          const full = limits.find(
            ({ limit }, index) => (running.get(keys[index] ?? '')?.count ?? 0) >= limit,
          )
          if (full) return Promise.reject(refusal(full.limit, full.of === '' ? 'principal' : 'upstream'))
          for (const key of keys) enter(running, key)
          const free = (): void => {
            for (const key of keys) leave(running, key)
          }
          return next(call).then(
            (outcome) => {
              free()
              return outcome
            },
            (error: unknown) => {
              free()
              throw error
            },
          )
        }
      },
    }
  },
}

function enter(running: Registry<string, { count: number }>, key: string): void {
  const found = running.get(key)
  if (found) found.count++
  else running.set(key, { count: 1 })
}

function leave(running: Registry<string, { count: number }>, key: string): void {
  const found = running.get(key)
  if (found && --found.count === 0) running.delete(key)
}

function refusal(limit: number, scope: string): GatewayError {
  return new GatewayError('OVERLOADED', `Too many calls at once: each caller may have ${limit} under way.`, {
    suggestion: 'Wait for one of them to end.',
    retryAfterSeconds: 1,
    details: { limit, remaining: 0, scope },
    status: 429,
  })
}
