/** The feature `undo`: records actions with their compensation, and describes the undo rule of tools. */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import type { ToolFacts } from '../../core/descriptor.ts'
import type { Finding } from '../../core/finding.ts'
import { asCalled } from '../../core/judgement/judge.ts'
import { type ToolSettings, settingOf } from '../../core/settings.ts'
import { durationSchema } from '../../core/time/units.ts'
import { printExpression, parseExpression } from '../../core/undo/expression.ts'
import { callsOf, type WrittenUndo, writtenMismatches } from '../../core/undo/judge-undo.ts'
import { type UndoRule, readUndo } from '../../core/undo/rules.ts'
import { isTrialCall } from '../../core/undo/selectors.ts'
import { Actions } from '../../records/actions.ts'
import { toolsToCheck } from '../describing.ts'
import type { Feature } from '../feature.ts'
import type { Services } from '../services.ts'
import { History } from './history.ts'
import { SnapshotReader } from './snapshot-reader.ts'
import { UndoLog } from './undo-log.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'descriptions' | 'features'>

interface Settings {
  /** In milliseconds. */
  readonly history: number | 'off'
}

/** Writes down what tools did for whom, and how it is undone. */
export const undo: Feature<Settings> = {
  name: 'undo',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    properties: {
      history: {
        ...durationSchema,
        pattern: `^off$|${durationSchema.pattern}`,
        default: '24h',
        errorMessage: 'must be off, or a duration such as 24h or 7d',
        description:
          'For how long is kept what was done, and how to undo it, for `gatehouse undo`: of each caller the last 10,000 things and 64 MB, of each gateway. off keeps the steps of transactions alone.',
      },
    },
  },
  create: (settings, deps) => {
    const snapshots = new SnapshotReader(deps)
    const deeds = new Actions(deps.store)
    const journal = new History(deeds, deps.log)
    const historyOf = (upstream: string): number => {
      const { history } = settings(upstream)
      return history === 'off' ? 0 : history
    }
    return {
      middleware: ({ upstream, method, isBuiltin }) => {
        if (method !== 'tools/call' || isBuiltin || upstream === undefined) return undefined
        const history = historyOf(upstream)
        const undoLog = new UndoLog({ deps, deeds, snapshots, journal, upstream, history })
        return (next) => (call) => passed(call, { next, snapshots, undoLog })
      },
      toolFacts: (entry, all) => {
        const rule = entry.classification.op === 'read' ? undefined : deps.servers.undoRuleAmong(entry, all)
        return rule && rule.kind !== 'none' ? { undo: factOf(rule) } : {}
      },
      problems: () => liveProblems(deps),
      close: () => journal.close(),
    }
  },
}

function factOf(rule: Exclude<UndoRule, { readonly kind: 'none' }>): NonNullable<ToolFacts['undo']> {
  const call = rule.kind === 'call' ? rule.call : rule.restore
  const description = rule.description ?? printExpression(call)
  return { tool: call.tool, isExact: rule.isExact, description }
}

interface Around {
  readonly next: Handler
  readonly snapshots: SnapshotReader
  readonly undoLog: UndoLog
}

/** What only reads is passed on as it is. */
function passed(call: Call, around: Around): Promise<Outcome> {
  const { next, snapshots, undoLog } = around
  if (call.internal === 'compensate') return next(call)
  if (call.internal === 'read') return heard(call, next, snapshots)
  // A server that cannot list its tools may still serve calls.
  const entry = call.tool
  if (entry && asCalled(entry, call).classification.op === 'read') return next(call)
  // What only says what it would do has done nothing that could be undone.
  if (entry && isTrialCall(entry.definition, call.params.fields.arguments)) return next(call)
  return undoLog.record(call, entry?.name ?? String(call.params.fields.name), next)
}

async function heard(call: Call, next: Handler, snapshots: SnapshotReader): Promise<Outcome> {
  const outcome = await next(call)
  snapshots.heard(call, outcome)
  return outcome
}

/**
 * Checks at the start that the calls the configuration undoes or verifies tools with go together with what servers
 * list.
 */

/** What of the calls that undo or verify does not go together with what servers list. */
export async function liveProblems(deps: Deps): Promise<Finding[]> {
  const found = await Promise.all(deps.servers.names().map((name) => serverProblems(name, deps)))
  return found.flat()
}

async function serverProblems(upstream: string, deps: Deps): Promise<Finding[]> {
  const settings = deps.servers.settings(upstream)?.tools ?? {}
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
