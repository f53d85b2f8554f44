/**
 * The feature `confirm`: which calls need confirmation and who is asked for it, how lists announce it, and what a dry run
 * says of it: no person is asked then, and no approval is used.
 */
import { isoTime } from '../../core/time/waiting.ts'
import { world } from '../../core/world.ts'
import {
  type Middleware,
  type Target,
  type Call,
  type Handler,
  type Outcome,
  listedTool,
} from '../../core/call.ts'
import { beforeSendSlot } from '../../core/exchange.ts'
import { HeldMemory } from '../../core/holdings.ts'
import { Payload } from '../../core/payload.ts'
import { type UpstreamSettings, isStoreShared } from '../../core/settings.ts'
import { statesConfirmation } from '../../core/stated-tool.ts'
import {
  CONFIRMATION_KEY,
  ERROR_KEY,
  extensionOf,
  hasExtension,
  withoutExtension,
} from '../../protocol/meta-keys.ts'
import {
  Approvals,
  changeView,
  isSameToken,
  type Approval,
  type ApprovalRequest,
  type Requested,
  NO_APPROVER_REASON,
} from '../../records/approvals.ts'
import type { Feature, Services } from '../feature.ts'
import {
  type CallUndo,
  callUndos,
  callerValues,
  modelArguments,
  toolFacts,
  publish,
  type Reserved,
} from '../offers.ts'
import {
  createApprovalCache,
  declined,
  run,
  type Grant,
  confirmStateOf,
  grantOf,
  type ApprovalCache,
} from './grant.ts'
import {
  templateOf,
  approvalRequestOf,
  type ConfirmationRequest,
  askAgain,
  changeOf,
  changeText,
  stateOf,
  waysToDecide,
  withDetails,
  confirmationRequestOf,
} from './request.ts'
import { isSkippedIfUndoable, needsConfirmation, ruleOf, neverNeedsConfirmation, type Rule } from './rules.ts'
import { editableOf, runEdited } from './edited-call.ts'
import { markTools } from './marked-lists.ts'
import { mustHaveClient, Waiting, waitOf } from './waiting.ts'
import { type ConfirmSettings, confirmSchema } from '../settings/effect.ts'
import { type ConfirmationForecast, withFinding } from '../../core/dry-run.ts'
import { canAsk, requestForm, changedRequest, readForm, useOnce, requestUrl, readUrl } from './elicitation.ts'
import { asGatewayError, GatewayError, invalidParam } from '../../core/error.ts'
import { oneLine } from '../../core/text/escape.ts'
import { namesArgument } from '../../core/tool-call.ts'
import type { Edits } from '../../records/edits.ts'
import { keepUsed, unknownReference } from '../../records/references.ts'
import { stepSlot } from '../../records/transactions.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { asCalled } from '../../core/judgement/call.ts'

type Deps = Pick<
  Services,
  | 'log'
  | 'scope'
  | 'store'
  | 'servers'
  | 'invoker'
  | 'descriptions'
  | 'identity'
  | 'pages'
  | 'features'
  | 'gateway'
>

