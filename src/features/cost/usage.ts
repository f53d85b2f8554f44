/** Adds to results what a call consumed and what remains. */
import { NS } from '../../core/identity.ts'
import { world } from '../../core/world.ts'
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { type RateLimitStatus, rateLimitSlot } from '../../core/exchange.ts'
import type { Cost, RemainingQuota, Quota } from '../../core/descriptor.ts'
import { settingOf } from '../../core/settings.ts'
import { quotaData } from '../../descriptions/model/facts.ts'
import type { Feature } from '../feature.ts'
import { REMAINING_FIELD } from './cost.ts'
import { usageSchema } from '../settings/admit.ts'

/** The `_meta` key of a call's usage. */
const META_KEY = `${NS}/usage`

/** Reports what a call consumed if it has a cost or a limit; other results pass unchanged. */
export const usage: Feature<Record<never, never>> = {
  ...usageSchema,
  create: (_settings, { servers: { settings: server, quota } }) => ({
    calls: {
      middleware: ({ upstream, method, name, isBuiltin }) => {
        if (method !== 'tools/call' || isBuiltin || upstream === undefined || name === undefined)
          return undefined
        const { tools = {}, reach } = server(upstream) ?? {}
        const cost = settingOf(tools, name, 'cost')?.value
        const known = { cost, serverQuota: () => quota(upstream) }
        if (cost || settingOf(tools, name, 'rate')) return (next) => (call) => measured(call, next, known)
        if (reach?.kind !== 'url') return undefined
        return (next) => (call) => {
          const start = world.monotonic()
          return next(call).then((outcome) => {
            const left = quota(upstream)
            if (!left || call.internal) return outcome
            return withUsage(outcome, { took: world.monotonic() - start, left: { ...left, of: 'server' } })
          })
        }
      },
      dryRun: 'absent', // nothing was used
    },
  }),
}

interface UsageSources {
  readonly cost: Cost | undefined
  serverQuota(): Quota | undefined
}

interface Usage {
  readonly took: number
  readonly units?: number | undefined
  readonly label?: string | undefined
  readonly left?: RemainingQuota | undefined
}

async function measured(call: Call, next: Handler, { cost, serverQuota }: UsageSources): Promise<Outcome> {
  if (call.internal) return next(call)
  const start = world.monotonic()
  const reporter = rateLimitSlot.of(call)
  let status: RateLimitStatus | undefined
  const report = (each: RateLimitStatus): void => {
    status = each
    reporter?.reportRateLimit?.(each)
  }
  const outcome = await next(rateLimitSlot.set(call, { ...reporter, reportRateLimit: report }))
  const server = serverQuota()
  return withUsage(outcome, {
    took: world.monotonic() - start,
    units: call.logFields.get('replayed') === true || cost?.category === 'free' ? 0 : unitsOf(cost, call),
    label: cost?.label,
    left: ofBudget(call) ?? ofLimit(status) ?? (server && { ...server, of: 'server' }),
  })
}

/** Unfinished or failed calls may not have cost anything: nothing is reported for them. */
function withUsage(outcome: Outcome, { took, units, label, left }: Usage): Outcome {
  if (outcome.kind !== 'result' || outcome.result.member('isError') === true) return outcome
  const usageData = {
    ...(units !== undefined && { units }),
    ...(label !== undefined && { unit_label: label }),
    duration_ms: Math.round(took),
    ...(left && { quota: quotaData(left) }),
  }
  return { kind: 'result', result: outcome.result.withMeta({ [META_KEY]: usageData }) }
}

/** Each page that was collected costs as much. */
function unitsOf(cost: Cost | undefined, { logFields }: Call): number | undefined {
  const pages = logFields.get('pages')
  return cost?.units === undefined || typeof pages !== 'number' ? cost?.units : cost.units * pages
}

function ofBudget({ logFields }: Call): RemainingQuota | undefined {
  // Set only by the caller's account.
  const left = logFields.get(REMAINING_FIELD) as Quota | undefined
  return left && { ...left, of: 'budget' }
}

function ofLimit(status: RateLimitStatus | undefined): RemainingQuota | undefined {
  if (!status) return undefined
  const { remaining, reset } = status
  return { remaining, resetsAt: world.now() + reset * 1000, of: 'limit' }
}
