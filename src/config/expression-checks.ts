import { type Expression, parseExpression, parsePath, uses } from '../core/expression.ts'
import type { Root } from '../core/path.ts'
import { isObject } from '../core/json.ts'
import type { Finding } from './problem.ts'

type Path = readonly string[]

/** Checks the expressions of the tools of one upstream: that they can be read, and what their paths begin with. */
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
    return [{ path: [...path, alone], at: 'key', message: 'goes with `restore` only: remove it' }]
  if (call === undefined && snapshot === undefined)
    return [{ path, at: 'key', message: 'needs `snapshot`, which reads what `restore` puts back' }]
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

const TWICE = 'there are `call` and `restore`: keep one of the two'

function verifyProblems(verify: unknown, path: Path): Finding[] {
  if (typeof verify !== 'string') return []
  return expressionFindings(verify, path, { roots: ['args'], isFound: true })
}

/** A source or a version is a path where it begins like one. */
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
    return root === 'snapshot' ? 'begins with $.args or $.result: nothing is read before' : undefined
  } catch (error) {
    if (error instanceof TypeError) return `is no path: ${error.message}`
    throw error
  }
}

interface Demands {
  /** What paths may begin with. */
  readonly roots: readonly Root[]
  /** It says what of the result is meant. */
  readonly isFound?: true
}

function expressionFindings(text: string, path: Path, demands: Demands): Finding[] {
  // What is empty was found by the schema.
  if (text === '') return []
  try {
    const message = misuse(parseExpression(text), demands)
    return message === undefined ? [] : [{ path, message }]
  } catch (error) {
    if (error instanceof TypeError) return [{ path, message: `is no such call: ${error.message}` }]
    throw error
  }
}

function misuse(expression: Expression, { roots, isFound }: Demands): string | undefined {
  const other = [...uses(expression)].find((root) => !roots.includes(root))
  if (other !== undefined)
    return `$.${other} is not known there: paths begin with ${roots.map((root) => `$.${root}`).join(' or ')}`
  const { find } = expression
  if (find && !isFound) return '`->` means nothing here: remove it and the path behind it'
  if (!isFound) return undefined
  if (find?.steps.includes(null)) return 'looks for one thing, so there is no [*] behind `->`'
  if (find?.root === 'result') return undefined
  return 'needs to say what of the result is there if the call took effect, such as -> $.result.items[0]'
}
