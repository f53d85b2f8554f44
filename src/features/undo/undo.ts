/**
 * The feature `undo`: records actions with their compensation, and describes the undo rule of tools.
 */
import type { Finding } from '../../core/findings.ts'
import { world } from '../../core/world.ts'
import { type Call, type Handler, type InterimOutcome, isOpen, type Outcome } from '../../core/call.ts'
import { spoolSlot } from '../../core/spool.ts'
import { stepSlot } from '../../records/transactions.ts'
import type { ToolFacts, Descriptor } from '../../core/descriptor.ts'
import { type UndoForecast, withFinding } from '../../core/dry-run.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { asObject, isObject } from '../../core/json/json.ts'
import { asCalled } from '../../core/judgement/call.ts'
import { maskedArguments, displayCall, secretNames } from '../../core/masked-arguments.ts'
import type { Payload } from '../../core/payload.ts'
import { isStoreShared, type ToolSettings, settingOf } from '../../core/settings.ts'
import { Slot, trailSlot } from '../../core/slot.ts'
import { writtenArguments, referencesSlot } from '../../core/used-reference.ts'
import {
  printExpression,
  parseExpression,
  resultValue,
  evaluate,
  type Expression,
  uses,
  pathsOf,
} from '../../core/undo/expression.ts'
import { callsOf, type WrittenUndo, writtenMismatches } from '../../core/undo/judge-undo.ts'
import { type UndoRule, readUndo } from '../../core/undo/rules.ts'
import { isTrialCall } from '../../core/undo/selectors.ts'
import {
  Actions,
  type Action,
  type ActionStates,
  type Compensation,
  isKeepable,
  newActionKey,
  tooLarge,
} from '../../records/actions.ts'
import { haveOutsideData, withoutData } from '../../records/kept-arguments.ts'
import { toStoredPrincipal } from '../../records/principal.ts'
import { keepReferences } from '../../records/references.ts'
import { toolsToCheck } from '../tool-lists.ts'
import { type Feature, type Services, toolSetting } from '../feature.ts'
import { callUndos, presentStates, recordingStates, toolFacts } from '../offers.ts'
import { noUndo } from '../missing-undo.ts'
import { type UndoSettings, undoSchema } from '../settings/upstream.ts'
import { CLOSE_TIMEOUT_MS, History } from './history.ts'
import { previewOf } from './preview.ts'
import { READ_TIMEOUT_MS, type ReadSnapshot, SnapshotReader, States } from './states.ts'
import { attempt, within } from '../../core/time/waiting.ts'
import { internalCall } from '../own-calls.ts'
import { MASK } from '../../core/text/redactor.ts'
import type { Step } from '../../core/json/path.ts'
import { UnusableSchema, validator } from '../../core/schema/schema.ts'
import { isSecretName } from '../../core/text/secret.ts'
import { withKeyArgument } from '../../core/tool-call.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'descriptions' | 'features' | 'gateway'>

/** Records what tools did for whom, and how it is undone. */
export const undo: Feature<UndoSettings> = {
  ...undoSchema,
  create: (settings, deps) => {
    const snapshots = new SnapshotReader(deps)
    const actions = new Actions(deps.store)
    const journal = new History(actions, deps.log)
    const states = new States({ deps, actions, snapshots })
    const historyOf = (upstream: string): number => {
      const { history } = settings(upstream)
      return history === 'off' ? 0 : history
    }
    const undoLogOf = (upstream: string, history: number): UndoLog =>
      new UndoLog({ deps, actions, snapshots, states, journal, upstream, history })
    // What is in memory is not there any more after a crash.
    const isDurable = ({ upstream }: Descriptor): boolean =>
      historyOf(upstream) > 0 && isStoreShared(deps.gateway.settings)
    return {
      calls: {
        middleware: ({ upstream, method, isBuiltin }) => {
          if (method !== 'tools/call' || isBuiltin || upstream === undefined) return undefined
          const undoLog = undoLogOf(upstream, historyOf(upstream))
          return (next) => (call) => record(call, { next, snapshots, states, undoLog })
        },
        dryRun: ({ upstream, isBuiltin }) => {
          if (isBuiltin || upstream === undefined) return undefined
          const undoLog = undoLogOf(upstream, 0)
          return (next) => async (call) => next(withFinding(call, { undo: await forecast(call, undoLog) }))
        },
      },
      offers: [
        recordingStates.offer(async (key) => {
          await states.settled(key)
          if (key === undefined) await journal.flush()
        }),
        presentStates.offer((given) => states.present(given)),
        callUndos.offer({
          preview: (call, tool) =>
            previewOf(call, tool, {
              states,
              snapshots,
              deps,
              secretsOf: (given, rule, { upstream }) => secretsOf(given, rule, { upstream, deps }),
              compensationFor,
              problemOf: (given, way, { upstream }) => compensationProblem(given, way, { upstream, deps }),
            }),
          canSecure: (tool, all) => isDurable(tool) && deps.servers.isUndoProvedAmong(tool, all),
          couldSecure: async (tool) => isDurable(tool) && isProved(tool, deps),
          secure: async (call, tool) => {
            if (!isDurable(tool) || !(await isProved(tool, deps))) return undefined
            const undoLog = undoLogOf(tool.upstream, historyOf(tool.upstream))
            return undoLog.secure(call, tool.name).catch(() => undefined)
          },
        }),
        toolFacts.offer((entry, all) => {
          const rule = entry.classification.op === 'read' ? undefined : deps.servers.undoRuleAmong(entry, all)
          return rule && rule.kind !== 'none' ? { undo: factOf(rule) } : {}
        }),
      ],
      problems: () => liveProblems(deps),
      close: async () => {
        await within(states.settled(), CLOSE_TIMEOUT_MS, undefined)
        await journal.close()
      },
    }
  },
}

