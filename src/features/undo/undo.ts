/** The feature `undo`: records actions with their compensation, and describes the undo rule of tools. */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import type { ToolFacts } from '../../core/descriptor.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { isTaskAccepted } from '../../core/failure.ts'
import type { Finding } from '../../core/finding.ts'
import { isObject } from '../../core/json/json.ts'
import { asCalled } from '../../core/judgement/judge.ts'
import type { Payload } from '../../core/payload.ts'
import { UnusableSchema, validator } from '../../core/schema/schema.ts'
import { type ToolSettings, settingOf } from '../../core/settings.ts'
import { durationSchema } from '../../core/time/units.ts'
import { withKeyArgument } from '../../core/tool-call.ts'
import { printExpression, parseExpression, resultValue } from '../../core/undo/expression.ts'
import { callsOf, type WrittenUndo, writtenMismatches } from '../../core/undo/judge-undo.ts'
import { type UndoRule, readUndo } from '../../core/undo/rules.ts'
import { isTrialCall } from '../../core/undo/selectors.ts'
import { Actions, type Action, newActionKey, type Compensation } from '../../records/actions.ts'
import { toStoredPrincipal } from '../../records/principal.ts'
import { toolsToCheck } from '../describing.ts'
import type { Feature } from '../feature.ts'
import { noUndo } from '../missing-undo.ts'
import type { Services } from '../feature.ts'
import { SnapshotReader, type ReadSnapshot, takesResult, compensationFor } from './compensation.ts'
import { History } from './history.ts'

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

// Checks at the start that the calls the configuration undoes or verifies tools with go together with what servers
// list.

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

// The life of an action: its rule, the read before the call, and the compensation computed from the result.

interface Options {
  readonly deps: Deps
  readonly deeds: Actions
  readonly snapshots: SnapshotReader
  readonly journal: History
  readonly upstream: string
  /** How long deeds that are no steps are kept, in milliseconds; 0 for not at all. */
  readonly history: number
}

/** Something that is being done: what is written down of it, and what its way back is made of. */
interface Beginning {
  readonly deed: Action
  readonly rule: UndoRule | undefined
  readonly look: ReadSnapshot | undefined
  /** The server has begun in an earlier round, so it is on record already. */
  readonly isResumed?: true
}

type Ending = Pick<Action, 'status' | 'way'>

/** How long steps are kept, in milliseconds: longer than any transaction takes. */
const STEP_TTL_MS = 30 * 86_400_000

/** The slot of a call's state that names the deed of what its server has begun. */
const STATE_KEY = 'undo'

/** Nothing is left to undo. */
const nothing: Compensation = { kind: 'nothing' }

/** Writes down what the tools of a server do. */
class UndoLog {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  /** Makes a call and writes down what came of it. @throws COMPENSATION_UNAVAILABLE, SERVER_UNAVAILABLE */
  async record(call: Call, tool: string, next: Handler): Promise<Outcome> {
    if (!call.step && this.#options.history === 0) return next(call)
    const begun = (await this.#resumed(call)) ?? (await this.#begin(call, tool))
    const outcome = await next(call).catch(async (error: unknown) => {
      await this.#end(call, begun, failedWith(error, begun)).catch(() => undefined)
      throw error
    })
    if (outcome.kind === 'input_required') return this.#asked(call, begun, outcome)
    const isFailed = outcome.result.member('isError') === true
    // A task that goes on may come to anything.
    const status = isTaskAccepted(outcome.result) ? 'unknown' : 'ok'
    const end: Ending = isFailed
      ? { status: 'failed', way: nothing }
      : { status, way: await this.#fitting(call, wayOf(begun, outcome.result)) }
    await this.#end(call, begun, end)
    return outcome
  }

  async #begin(call: Call, tool: string): Promise<Beginning> {
    const { deps, snapshots, upstream } = this.#options
    const { step, principal, client, meta, params } = call
    const given = params.fields.arguments
    const args = isObject(given) ? given : {}
    const rule = await ruleOf(deps, upstream, tool)
    const look =
      rule?.kind === 'restore' ? await snapshots.read(call, rule.snapshot, { upstream, args }) : undefined
    const startedAt = Date.now()
    const way = await this.#fitting(call, compensationFor(rule, { args, look }))
    if (step?.mustBeUndoable && way.kind === 'none' && !takesResult(rule, look))
      throw noUndo({ upstream, tool }, way.reason, 'See to that first.')
    const deed: Action = {
      key: step?.deed ?? newActionKey(startedAt),
      startedAt,
      principal: toStoredPrincipal(principal),
      ...(client.session !== undefined && { session: client.session }),
      upstream,
      tool,
      arguments: args,
      ...(typeof meta.traceparent === 'string' && { trace: meta.traceparent }),
      ...(step && { transaction: step.transaction, step: step.step }),
      status: 'pending',
      way,
    }
    if (step) await this.#announce(deed)
    return { deed, rule, look }
  }

  /** A way back whose call its server would refuse is none. */
  async #fitting(call: Call, way: Compensation): Promise<Compensation> {
    const { deps, upstream } = this.#options
    const reason = await compensationProblem(call, way, { upstream, deps })
    return reason === undefined ? way : { kind: 'none', reason }
  }

  /** A step is on record before its server hears of it. */
  async #announce(deed: Action): Promise<void> {
    try {
      await this.#options.deeds.put(deed, STEP_TTL_MS)
    } catch (cause) {
      throw new GatewayError('SERVER_UNAVAILABLE', 'The step cannot be written down, so it was not done.', {
        cause,
        isUnsent: true,
      })
    }
  }

