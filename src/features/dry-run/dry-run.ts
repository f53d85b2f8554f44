/**
 * The feature `dry_run`: answers calls that are to be tried only, and all writes to a server that is a sandbox. Such a call
 * leaves the chain here, above everything that keeps something, and goes through the chain for dry runs instead
 * (`CallLayer.dryRun`), whose end is a report.
 */
import type { Fields } from '../../core/payload.ts'
import {
  type Call,
  compose,
  type Handler,
  type Middleware,
  type Outcome,
  type Target,
} from '../../core/call.ts'
import {
  dryRunSlot,
  type ConfirmationForecast,
  type CostForecast,
  type DryRun,
  type KeyForecast,
  type PauseForecast,
  type StepForecast,
  type UndoForecast,
} from '../../core/dry-run.ts'
import { GatewayError, invalidParam, unknownTool } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { asCalled } from '../../core/judgement/call.ts'
import { namesArgument, rememberedSlot } from '../../core/tool-call.ts'
import {
  DRY_RUN,
  DRY_RUN_KEY,
  extensionOf,
  hasExtension,
  withoutExtension,
} from '../../protocol/meta-keys.ts'
import type { Feature, Services } from '../feature.ts'
import { callerValues, modelArguments, toolFacts, type Reserved, masked } from '../offers.ts'
import { dryRunSchema } from '../settings/admit.ts'
import { oneLine, shortened } from '../../core/text/escape.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { writtenArguments, referencesSlot } from '../../core/used-reference.ts'
import { answered } from '../builtin-tool.ts'

type Deps = Pick<Services, 'servers' | 'features'>

/** The argument by which a model can request a dry run, where arguments for the gateway are on. */
const ARGUMENT = `_${DRY_RUN}`

const reserved: Reserved = {
  argument: ARGUMENT,
  value: DRY_RUN,
  schema: {
    type: 'boolean',
    description: 'Optional. true: the call is only checked, and the result says what it would do.',
  },
  isFor: ({ classification }) => classification.op !== 'read',
}

/** Answers calls with what they would do, without making them. */
export const dryRun: Feature<Record<never, never> | false> = {
  ...dryRunSchema,
  create: (_settings, deps) => ({
    calls: {
      middleware: (target) => (target.method === 'tools/call' ? divert(target, deps) : undefined),
      dryRun: 'absent',
    },
    builtins: {
      extensions: () => ({ [DRY_RUN_KEY]: {} }),
    },
    offers: [
      toolFacts.offer(({ upstream, classification }) => {
        if (classification.op === 'read') return {}
        return { dryRuns: deps.servers.settings(upstream)?.isSandbox ? 'always' : 'on_request' }
      }),
      callerValues.offer([{ name: DRY_RUN, header: 'X-MCP-Dry-Run' }]),
      modelArguments.offer(() => [reserved]),
    ],
  }),
}

/** Refuses dry runs of a target for which the feature is off. */
export function dryRunGuard(
  { method, upstream }: Target,
  { features }: Pick<Services, 'features'>,
): Middleware | undefined {
  return method !== 'tools/call' || features.isOn(dryRun.name, upstream) ? undefined : refuseDryRuns
}

/** Refuses what would be a dry run: a call must not run because nothing reads the request. */
const refuseDryRuns: Middleware = (next) => async (call) => {
  if (!hasExtension(call, DRY_RUN)) return next(call)
  if (!isDryRun(call)) return next(withoutExtension(call, DRY_RUN))
  throw new GatewayError('UNSUPPORTED_OPERATION', 'Dry runs are off here: the call was not made.', {
    field: DRY_RUN,
    suggestion: 'Leave dry_run out to make the call, or ask the operator to set features.dry_run.',
  })
}

/** Sends dry runs of a target through the chain for them. */
function divert(target: Target, deps: Deps): Middleware {
  const { upstream = '', isBuiltin } = target
  const isSandbox = !isBuiltin && deps.servers.settings(upstream)?.isSandbox === true
  const hasArguments = !isBuiltin && deps.features.isOn('inject_arguments', upstream)
  return (next) => {
    let dry: Handler | undefined
    const run = async (call: Call): Promise<Outcome> => {
      const isWanted = isDryRun(call) || isInArguments(call)
      const inner = withoutExtension(call, DRY_RUN)
      const by = isWanted
        ? 'caller'
        : (dryRunSlot.of(call)?.by ?? (isSandbox && writes(call) ? 'sandbox' : undefined))
      if (by === undefined) return next(inner)
      call.logFields.set(DRY_RUN, by)
      dry ??= dryRunChain(target, deps)
      // What an earlier round of a call asked for belongs to a call that was made.
      const { inputResponses: _responses, ...rest } = inner
      return dry({ ...rest, requestState: {}, slots: dryRunSlot.put({ by }, rest.slots) })
    }
    return (call) => {
      if (call.internal) return isSandbox ? runInternal(call, next) : next(call)
      const isAsked = hasExtension(call, DRY_RUN) || (hasArguments && isInArguments(call))
      return isAsked || isSandbox || dryRunSlot.of(call) ? run(call) : next(call)
    }
  }
}