function factOf(rule: Exclude<UndoRule, { readonly kind: 'none' }>): NonNullable<ToolFacts['undo']> {
  const call = rule.kind === 'call' ? rule.call : rule.restore
  const description = rule.description ?? printExpression(call)
  return { tool: call.tool, isExact: rule.isExact, description }
}

function isProved({ upstream, name }: Descriptor, { servers }: Deps): Promise<boolean> {
  return servers.isUndoProved(upstream, name).catch(() => false)
}

interface UndoContext {
  readonly next: Handler
  readonly snapshots: SnapshotReader
  readonly states: States
  readonly undoLog: UndoLog
}

/** Calls that only read are passed on unrecorded. */
function record(call: Call, context: UndoContext): Promise<Outcome> {
  const { next, snapshots, states, undoLog } = context
  if (call.internal === 'compensate') return states.undo(call, next)
  if (call.internal === 'read') return recordRead(call, next, snapshots)
  return isWithoutEffect(call) ? next(call) : undoLog.record(call, toolOf(call), next)
}

/** How a call would be undone. @throws COMPENSATION_UNAVAILABLE if it has to be undoable, and is not */
async function forecast(call: Call, undoLog: UndoLog): Promise<UndoForecast> {
  return isWithoutEffect(call) ? { how: 'nothing' } : undoLog.forecast(call, toolOf(call))
}

/** Whether a call does nothing that could be undone: it reads, or its server only tries it. */
function isWithoutEffect(call: Call): boolean {
  // A server that cannot list its tools may still serve calls.
  const { tool, params } = call
  if (!tool) return false
  return (
    asCalled(tool, call).classification.op === 'read' || isTrialCall(tool.definition, params.fields.arguments)
  )
}

function toolOf({ tool, params }: Call): string {
  return tool?.name ?? String(params.fields.name)
}

async function recordRead(call: Call, next: Handler, snapshots: SnapshotReader): Promise<Outcome> {
  const outcome = await next(call)
  snapshots.recordResult(call, outcome)
  return outcome
}

// Checks at startup that configured undo and verify calls match the tools that servers list.

/** The mismatches between configured undo and verify calls and the tools of servers. */
export async function liveProblems(deps: Deps): Promise<Finding[]> {
  const found = await Promise.all(deps.servers.names().map((name) => serverProblems(name, deps)))
  return found.flat()
}

async function serverProblems(upstream: string, deps: Deps): Promise<Finding[]> {
  const settings = deps.servers.settings(upstream)?.tools ?? {}
  const configured = Object.entries(settings).flatMap(([glob, tool]) => configuredCalls(glob, tool))
  if (configured.length === 0) return []
  const tools = await toolsToCheck(upstream, deps, 'undo.unchecked')
  if (!tools) return []
  return configured.flatMap(({ path, glob, key, ...each }) => {
    const subjects = tools.filter(({ name }) => settingOf(settings, name, key)?.glob === glob)
    const found = writtenMismatches({ ...each, subjects }, upstream, tools)
    return [...new Set(found)].map((message) => ({
      path: ['upstreams', upstream, 'tools', ...path],
      message,
    }))
  })
}

