import type { Finding } from '../../core/finding.ts'
import { nearest } from '../../core/nearest.ts'
import { asGatewayError } from '../../core/error.ts'
import { within } from '../../core/waiting.ts'
import type { Deps } from '../feature.ts'
import { testOf } from './rules.ts'

/** How long a server may take to list its tools, in milliseconds. */
const PATIENCE = 10_000

/** What is wrong with the rules about intents: patterns that can not be used, and tools that are not there. */
export async function ruleProblems(deps: Deps): Promise<Finding[]> {
  const found = await Promise.all(deps.servers().map((name) => problemsOf(name, deps)))
  return found.flat()
}

async function problemsOf(upstream: string, deps: Deps): Promise<Finding[]> {
  const rules = deps.server(upstream)?.intent ?? []
  if (rules.length === 0) return []
  const names = await namesOf(upstream, deps)
  return rules.flatMap(({ when, suggest }, at) => {
    const path = ['upstreams', upstream, 'intent', String(at)]
    const unusable = { path: [...path, 'when'], message: 'is no pattern that can be matched, and no words' }
    const isThere = names === undefined || names.includes(suggest)
    return [
      ...(testOf(when) ? [] : [unusable]),
      ...(isThere ? [] : [{ path: [...path, 'suggest'], message: absent(upstream, suggest, names) }]),
    ]
  })
}

function absent(upstream: string, tool: string, names: readonly string[]): string {
  const meant = nearest(tool, names)
  const hint = meant === undefined ? '' : `; did you mean ${meant}?`
  return `${upstream} has no tool named ${tool}${hint}`
}

async function namesOf(upstream: string, deps: Deps): Promise<readonly string[] | undefined> {
  try {
    const tools = await within(deps.tools(upstream), PATIENCE, undefined)
    return tools?.map(({ name }) => name)
  } catch (error) {
    deps.log.warn('intent.unchecked', { upstream, reason: asGatewayError(error).message })
    return undefined
  }
}