  /** What was written down when the server, in the middle of the call, asked something that is answered here. */
  async #resumed({ requestState: state, step, params }: Call): Promise<Beginning | undefined> {
    const { deeds, deps } = this.#options
    const slot = state[STATE_KEY]
    const found = typeof slot === 'string' ? await deeds.find(slot).catch(() => undefined) : undefined
    if (!found) return undefined
    const given = params.fields.arguments
    const rule = await ruleOf(deps, found.upstream, found.tool)
    return {
      deed: { ...found, key: step?.deed ?? found.key, arguments: isObject(given) ? given : {} },
      // What was there before is part of the way back already: by now it may not be there any more.
      rule: rule?.kind === 'call' ? rule : undefined,
      look: undefined,
      isResumed: true,
    }
  }

  /** A server that only asks has done nothing; one that has begun may go on whatever is answered. */
  async #asked(
    call: Call,
    { deed }: Beginning,
    outcome: Outcome & { kind: 'input_required' },
  ): Promise<Outcome> {
    const { deeds, history } = this.#options
    if (outcome.isOpen) {
      if (!call.step) await deeds.put(deed, history).catch(() => undefined)
      return { ...outcome, requestState: { ...outcome.requestState, [STATE_KEY]: deed.key } }
    }
    if (call.step) await deeds.remove(deed.key)
    return outcome
  }

  async #end(call: Call, { deed, isResumed }: Beginning, end: Ending): Promise<void> {
    const ended = { ...deed, ...end, endedAt: Date.now() }
    if (call.step) return this.#settle(ended)
    // What came to nothing needs no undoing.
    if (end.status === 'failed' && !isResumed) return
    this.#options.journal.add(ended, this.#options.history)
  }

  async #settle(deed: Action): Promise<void> {
    try {
      await this.#options.deeds.put(deed, STEP_TTL_MS)
    } catch (cause) {
      throw new GatewayError('OUTCOME_UNKNOWN', 'What the step did cannot be written down.', {
        cause,
        suggestion: 'Roll the transaction back, or look at the server what was done.',
      })
    }
  }
}

/** How it is undone, now that it is known what it gave. */
function wayOf({ deed, rule, look }: Beginning, result: Payload): Compensation {
  if (!takesResult(rule, look)) return deed.way
  return compensationFor(rule, { args: deed.arguments, look, result: { value: resultValue(result) } })
}

/** What is found out from a server's list cannot be where it does not list. */
async function ruleOf(deps: Deps, upstream: string, tool: string): Promise<UndoRule | undefined> {
  try {
    return await deps.servers.undoRule(upstream, tool)
  } catch {
    return undefined
  }
}

/** What may have reached its server and was not answered may have been done. */
function failedWith(error: unknown, { deed, isResumed }: Beginning): Ending {
  const { relayed, isUnsent, details } = asGatewayError(error).extra
  const isRefused = relayed !== undefined || isRefusal(details?.['http_status'])
  if (isRefused || (isUnsent && !isResumed)) return { status: 'failed', way: nothing }
  return { status: 'unknown', way: deed.way }
}

/** HTTP statuses of servers that did not act. RFC 9110 §15.5, §15.6.4; a timeout says nothing. */
function isRefusal(status: unknown): boolean {
  return typeof status === 'number' && ((status >= 400 && status < 500 && status !== 408) || status === 503)
}

// Holds the call that undoes another one against the schema of its tool, once its arguments are known: one that its
// server would refuse when it is needed is no way back.

/** Why the call of a way back would be refused; nothing where it fits, or where the server's list cannot be had. */
async function compensationProblem(
  call: Call,
  way: Compensation,
  { upstream, deps }: { readonly upstream: string; readonly deps: Deps },
): Promise<string | undefined> {
  if (way.kind !== 'exact' && way.kind !== 'approximate') return undefined
  const { tool, arguments: args } = way
  const { principal } = call
  const internal = deps.invoker.internal({
    purpose: 'compensate',
    principal,
    upstream,
    tool,
    arguments: args,
  })
  const entry = await Promise.resolve(deps.servers.tool(internal)).catch(() => undefined)
  const schema = entry?.definition.inputSchema
  if (!entry || !isObject(schema)) return undefined
  const keyArgument = settingOf(deps.servers.settings(upstream)?.tools ?? {}, tool, 'keyArgument')?.value
  // A compensation has a key, which the tool may want among its arguments.
  const given = withKeyArgument(internal, 'key', keyArgument, entry).params.fields.arguments
  try {
    const [problem] = validator(schema)(given)
    if (!problem) return undefined
    const where = problem.path.length === 0 ? 'its arguments' : problem.path.join('.')
    return `${tool}, which undoes it, would be refused: ${where} ${problem.message}`
  } catch (error) {
    if (error instanceof UnusableSchema) return undefined
    throw error
  }
}