/** A configured call, and its place in the configuration. */
type ConfiguredCall = Omit<WrittenUndo, 'subjects'> & {
  readonly glob: string
  readonly key: 'undo' | 'verify'
  readonly path: readonly string[]
}

function configuredCalls(glob: string, { undo, verify }: ToolSettings): ConfiguredCall[] {
  const undoCalls = undo === undefined ? [] : callsOf(readUndo(undo))
  return [
    ...undoCalls.map(({ key, ...call }): ConfiguredCall => {
      return { ...call, glob, key: 'undo', path: [glob, 'undo', ...(typeof undo === 'string' ? [] : [key])] }
    }),
    ...(verify === undefined ? [] : [verifyCall(glob, verify)]),
  ]
}

function verifyCall(glob: string, verify: string): ConfiguredCall {
  const expression = parseExpression(verify)
  return { glob, key: 'verify', path: [glob, 'verify'], expression, mustRead: true, resultOf: 'itself' }
}

// The life of an action: its rule, the read before the call, and the compensation computed from the result.

interface Options {
  readonly deps: Deps
  readonly actions: Actions
  readonly snapshots: SnapshotReader
  readonly states: States
  readonly journal: History
  readonly upstream: string
  /** How long actions outside of transactions are kept, in milliseconds; 0 for not at all. */
  readonly history: number
}

/** An action in progress: its record, and what its compensation is computed from. */
interface ActionInProgress {
  readonly action: Action
  readonly args: Action['arguments']
  readonly rule: UndoRule | undefined
  readonly snapshot: ReadSnapshot | undefined
  /** The server already started in an earlier round, so the action is recorded already. */
  readonly isResumed?: true
  /** The action was recorded before the call is sent, outside of a transaction. */
  readonly isSecured?: true
}

/** Set on a call whose action is recorded already: it runs unconfirmed because that undoes it. */
const securedSlot = new Slot<ActionInProgress>('secured undo')

type ActionEnd = Pick<Action, 'status' | 'way'>

/** What is known before a call of how to undo it. */
interface Plan {
  readonly snapshot?: ReadSnapshot
  readonly states?: ActionStates
  /** The names of arguments that are secrets. */
  readonly secrets: readonly string[]
  readonly way: Compensation
}

/** How long steps are kept, in milliseconds: longer than any transaction takes. */
const STEP_TTL_MS = 30 * 86_400_000

/** The request state key of an action whose server already started. */
const STATE_KEY = 'undo'

/** The compensation needs data that is not there any more. */
const OUTSIDE_DATA: Compensation = {
  kind: 'none',
  reason: 'the data needed to undo it was a file or a URL, which is not there any more',
}

/** There is nothing to undo. */
const NOTHING_TO_UNDO: Compensation = { kind: 'nothing' }

