/** What of a call has to be confirmed, what its host sent about that, and which earlier decisions cover it. */
import { type Call, listedTool } from '../../core/call.ts'
import { stepSlot } from '../../records/transactions.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { invalidParam } from '../../core/error.ts'
import { asCalled } from '../../core/judgement/call.ts'
import { extensionOf, hasExtension, withoutExtension } from '../../protocol/meta-keys.ts'
import { type ConfirmContext, FLAG, type HostConfirmation, TOKEN } from './context.ts'
import { type ConfirmationRequest, confirmationRequestOf } from './request.ts'
import { needsConfirmation, type Rule } from './rules.ts'

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
