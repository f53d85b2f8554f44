/** Adds the remaining quota of the caller to listed tools. */
import { NS } from '../../core/identity.ts'
import type { Call, Outcome } from '../../core/call.ts'
import type { RemainingQuota } from '../../core/descriptor.ts'
import type { ServerDescription } from '../../descriptions/model/description.ts'
import { quotaData } from '../../descriptions/model/facts.ts'
import { countedOf } from '../../descriptions/formats/manifest.ts'
import { descriptionSoon } from '../describing/documents.ts'
import type { Feature, Services } from '../feature.ts'
import { remainingQuota } from '../offers.ts'
import { quotaSchema } from '../settings/describe.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'descriptions' | 'features'>

/** The `_meta` key of the remaining quota of a listed tool. */
const META_KEY = `${NS}/quota`

/** Adds the caller's remaining quota to listed tools, of the tool's own limits or of its server's. */
export const quota: Feature<Record<never, never> | false> = {
  ...quotaSchema,
  create: (settings, deps) => ({
    responseMiddleware: (method) => {
      if (method !== 'tools/list') return undefined
      return (next) => (call) => {
        if (call.internal || settings(call.target.upstream) === false) return next(call)
        // Both may wait for the same server, so they do at the same time.
        const description = descriptionSoon(quota.name, call, deps)
        return next(call).then(async (outcome) => withQuotas(outcome, await description, call, deps))
      }
    },
  }),
}

async function withQuotas(
  outcome: Outcome,
  description: ServerDescription | undefined,
  call: Call,
  deps: Deps,
): Promise<Outcome> {
  if (outcome.kind !== 'result') return outcome
  const reporting = new Set(deps.servers.names().filter((name) => deps.servers.quota(name)))
  // Most servers have neither: their lists are relayed as they were encoded.
  const counted = description ? countedTools(description, reporting, deps) : []
  if (counted.length === 0 || !Array.isArray(outcome.result.at('tools')?.value)) return outcome
  const remaining = await remainingQuotas(counted, call, deps)
  const result = outcome.result.withItems('tools', (tool) => {
    const found = remaining.get(tool.fields.name)
    return found ? tool.withMeta({ [META_KEY]: quotaData(found) }) : tool
  })
  // What remains for one caller must not be cached for others.
  const isPublic = result.fields.cacheScope === 'public'
  return { kind: 'result', result: isPublic ? result.with({ cacheScope: 'private' }) : result }
}

/** A tool by its listed name, with its server and its name there. */
interface Counted {
  readonly name: string
  readonly upstream: string
  /** Absent if only the limit that its server reports is known. */
  readonly own?: string
}

/** The tools with a known quota: those with their own limits, and those of servers that report theirs. */
function countedTools(
  description: ServerDescription,
  reporting: ReadonlySet<string>,
  deps: Deps,
): readonly Counted[] {
  const own = deps.descriptions.document(description, 'counted', ({ tools }) =>
    [...countedOf(tools)].map(({ name, upstream, definition }) => {
      return { name, upstream, own: String(definition.name) }
    }),
  )
  if (reporting.size === 0) return own
  const known = new Set(own.map(({ name }) => name))
  const otherTools = description.tools.filter(
    ({ name, upstream }) => reporting.has(upstream) && !known.has(name),
  )
  return [...own, ...otherTools.map(({ name, upstream }) => ({ name, upstream }))]
}

async function remainingQuotas(
  counted: readonly Counted[],
  { principal }: Call,
  deps: Deps,
): Promise<ReadonlyMap<unknown, RemainingQuota>> {
  const found = counted.map(
    async ({ name, upstream, own }): Promise<readonly [string, RemainingQuota | undefined]> => {
      if (!deps.features.isOn(quota.name, upstream)) return [name, undefined]
      if (own !== undefined) return [name, await remainingQuota(deps, principal, upstream, own)]
      const server = deps.servers.quota(upstream)
      return [name, server && { ...server, of: 'server' }]
    },
  )
  return new Map(
    (await Promise.all(found)).flatMap(([name, remaining]) =>
      remaining ? [[name, remaining] as const] : [],
    ),
  )
}