/** Records the actions of one server's tools. */
class UndoLog {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  /** Makes a call and records its outcome. @throws COMPENSATION_UNAVAILABLE, SERVER_UNAVAILABLE */
  async record(call: Call, tool: string, next: Handler): Promise<Outcome> {
    if (!stepSlot.of(call) && this.#options.history === 0) return next(call)
    const started = securedSlot.of(call) ?? (await this.#start(call, tool))
    // What undoes the call may be in the result, which must be whole then.
    const made =
      spoolSlot.of(call) && needsResult(started.rule, started.snapshot)
        ? spoolSlot.set(call, undefined)
        : call
    let outcome: Outcome
    try {
      outcome = await next(made)
    } catch (error) {
      await this.#end(call, started, endOfFailure(error, started)).catch(() => undefined)
      throw error
    }
    if (outcome.kind !== 'result') return this.#inputRequested(call, started, outcome)
    const { action, rule, snapshot } = started
    const isFailed = outcome.result.member('isError') === true
    const isKnown = isFailed || !needsResult(rule, snapshot)
    const way = isKnown ? action.way : await this.#final(call, started, outcome.result)
    const end: ActionEnd = isFailed ? { status: 'failed', way: NOTHING_TO_UNDO } : { status: 'ok', way }
    await this.#end(call, started, end)
    return outcome
  }

  /**
   * Records what undoes a call exactly, before it is sent: the call with its action once that is durable, undefined if nothing undoes
   * it exactly. Until the call ends, the record says that it is unknown whether it took effect. @throws as `record`
   */
  async secure(call: Call, tool: string): Promise<Call | undefined> {
    const { actions, history } = this.#options
    const started = await this.#start(call, tool, READ_TIMEOUT_MS)
    const action: Action = { ...started.action, status: 'unknown' }
    const isExact = action.way.kind === 'exact'
    if (isExact && stepSlot.of(call)) return securedSlot.set(call, started)
    // Of an action that is too large, the compensation is not stored.
    const isStored =
      isExact &&
      (await actions
        .put(action, history)
        .then(() => actions.find(action.key))
        .then(
          (stored) => stored?.way.kind === 'exact',
          () => false,
        ))
    if (isStored) return securedSlot.set(call, { ...started, action, isSecured: true })
    // The call may not be made at all: a person decides.
    await actions.remove(action.key).catch(() => undefined)
    return undefined
  }

  /** How a call would be undone, as far as that is known without a call of its server. @throws COMPENSATION_UNAVAILABLE */
  async forecast(call: Call, tool: string): Promise<UndoForecast> {
    const { deps, upstream } = this.#options
    const rule = await ruleOf(deps, upstream, tool)
    const isKnownLater = rule?.kind === 'restore' || needsResult(rule, undefined)
    const way = isKnownLater
      ? undefined
      : compensationFor(rule, { args: asObject(call.params.fields.arguments) })
    const problem = way && (await compensationProblem(call, way, { upstream, deps }))
    const reason = problem ?? (way?.kind === 'none' ? way.reason : undefined)
    if (reason !== undefined && stepSlot.of(call)?.mustBeUndoable)
      throw noUndo({ upstream, tool }, reason, 'Resolve that first.')
    if (reason !== undefined || !rule || rule.kind === 'none')
      return { how: 'none', ...(reason !== undefined && { reason }) }
    const expression = rule.kind === 'call' ? rule.call : rule.restore
    return { how: rule.isExact ? 'exact' : 'approximate', rule: printExpression(expression) }
  }

  /** The action of a call: the recorded one where the call is made again with input, otherwise a new one. */
  async #start(call: Call, tool: string, timeout?: number): Promise<ActionInProgress> {
    const { deps, upstream } = this.#options
    const key = call.requestState[STATE_KEY]
    const resumed = typeof key === 'string' ? await this.#resume(call, key) : undefined
    if (resumed) return resumed
    const found = ruleOf(deps, upstream, tool)
    const rule = found instanceof Promise ? await found : found
    const { requestId, principal, client, meta, params } = call
    const step = stepSlot.of(call)
    const args = asObject(params.fields.arguments)
    // Most tools have no rule: then nothing is read, and nothing can be rejected.
    const { snapshot, states, secrets, way } =
      rule && rule.kind !== 'none'
        ? await this.#planned(call, rule, { args, timeout })
        : { secrets: secretNames(call.tool?.definition.inputSchema), way: compensationFor(rule, { args }) }
    if (step?.mustBeUndoable && way.kind === 'none' && !needsResult(rule, snapshot))
      throw noUndo({ upstream, tool }, way.reason, 'Resolve that first.')
    const startedAt = world.now()
    const written = writtenArguments(params, referencesSlot.of(call))?.value
    const action: Action = {
      key: step?.deed ?? newActionKey(startedAt),
      startedAt,
      tick: world.monotonic(),
      principal: toStoredPrincipal(principal),
      ...(client.session !== undefined && { session: client.session }),
      upstream,
      tool,
      arguments: maskedArguments(asObject(written), secrets),
      ...(secrets.length > 0 && { secrets }),
      ...(typeof meta.traceparent === 'string' && { trace: meta.traceparent }),
      request: requestId,
      ...(step && { transaction: step.transaction, step: step.step }),
      status: 'pending',
      way,
      ...(states && { states }),
    }
    if (step) await this.#recordStep(action)
    trailSlot.of(call)?.does(action.key)
    return { action, args, rule, snapshot }
  }

  /** What undoes a call by the rule of its tool, as far as that is known before the call. */
  async #planned(
    call: Call,
    rule: Rule,
    { args, timeout }: { readonly args: Action['arguments']; readonly timeout: number | undefined },
  ): Promise<Plan> {
    const { deps, states, upstream } = this.#options
    const known =
      rule.kind === 'restore' ? await states.before(call, rule, { upstream, args, timeout }) : undefined
    const secrets = await secretsOf(call, rule, { upstream, deps })
    const facts = { args, snapshot: known?.snapshot, secrets }
    const way = await this.#validated(call, compensationFor(rule, facts))
    return { ...known, secrets, way }
  }