/** Requires confirmation before harmful calls: by the person at the client, or by others on a page of the gateway. */
export const confirm: Feature<ConfirmSettings> = {
  ...confirmSchema,
  create: (settings, deps) => {
    const approvals = new Approvals(deps.store, world.now)
    const memory = createApprovalCache(deps.store, world.now)
    const waiting = new Waiting(approvals, deps.scope.once(HeldMemory))
    const serverOf = ({ upstream, isBuiltin }: Target): UpstreamSettings | undefined =>
      isBuiltin || upstream === undefined ? undefined : deps.servers.settings(upstream)
    const contextOf = (target: Target): ConfirmContext | undefined => {
      const { upstream, method, name } = target
      const server = serverOf(target)
      if (!server || method !== 'tools/call' || name === undefined) return undefined
      const toolSettings = settings(upstream)
      const rule = ruleOf(name, server, toolSettings)
      return rule && { rule, settings: toolSettings, server, deps, approvals, memory, waiting }
    }
    return {
      calls: {
        middleware: (target) => {
          const server = serverOf(target)
          if (server && target.method === 'tools/list')
            return markTools(server, settings(target.upstream), deps)
          const context = contextOf(target)
          return context && confirmationPolicy(context)
        },
        dryRun: (target) => {
          const context = contextOf(target)
          return context && forecastConfirmation(context)
        },
      },
      offers: [
        toolFacts.offer((entry, all) => {
          const server = deps.servers.settings(entry.upstream)
          const toolSettings = settings(entry.upstream)
          const rule = server && ruleOf(entry.name, server, toolSettings)
          if (!rule || !needsConfirmation(rule, entry)) return {}
          const message = templateOf(rule, entry, server)
          const isUndone =
            isSkippedIfUndoable(rule, entry, server, toolSettings) &&
            deps.features.offered(callUndos, entry.upstream).some((undo) => undo.canSecure(entry, all))
          const { isOutOfBand } = rule
          return { confirmation: { message, isOutOfBand, ...(isUndone && { isSkippedIfUndoable: true }) } }
        }),
        callerValues.offer([{ name: FLAG }, { name: TOKEN }]),
        modelArguments.offer((upstream) => reservedArguments(settings(upstream), upstream, deps)),
      ],
      close: async () => waiting.close(),
    }
  },
}

/** Adds to dry runs whether they would have to be confirmed. */
function forecastConfirmation(context: ConfirmContext): Middleware {
  return (next) => async (given) => {
    const { call, subject, host } = subjectOf(given, context)
    const confirmation = subject ? await forecast(subject, host, context) : { isRequired: false }
    return next(withFinding(call, { confirmation }))
  }
}

/** @throws CONFIRMATION_DECLINED if it was denied, CONFIRMATION_REQUIRED if no one can be asked */
async function forecast(
  subject: ConfirmationRequest,
  host: HostConfirmation,
  context: ConfirmContext,
): Promise<ConfirmationForecast> {
  const { rule } = context
  const isUndone = await couldRunUnasked(subject, context)
  const about = {
    isRequired: true,
    ...(isUndone && { unless: 'exact_undo' as const }),
    message: subject.message,
    risk: subject.risk,
  }
  const isGranted = await isAllowed(subject, host, context)
  const granted = isGranted ? ({ isGranted: true } as const) : {}
  if (rule.isOutOfBand) {
    if (!isGranted && !canDecide(context)) throw noApprover(subject)
    return { ...about, ...granted, by: 'others', via: 'page', needed: rule.needed, approvers: rule.approvers }
  }
  return {
    ...about,
    ...granted,
    by: 'user',
    via: isGranted || isUndone ? wayOf(subject.call, context) : mustAsk(subject, context),
  }
}

/** How the user would be asked. @throws CONFIRMATION_REQUIRED */
function mustAsk(subject: ConfirmationRequest, context: ConfirmContext): 'form' | 'page' | 'token' {
  const way = wayOf(subject.call, context)
  if (way === 'form') return way
  if (context.settings.fallback === 'deny' || !canDecide(context)) throw noApprover(subject)
  return way
}

function wayOf(call: Call, { settings }: ConfirmContext): 'form' | 'page' | 'token' {
  if (canAsk(call, 'form')) return 'form'
  return settings.fallback === 'two_step' ? 'token' : 'page'
}

