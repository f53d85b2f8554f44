/** Adds to results what a call took and what is left. */
import type { Call, Handler, Outcome, RateLimitStatus } from '../../core/call.ts'
import type { Cost, RemainingQuota, Quota } from '../../core/descriptor.ts'
import { settingOf } from '../../core/settings.ts'
import { quotaData } from '../../descriptions/model/facts.ts'
import { NS } from '../../protocol/meta-keys.ts'
import type { Feature } from '../feature.ts'
import { LEFT } from './cost.ts'

/** Where in `_meta` it stands what a call took. */
const META_KEY = `${NS}/usage`

/** Says what a call took of what costs or is limited; results of tools without a price pass unchanged. */
export const usage: Feature<Record<never, never>> = {
  name: 'usage',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    description:
      'Whether results say what the call took, where that is known: its units, how long it was, and what is left.',
    properties: {},
  },
  create: (_settings, { servers: { settings: server, quota } }) => ({
    middleware: ({ upstream, method, name, isBuiltin }) => {
      if (method !== 'tools/call' || isBuiltin || upstream === undefined || name === undefined)
        return undefined
      const { tools = {}, reach } = server(upstream) ?? {}
      const cost = settingOf(tools, name, 'cost')?.value
      const known = { cost, serverQuota: () => quota(upstream) }
      if (cost || settingOf(tools, name, 'rate')) return (next) => (call) => measured(call, next, known)
      if (reach?.kind !== 'url') return undefined
      return (next) => (call) => {
        const start = performance.now()
        return next(call).then((outcome) => {
          const left = quota(upstream)
          if (!left || call.internal) return outcome
          return withUsage(outcome, { took: performance.now() - start, left: { ...left, of: 'server' } })
        })
      }
    },
  }),
}

interface Known {
  readonly cost: Cost | undefined
  serverQuota(): Quota | undefined
}

interface Usage {
  readonly took: number
  readonly units?: number | undefined
  readonly label?: string | undefined
  readonly left?: RemainingQuota | undefined
}

async function measured(call: Call, next: Handler, { cost, serverQuota }: Known): Promise<Outcome> {
  if (call.internal) return next(call)
  const start = performance.now()
  let standing: RateLimitStatus | undefined
  const limited = (each: RateLimitStatus): void => {
    standing = each
    call.rateLimitReporter?.reportRateLimit?.(each)
  }
  const outcome = await next({
    ...call,
    rateLimitReporter: { ...call.rateLimitReporter, reportRateLimit: limited },
  })
  const server = serverQuota()
  return withUsage(outcome, {
    took: performance.now() - start,
    units: call.logFields.get('replayed') === true || cost?.category === 'free' ? 0 : cost?.units,
    label: cost?.label,
    left: ofBudget(call) ?? ofLimit(standing) ?? (server && { ...server, of: 'server' }),
  })
}

/** What is not done, or failed, may not have cost anything: nothing is said of it. */
function withUsage(outcome: Outcome, { took, units, label, left }: Usage): Outcome {
  if (outcome.kind !== 'result' || outcome.result.member('isError') === true) return outcome
  const said = {
    ...(units !== undefined && { units }),
    ...(label !== undefined && { unit_label: label }),
    duration_ms: Math.round(took),
    ...(left && { quota: quotaData(left) }),
  }
  return { kind: 'result', result: outcome.result.withMeta({ [META_KEY]: said }) }
}

function ofBudget({ logFields }: Call): RemainingQuota | undefined {
  // Set only by the account of the caller.
  const left = logFields.get(LEFT) as Quota | undefined
  return left && { ...left, of: 'budget' }
}

function ofLimit(standing: RateLimitStatus | undefined): RemainingQuota | undefined {
  if (!standing) return undefined
  const { remaining, reset } = standing
  return { remaining, resetsAt: Date.now() + reset * 1000, of: 'limit' }
}