  /** The compensation, now that the result is known. */
  async #final(call: Call, started: ActionInProgress, result: Payload): Promise<Compensation> {
    const { action, args, rule, snapshot } = started
    const known = {
      args,
      snapshot,
      ...(action.secrets && { secrets: action.secrets }),
      result: { value: resultValue(result), isRedacted: result.isRedacted },
    }
    return this.#validated(call, compensationFor(rule, known))
  }

  /** A compensation that its server would reject counts as none. */
  async #validated(call: Call, way: Compensation): Promise<Compensation> {
    const { deps, upstream } = this.#options
    const reason = await compensationProblem(call, way, { upstream, deps })
    return reason === undefined ? this.#storable(call, way) : { kind: 'none', reason }
  }

  /** A compensation as it is stored: data of references that is too large for its record is kept as long as the record. */
  async #storable(call: Call, way: Compensation): Promise<Compensation> {
    const references = referencesSlot.of(call)
    const given = call.params.fields.arguments
    const isCall = way.kind === 'exact' || way.kind === 'approximate'
    if (isCall && references && isObject(given) && haveOutsideData(way.arguments, given, references))
      return OUTSIDE_DATA
    if (isKeepable(way)) return way
    const short =
      isCall && references && isObject(given) ? withoutData(way.arguments, given, references) : undefined
    if (!short) return tooLarge
    const stored = { ...way, ...short }
    return (await this.#keepData(call, stored)) && isKeepable(stored) ? stored : tooLarge
  }

  /** Keeps the data of a compensation as long as a record of now; resolves with whether it is there. */
  async #keepData(call: Call, way: Compensation): Promise<boolean> {
    const { deps, history } = this.#options
    const kept = way.kind === 'exact' || way.kind === 'approximate' ? (way.kept ?? []) : []
    const until = world.now() + (stepSlot.of(call) ? STEP_TTL_MS : history)
    const ids = kept.map(({ id }) => id)
    return keepReferences(deps.store, call.principal, { ids, until }).catch(() => false)
  }

  /** Records a step before its server is called. */
  async #recordStep(action: Action): Promise<void> {
    try {
      await this.#options.actions.put(action, STEP_TTL_MS)
    } catch (cause) {
      throw new GatewayError(
        'SERVER_UNAVAILABLE',
        'The step could not be recorded, so it was not executed.',
        {
          cause,
          isUnsent: true,
        },
      )
    }
  }

  /** The recorded action of a call that resumes with input responses. */
  async #resume(call: Call, key: string): Promise<ActionInProgress | undefined> {
    const { actions, deps } = this.#options
    const found = await actions.find(key).catch(() => undefined)
    if (!found) return undefined
    const rule = await ruleOf(deps, found.upstream, found.tool)
    return {
      action: { ...found, key: stepSlot.of(call)?.deed ?? found.key },
      args: asObject(call.params.fields.arguments),
      // The snapshot is already part of the compensation; the current state may differ by now.
      rule: rule?.kind === 'call' ? rule : undefined,
      snapshot: undefined,
      isResumed: true,
    }
  }

  /** A server that requests input before it starts has done nothing; one that has started may continue in any case. */
  async #inputRequested(
    call: Call,
    { action, isSecured }: ActionInProgress,
    outcome: InterimOutcome,
  ): Promise<Outcome> {
    const { actions, history } = this.#options
    if (isOpen(outcome)) {
      if (!stepSlot.of(call)) await actions.put(action, history).catch(() => undefined)
      return { ...outcome, requestState: { ...outcome.requestState, [STATE_KEY]: action.key } }
    }
    if (stepSlot.of(call) || isSecured) await actions.remove(action.key)
    return outcome
  }

  async #end(call: Call, { action, isResumed, isSecured }: ActionInProgress, end: ActionEnd): Promise<void> {
    // A failed action needs no undo.
    if (!stepSlot.of(call) && end.status === 'failed' && !isResumed) {
      if (isSecured) await this.#options.actions.remove(action.key)
      return
    }
    const known: Action = { ...action, ...end, endedAt: world.now() }
    // Of a call that is not undone, no state is compared.
    const ended = known.states && !('tool' in end.way) ? withoutStates(known) : known
    // The record lasts from now on. If the data is gone, undoing the call says so.
    if ('kept' in ended.way) await this.#keepData(call, ended.way)
    const { actions, journal, states, history } = this.#options
    if (stepSlot.of(call)) {
      await this.#settle(ended)
      states.readLeft(
        call,
        ended,
        async (left) => void (await actions.recordLeft(ended.key, left, STEP_TTL_MS)),
      )
      return
    }
    journal.add(ended, history)
    states.readLeft(call, ended, (left) => journal.addLeft(ended, left, history))
  }

  async #settle(action: Action): Promise<void> {
    try {
      await this.#options.actions.put(action, STEP_TTL_MS)
    } catch (cause) {
      throw new GatewayError('OUTCOME_UNKNOWN', 'The effect of the step could not be recorded.', {
        cause,
        suggestion: 'Roll the transaction back, or check on the server what was done.',
      })
    }
  }
}

