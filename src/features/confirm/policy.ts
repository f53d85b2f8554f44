/** The gate before a call: no confirmation needed, granted before, or a request for one. */
import { type Call, type Handler, listedTool, type Outcome, type Middleware } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { GatewayError } from '../../core/error.ts'
import { asCalled } from '../../core/judgement/judge.ts'
import { Payload } from '../../core/payload.ts'
import { oneLine } from '../../core/text/escape.ts'
import { namesArgument } from '../../core/tool-call.ts'
import {
  extensionOf,
  hasExtension,
  withoutExtension,
  CONFIRMATION_KEY,
  ERROR_KEY,
} from '../../protocol/meta-keys.ts'
import {
  type Approval,
  type ApprovalRequest,
  type Requested,
  NO_APPROVER_REASON,
} from '../../records/approvals.ts'
import type { Services } from '../feature.ts'
import { type ConfirmContext, type Confirmed, FLAG, type HostWord, TOKEN, TOKEN_ARGUMENT } from './context.ts'
import { requestForm, canAsk, readForm, useOnce, requestUrl, readUrl } from './elicitation.ts'
import { declined, run, type Grant, confirmStateOf, grantOf } from './grant.ts'
import { type ConfirmationRequest, confirmationRequestOf, approvalRequestOf } from './request.ts'
import { isAsked, isNeverAsked, type Rule } from './rules.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'identity' | 'pages' | 'features' | 'gateway'>

/** Lets calls of a tool through once a person confirmed them. */
export function confirmationPolicy(around: ConfirmContext): Middleware {
  const { rule, deps, settings } = around
  return (next) => {
    const decide = (given: Call, found: Descriptor | undefined): Promise<Outcome> => {
      const { call, word } = heard(given)
      const listed = found ?? named(call, deps)
      const entry = listed && asCalled(listed, call)
      return entry && isAsked(rule, entry, call) ? pass(call, entry, word) : next(call)
    }
    const pass = async (call: Call, entry: Descriptor, word: HostWord): Promise<Outcome> => {
      const subject = confirmationRequestOf(call, entry, rule, around.server)
      const found = await confirmed(call, subject, word, around)
      return 'kind' in found ? found : go(subject, found, { around, next })
    }
    return async (call) => {
      const isFree = call.internal === 'read' || (call.internal === 'compensate' && !settings.rollbacks)
      if (isFree || isNeverAsked(rule, call)) return next(call)
      return decide(call, listedTool(call))
    }
  }
}

async function go(
  subject: ConfirmationRequest,
  { grant, isFresh, isChosen = false, call = subject.call }: Confirmed,
  { around, next }: { readonly around: ConfirmContext; readonly next: Handler },
): Promise<Outcome> {
  const { deps, rule, memory } = around
  if (isFresh && isKept(rule, subject, isChosen)) {
    await memory.keep(subject, grant, rule)
    logKept(subject, grant, around)
  }
  return run({ ...subject, call }, grant, { next, deps })
}

function logKept(
  { entry, call }: ConfirmationRequest,
  { approval }: Grant,
  { rule, deps }: ConfirmContext,
): void {
  if (!rule.remember) return
  const { for: milliseconds, max: calls } = rule.remember
  const { upstream, name: tool } = entry
  const told = { approval, upstream, tool, principal: call.principal.id, calls }
  deps.log.info('confirm.remembered', { ...told, seconds: milliseconds / 1000 })
}

/** Whether a grant holds for the calls that follow. What is offered holds where a person chose it. */
function isKept({ remember }: Rule, { offer }: ConfirmationRequest, isChosen: boolean): boolean {
  return remember?.offer ? offer !== undefined && isChosen : remember !== undefined
}