/** The chain of dry runs of a target: the layers that take part, in their order, around a report in the place of the server. */
function dryRunChain(target: Target, deps: Deps): Handler {
  const end = reportDryRun(deps)
  const middlewares = deps.features.layers(target.upstream).map(({ dryRun: role, middleware }) => {
    if (role === 'absent') return undefined
    return role === 'same' ? middleware(target) : role(target, end)
  })
  return compose(middlewares, end)
}

/** The gateway undoes nothing on a sandbox; reads pass, whatever they are for. */
function runInternal(call: Call, next: Handler): Promise<Outcome> {
  if (call.internal === 'read' || !writes(call)) return next(call)
  const message = `${call.target.upstream} is a sandbox, where nothing is undone.`
  return Promise.reject(new GatewayError('COMPENSATION_UNAVAILABLE', message, { isUnsent: true }))
}

/** Whether a call may write: what is not known to read counts as a write. */
function writes(call: Call): boolean {
  return !call.tool || asCalled(call.tool, call).classification.op !== 'read'
}

/** The value of a call. Anything but a boolean is refused: the call must not run by mistake. @throws INVALID_INPUT */
function isDryRun(call: Call): boolean {
  const value = extensionOf(call, DRY_RUN)
  if (value === undefined) return false
  if (typeof value === 'boolean') return value
  throw invalidParam(DRY_RUN, 'must be true or false')
}

/** Whether the value is among the arguments; other values than `true` are judged where they are taken out. */
function isInArguments({ params, tool }: Call): boolean {
  const { arguments: given } = params.fields
  return (
    isObject(given) &&
    given[ARGUMENT] === true &&
    !(tool !== undefined && namesArgument(tool.definition, ARGUMENT))
  )
}

// The end of the chain for dry runs: the report of what the call would do, as the result of the tool.

/** The longest arguments in a report, in bytes of JSON: the caller knows what it sent. */
const MAX_ARGUMENTS_BYTES = 65_536
/** The longest arguments in its text, in characters. */
const MAX_TEXT_LENGTH = 2000

/** Answers a dry run with its report. @throws UNKNOWN_TOOL, why the tools of the server could not be listed */
export function reportDryRun(deps: Deps): Handler {
  return async (call) => {
    if (call.toolError !== undefined) throw call.toolError
    const { tool, target } = call
    const dryRun = dryRunSlot.of(call) ?? { by: 'caller' }
    if (!tool) throw unknownTool(target.name ?? '')
    const report = reportOf(call, dryRun, deps)
    // A result has to fit the output schema of its tool unless it is an error (2025-06-18 server/tools), and this one is no
    // result of the tool.
    const isTyped = isObject(tool.definition.outputSchema)
    return answered({
      content: [{ type: 'text', text: textOf(report, dryRun) }],
      ...(!isTyped && { structuredContent: report }),
      isError: isTyped,
      _meta: { [DRY_RUN_KEY]: report },
    })
  }
}

interface Report extends Fields {
  readonly would_call: { readonly server?: string; readonly tool: string }
  readonly arguments?: unknown
}

function reportOf(call: Call, dryRun: DryRun, deps: Deps): Report {
  const { target } = call
  const remembered = rememberedSlot.of(call)
  const { idempotency, paused, transaction, cost, confirmation, undo, scopes } = dryRun
  const isRun = !paused && (idempotency === undefined || idempotency.outcome === 'would_run')
  return {
    dry_run: true,
    ...(dryRun.by === 'sandbox' && { sandbox: true }),
    would_call: {
      ...(!target.isBuiltin && target.upstream !== undefined && { server: target.upstream }),
      tool: target.name ?? '',
    },
    would_run: isRun,
    ...argumentsOf(call, deps),
    ...(remembered !== undefined && remembered.length > 0 && { remembered_arguments: remembered }),
    ...(scopes && { scopes }),
    confirmation: confirmationView(confirmation),
    ...(cost && { cost: costView(cost) }),
    ...(undo && { undo }),
    ...(paused && { writes_paused: pauseView(paused) }),
    idempotency: idempotency ? keyView(idempotency) : { outcome: 'no_key' },
    ...(transaction && { transaction: stepView(transaction) }),
  }
}

/** The arguments as the server would get them, masked as its responses are; those with much data as they were written. */
function argumentsOf(call: Call, deps: Deps): Fields {
  const { params, target } = call
  const sent = params.at('arguments')
  const written = writtenArguments(params, referencesSlot.of(call))
  const shown = [sent, written].find((each) => (each ? sizeOf(each.text) : 0) <= MAX_ARGUMENTS_BYTES)
  if (sent && !shown) return { arguments_omitted: { bytes: sizeOf(sent.text) } }
  return { arguments: masked(deps, shown?.value ?? {}, target) }
}

