/**
 * The policy before a call: no confirmation needed, already granted, or a request for one. The subject is what of a call has to
 * be confirmed, what its host sent about that, and which earlier decisions cover it.
 */
import { world } from '../../core/world.ts'
import { type Call, type Handler, type Outcome, type Middleware, listedTool } from '../../core/call.ts'
import { asGatewayError, GatewayError, invalidParam } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import { statesConfirmation } from '../../core/stated-tool.ts'
import { oneLine } from '../../core/text/escape.ts'
import { namesArgument } from '../../core/tool-call.ts'
import {
  CONFIRMATION_KEY,
  ERROR_KEY,
  extensionOf,
  hasExtension,
  withoutExtension,
} from '../../protocol/meta-keys.ts'
import {
  type Approval,
  type ApprovalRequest,
  type Requested,
  NO_APPROVER_REASON,
} from '../../records/approvals.ts'
import { keepUsed, unknownReference } from '../../records/references.ts'
import {
  type ConfirmContext,
  type Confirmed,
  FLAG,
  type HostConfirmation,
  TOKEN_ARGUMENT,
  TOKEN,
} from './context.ts'
import { requestForm, canAsk, changedRequest, readForm, useOnce, requestUrl, readUrl } from './elicitation.ts'
import { declined, run, type Grant, confirmStateOf, grantOf } from './grant.ts'
import { publish } from '../offers.ts'
import {
  approvalRequestOf,
  askAgain,
  type ConfirmationRequest,
  stateOf,
  confirmationRequestOf,
} from './request.ts'
import { neverNeedsConfirmation, type Rule, needsConfirmation } from './rules.ts'
import { stepSlot } from '../../records/transactions.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { asCalled } from '../../core/judgement/call.ts'

/** Lets calls of a tool through once a person has confirmed them. */
export function confirmationPolicy(context: ConfirmContext): Middleware {
  const { rule, settings } = context
  return (next) => async (given) => {
    const isExempt = given.internal === 'read' || (given.internal === 'compensate' && !settings.rollbacks)
    if (isExempt || neverNeedsConfirmation(rule, given)) return next(given)
    const { call, subject, host } = subjectOf(given, context)
    if (!subject) return next(call)
    const result = await confirmed(call, subject, host, context)
    return 'kind' in result ? result : runConfirmed(subject, result, { context, next })
  }
}

/** Keeps the data that a person is about to be asked about for as long as the answer may take. @throws RESOURCE_NOT_FOUND */
async function mustKeepData(call: Call, { deps, rule, settings }: ConfirmContext): Promise<void> {
  const until = world.now() + (rule.isOutOfBand ? settings.approval_ttl : settings.ttl)
  const isKept = await keepUsed(deps.store, call, until).catch((thrown: unknown) => {
    const error = asGatewayError(thrown).message
    deps.log.warn('confirm.references_not_kept', { request_id: call.requestId, error })
    return true
  })
  if (!isKept) throw unknownReference()
}

async function runConfirmed(
  subject: ConfirmationRequest,
  { grant, isFresh, isChosen = false, call = subject.call }: Confirmed,
  { context, next }: { readonly context: ConfirmContext; readonly next: Handler },
): Promise<Outcome> {
  const { deps, rule, memory } = context
  if (isFresh && isRemembered(rule, subject, isChosen)) {
    await memory.keep(subject, grant, rule)
    logRemembered(subject, grant, context)
  }
  const isStated = statesConfirmation(subject.entry.definition)
  return run({ ...subject, call: isStated ? withFlag(call) : call }, grant, { next, deps })
}

/** The call as a server expects it that asks for confirmations itself, by the extension proposals. */
function withFlag(call: Call): Call {
  const flag = { [FLAG]: true }
  return { ...call, params: call.params.with(flag).withMeta(flag), meta: { ...call.meta, ...flag } }
}

function logRemembered(
  { entry, call }: ConfirmationRequest,
  { approval }: Grant,
  { rule, deps }: ConfirmContext,
): void {
  if (!rule.remember) return
  const { for: milliseconds, max: calls } = rule.remember
  const { upstream, name: tool } = entry
  const fields = { approval, upstream, tool, principal: call.principal.id, calls }
  deps.log.info('confirm.remembered', { ...fields, seconds: milliseconds / 1000 })
}