/** The permission to run a call, or the outcome in its place. @throws CONFIRMATION_DECLINED, CONFIRMATION_REQUIRED */
async function confirmed(
  given: Call,
  subject: ConfirmationRequest,
  word: HostWord,
  around: ConfirmContext,
): Promise<Confirmed | Outcome> {
  const { rule, settings, deps, memory } = around
  const { call, digest } = subject
  const slot = confirmStateOf(given)
  const now = Date.now()
  if (slot?.kind === 'granted' && slot.digest === digest) {
    await useOnce(slot.nonce, deps.store, STATE_LIFE)
    return { grant: slot.grant, isFresh: false }
  }
  // The rules may have changed since: what others approve by now the caller cannot confirm.
  if (slot?.kind === 'asked' && !rule.isOutOfBand) {
    const { verdict, isChosen } = await readForm(given, slot, { subject, store: deps.store, now })
    if (verdict !== 'accept') throw declined(call, slot.nonce, { reason: verdict, by: call.principal.id })
    const grant = { approval: slot.nonce, by: [call.principal.id], via: ['elicitation'], at: now }
    return { grant, isFresh: true, isChosen }
  }
  // A step without a way back is looked at by itself.
  const isRecalled = rule.remember?.offer ? subject.offer !== undefined : rule.remember !== undefined
  const grant = isRecalled && !call.step ? await memory.recall(subject, rule) : undefined
  if (grant) return { grant, isFresh: false }
  if (rule.isOutOfBand) return approvedByOthers(given, subject, around)
  if (canAsk(call, 'form')) return requestForm(subject, settings.ttl)
  return approvedOnPage(subject, word, around)
}

/** For how long states are good that clients keep, at most, in milliseconds. */
const STATE_LIFE = 3_600_000

/** What the host said, and the call without it: servers are not told. @throws INVALID_INPUT */
function heard(call: Call): { readonly call: Call; readonly word: HostWord } {
  if (!hasExtension(call, FLAG) && !hasExtension(call, TOKEN)) return { call, word: silence }
  const [flag, token] = [extensionOf(call, FLAG), extensionOf(call, TOKEN)]
  if (flag !== undefined && typeof flag !== 'boolean') throw invalid(FLAG, 'true or false')
  if (token !== undefined && typeof token !== 'string') throw invalid(TOKEN, 'a string')
  return {
    call: withoutExtension(withoutExtension(call, FLAG), TOKEN),
    word: { isConfirmed: flag, token },
  }
}

const silence: HostWord = { isConfirmed: undefined, token: undefined }

/** What a tool is by its name alone, where no list has it. */
function named({ target }: Call, { servers: { describe: listed } }: Deps): Descriptor | undefined {
  const { upstream, name } = target
  return upstream === undefined || name === undefined ? undefined : listed(upstream, { name })
}

