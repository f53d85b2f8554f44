/** The end of the chain for dry runs: the report of what the call would do, as the result of the tool. */
import type { Call, Handler } from '../../core/call.ts'
import { rememberedSlot } from '../../core/tool-call.ts'
import {
  type ConfirmationForecast,
  type CostForecast,
  type DryRun,
  type KeyForecast,
  type StepForecast,
  type UndoForecast,
  dryRunSlot,
} from '../../core/dry-run.ts'
import { unknownTool } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { oneLine } from '../../core/text/escape.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { writtenArguments, referencesSlot } from '../../core/used-reference.ts'
import { DRY_RUN_KEY } from '../../protocol/meta-keys.ts'
import { answered } from '../builtin-tool.ts'
import type { Services } from '../feature.ts'
import { masked } from '../offers.ts'

type Deps = Pick<Services, 'features'>
type Fields = Readonly<Record<string, unknown>>

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
  const { idempotency, transaction, cost, confirmation, undo, scopes } = dryRun
  const isRun = idempotency === undefined || idempotency.outcome === 'would_run'
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
  const { message, risk, by, via, needed, approvers, isGranted } = forecast
  return {
    required: true,
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
  const { scopes, confirmation, cost, undo, idempotency, transaction, by } = dryRun
  const where = server === undefined ? tool : `${tool} on ${server}`
  const why = by === 'sandbox' ? `${server} is a sandbox, so nothing was done.` : 'Nothing was done.'
  const lines = [
    `Dry run. ${why} The call ${keyWords[idempotency?.outcome ?? 'would_run']} (${where}).`,
    `Arguments: ${shortened(JSON.stringify(report.arguments) ?? 'not shown, because they are long')}`,
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

function shortened(text: string): string {
  return text.length > MAX_TEXT_LENGTH ? `${text.slice(0, MAX_TEXT_LENGTH - 1).toWellFormed()}…` : text
}

function confirmationText(forecast: ConfirmationForecast | undefined): string {
  if (!forecast?.isRequired) return 'not required'
  const { message = '', by, needed = 1, via, isGranted } = forecast
  if (isGranted) return 'granted already'
  const who = by === 'others' ? `by ${needed} other ${needed === 1 ? 'person' : 'people'}` : 'by the user'
  return `required, ${who}${via ? `, ${places[via]}` : ''}: ${message}`
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
