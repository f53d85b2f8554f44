import type { Finding } from '../../core/finding.ts'
import { hint } from '../../core/misfits.ts'
import { toolsToCheck } from '../discovered.ts'
import type { Deps } from '../feature.ts'
import { testOf } from './rules.ts'

/** What is wrong with the rules about intents: patterns that can not be used, and tools that are not there. */
export async function ruleProblems(deps: Deps): Promise<Finding[]> {
  const found = await Promise.all(deps.servers().map((name) => problemsOf(name, deps)))
  return found.flat()
}

async function problemsOf(upstream: string, deps: Deps): Promise<Finding[]> {
  const rules = deps.server(upstream)?.intent ?? []
  if (rules.length === 0) return []
  const tools = await toolsToCheck(upstream, deps, 'intent.unchecked')
  const names = tools?.map(({ name }) => name)
  return rules.flatMap(({ when, suggest }, at) => {
    const path = ['upstreams', upstream, 'intent', String(at)]
    const unusable = { path: [...path, 'when'], message: 'is no pattern that can be matched, and no words' }
    const absent = names?.includes(suggest) === false && {
      path: [...path, 'suggest'],
      message: `${upstream} has no tool named ${suggest}${hint(suggest, names)}`,
    }
    return [...(testOf(when) ? [] : [unusable]), ...(absent ? [absent] : [])]
  })
}