/** Whether a grant applies to the calls that follow. If that is only offered, the person has to have chosen it. */
function isRemembered({ remember }: Rule, { offer }: ConfirmationRequest, isChosen: boolean): boolean {
  return remember?.offer ? offer !== undefined && isChosen : remember !== undefined
}

/** The permission to run a call, or its outcome instead. @throws CONFIRMATION_DECLINED, CONFIRMATION_REQUIRED */
async function confirmed(
  originalCall: Call,
  subject: ConfirmationRequest,
  host: HostConfirmation,
  context: ConfirmContext,
): Promise<Confirmed | Outcome> {
  const { rule, settings, deps, memory } = context
  const { call, digest } = subject
  const state = confirmStateOf(originalCall)
  const now = world.now()
  if (state?.kind === 'granted' && state.digest === digest) {
    await useOnce(state.nonce, deps.store, STATE_TTL_MS)
    return { grant: state.grant, isFresh: false }
  }
  const changed = changedRequest(state, subject)
  // The rules may have changed in the meantime: what others have to approve, the caller cannot confirm.
  if (state?.kind === 'asked' && !rule.isOutOfBand && !changed) {
    const { verdict, isChosen } = await readForm(originalCall, state, { subject, store: deps.store, now })
    if (verdict !== 'accept') throw declined(call, state.nonce, { reason: verdict, by: call.principal.id })
    const grant = { approval: state.nonce, by: [call.principal.id], via: ['elicitation'], at: now }
    return { grant, isFresh: true, isChosen }
  }
  const grant = isRecalled(subject, rule) ? await memory.recall(subject, rule) : undefined
  if (grant) return { grant, isFresh: false }
  if (rule.isOutOfBand) return approvedByOthers(originalCall, subject, context)
  if (isBareConfirmation(host, settings)) {
    const by = [call.principal.id]
    return { grant: { approval: call.requestId, by, via: ['user_confirmed'], at: now }, isFresh: true }
  }
  if (canAsk(call, 'form')) {
    await mustKeepData(call, context)
    return requestForm(changed ?? subject, settings.ttl)
  }
  return approvedOnPage(subject, host, context)
}

/** The maximum lifetime of states that clients hold, in milliseconds. */
const STATE_TTL_MS = 3_600_000

// Confirmation by other people: approvals in the store, the result that says how to decide, and their use by the next
// call.

/** Where an approval can be decided. */
interface DecisionChannels {
  readonly channels: readonly string[]
  readonly url: string | undefined
  /** Whether a person can decide there in a browser. */
  readonly isForPeople: boolean
}

/** Confirmation by the caller on a page of the gateway, or by the client's host. */
async function approvedOnPage(
  given: ConfirmationRequest,
  host: HostConfirmation,
  context: ConfirmContext,
): Promise<Confirmed | Outcome> {
  const { settings, approvals } = context
  const { call } = given
  if (settings.fallback === 'deny') throw noApprover(given)
  const subject = await withoutStale(given, context)
  const draft = approvalRequestOf(subject, callerOnly, { kind: 'page', ttl: settings.ttl })
  const redeemed = host.token === undefined ? undefined : await approvals.consume(draft, host.token)
  if (redeemed) return confirmedByHost(redeemed, subject, host)
  const result = resolveApproval(await approvals.use(draft), call)
  if (result) return result
  return requireConfirmation(draft, { subject, context, isTokenInvalid: host.token !== undefined })
}

/**
 * The request to confirm. If the same call waits for an approval, or has one, for other data than its references stand for
 * now, that one becomes void, and the request says so.
 */
async function withoutStale(
  given: ConfirmationRequest,
  { approvals }: ConfirmContext,
): Promise<ConfirmationRequest> {
  const isStale = await approvals.voidOthers({ caller: given.call.principal.id, ...stateOf(given) })
  return isStale ? askAgain(given) : given
}

/** The caller approves alone, whoever else may. */
export const callerOnly = { needed: 1, approvers: [] }

