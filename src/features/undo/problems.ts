/**
 * Checks at the start that the calls the configuration undoes or verifies tools with go together with what servers
 * list.
 */
import { parseExpression } from '../../core/expression.ts'
import type { Finding } from '../../core/finding.ts'
import type { ToolSettings } from '../../core/settings.ts'
import { settingOf } from '../../core/tool-settings.ts'
import { readUndo } from '../../core/undo.ts'
import { callsOf, type WrittenUndo, writtenMismatches } from '../../core/undo-misfits.ts'
import { toolsToCheck } from '../discovered.ts'
import type { Deps } from '../feature.ts'

/** What of the calls that undo or verify does not go together with what servers list. */
export async function liveProblems(deps: Deps): Promise<Finding[]> {
  const found = await Promise.all(deps.servers().map((name) => serverProblems(name, deps)))
  return found.flat()
}

async function serverProblems(upstream: string, deps: Deps): Promise<Finding[]> {
  const settings = deps.server(upstream)?.tools ?? {}
  const written = Object.entries(settings).flatMap(([glob, tool]) => writtenIn(glob, tool))
  if (written.length === 0) return []
  const tools = await toolsToCheck(upstream, deps, 'undo.unchecked')
  if (!tools) return []
  return written.flatMap(({ path, glob, key, ...each }) => {
    const subjects = tools.filter(({ name }) => settingOf(settings, name, key)?.glob === glob)
    const found = writtenMismatches({ ...each, subjects }, upstream, tools)
    return [...new Set(found)].map((message) => ({
      path: ['upstreams', upstream, 'tools', ...path],
      message,
    }))
  })
}

/** A call of the configuration, and where it stands there. */
type Placed = Omit<WrittenUndo, 'subjects'> & {
  readonly glob: string
  readonly key: 'undo' | 'verify'
  readonly path: readonly string[]
}

function writtenIn(glob: string, { undo, verify }: ToolSettings): Placed[] {
  const undoing = undo === undefined ? [] : callsOf(readUndo(undo))
  return [
    ...undoing.map(({ key, ...call }): Placed => {
      return { ...call, glob, key: 'undo', path: [glob, 'undo', ...(typeof undo === 'string' ? [] : [key])] }
    }),
    ...(verify === undefined ? [] : [verifying(glob, verify)]),
  ]
}

function verifying(glob: string, verify: string): Placed {
  const expression = parseExpression(verify)
  return { glob, key: 'verify', path: [glob, 'verify'], expression, mustRead: true, resultOf: 'itself' }
}
