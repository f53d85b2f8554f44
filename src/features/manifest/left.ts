import type { Call } from '../../core/call.ts'
import { isObject } from '../../core/json.ts'
import type { ServerDescription } from '../../documents/portrait.ts'
import { quotaData } from '../../documents/quota.ts'
import { countedOf } from '../../documents/tool-notes.ts'
import type { Deps } from '../feature.ts'

type Json = Readonly<Record<string, unknown>>

export interface Asked {
  readonly call: Call
  readonly deps: Deps
}

/** A manifest with what is left to its reader just then: of the rates of the server, and of each tool with its own. */
export async function withRemainingQuota(
  manifest: Json,
  description: ServerDescription,
  { call, deps }: Asked,
): Promise<Json> {
  const [only, ...others] = deps.servers()
  const upstream = call.target.upstream ?? (others.length === 0 ? only : undefined)
  if (!deps.isOn('quota', upstream)) return manifest
  const { principal } = call
  const counted = countedOf(description.tools)
  const [whole, ...own] = await Promise.all([
    deps.remainingQuota(principal, upstream),
    ...description.tools.map(async (tool) =>
      counted.has(tool) && deps.isOn('quota', tool.upstream)
        ? deps.remainingQuota(principal, tool.upstream, String(tool.definition.name))
        : undefined,
    ),
  ])
  if (!whole && own.every((each) => each === undefined)) return manifest
  const { rate_limits: rates, tools } = manifest
  const { of: _of, ...left } = whole ? quotaData(whole) : {}
  return {
    ...manifest,
    // As many tools as in the portrait, in its order.
    tools: Array.isArray(tools) ? tools.map((tool: Json, at) => withQuota(tool, own[at])) : [],
    ...(whole && { rate_limits: { ...(isObject(rates) && rates), ...left } }),
  }
}

function withQuota(tool: Json, left: Parameters<typeof quotaData>[0] | undefined): Json {
  return left ? { ...tool, quota: quotaData(left) } : tool
}
