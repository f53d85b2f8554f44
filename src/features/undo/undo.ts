import type { Call, Handler, Outcome } from '../../core/call.ts'
import type { Descriptor } from '../../core/entry.ts'
import { printExpression } from '../../core/print-expression.ts'
import { isTrialCall } from '../../core/selectors.ts'
import type { ToolFacts } from '../../core/record.ts'
import type { UndoRule } from '../../core/undo.ts'
import { durationSchema } from '../../core/units.ts'
import { asCalled } from '../../core/judgement/call.ts'
import { attempt } from '../../core/waiting.ts'
import { Actions } from '../../records/deeds.ts'
import type { Deps, Feature } from '../feature.ts'
import { UndoLog } from './chronicle.ts'
import { History } from './history.ts'
import { SnapshotReader } from './look.ts'
import { liveProblems } from './problems.ts'

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
    const looks = new SnapshotReader(deps)
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
        const chronicle = new UndoLog({ deps, deeds, looks, journal, upstream, history })
        return (next) => (call) => passed(call, { next, deps, looks, chronicle })
      },
      logFields: (entry, all) => {
        const rule = entry.classification.op === 'read' ? undefined : deps.undoRuleAmong(entry, all)
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
  readonly deps: Deps
  readonly looks: SnapshotReader
  readonly chronicle: UndoLog
}

/** What only reads is passed on as it is. */
function passed(call: Call, around: Around): Promise<Outcome> {
  const { next, deps, looks } = around
  if (call.internal === 'compensate') return next(call)
  if (call.internal === 'read') return heard(call, next, looks)
  const entry = attempt(() => deps.entry(call))
  if (!(entry instanceof Promise)) return acted(call, entry, around)
  return entry.then(
    (found) => acted(call, found, around),
    // A server that can not list its tools may still do what it is told.
    () => acted(call, undefined, around),
  )
}

function acted(call: Call, entry: Descriptor | undefined, { next, chronicle }: Around): Promise<Outcome> {
  if (entry && asCalled(entry, call).classification.op === 'read') return next(call)
  // What only says what it would do has done nothing that could be undone.
  if (entry && isTrialCall(entry.definition, call.params.fields.arguments)) return next(call)
  return chronicle.record(call, entry?.name ?? String(call.params.fields.name), next)
}

async function heard(call: Call, next: Handler, looks: SnapshotReader): Promise<Outcome> {
  const outcome = await next(call)
  looks.heard(call, outcome)
  return outcome
}
