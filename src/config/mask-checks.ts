import { isObject } from '../core/json.ts'
import { parseSteps } from '../core/json-path.ts'
import { compilePattern, type Pattern } from '../core/pattern.ts'
import type { Finding } from './problem.ts'

type Path = readonly string[]

/** Checks the rules of `features.mask`: each says one thing, and can be kept to whatever servers answer. */
export function maskProblems(features: unknown, path: Path): Finding[] {
  const mask = maskIn(features)
  const rules: readonly unknown[] = isObject(mask) && Array.isArray(mask.rules) ? mask.rules : []
  const replacements = rules.flatMap((rule) => {
    if (!isObject(rule)) return []
    return typeof rule.replace === 'string' ? [rule.replace] : ['***']
  })
  return rules.flatMap((rule, index) => {
    const at = [...path, 'mask', 'rules', String(index)]
    return isObject(rule) ? ruleProblems(rule, at, replacements) : []
  })
}

/** Masking that is on where there is nothing it would mask: whoever switches it on takes it to do something. */
export function idleMasks(features: unknown, upstreams: readonly (readonly [string, unknown])[]): Finding[] {
  const common = { path: ['features'], mask: maskIn(features) }
  const own = upstreams.map(([name, upstream]) => {
    return { path: ['upstreams', name, 'features'], mask: maskIn(isObject(upstream) && upstream.features) }
  })
  // A server without rules of its own has those for all, and those for all may be left to the servers.
  if (hasRules(common)) return []
  const idle = own.some(hasRules) ? own : [common, ...own]
  return idle
    .filter((each) => isOn(each) && !hasRules(each))
    .map(({ path }) => ({ path: [...path, 'mask'], at: 'key', message: 'masks nothing: it needs `rules`' }))
}

interface Masked {
  readonly mask: unknown
}

function isOn({ mask }: Masked): boolean {
  return isObject(mask) || mask === true || mask === 'on'
}

function hasRules({ mask }: Masked): boolean {
  return isObject(mask) && Array.isArray(mask.rules) && mask.rules.length > 0
}

function maskIn(features: unknown): unknown {
  return isObject(features) ? features.mask : undefined
}

function ruleProblems(
  { path, pattern }: Readonly<Record<string, unknown>>,
  at: Path,
  replacements: readonly string[],
): Finding[] {
  if ((path === undefined) === (pattern === undefined)) {
    return [{ path: at, message: 'needs `path` or `pattern`, and not both' }]
  }
  if (typeof path === 'string' && path !== '' && !parseSteps(path)) {
    return [
      {
        path: [...at, 'path'],
        message: 'must be a path such as $.items[*].email, of .name, [0] and [*] steps',
      },
    ]
  }
  if (typeof pattern !== 'string' || pattern === '') return []
  const problem = patternProblem(pattern, replacements)
  return problem === undefined ? [] : [{ path: [...at, 'pattern'], message: problem }]
}

function patternProblem(source: string, replacements: readonly string[]): string | undefined {
  const pattern = compiled(source)
  if (pattern === 'malformed') return 'must be a regular expression'
  if (!pattern) {
    return 'cannot be matched in a time that is bounded: it looks around or back, or is over 1000 characters'
  }
  if (probes.some((probe) => matchesNothing(pattern, probe))) return 'matches where there is no text at all'
  if (replacements.some((each) => pattern.test(each, false))) {
    return 'matches what is put in place of masked text: choose another `replace`'
  }
  return undefined
}

function compiled(source: string): Pattern | undefined | 'malformed' {
  try {
    return compilePattern(source)
  } catch {
    return 'malformed'
  }
}

/** Texts in which a pattern that takes no characters matches somewhere. */
const probes = ['', 'a', '0', ' ', 'a b', '\n']

/** Whether it matches without taking a character: replacing such a match makes the text longer. */
function matchesNothing(pattern: Pattern, text: string): boolean {
  return pattern.replaceAll(text, '!').text.length > text.length
}