function sizeOf(text: string): number {
  return Buffer.byteLength(text)
}

function keyView({ outcome, key, since }: KeyForecast): Fields {
  return {
    outcome,
    ...(key !== undefined && { key }),
    ...(since !== undefined && { original_timestamp: isoTime(since) }),
  }
}

function pauseView({ since, until }: PauseForecast): Fields {
  return { since: isoTime(since), ...(until !== undefined && { until: isoTime(until) }) }
}

function stepView({ id, step, kind }: StepForecast): Fields {
  return { transaction_id: id, step_id: step, kind }
}

function costView({ category, units, label, left }: CostForecast): Fields {
  return {
    category,
    ...(units !== undefined && { units }),
    ...(label !== undefined && { unit_label: label }),
    ...(left && {
      remaining: left.remaining,
      ...(left.resetsAt !== undefined && { resets_at: isoTime(left.resetsAt) }),
    }),
  }
}

function confirmationView(forecast: ConfirmationForecast | undefined): Fields {
  if (!forecast?.isRequired) return { required: false }
  const { unless, message, risk, by, via, needed, approvers, isGranted } = forecast
  return {
    required: true,
    ...(unless && { unless }),
    ...(isGranted && { granted: true }),
    message,
    risk_level: risk,
    ...(by && { decided_by: by }),
    ...(via && { asked_by: via }),
    ...(needed !== undefined && { needed }),
    ...(approvers !== undefined && approvers.length > 0 && { approvers }),
  }
}

// The report as text, for models and people.

function textOf({ would_call: { server, tool }, ...report }: Report, dryRun: DryRun): string {
  const { scopes, confirmation, cost, undo, idempotency, paused, transaction, by } = dryRun
  const where = server === undefined ? tool : `${tool} on ${server}`
  const why = by === 'sandbox' ? `${server} is a sandbox, so nothing was done.` : 'Nothing was done.'
  const lines = [
    `Dry run. ${why} The call ${paused ? pauseText(paused) : keyWords[idempotency?.outcome ?? 'would_run']} (${where}).`,
    `Arguments: ${shortened(JSON.stringify(report.arguments) ?? 'not shown, because they are long', MAX_TEXT_LENGTH)}`,
    ...(scopes && scopes.length > 0 ? [`Scopes: ${scopes.join(' ')}`] : []),
    `Confirmation: ${confirmationText(confirmation)}`,
    ...(cost ? [`Cost: ${costText(cost)}`] : []),
    ...(undo ? [`Undo: ${undoText(undo)}`] : []),
    ...(idempotency?.key === undefined ? [] : [`Idempotency key: ${idempotency.key}`]),
    ...(transaction ? [`Transaction: ${transaction.step} of ${transaction.id}, ${transaction.kind}`] : []),
  ]
  return lines.map(oneLine).join('\n')
}

const keyWords = {
  would_run: 'would run',
  would_replay: 'would return the recorded outcome of an earlier one',
  would_wait: 'would wait for the same call, which runs now',
  would_verify: 'would first find out whether an earlier one took effect',
} as const satisfies Record<KeyForecast['outcome'], string>

function pauseText({ since, until }: PauseForecast): string {
  const end = until === undefined ? '' : ` until ${isoTime(until)}`
  return `would be refused, because writes are paused since ${isoTime(since)}${end}`
}

function confirmationText(forecast: ConfirmationForecast | undefined): string {
  if (!forecast?.isRequired) return 'not required'
  const { message = '', by, needed = 1, via, isGranted, unless } = forecast
  if (isGranted) return 'granted already'
  const who = by === 'others' ? `by ${needed} other ${needed === 1 ? 'person' : 'people'}` : 'by the user'
  const except = unless ? ', unless it can be undone exactly' : ''
  return `required, ${who}${via ? `, ${places[via]}` : ''}${except}: ${message}`
}

const places = {
  form: 'in a form of the client',
  page: 'on a page or by a command of the gateway',
  token: 'by a token that the host of the client sends',
} as const satisfies Record<NonNullable<ConfirmationForecast['via']>, string>

function costText({ category, units, label, left }: CostForecast): string {
  const amount =
    units === undefined ? (label ?? category) : `${units} ${label ?? (units === 1 ? 'unit' : 'units')}`
  return left ? `${amount} of ${left.remaining} left` : amount
}

function undoText({ how, rule, reason }: UndoForecast): string {
  switch (how) {
    case 'nothing':
      return 'there is nothing to undo'
    case 'none':
      return `not possible${reason === undefined ? '' : `: ${reason}`}`
    default:
      return `${rule ?? 'possible'}${how === 'approximate' ? ', approximately' : ''}`
  }
}