function invalid(field: string, what: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${field} must be ${what}.`, {
    field,
    reason: 'type',
  })
}

// Confirmation by other people: approvals in the store, the answer with how to decide, and its use on the next
// call.

/** Where an approval is decided. */
interface Place {
  readonly ways: readonly string[]
  readonly url: string | undefined
  /** Whether a person can decide there in a browser. */
  readonly isForPeople: boolean
}

/** What became of the person who makes the call being asked on a page of the gateway, or by the client's host. */
async function approvedOnPage(
  subject: ConfirmationRequest,
  word: HostWord,
  around: ConfirmContext,
): Promise<Confirmed | Outcome> {
  const { settings, approvals } = around
  const { call } = subject
  if (settings.accept_bare_flag && word.isConfirmed && word.token === undefined) {
    const grant = {
      approval: call.requestId,
      by: [call.principal.id],
      via: ['user_confirmed'],
      at: Date.now(),
    }
    return { grant, isFresh: true }
  }
  if (settings.fallback === 'deny') throw noApprover(subject)
  const draft = approvalRequestOf(subject, alone, { kind: 'page', ttl: settings.ttl })
  const redeemed = word.token === undefined ? undefined : await approvals.consume(draft, word.token)
  if (redeemed) return confirmedByHost(redeemed, subject, word)
  const found = settled(await approvals.use(draft), call)
  if (found) return found
  return answer(draft, { subject, around, isTokenBad: word.token !== undefined })
}

/** The caller itself approves, whoever else may. */
const alone = { needed: 1, approvers: [] }

function confirmedByHost(
  { id }: Approval,
  { call }: ConfirmationRequest,
  { isConfirmed }: HostWord,
): Confirmed {
  const { id: by } = call.principal
  if (isConfirmed === false) throw declined(call, id, { reason: 'decline', by })
  return { grant: { approval: id, by: [by], via: ['confirmation_token'], at: Date.now() }, isFresh: true }
}

/** What became of others being asked: the call waits for them for a while. */
async function approvedByOthers(
  given: Call,
  subject: ConfirmationRequest,
  around: ConfirmContext,
): Promise<Confirmed | Outcome> {
  const { rule, settings, approvals, waiting } = around
  const { call } = subject
  const draft = approvalRequestOf(subject, rule, { kind: 'out_of_band', ttl: settings.approval_ttl })
  const slot = confirmStateOf(given)
  const said = slot?.kind === 'opened' ? readUrl(given) : 'accept'
  if (slot?.kind === 'opened' && said !== 'accept')
    throw declined(call, slot.approval, { reason: said, by: call.principal.id })
  const found = settled(await approvals.use(draft), call)
  if (found) return found
  const { approval } = await requested(draft, subject, around)
  const { url, isForPeople } = placeOf(approval, around)
  if (slot === undefined && url !== undefined && isForPeople && canAsk(call, 'url'))
    return requestUrl(subject, approval.id, url)
  const later = await waiting.wait(call, approval.id, settings.wait)
  const decided = settled(await approvals.use(draft), later)
  return decided ? { ...decided, call: later } : answer(draft, { subject, around, isTokenBad: false })
}

/** What people decided, if they did. @throws CONFIRMATION_DECLINED where they denied it */
function settled(approval: Approval | undefined, call: Call): Confirmed | undefined {
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

async function requested(
  draft: ApprovalRequest,
  subject: ConfirmationRequest,
  around: ConfirmContext,
): Promise<Requested> {
  const { deps, approvals } = around
  // No decision is possible: neither on a page nor at the command line.
  if (!deps.gateway.isStoreShared && deps.pages.url('/confirm') === undefined) throw noApprover(subject)
  const found = await approvals.request(draft)
  const { id, upstream, tool, caller, kind } = found.approval
  // A call that waits comes again and again; it is worth one line.
  if (found.isNew)
    deps.log.info('confirm.requested', { approval: id, upstream, tool, principal: caller, kind })
  return found
}

async function answer(
  draft: ApprovalRequest,
  told: {
    readonly subject: ConfirmationRequest
    readonly around: ConfirmContext
    readonly isTokenBad: boolean
  },
): Promise<Outcome> {
  const { subject, around, isTokenBad } = told
  const { fallback, compat, model_may_confirm: isModelTrusted } = around.settings
  const found = await requested(draft, subject, around)
  const isTokenGood = draft.kind === 'page'
  const isHostAlone = isTokenGood && fallback === 'two_step'
  const { ways, url } = isHostAlone ? { ways: [], url: undefined } : placeOf(found.approval, around)
  subject.call.logFields.set('approval', found.approval.id)
  const { upstream, definition } = subject.entry
  const isTokenRead =
    isTokenGood &&
    isModelTrusted &&
    around.deps.features.isOn('inject_arguments', upstream) &&
    !namesArgument(definition, TOKEN_ARGUMENT)
  return confirmationRequired(subject, found, {
    decisionChannels: ways,
    url,
    isHostAlone,
    isTokenGood,
    isTokenBad,
    isTokenRead,
    compat,
  })
}

function placeOf(approval: Approval, { deps }: ConfirmContext): Place {
  const { id, approvers } = approval
  const who = deps.pages.decidesOnPage(approval)
  const url = who === undefined ? undefined : deps.pages.url(`/confirm/${id}`)
  const isForPeople = who === 'person'
  const page =
    url === undefined ? [] : [`at ${url}${isForPeople ? '' : ', by a program with its bearer token'}`]
  // Whoever is at the command line is seldom one of those who are named.
  const isNamed = url !== undefined && approvers.length > 0
  const command = deps.gateway.isStoreShared && !isNamed ? [`with \`${deps.pages.approvalCommand(id)}\``] : []
  return { url, isForPeople, ways: [...page, ...command] }
}