function confirmedByHost(
  { id }: Approval,
  { call }: ConfirmationRequest,
  { isConfirmed }: HostConfirmation,
): Confirmed {
  const { id: by } = call.principal
  if (isConfirmed === false) throw declined(call, id, { reason: 'decline', by })
  return { grant: { approval: id, by: [by], via: ['confirmation_token'], at: world.now() }, isFresh: true }
}

/** Confirmation by others; the call waits for them for a while. */
async function approvedByOthers(
  originalCall: Call,
  given: ConfirmationRequest,
  context: ConfirmContext,
): Promise<Confirmed | Outcome> {
  const { rule, settings, approvals, waiting } = context
  const { call } = given
  const subject = await withoutStale(given, context)
  const draft = approvalRequestOf(subject, rule, { kind: 'out_of_band', ttl: settings.approval_ttl })
  const state = confirmStateOf(originalCall)
  const response = state?.kind === 'opened' ? readUrl(originalCall) : 'accept'
  if (state?.kind === 'opened' && response !== 'accept')
    throw declined(call, state.approval, { reason: response, by: call.principal.id })
  const result = resolveApproval(await approvals.use(draft), call)
  if (result) return result
  const { approval } = await requestApproval(draft, subject, context)
  const { url, isForPeople } = channelsOf(approval, context)
  if (state === undefined && url !== undefined && isForPeople && canAsk(call, 'url'))
    return requestUrl(subject, approval.id, url)
  const later = await waiting.wait(call, approval.id, settings.wait)
  const decided = resolveApproval(await approvals.use(draft), later)
  return decided
    ? { ...decided, call: later }
    : requireConfirmation(draft, { subject, context, isTokenInvalid: false })
}

/** The people's decision, if there is one. @throws CONFIRMATION_DECLINED if they denied it */
export function resolveApproval(approval: Approval | undefined, call: Call): Confirmed | undefined {
  if (approval?.status === 'approved') {
    const isChosen = approval.decisions.some(({ remember }) => remember)
    return { grant: grantOf(approval), isFresh: true, isChosen }
  }
  if (approval?.status !== 'denied') return undefined
  const denial = approval.decisions.find(({ verdict }) => verdict === 'denied')
  throw declined(call, approval.id, {
    reason: 'denied',
    ...(denial && { by: denial.by }),
    ...(denial?.reason !== undefined && { words: `“${denial.reason}”` }),
  })
}

/** Whether a decision is possible on a page or at the command line. */
export function canDecide({ deps }: ConfirmContext): boolean {
  return deps.gateway.isStoreShared || deps.pages.url('/confirm') !== undefined
}

async function requestApproval(
  draft: ApprovalRequest,
  subject: ConfirmationRequest,
  context: ConfirmContext,
): Promise<Requested> {
  const { deps, approvals } = context
  if (!canDecide(context)) throw noApprover(subject)
  await mustKeepData(subject.call, context)
  const result = await approvals.request(draft)
  const { id, upstream, tool, caller, kind } = result.approval
  // A waiting call is repeated many times; it is logged once.
  if (result.isNew) {
    deps.log.info('confirm.requested', { approval: id, upstream, tool, principal: caller, kind })
    publishPending(result.approval, context)
  }
  return result
}

/** Publishes that a call waits, to its caller and to those who are named as approvers. It says nothing of the arguments. */
function publishPending(approval: Approval, context: ConfirmContext): void {
  const { id, upstream, tool, caller, risk, approvers, expiresAt } = approval
  const { url } = channelsOf(approval, context)
  const data = {
    server: upstream,
    tool,
    approval: id,
    risk,
    expires_at: new Date(expiresAt).toISOString(),
    ...(url !== undefined && { url }),
  }
  const { deps } = context
  publish(deps, upstream, { name: 'confirmation_pending', caller, data: { ...data, role: 'caller' } })
  for (const approver of approvers)
    publish(deps, upstream, {
      name: 'confirmation_pending',
      caller: approver,
      data: { ...data, role: 'approver' },
    })
}

