import { fits } from '../../core/glob.ts'
import { parseSteps, type Step } from '../../core/json-path.ts'
import { compilePattern, type Pattern } from '../../core/pattern.ts'
import type { Target } from '../../core/target.ts'

/** A rule as it is configured: what is masked, by one of path and pattern. */
export interface RuleSettings {
  readonly path?: string
  readonly pattern?: string
  readonly tools?: string | readonly string[]
  readonly replace: string
}

/** The rules that hold for a target, ready to be used. */
export interface Rules {
  readonly paths: readonly { readonly steps: readonly Step[]; readonly replace: string }[]
  readonly patterns: readonly { readonly pattern: Pattern; readonly replace: string }[]
}

/** The rules that hold for what a target answers; nothing where there are none. @throws TypeError */
export function rulesFor(rules: readonly RuleSettings[], target: Target): Rules | undefined {
  const own = rules.filter((rule) => isFor(rule, target))
  if (own.length === 0) return undefined
  return {
    paths: own.flatMap(({ path, replace }) => (path === undefined ? [] : { steps: stepsOf(path), replace })),
    patterns: own.flatMap(({ pattern, replace }) =>
      pattern === undefined ? [] : { pattern: patternOf(pattern), replace },
    ),
  }
}

// Whose tool a task is of, or a message between calls, can not be known: then every rule holds.
function isFor({ tools }: RuleSettings, { method, name }: Target): boolean {
  if (tools === undefined || method.startsWith('tasks/') || method === 'subscriptions/listen') return true
  return method === 'tools/call' && (name === undefined || [tools].flat().some((glob) => fits(glob, name)))
}

function stepsOf(path: string): readonly Step[] {
  const steps = parseSteps(path)
  if (!steps) throw new TypeError(`${path} is no path`)
  return steps
}

function patternOf(source: string): Pattern {
  const pattern = compilePattern(source)
  if (!pattern) throw new TypeError(`${source} can not be matched in linear time`)
  return pattern
}