interface ConfirmationOptions {
  /** How people reach the approval: a page, a command. */
  readonly decisionChannels: readonly string[]
  readonly url?: string | undefined
  /** Whether only the client's host is to confirm, with the token. */
  readonly isHostAlone: boolean
  /** Whether the error holds a token for the client's host to confirm with. */
  readonly isTokenGood: boolean
  /** Whether models see it too. */
  readonly isTokenRead: boolean
  /** Whether a token was sent that is not good. */
  readonly isTokenBad: boolean
  /** Whether the members also stand at the top of the result. */
  readonly compat: boolean
}

/** The answer to a call that did not run, as people have to approve it first. */
function confirmationRequired(
  subject: ConfirmationRequest,
  requested: Requested,
  told: ConfirmationOptions,
): Outcome {
  const { approval, token } = requested
  const error = errorOf(approval, told)
  const { suggestion = '' } = error.extra
  const object = { ...error.data, requestId: subject.call.requestId }
  // The token is for the host alone, unless models are trusted: what they read does not hold it.
  const byModel = told.isTokenRead
    ? ` If the user agrees, make it with \`${TOKEN_ARGUMENT}\`: "${token}" among its arguments.`
    : ''
  const members = {
    status: 'confirmation_required',
    requires_confirmation: true,
    confirmation_message: subject.message,
    risk_level: subject.risk,
    ...(told.isTokenGood && { confirmation_token: token }),
    tool: subject.entry.name,
    parameters: subject.arguments,
  }
  const result = {
    content: [{ type: 'text', text: `${error.message} ${suggestion}${byModel}` }],
    isError: true,
    ...(told.compat && { ...members, error: object }),
    _meta: {
      [ERROR_KEY]: object,
      [CONFIRMATION_KEY]: {
        ...members,
        approval: approval.id,
        expires_at: new Date(approval.expiresAt).toISOString(),
        ...(told.url !== undefined && { url: told.url }),
      },
    },
  }
  return { kind: 'result', result: Payload.of(result) }
}

function errorOf(
  approval: Approval,
  { decisionChannels: ways, isTokenBad, isHostAlone }: ConfirmationOptions,
): GatewayError {
  const { message, kind, needed, approvers } = approval
  const people = kind === 'page' ? 'The user has to confirm it first' : others(needed, approvers)
  const begin = isTokenBad
    ? 'This call was not run: its confirmation_token is not good for it, or was used before.'
    : 'This call was not run.'
  const where = ways.length === 0 ? '' : ` Approve or deny it ${ways.join(', or ')}.`
  return new GatewayError(
    isTokenBad ? 'CONFIRMATION_TOKEN_INVALID' : 'CONFIRMATION_REQUIRED',
    `${begin} ${people}: “${message}”${where}`,
    {
      isUserActionable: true,
      suggestion:
        ways.length === 0 && !isHostAlone
          ? 'There is no way to approve it here: use a client that supports elicitation.'
          : 'Once it is approved, make exactly the same call again: it then runs, once.',
    },
  )
}

function others(needed: number, approvers: readonly string[]): string {
  const who = approvers.length === 0 ? '' : ` of ${approvers.join(', ')}`
  const people = needed === 1 ? 'one person' : `${needed} people`
  return `It takes the approval of ${people}${who} other than the caller`
}

/** The refusal where no one can be asked. It does not hold the question: messages of errors are logged, arguments never. */
function noApprover({ entry }: Pick<ConfirmationRequest, 'entry'>): GatewayError {
  const { name, upstream } = entry
  return new GatewayError(
    'CONFIRMATION_REQUIRED',
    `A person has to confirm this call of ${oneLine(name)} on ${upstream} first, and there is no way to ask one.`,
    { reason: NO_APPROVER_REASON, suggestion: 'Use a client that supports elicitation.' },
  )
}
