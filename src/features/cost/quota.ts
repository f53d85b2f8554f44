/** Adds the remaining quota of the caller to listed tools. */
import type { Call, Outcome } from '../../core/call.ts'
import { Payload } from '../../core/payload.ts'
import type { RemainingQuota } from '../../core/descriptor.ts'
import type { ServerDescription } from '../../descriptions/model/description.ts'
import { quotaData } from '../../descriptions/model/facts.ts'
import { countedOf } from '../../descriptions/formats/tool-notes.ts'
import { NS } from '../../protocol/meta-keys.ts'
import { descriptionSoon } from '../describing.ts'
import type { Feature } from '../feature.ts'
import type { Services } from '../feature.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'descriptions' | 'features'>

/** Where in `_meta` of a listed tool it stands what is left. */
const META_KEY = `${NS}/quota`

/** Tells those who list tools what is left to them of what is counted for a tool, or by its server. */
export const quota: Feature<Record<never, never> | false> = {
  name: 'quota',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    description:
      'Whether lists of tools and the manifest say what is left to the caller, of tools with a rate or a budget of their own and of servers that tell of their limit.',
    properties: {},
  },
  create: (settings, deps) => ({
    responseMiddleware: (method) => {
      if (method !== 'tools/list') return undefined
      return (next) => (call) => {
        if (call.internal || settings(call.target.upstream) === false) return next(call)
        return next(call).then((outcome) => withQuotas(outcome, call, deps))
      }
    },
  }),
}

async function withQuotas(outcome: Outcome, call: Call, deps: Deps): Promise<Outcome> {
  if (outcome.kind === 'input_required') return outcome
  const telling = new Set(deps.servers.names().filter((name) => deps.servers.quota(name)))
  const description = await descriptionSoon(quota.name, call, deps)
  // Most servers have neither: their lists are passed on as they were encoded.
  const counted = description ? countedIn(description, telling, deps) : []
  const tools = counted.length > 0 ? outcome.result.at('tools') : undefined
  if (!tools || !Array.isArray(tools.value)) return outcome
  const left = await leftOf(counted, call, deps)
  const shown = tools.items.map((tool) => {
    const found = left.get(tool.fields.name)
    return found ? tool.withMeta({ [META_KEY]: quotaData(found) }).text : tool.text
  })
  const isPublic = outcome.result.fields.cacheScope === 'public'
  const list = Payload.text(`[${shown.join(',')}]`)
  // What is left to one caller is nothing to keep for others.
  return {
    kind: 'result',
    result: outcome.result.with({ tools: list, ...(isPublic && { cacheScope: 'private' }) }),
  }
}

/** A tool by the name it is listed by, with its server and the name it has there. */
interface Counted {
  readonly name: string
  readonly upstream: string
  /** Absent where only what its server tells of its own limit is known. */
  readonly own?: string
}

/** The tools of which something can be said: those that are counted for themselves, and those of servers that tell. */
function countedIn(
  description: ServerDescription,
  telling: ReadonlySet<string>,
  deps: Deps,
): readonly Counted[] {
  const own = deps.descriptions.document(description, 'counted', ({ tools }) =>
    [...countedOf(tools)].map(({ name, upstream, definition }) => {
      return { name, upstream, own: String(definition.name) }
    }),
  )
  if (telling.size === 0) return own
  const known = new Set(own.map(({ name }) => name))
  const others = description.tools.filter(({ name, upstream }) => telling.has(upstream) && !known.has(name))
  return [...own, ...others.map(({ name, upstream }) => ({ name, upstream }))]
}

async function leftOf(
  counted: readonly Counted[],
  { principal }: Call,
  deps: Deps,
): Promise<ReadonlyMap<unknown, RemainingQuota>> {
  const found = counted.map(
    async ({ name, upstream, own }): Promise<readonly [string, RemainingQuota | undefined]> => {
      if (!deps.features.isOn(quota.name, upstream)) return [name, undefined]
      if (own !== undefined) return [name, await deps.features.remainingQuota(principal, upstream, own)]
      const server = deps.servers.quota(upstream)
      return [name, server && { ...server, of: 'server' }]
    },
  )
  return new Map((await Promise.all(found)).flatMap(([name, left]) => (left ? [[name, left] as const] : [])))
}