async function requireConfirmation(
  draft: ApprovalRequest,
  options: {
    readonly subject: ConfirmationRequest
    readonly context: ConfirmContext
    readonly isTokenInvalid: boolean
  },
): Promise<Outcome> {
  const { subject, context, isTokenInvalid } = options
  const { fallback, compat, model_may_confirm: isModelTrusted } = context.settings
  const result = await requestApproval(draft, subject, context)
  const hasToken = draft.kind === 'page'
  const isHostOnly = hasToken && fallback === 'two_step'
  const { channels, url } = isHostOnly
    ? { channels: [], url: undefined }
    : channelsOf(result.approval, context)
  subject.call.logFields.set('approval', result.approval.id)
  const { upstream, definition } = subject.entry
  const isTokenForModel =
    hasToken &&
    isModelTrusted &&
    context.deps.features.isOn('inject_arguments', upstream) &&
    !namesArgument(definition, TOKEN_ARGUMENT)
  return confirmationRequired(subject, result, {
    decisionChannels: channels,
    url,
    isHostOnly,
    hasToken,
    isTokenInvalid,
    isTokenForModel,
    compat,
  })
}

function channelsOf(approval: Approval, { deps }: ConfirmContext): DecisionChannels {
  const { id, approvers } = approval
  const decider = deps.pages.decidesOnPage(approval)
  const url = decider === undefined ? undefined : deps.pages.url(`/confirm/${id}`)
  const isForPeople = decider === 'person'
  const page =
    url === undefined ? [] : [`at ${url}${isForPeople ? '' : ', by a program with its bearer token'}`]
  // Whoever is at the command line is rarely one of the named approvers.
  const isLimitedToApprovers = url !== undefined && approvers.length > 0
  const command =
    deps.gateway.isStoreShared && !isLimitedToApprovers
      ? [`in a terminal with \`${deps.pages.approvalsCommand}\``]
      : []
  return { url, isForPeople, channels: [...page, ...command] }
}

interface ConfirmationOptions {
  /** How people can decide: a page, a command. */
  readonly decisionChannels: readonly string[]
  readonly url?: string | undefined
  /** Whether only the client's host confirms, with the token. */
  readonly isHostOnly: boolean
  /** Whether the error contains a token for the client's host. */
  readonly hasToken: boolean
  /** Whether models see the token too. */
  readonly isTokenForModel: boolean
  /** Whether an invalid token was sent. */
  readonly isTokenInvalid: boolean
  /** Whether the members are also at the top level of the result. */
  readonly compat: boolean
}

/** The result of a call that did not run because people have to approve it first. */
function confirmationRequired(
  subject: ConfirmationRequest,
  requestedApproval: Requested,
  options: ConfirmationOptions,
): Outcome {
  const { approval, token } = requestedApproval
  const error = errorOf(approval, options)
  const { suggestion = '' } = error.extra
  const object = { ...error.data, requestId: subject.call.requestId }
  // The token is for the host only, unless models are trusted: the text that models read does not contain it.
  const modelHint = options.isTokenForModel
    ? ` If the user agrees, repeat the call with \`${TOKEN_ARGUMENT}\`: "${token}" in its arguments.`
    : ''
  const members = {
    status: 'confirmation_required',
    requires_confirmation: true,
    confirmation_message: subject.message,
    risk_level: subject.risk,
    ...(options.hasToken && { confirmation_token: token }),
    tool: subject.entry.name,
    parameters: subject.arguments,
  }
  const result = {
    content: [{ type: 'text', text: `${error.message} ${suggestion}${modelHint}` }],
    isError: true,
    ...(options.compat && { ...members, error: object }),
    _meta: {
      [ERROR_KEY]: object,
      [CONFIRMATION_KEY]: {
        ...members,
        approval: approval.id,
        expires_at: new Date(approval.expiresAt).toISOString(),
        ...(options.url !== undefined && { url: options.url }),
      },
    },
  }
  return { kind: 'result', result: Payload.of(result) }
}

