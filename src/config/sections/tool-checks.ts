/** Checks of expressions and of masking rules. */
import { isObject } from '../../core/json/json.ts'
import { type Root, parseSteps } from '../../core/json/path.ts'
import { compilePattern, type Pattern } from '../../core/text/pattern.ts'
import { type Expression, parseExpression, parsePath, uses } from '../../core/undo/expression.ts'
import { patternMistake } from '../patterns.ts'
import type { Finding } from '../problem.ts'

type Path = readonly string[]

/** Checks the expressions of the tools of one upstream: their syntax, and the roots of their paths. */
export function expressionProblems(tools: unknown, path: Path): Finding[] {
  if (!isObject(tools)) return []
  return Object.entries(tools).flatMap(([glob, tool]) => {
    if (!isObject(tool)) return []
    const at = [...path, glob]
    return [
      ...undoProblems(tool.undo, [...at, 'undo']),
      ...verifyProblems(tool.verify, [...at, 'verify']),
      ...provenanceProblems(tool.provenance, [...at, 'provenance']),
    ]
  })
}

function undoProblems(undo: unknown, path: Path): Finding[] {
  if (typeof undo === 'string') {
    return undo === 'none' ? [] : expressionFindings(undo, path, { roots: ['args', 'result'] })
  }
  if (!isObject(undo)) return []
  const { call, restore, snapshot, absent } = undo
  if ((call === undefined) === (restore === undefined)) {
    const message = call === undefined ? 'needs `call`, or `snapshot` and `restore`' : TWICE
    return [{ path, at: 'key', message }]
  }
  const alone = ['snapshot', 'absent'].find((key) => call !== undefined && undo[key] !== undefined)
  if (alone !== undefined)
    return [{ path: [...path, alone], at: 'key', message: 'requires `restore`: remove it' }]
  if (call === undefined && snapshot === undefined)
    return [{ path, at: 'key', message: 'needs `snapshot`, which reads what `restore` writes back' }]
  const given: readonly (readonly [string, unknown, readonly Root[]])[] = [
    ['call', call, ['args', 'result']],
    ['snapshot', snapshot, ['args']],
    ['restore', restore, ['args', 'result', 'snapshot']],
    ['absent', absent === 'none' ? undefined : absent, ['args', 'result']],
  ]
  return given.flatMap(([key, text, roots]) =>
    typeof text === 'string' ? expressionFindings(text, [...path, key], { roots }) : [],
  )
}

const TWICE = 'has `call` and `restore`: keep one of the two'

function verifyProblems(verify: unknown, path: Path): Finding[] {
  if (typeof verify !== 'string') return []
  return expressionFindings(verify, path, { roots: ['args'], isFound: true })
}

/** A source or version that begins like a path is checked as a path. */
function provenanceProblems(provenance: unknown, path: Path): Finding[] {
  if (!isObject(provenance)) return []
  return ['source', 'version'].flatMap((key) => {
    const text = provenance[key]
    if (typeof text !== 'string' || !text.startsWith('$')) return []
    const message = pathProblem(text)
    return message === undefined ? [] : [{ path: [...path, key], message }]
  })
}

function pathProblem(text: string): string | undefined {
  try {
    const { root } = parsePath(text)
    return root === 'snapshot' ? 'must begin with $.args or $.result: there is no snapshot' : undefined
  } catch (error) {
    if (error instanceof TypeError) return `is not a valid path: ${error.message}`
    throw error
  }
}

interface Demands {
  /** The allowed roots of paths. */
  readonly roots: readonly Root[]
  /** Whether it selects a part of the result. */
  readonly isFound?: true
}

function expressionFindings(text: string, path: Path, demands: Demands): Finding[] {
  // The schema reports empty values.
  if (text === '') return []
  try {
    const message = misuse(parseExpression(text), demands)
    return message === undefined ? [] : [{ path, message }]
  } catch (error) {
    if (error instanceof TypeError) return [{ path, message: `is not a valid call: ${error.message}` }]
    throw error
  }
}

function misuse(expression: Expression, { roots, isFound }: Demands): string | undefined {
  const other = [...uses(expression)].find((root) => !roots.includes(root))
  if (other !== undefined)
    return `$.${other} is not available here: paths begin with ${roots.map((root) => `$.${root}`).join(' or ')}`
  const { find } = expression
  if (find && !isFound) return '`->` is not allowed here: remove it and the path after it'
  if (!isFound) return undefined
  if (find?.steps.includes(null)) return 'must select one value, so [*] is not allowed after `->`'
  if (find?.root === 'result') return undefined
  return 'must select what the result contains if the call took effect, such as -> $.result.items[0]'
}

/** Checks the rules of `features.mask`: each has one target, and its pattern has bounded matching time. */
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

/** Reports masking that is on without rules: it would have no effect. */
export function idleMasks(features: unknown, upstreams: readonly (readonly [string, unknown])[]): Finding[] {
  const common = { path: ['features'], mask: maskIn(features) }
  const own = upstreams.map(([name, upstream]) => {
    return { path: ['upstreams', name, 'features'], mask: maskIn(isObject(upstream) && upstream.features) }
  })
  // A server without rules uses the common ones; the common rules may be empty if the servers have rules.
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
        message: 'must be a path such as $.items[*].email, with .name, [0] and [*] steps',
      },
    ]
  }
  if (typeof pattern !== 'string' || pattern === '') return []
  const problem = patternProblem(pattern, replacements)
  return problem === undefined ? [] : [{ path: [...at, 'pattern'], message: problem }]
}

function patternProblem(source: string, replacements: readonly string[]): string | undefined {
  const mistake = patternMistake(source)
  const pattern = mistake === undefined ? compilePattern(source) : undefined
  if (!pattern) return mistake
  if (probes.some((probe) => matchesNothing(pattern, probe))) return 'matches the empty string'
  if (replacements.some((each) => pattern.test(each, false))) {
    return 'matches the replacement of masked text: choose another `replace`'
  }
  return undefined
}

/** Texts in which a pattern with empty matches would match. */
const probes = ['', 'a', '0', ' ', 'a b', '\n']

/** Whether a pattern has an empty match: replacing it would insert text. */
function matchesNothing(pattern: Pattern, text: string): boolean {
  return pattern.replaceAll(text, '!').text.length > text.length
}
