import { isObject } from '../core/json.ts'
import type { Finding } from './problem.ts'

type Path = readonly string[]

/** Checks how the settings of one tool about approval go together: people have to be able to approve. */
export function approvalProblems(tools: unknown, path: Path, hasAuth: boolean): Finding[] {
  if (!isObject(tools)) return []
  return Object.entries(tools).flatMap(([glob, tool]) =>
    isObject(tool) ? problemsOf(tool, [...path, glob], hasAuth) : [],
  )
}

function problemsOf(tool: Readonly<Record<string, unknown>>, at: Path, hasAuth: boolean): Finding[] {
  const { approval, approvals, approvers } = tool
  const misplaced = approval === 'inline' ? ['approvals', 'approvers'].filter((key) => key in tool) : []
  if (misplaced.length > 0) {
    const message = 'goes with `approval: out_of_band` only: inline nobody but the caller is asked'
    return misplaced.map((key) => ({ path: [...at, key], at: 'key', message }))
  }
  if (typeof approvals !== 'number' || approvals < 2) return []
  const path = [...at, 'approvals']
  const named = approvers === undefined ? undefined : [approvers].flat().length
  if (named !== undefined && named < approvals)
    return [{ path, message: `more than the ${named} in \`approvers\`: nobody else may approve` }]
  if (hasAuth) return []
  return [{ path, message: 'needs `auth`: without it all people are one, whoever they are' }]
}