function errorOf(
  approval: Approval,
  { decisionChannels: channels, isTokenInvalid, isHostOnly }: ConfirmationOptions,
): GatewayError {
  const { message, kind, needed, approvers } = approval
  const people = kind === 'page' ? 'The user has to confirm it first' : othersRequired(needed, approvers)
  const intro = isTokenInvalid
    ? 'This call was not run: its confirmation_token is invalid for it, or has already been used.'
    : 'This call was not run.'
  const instruction = channels.length === 0 ? '' : ` Approve or deny it ${channels.join(', or ')}.`
  return new GatewayError(
    isTokenInvalid ? 'CONFIRMATION_TOKEN_INVALID' : 'CONFIRMATION_REQUIRED',
    `${intro} ${people}: “${message}”${instruction}`,
    {
      isUserActionable: true,
      suggestion:
        channels.length === 0 && !isHostOnly
          ? 'It cannot be approved here: use a client that supports elicitation.'
          : 'Once it is approved, repeat exactly the same call: it then runs once.',
    },
  )
}

function othersRequired(needed: number, approvers: readonly string[]): string {
  const among = approvers.length === 0 ? '' : ` of ${approvers.join(', ')}`
  const people = needed === 1 ? 'one person' : `${needed} people`
  return `It needs the approval of ${people}${among} other than the caller`
}

/** The refusal if no one can be asked. It omits the question: error messages are logged, arguments never. */
export function noApprover({ entry }: Pick<ConfirmationRequest, 'entry'>): GatewayError {
  const { name, upstream } = entry
  return new GatewayError(
    'CONFIRMATION_REQUIRED',
    `A person has to confirm this call of ${oneLine(name)} on ${upstream}, and no one can be asked.`,
    { reason: NO_APPROVER_REASON, suggestion: 'Use a client that supports elicitation.' },
  )
}

interface Subject {
  /** Without what the host sent about the confirmation. */
  readonly call: Call
  readonly host: HostConfirmation
  /** What a person has to confirm; undefined if nothing. */
  readonly subject: ConfirmationRequest | undefined
}

/** What a person has to confirm of a call. @throws INVALID_INPUT, why the list of its server could not be read */
export function subjectOf(given: Call, { rule, server, deps }: ConfirmContext): Subject {
  const tool = listedTool(given)
  const { call, host } = takeHostConfirmation(given)
  const listed = tool ?? describeByName(call, deps)
  const entry = listed && asCalled(listed, call)
  const isNeeded = entry && needsConfirmation(rule, entry, call)
  return { call, host, subject: isNeeded ? confirmationRequestOf(call, entry, rule, server) : undefined }
}

/** Whether an earlier grant may cover a call. Steps of transactions are confirmed separately. */
export function isRecalled({ offer, call }: ConfirmationRequest, { remember }: Rule): boolean {
  return (remember?.offer ? offer !== undefined : remember !== undefined) && !stepSlot.of(call)
}

/** Whether the host says that the user agreed, without a token, and the settings accept that. */
export function isBareConfirmation(
  { isConfirmed, token }: HostConfirmation,
  { accept_bare_flag: isAccepted }: ConfirmContext['settings'],
): boolean {
  return isAccepted && isConfirmed === true && token === undefined
}

/** The host's confirmation, and the call without it, which servers do not see. @throws INVALID_INPUT */
function takeHostConfirmation(call: Call): { readonly call: Call; readonly host: HostConfirmation } {
  if (!hasExtension(call, FLAG) && !hasExtension(call, TOKEN)) return { call, host: noHostConfirmation }
  const [flag, token] = [extensionOf(call, FLAG), extensionOf(call, TOKEN)]
  if (flag !== undefined && typeof flag !== 'boolean') throw invalidParam(FLAG, 'must be true or false')
  if (token !== undefined && typeof token !== 'string') throw invalidParam(TOKEN, 'must be a string')
  return {
    call: withoutExtension(withoutExtension(call, FLAG), TOKEN),
    host: { isConfirmed: flag, token },
  }
}

const noHostConfirmation: HostConfirmation = { isConfirmed: undefined, token: undefined }

/** A descriptor from the tool's name alone, if no list has it. */
function describeByName(
  { target }: Call,
  { servers: { describe: listed } }: ConfirmContext['deps'],
): Descriptor | undefined {
  const { upstream, name } = target
  return upstream === undefined || name === undefined ? undefined : listed(upstream, { name })
}