function withoutStates({ states: _states, ...action }: Action): Action {
  return action
}

/** A rule derived from the tool list is unavailable if the list is. */
function ruleOf(
  { servers }: Deps,
  upstream: string,
  tool: string,
): UndoRule | undefined | Promise<UndoRule | undefined> {
  const found = attempt(() => servers.undoRule(upstream, tool))
  return found instanceof Promise ? found.catch(() => undefined) : found
}

/** A call that may have reached its server without a response may have taken effect. */
function endOfFailure(error: unknown, { action, isResumed }: ActionInProgress): ActionEnd {
  const { relayed, isUnsent, details } = asGatewayError(error).extra
  const isRefused = relayed !== undefined || isRefusal(details?.['http_status'])
  if (isRefused || (isUnsent && !isResumed)) return { status: 'failed', way: NOTHING_TO_UNDO }
  return { status: 'unknown', way: action.way }
}

/** HTTP statuses of requests that were not executed. RFC 9110 §15.5, §15.6.4; a timeout is inconclusive. */
function isRefusal(status: unknown): boolean {
  return typeof status === 'number' && ((status >= 400 && status < 500 && status !== 408) || status === 503)
}

// Computes the compensating call from a rule, the arguments, the result and the snapshot.

/** The known facts about a call. */
interface CallFacts {
  /** The names of its arguments that are secrets by the schema of its tool. */
  readonly secrets?: readonly string[]
  readonly args: Readonly<Record<string, unknown>>
  readonly snapshot?: ReadSnapshot | undefined
  /** Its result, once it has ended. */
  readonly result?: { readonly value: unknown; readonly isRedacted: boolean }
}

/** The compensation of a call, from the facts known so far. It may be too large for a record. */
export function compensationFor(rule: UndoRule | undefined, facts: CallFacts): Compensation {
  if (!rule) return { ...none('no undo is configured for it'), isUnconfigured: true }
  if (rule.kind === 'none') return none('its undo is configured as none')
  const expression = expressionOf(rule, facts.snapshot)
  if (typeof expression === 'string') return none(expression)
  if (!facts.result && uses(expression).has('result')) return none(RESULT_UNKNOWN)
  return compute(expression, rule, facts)
}

/** Whether the compensation depends on the result of the call. */
function needsResult(rule: UndoRule | undefined, snapshot: ReadSnapshot | undefined): boolean {
  if (!rule || rule.kind === 'none') return false
  const expression = expressionOf(rule, snapshot)
  return typeof expression !== 'string' && uses(expression).has('result')
}

type Rule = Exclude<UndoRule, { readonly kind: 'none' }>

const RESULT_UNKNOWN = 'the data needed to undo it is in its result, which is unknown'

/** The expression that applies, or why there is none. */
function expressionOf(rule: Rule, snapshot: ReadSnapshot | undefined): Expression | string {
  if (rule.kind === 'call') return rule.call
  if (!snapshot) return 'the previous state was not read'
  if (snapshot.kind === 'unreadable') return `the previous state could not be read: ${snapshot.reason}`
  if (snapshot.kind === 'found') return rule.restore
  return rule.absent ?? 'nothing existed before the call, and no undo is configured for that case'
}

/** Replaces bytes that are not text after decoding (Unicode, U+FFFD). */
const REPLACEMENT_CHARACTER = '\uFFFD'

