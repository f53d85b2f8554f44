/** The gate before a call: no confirmation needed, granted before, or a request for one. */
import { type Call, type Handler, listedTool, type Outcome, type Middleware } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { GatewayError } from '../../core/error.ts'
import { asCalled } from '../../core/judgement/judge.ts'
import { extensionOf, hasExtension, withoutExtension } from '../../protocol/meta-keys.ts'
import type { Services } from '../services.ts'
import { type ConfirmContext, type Confirmed, FLAG, type HostWord, TOKEN } from './context.ts'
import { declined, run, type Grant, confirmStateOf } from './grant.ts'
import { requestForm, canAsk, readForm, useOnce } from './elicitation.ts'
import { approvedByOthers, approvedOnPage } from './approval-flow.ts'
import { isAsked, isNeverAsked, type Rule } from './rules.ts'
import { type ConfirmationRequest, confirmationRequestOf } from './request.ts'

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