/** Whether the call has a permission already. @throws CONFIRMATION_DECLINED */
async function isAllowed(
  subject: ConfirmationRequest,
  host: HostConfirmation,
  context: ConfirmContext,
): Promise<boolean> {
  const { rule, settings, approvals, memory } = context
  const { call } = subject
  if (isRecalled(subject, rule) && (await memory.has(subject, rule))) return true
  if (!rule.isOutOfBand && canAsk(call, 'form')) return false
  if (!rule.isOutOfBand && isBareConfirmation(host, settings)) return true
  const draft = rule.isOutOfBand
    ? approvalRequestOf(subject, rule, { kind: 'out_of_band', ttl: settings.approval_ttl })
    : approvalRequestOf(subject, callerOnly, { kind: 'page', ttl: settings.ttl })
  const open = await approvals.peek(draft)
  if (open && host.token !== undefined && isSameToken(open.token, host.token)) return true
  return resolveApproval(open?.approval, call) !== undefined
}

// The policy before a call: no confirmation needed, already granted, or a request for one. The subject is what of a call has to
// be confirmed, what its host sent about that, and which earlier decisions cover it.

/** Lets calls of a tool through once a person has confirmed them. */
function confirmationPolicy(context: ConfirmContext): Middleware {
  const { rule, settings } = context
  return (next) => async (given) => {
    const isExempt = given.internal === 'read' || (given.internal === 'compensate' && !settings.rollbacks)
    if (isExempt || neverNeedsConfirmation(rule, given)) return next(given)
    const { call, subject, host } = subjectOf(given, context)
    if (!subject) return next(call)
    const unasked = await securedCall(given, subject, host, context)
    if (unasked) return next(unasked)
    const result = await confirmed(call, subject, host, context)
    return 'kind' in result ? result : runConfirmed(subject, result, context, next)
  }
}

/** The undo of a call that needs no confirmation if it is undone exactly; undefined for other calls. */
function undoInstead({ call, entry }: ConfirmationRequest, context: ConfirmContext): CallUndo | undefined {
  const { rule, server, settings, deps } = context
  if (call.internal || !isSkippedIfUndoable(rule, entry, server, settings)) return undefined
  return deps.features.offered(callUndos, entry.upstream)[0]
}

async function couldRunUnasked(subject: ConfirmationRequest, context: ConfirmContext): Promise<boolean> {
  return (await undoInstead(subject, context)?.couldSecure(subject.entry)) === true
}

/** The call to make without a question, because what undoes it exactly is in the store; undefined if a person has to confirm it. */
async function securedCall(
  given: Call,
  subject: ConfirmationRequest,
  host: HostConfirmation,
  context: ConfirmContext,
): Promise<Call | undefined> {
  const undo = undoInstead(subject, context)
  if (!undo || (await isAskedBefore(given, subject, host, context))) return undefined
  const secured = await undo.secure(subject.call, subject.entry)
  secured?.logFields.set('unasked', 'exact_undo')
  return secured
}

/** Whether the confirmation of a call was requested already, or given: what was decided then counts. */
async function isAskedBefore(
  given: Call,
  subject: ConfirmationRequest,
  host: HostConfirmation,
  { approvals, settings }: ConfirmContext,
): Promise<boolean> {
  if (confirmStateOf(given) !== undefined || host.token !== undefined) return true
  if (canAsk(given, 'form')) return false
  const draft = approvalRequestOf(subject, callerOnly, { kind: 'page', ttl: settings.ttl })
  return (await approvals.peek(draft)) !== undefined
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
  { grant, isFresh, isChosen = false, edited, call = subject.call }: Confirmed,
  context: ConfirmContext,
  next: Handler,
): Promise<Outcome> {
  const { deps, rule, memory } = context
  if (isFresh && isRemembered(rule, subject, isChosen)) {
    await memory.keep(subject, grant, rule)
    logRemembered(subject, grant, context)
  }
  if (!edited) return runGranted({ ...subject, call }, grant, { next, deps })
  const make: Handler = (changed) => {
    const own = changedSubject(changed, subject, context)
    return runGranted(own, grant, { next, deps, asked: { ...stateOf(subject), edited } })
  }
  return runEdited(call, edited, { grant, make, deps })
}

