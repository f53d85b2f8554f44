import { fits } from '../../core/glob.ts'
import type { Log } from '../../core/log.ts'
import { compilePattern } from '../../core/pattern.ts'
import type { IntentRule } from '../../core/settings.ts'
import { stem, wordsIn } from '../../core/stem.ts'

/** A rule of the owner of a server, ready to be held against an intent. */
export interface Rule extends IntentRule {
  /** Whether the rule is for a call of this tool with this intent. */
  holds(tool: string, intent: string): boolean
}

/** The rules that can be used, in the order they are written; of the others the log is told. */
export function readRules(rules: readonly IntentRule[], upstream: string, log: Log): readonly Rule[] {
  return rules.flatMap((rule) => {
    const test = testOf(rule.when)
    if (test) return [{ ...rule, holds: (tool, intent) => fits(rule.on, tool) && test(intent) }]
    log.warn('intent.rule_unusable', { upstream, when: rule.when })
    return []
  })
}

/** Whether an intent is of the kind a rule is about; nothing where the rule can not be read. */
export function testOf(when: string): ((intent: string) => boolean) | undefined {
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
