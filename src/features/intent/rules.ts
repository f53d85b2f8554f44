/** The owner's rules from an intent to a tool, and their problems. */
import type { Finding } from '../../core/finding.ts'
import type { Log } from '../../core/log.ts'
import { hint } from '../../core/schema/argument-mismatches.ts'
import type { IntentRule } from '../../core/settings.ts'
import { fits } from '../../core/text/glob.ts'
import { compilePattern } from '../../core/text/pattern.ts'
import { stem, wordsIn } from '../../core/text/words.ts'
import { toolsToCheck } from '../describing.ts'
import type { Services } from '../services.ts'

type RulesDeps = Pick<Services, 'log' | 'servers' | 'descriptions' | 'features'>

/** A rule of the owner of a server, ready to be held against an intent. */
export interface Rule extends IntentRule {
  /** Whether the rule is for a call of this tool with this intent. */
  holds(tool: string, intent: string): boolean
}

/** The rules that can be used, in the order they are written; the others are logged. */
export function readRules(rules: readonly IntentRule[], upstream: string, log: Log): readonly Rule[] {
  return rules.flatMap((rule) => {
    const test = testOf(rule.when)
    if (test) return [{ ...rule, holds: (tool, intent) => fits(rule.on, tool) && test(intent) }]
    log.warn('intent.rule_unusable', { upstream, when: rule.when })
    return []
  })
}

/** Whether an intent is of the kind a rule is about; nothing where the rule cannot be read. */
function testOf(when: string): ((intent: string) => boolean) | undefined {
  const [, source] = /^\/(.+)\/$/s.exec(when) ?? []
  if (source === undefined) {
    const wanted = wordsIn(when).map(stem)
    return wanted.length === 0 ? undefined : (intent) => hasAll(intent, wanted)
  }
  try {
    const pattern = compilePattern(source, { ignoreCase: true })
    return pattern && ((intent) => pattern.test(intent, false))
  } catch {
    return undefined
  }
}

function hasAll(intent: string, wanted: readonly string[]): boolean {
  const there = new Set(wordsIn(intent).map(stem))
  return wanted.every((word) => there.has(word))
}

/** What is wrong with the rules about intents: patterns that cannot be used, and tools that are not there. */
export async function ruleProblems(deps: RulesDeps): Promise<Finding[]> {
  const found = await Promise.all(deps.servers.names().map((name) => problemsOf(name, deps)))
  return found.flat()
}

async function problemsOf(upstream: string, deps: RulesDeps): Promise<Finding[]> {
  const rules = deps.servers.settings(upstream)?.intent ?? []
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