function runGranted(
  subject: ConfirmationRequest,
  grant: Grant,
  options: Parameters<typeof run>[2],
): Promise<Outcome> {
  const { call, entry } = subject
  return run(
    { ...subject, call: statesConfirmation(entry.definition) ? withFlag(call) : call },
    grant,
    options,
  )
}

/** What was confirmed of a call whose approver changed its arguments. @throws INVALID_INPUT */
function changedSubject(
  call: Call,
  { entry }: ConfirmationRequest,
  { rule, server, deps }: ConfirmContext,
): ConfirmationRequest {
  const changed = asCalled(listedTool(call) ?? describeByName(call, deps) ?? entry, call)
  // The step is recorded as one that need not be undone.
  if (stepSlot.of(call) && isRead(entry) && !isRead(changed))
    throw new GatewayError('INVALID_INPUT', 'A step that only reads cannot be changed into one that writes.')
  return confirmationRequestOf(call, changed, rule, server)
}

function isRead({ classification }: Descriptor): boolean {
  return classification.op === 'read'
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
    return { grant: state.grant, isFresh: false, ...(state.edited && { edited: state.edited }) }
  }
  const changed = changedRequest(state, subject)
  // The rules may have changed in the meantime: what others have to approve, the caller cannot confirm.
  if (state?.kind === 'asked' && !rule.isOutOfBand && !changed) {
    const { verdict, isChosen } = await readForm(originalCall, state, { subject, store: deps.store, now })
    if (verdict === 'unticked') {
      await mustKeepData(call, context)
      return requestForm(await withDetails(subject, deps), settings.ttl, { isChosen })
    }
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
    return requestForm(await withDetails(changed ?? subject, deps), settings.ttl)
  }
  return approvedOnPage(originalCall, subject, host, context)
}

/** The maximum lifetime of states that clients hold, in milliseconds. */
const STATE_TTL_MS = 3_600_000

// Confirmation by other people: approvals in the store, the result that says how to decide, and their use by the next
// call.