function compute(expression: Expression, { isExact, description }: Rule, facts: CallFacts): Compensation {
  const { args, snapshot, result, secrets } = facts
  try {
    const given = evaluate(expression, {
      args,
      ...(result && { result: result.value }),
      ...(snapshot?.kind === 'found' && { snapshot: snapshot.value }),
    })
    if (snapshot?.kind === 'found' && JSON.stringify(given).includes(REPLACEMENT_CHARACTER))
      return none('the previous state is not text, so it was not read exactly')
    const isRedacted = result?.isRedacted === true || (snapshot?.kind === 'found' && snapshot.isRedacted)
    if (isRedacted && JSON.stringify(given).includes(MASK))
      return none('the data needed to undo it contains a secret of the configuration, which is not kept')
    return {
      kind: isExact ? 'exact' : 'approximate',
      tool: expression.tool,
      arguments: given,
      description: description ?? displayCall(expression.tool, given, { secrets }),
    }
  } catch (error) {
    return none(error instanceof Error ? error.message : String(error))
  }
}

function none(reason: string): Extract<Compensation, { readonly kind: 'none' }> {
  return { kind: 'none', reason }
}

/*
 * What the tool that undoes a call says about the undoing call: whether it would take it, and which of its arguments are
 * secrets.
 */

interface Context {
  readonly upstream: string
  readonly deps: Deps
}

/**
 * Why a compensation would be rejected; undefined if it is valid, or if the tool list is unavailable. A call
 * that its server would reject is not a compensation.
 */
async function compensationProblem(
  call: Call,
  way: Compensation,
  { upstream, deps }: Context,
): Promise<string | undefined> {
  if (way.kind !== 'exact' && way.kind !== 'approximate') return undefined
  const { tool, arguments: args } = way
  const internal = compensatingCall(call, { tool, arguments: args }, upstream)
  const entry = await entryOf(internal, deps)
  const schema = entry?.definition.inputSchema
  if (!entry || !isObject(schema)) return undefined
  const keyArgument = toolSetting(deps, upstream, tool, 'keyArgument')
  // A compensation has an idempotency key, which the tool may require among its arguments.
  const given = withKeyArgument(internal, 'key', keyArgument, entry).params.fields.arguments
  try {
    const [problem] = validator(schema)(given)
    if (!problem) return undefined
    const where = problem.path.length === 0 ? 'its arguments' : problem.path.join('.')
    return `${tool}, which undoes it, would reject the call: ${where} ${problem.message}`
  } catch (error) {
    if (error instanceof UnusableSchema) return undefined
    throw error
  }
}

/** The names of arguments that are secrets: of a call by the schema of its tool, and of the calls that undo it. */
async function secretsOf(call: Call, rule: Rule, context: Context): Promise<readonly string[]> {
  const own = secretNames(call.tool?.definition.inputSchema)
  const undoing = rule.kind === 'call' ? [rule.call] : [rule.restore, ...(rule.absent ? [rule.absent] : [])]
  const names = undoing.map(async (expression) => {
    const called = { tool: expression.tool, arguments: {} }
    const entry = await entryOf(compensatingCall(call, called, context.upstream), context.deps)
    return [...secretNames(entry?.definition.inputSchema), ...secretsPassedOn(expression, own)]
  })
  return [...new Set([...own, ...(await Promise.all(names)).flat()])]
}

/** The arguments of an expression to which it passes a secret. */
function secretsPassedOn(expression: Expression, secrets: readonly string[]): readonly string[] {
  const isSecret = (step: Step): boolean =>
    typeof step === 'string' && (secrets.includes(step) || isSecretName(step))
  return [...expression.arguments].flatMap(([name, value]) => {
    const paths = pathsOf({ ...expression, arguments: new Map([[name, value]]) })
    return paths.some(({ steps }) => steps.some(isSecret)) ? [name] : []
  })
}

function compensatingCall(
  { principal }: Call,
  called: { readonly tool: string; readonly arguments: Readonly<Record<string, unknown>> },
  upstream: string,
): Call {
  return internalCall({ purpose: 'compensate', principal, upstream, ...called })
}

/** The list entry of the tool that is called; undefined if it is not known. */
async function entryOf(call: Call, { servers }: Deps): Promise<Descriptor | undefined> {
  return Promise.resolve(servers.tool(call)).catch(() => undefined)
}