/** Confirmation by the caller on a page of the gateway, for which the call waits, or by the client's host. */
async function approvedOnPage(
  originalCall: Call,
  given: ConfirmationRequest,
  host: HostConfirmation,
  context: ConfirmContext,
): Promise<Confirmed | Outcome> {
  const { settings, approvals } = context
  const { call } = given
  if (settings.fallback === 'deny') throw noApprover(given)
  mustHaveClient(originalCall)
  mustBeOpened(originalCall)
  const subject = await withoutStale(given, context)
  const draft = approvalRequestOf(subject, callerOnly, { kind: 'page', ttl: settings.ttl })
  const redeemed = host.token === undefined ? undefined : await approvals.consume(draft, host.token)
  if (redeemed) return confirmedByHost(redeemed, subject, host)
  const result = resolveApproval(await approvals.use(draft), call)
  if (result) return result
  // A host or a model that may confirm is answered first.
  const isByToken =
    settings.fallback === 'two_step' || settings.model_may_confirm || settings.accept_bare_flag
  if (isByToken || host.token !== undefined || call.internal)
    return requireConfirmation(draft, subject, context, { isTokenInvalid: host.token !== undefined })
  return awaitApproval(originalCall, draft, subject, context)
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
const callerOnly = { needed: 1, approvers: [] }

function confirmedByHost(
  { id }: Approval,
  { call }: ConfirmationRequest,
  { isConfirmed }: HostConfirmation,
): Confirmed {
  const { id: by } = call.principal
  if (isConfirmed === false) throw declined(call, id, { reason: 'decline', by })
  return { grant: { approval: id, by: [by], via: ['confirmation_token'], at: world.now() }, isFresh: true }
}

/** Confirmation by others, for whom the call waits. */
async function approvedByOthers(
  originalCall: Call,
  given: ConfirmationRequest,
  context: ConfirmContext,
): Promise<Confirmed | Outcome> {
  const { rule, settings, approvals } = context
  mustHaveClient(originalCall)
  mustBeOpened(originalCall)
  const subject = await withoutStale(given, context)
  const draft = approvalRequestOf(subject, rule, { kind: 'out_of_band', ttl: settings.approval_ttl })
  const result = resolveApproval(await approvals.use(draft), given.call)
  return result ?? awaitApproval(originalCall, draft, subject, context)
}

/** @throws CONFIRMATION_DECLINED if the person did not want to open the page */
function mustBeOpened(call: Call): void {
  const state = confirmStateOf(call)
  if (state?.kind !== 'opened') return
  const response = readUrl(call)
  if (response !== 'accept') throw declined(call, state.approval, { reason: response, by: call.principal.id })
}

/** Requests an approval on a page, and waits for it for as long as the client does. */
async function awaitApproval(
  originalCall: Call,
  draft: ApprovalRequest,
  subject: ConfirmationRequest,
  context: ConfirmContext,
): Promise<Confirmed | Outcome> {
  const { settings, approvals, waiting, deps } = context
  const { call } = subject
  const requested = await requestApproval(draft, subject, context)
  const { approval } = requested
  const channels = deps.pages.decisionChannels(approval)
  const { url, isForPeople } = channels
  if (confirmStateOf(originalCall) === undefined && url !== undefined && isForPeople && canAsk(call, 'url'))
    return requestUrl(subject, approval.id, url)
  const ways = waysToDecide(channels, approval)
  const timeout = ways.length === 0 ? 0 : waitOf(call, settings.wait)
  const message = `Waiting for approval of ${oneLine(subject.entry.name)}: approve or deny it ${ways.join(', or ')}.`
  const later = await waiting.wait(call, { approval: approval.id, timeout, message })
  // Whatever was decided meanwhile is for a call whose client is there.
  if (!later) return requireConfirmation(draft, subject, context, { requested })
  // A call that must not be sent now uses no approval up.
  beforeSendSlot.of(later)?.(later)
  const decided = resolveApproval(await approvals.use(draft), later)
  if (decided) return { ...decided, call: later }
  return requireConfirmation(draft, subject, context, { isWaiting: timeout > 0 })
}

/** The people's decision, if there is one. @throws CONFIRMATION_DECLINED if they denied it */
function resolveApproval(approval: Approval | undefined, call: Call): Confirmed | undefined {
  if (approval?.status === 'approved') {
    const isChosen = approval.decisions.some(({ remember }) => remember)
    const edited = approval.decisions.find((decision) => decision.edited)?.edited
    return { grant: grantOf(approval), isFresh: true, isChosen, ...(edited && { edited }) }
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
function canDecide({ deps }: ConfirmContext): boolean {
  return isStoreShared(deps.gateway.settings) || deps.pages.url('/confirm') !== undefined
}

async function requestApproval(
  draft: ApprovalRequest,
  subject: ConfirmationRequest,
  context: ConfirmContext,
): Promise<Requested> {
  const { deps, approvals } = context
  if (!canDecide(context)) throw noApprover(subject)
  await mustKeepData(subject.call, context)
  const open = await approvals.peek(draft)
  const change = open?.approval.status === 'pending' ? undefined : await changeOf(subject, deps)
  const editable = context.settings.edit ? editableOf(draft, subject) : []
  const isByHost = draft.kind === 'page' && context.settings.fallback === 'two_step'
  const shown = { ...(change && { change }), ...(editable.length > 0 && { editable }) }
  const request = { ...draft, ...shown, ...(isByHost && { isByHost }) }
  const result = await approvals.request(request)
  const { id, upstream, tool, caller, kind } = result.approval
  // A waiting call is repeated many times; it is logged once.
  if (result.isNew) {
    const { url } = deps.pages.decisionChannels(result.approval)
    const page = url === undefined ? {} : { url }
    deps.log.info('confirm.requested', { approval: id, upstream, tool, principal: caller, kind, ...page })
    publishPending(result.approval, context)
  }
  return result
}

/** Publishes that a call waits, to its caller and to those who are named as approvers. It says nothing of the arguments. */
function publishPending(approval: Approval, context: ConfirmContext): void {
  const { id, upstream, tool, caller, risk, approvers, expiresAt } = approval
  const { url } = context.deps.pages.decisionChannels(approval)
  const data = {
    server: upstream,
    tool,
    approval: id,
    risk,
    expires_at: isoTime(expiresAt),
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

interface Requirement {
  readonly isTokenInvalid?: boolean
  /** The call waited, and waits again when it is repeated. */
  readonly isWaiting?: boolean
  /** The approval that was requested already. */
  readonly requested?: Requested
}

/** The result of a call that did not run because people have to approve it first. */
async function requireConfirmation(
  draft: ApprovalRequest,
  subject: ConfirmationRequest,
  context: ConfirmContext,
  { isTokenInvalid = false, isWaiting = false, requested }: Requirement,
): Promise<Outcome> {
  const { call, entry } = subject
  const { settings, deps } = context
  const { approval, token } = requested ?? (await requestApproval(draft, subject, context))
  const hasToken = draft.kind === 'page'
  // Then only the client's host confirms, with the token.
  const isHostOnly = hasToken && settings.fallback === 'two_step'
  const channels = isHostOnly ? undefined : deps.pages.decisionChannels(approval)
  call.logFields.set('approval', approval.id)
  const ways = channels ? waysToDecide(channels, approval) : []
  const error = errorOf(approval, ways, { isTokenInvalid, isHostOnly, isWaiting })
  const { suggestion = '' } = error.extra
  const object = { ...error.data, requestId: call.requestId }
  // The token is for the host only, unless models are trusted: the text that models read does not contain it.
  const isTokenForModel =
    hasToken &&
    settings.model_may_confirm &&
    deps.features.isOn('inject_arguments', entry.upstream) &&
    !namesArgument(entry.definition, TOKEN_ARGUMENT)
  const modelHint = isTokenForModel
    ? ` If the user agrees, repeat the call with \`${TOKEN_ARGUMENT}\`: "${token}" in its arguments.`
    : ''
  const members = {
    status: 'confirmation_required',
    requires_confirmation: true,
    confirmation_message: subject.message,
    risk_level: subject.risk,
    ...(hasToken && { confirmation_token: token }),
    tool: entry.name,
    parameters: subject.arguments,
  }
  const result = {
    content: [
      { type: 'text', text: `${error.message} ${suggestion}${modelHint}${changeText(approval.change)}` },
    ],
    isError: true,
    ...(settings.compat && { ...members, error: object }),
    _meta: {
      [ERROR_KEY]: object,
      [CONFIRMATION_KEY]: {
        ...members,
        approval: approval.id,
        expires_at: isoTime(approval.expiresAt),
        ...changeView(approval.change),
        ...(channels?.url !== undefined && { url: channels.url }),
      },
    },
  }
  return { kind: 'result', result: Payload.of(result) }
}

function errorOf(
  { message, kind, needed, approvers }: Approval,
  ways: readonly string[],
  {
    isTokenInvalid,
    isHostOnly,
    isWaiting,
  }: Readonly<Record<'isTokenInvalid' | 'isHostOnly' | 'isWaiting', boolean>>,
): GatewayError {
  const people = kind === 'page' ? 'The user has to confirm it first' : othersRequired(needed, approvers)
  const intro = isTokenInvalid
    ? 'This call was not run: its confirmation_token is invalid for it, or has already been used.'
    : 'This call was not run.'
  const instruction = ways.length === 0 ? '' : ` Approve or deny it ${ways.join(', or ')}.`
  return new GatewayError(
    isTokenInvalid ? 'CONFIRMATION_TOKEN_INVALID' : 'CONFIRMATION_REQUIRED',
    `${intro} ${people}: “${message}”${instruction}`,
    {
      isUserActionable: true,
      suggestion:
        ways.length === 0 && !isHostOnly
          ? 'It cannot be approved here: use a client that supports elicitation.'
          : `Once it is approved, repeat exactly the same call: it then runs once.${isWaiting ? WAITS_AGAIN : ''}`,
    },
  )
}

const WAITS_AGAIN = ' If you repeat it before that, it waits for the approval again.'

function othersRequired(needed: number, approvers: readonly string[]): string {
  const among = approvers.length === 0 ? '' : ` of ${approvers.join(', ')}`
  const people = needed === 1 ? 'one person' : `${needed} people`
  return `It needs the approval of ${people}${among} other than the caller`
}

/** The refusal if no one can be asked. It omits the question: error messages are logged, arguments never. */
function noApprover({ entry }: Pick<ConfirmationRequest, 'entry'>): GatewayError {
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
function subjectOf(given: Call, { rule, server, deps }: ConfirmContext): Subject {
  const tool = listedTool(given)
  const { call, host } = takeHostConfirmation(given)
  const listed = tool ?? describeByName(call, deps)
  const entry = listed && asCalled(listed, call)
  const isNeeded = entry && needsConfirmation(rule, entry, call)
  return { call, host, subject: isNeeded ? confirmationRequestOf(call, entry, rule, server) : undefined }
}

/** Whether an earlier grant may cover a call. Steps of transactions are confirmed separately. */
function isRecalled({ offer, call }: ConfirmationRequest, { remember }: Rule): boolean {
  return (remember?.offer ? offer !== undefined : remember !== undefined) && !stepSlot.of(call)
}

/** Whether the host says that the user agreed, without a token, and the settings accept that. */
function isBareConfirmation(
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
    call: withoutExtension(call, FLAG, TOKEN),
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

/** The dependencies of one tool's confirmation policy. */
interface ConfirmContext {
  readonly rule: Rule
  readonly settings: ConfirmSettings
  readonly server: UpstreamSettings
  readonly deps: Deps
  readonly approvals: Approvals
  readonly memory: ApprovalCache
  readonly waiting: Waiting
}

/** The names of the values that hosts and models may send. */
const FLAG = 'user_confirmed'
const TOKEN = 'confirmation_token'

/** What the client's host sent about the confirmation. */
interface HostConfirmation {
  readonly isConfirmed: boolean | undefined
  readonly token: string | undefined
}

/** A call that may run. */
interface Confirmed {
  readonly grant: Grant
  /** The grant was given for this call, not remembered from an earlier round or call. */
  readonly isFresh: boolean
  /** The person chose that the decision applies to further calls of the tool. */
  readonly isChosen?: boolean
  /** What the approver changed of the arguments. */
  readonly edited?: Edits
  /** The call with which to continue, after a wait. */
  readonly call?: Call
}

/** The arguments by which models may confirm; none, unless the settings trust models. */
function reservedArguments(settings: ConfirmSettings, upstream: string, deps: Deps): readonly Reserved[] {
  const token: Reserved = {
    argument: TOKEN_ARGUMENT,
    value: TOKEN,
    schema: {
      type: 'string',
      description:
        'Optional. The token from an earlier result of this tool, once the user has agreed to the call.',
    },
    isFor: (entry) => {
      const server = deps.servers.settings(upstream)
      const rule = server && ruleOf(entry.name, server, settings)
      const canUseToken = rule !== undefined && !rule.isOutOfBand && settings.fallback !== 'deny'
      return canUseToken && needsConfirmation(rule, entry)
    },
  }
  return [
    ...(settings.model_may_confirm ? [token] : []),
    // Not listed for models.
    ...(settings.accept_bare_flag ? [{ argument: FLAG, value: FLAG }] : []),
  ]
}

/** The argument with which a model confirms a call. */
const TOKEN_ARGUMENT = `_${TOKEN}`
