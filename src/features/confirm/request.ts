/**
 * What a person is asked about: the call, its digest, its risk, and the message. Values are shortened and
 * secrets masked.
 */
import { hash } from 'node:crypto'
import type { Call } from '../../core/call.ts'
import type { Descriptor, Risk } from '../../core/descriptor.ts'
import { canonical, isObject } from '../../core/json/json.ts'
import { type Remember, type StopAsking, rememberText } from '../../core/remember.ts'
import { type UpstreamSettings, settingOf } from '../../core/settings.ts'
import { oneLine } from '../../core/text/escape.ts'
import { isSecretKey, Redactor } from '../../core/text/redact.ts'
import type { ApprovalRequest } from '../../records/approvals.ts'
import { offerOf, riskOf, type Rule } from './rules.ts'

/** The slot of a call's state in which is kept what was asked, or that it was granted. */
export const STATE_KEY = 'confirm'

/** The same call as it is for the layers below: what was said to this one is not for them. */
function withoutConfirmState(call: Call): Call {
  const { [STATE_KEY]: slot, ...state } = call.requestState
  if (slot === undefined) return call
  if (isObject(slot) && slot.kind === 'granted') return { ...call, requestState: state }
  const { inputResponses: _answers, ...rest } = call
  return { ...rest, requestState: state }
}

type Arguments = Readonly<Record<string, unknown>>

/** A call that people are asked about. */
export interface ConfirmationRequest {
  /** As the layers below get it. */
  readonly call: Call
  readonly entry: Descriptor
  readonly arguments: Arguments
  /** What the call and what its arguments are known by. */
  readonly digest: string
  readonly argumentsDigest: string
  readonly risk: Risk
  /** The configuration says how the tool is undone. */
  readonly isUndoable?: true
  readonly message: string
  /** What the person has to type. */
  readonly typed?: string
  /** What the person may choose: that the answer holds for more calls of the tool. */
  readonly offer?: Remember
  /** What to write to be asked about the tool no more. */
  readonly stop?: StopAsking
  /** The text of the arguments, where it says more than their values. */
  readonly sent?: string
}

/** What people are to be asked about a call. */
export function confirmationRequestOf(
  given: Call,
  entry: Descriptor,
  rule: Rule,
  server: UpstreamSettings,
): ConfirmationRequest {
  const call = withoutConfirmState(given)
  const { arguments: written } = call.params.fields
  const values = isObject(written) ? written : {}
  const sent = writtenText(call, values)
  // Equal values in another order are the same call, and so are equal digits in other spaces.
  const told = sent === undefined ? values : [canonical(values), withoutSpace(sent)]
  const typed = typedText(rule, entry, values)
  const offer = offerOf(rule, entry, call)
  return {
    call,
    entry,
    arguments: values,
    digest: hash('sha256', canonical([call.principal.id, entry.upstream, entry.name, told])),
    argumentsDigest: hash('sha256', canonical(values)),
    risk: riskOf(rule, entry),
    ...(isUndoable(entry, server) && { isUndoable: true }),
    message: `${messageOf(rule, entry, values, server)}${stated(call)}`,
    ...(typed !== undefined && { typed }),
    ...(offer && { offer }),
    ...(rule.stop && { stop: rule.stop }),
    ...(sent !== undefined && { sent }),
  }
}

function isUndoable({ name }: Descriptor, { tools }: UpstreamSettings): boolean {
  const undo = settingOf(tools, name, 'undo')
  return undo !== undefined && undo.value !== 'none'
}

/** The text of arguments where it says more than their values, such as digits that get lost: the server gets it. */
function writtenText({ params }: Call, values: Arguments): string | undefined {
  const text = params.at('arguments')?.text
  if (text === undefined) return undefined
  const shown = JSON.stringify(values)
  return text === shown || withoutSpace(text) === shown ? undefined : text
}

/** The same JSON without spaces between its signs. */
function withoutSpace(json: string): string {
  return json.replaceAll(/("[^"\\]*(?:\\.[^"\\]*)*")|\s+/g, (_all, string: string = '') => string)
}

/** The approval of a call that is asked for. */
export function approvalRequestOf(
  {
    call,
    entry,
    digest,
    risk,
    isUndoable: canUndo,
    message,
    typed,
    offer,
    stop,
    sent,
    arguments: given,
  }: ConfirmationRequest,
  { needed, approvers }: Pick<Rule, 'needed' | 'approvers'>,
  { kind, ttl }: Pick<ApprovalRequest, 'kind' | 'ttl'>,
): ApprovalRequest {
  const { id, isEverybody } = call.principal
  return {
    kind,
    caller: id,
    ...(isEverybody && { isEverybody }),
    upstream: entry.upstream,
    tool: entry.name,
    arguments: given,
    digest,
    risk,
    ...(canUndo && { isUndoable: canUndo }),
    message,
    ...(typed !== undefined && { typed }),
    ...(stop && kind === 'page' && { stop }),
    ...(offer && kind === 'page' && { offer: { for: offer.for, max: offer.max } }),
    ...(sent !== undefined && { sent }),
    needed,
    approvers,
    ttl,
  }
}

/** How long a value may be that stands in a message, and all of them together, in characters. */
const MAX_VALUE_LENGTH = 200
const MAX_SUMMARY_LENGTH = 1000

/** What a person is asked about a call: one line, in which nothing is hidden. */
function messageOf(rule: Rule, entry: Descriptor, given: Arguments, server: UpstreamSettings): string {
  const { template } = rule
  const text = template === undefined ? general(entry, given, server) : filled(template, given)
  return `${text}${costs(rule)}${promise(rule)}`
}

/** What the caller says it wants with a call. It stands last: nothing after it could be its word as well as ours. */
function stated({ intent }: Pick<Call, 'intent'>): string {
  return intent === undefined || intent === ''
    ? ''
    : ` Stated reason, not verified: “${shown(intent).replaceAll(/[“”]/g, '"')}”`
}

/** What people will be asked about calls of a tool; arguments are named in braces. */
export function templateOf(rule: Rule, entry: Descriptor, server: UpstreamSettings): string {
  return `${rule.template ?? `Run ${named(entry)}?${told(entry, server)}`}${costs(rule)}`
}

/** What a person has to type: the value of the argument, or the tool's name where that cannot be typed. */
function typedText({ typed }: Rule, { name }: Descriptor, given: Arguments): string | undefined {
  if (typed === undefined) return undefined
  const value = Object.hasOwn(given, typed) ? given[typed] : undefined
  const isPlain = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
  const text = isPlain ? String(value).trim() : ''
  const isTypable =
    text !== '' && text.length <= MAX_VALUE_LENGTH && shortLine(text) === text && !isSecretKey(typed)
  return isTypable ? text : name
}

function filled(template: string, given: Arguments): string {
  return template.replaceAll(/\{([^{}]+)\}/g, (_found, name: string) => {
    const key = name.trim()
    if (!Object.hasOwn(given, key) || given[key] === undefined) return '?'
    return isSecretKey(key) ? '***' : shown(given[key])
  })
}

function general(entry: Descriptor, given: Arguments, server: UpstreamSettings): string {
  const values = Object.entries(given).map(([key, value]) => {
    return `${shortLine(key)}: ${isSecretKey(key) ? '***' : shown(value)}`
  })
  const summary = cut(values.join(', '), MAX_SUMMARY_LENGTH)
  return `Run ${named(entry)}${summary === '' ? '' : ` with ${summary}`}?${told(entry, server)}`
}

function named({ name, upstream }: Descriptor): string {
  return `${cut(shortLine(name), MAX_VALUE_LENGTH)} on ${upstream}`
}

/** The first sentence of what a server says of its tool, where the server is believed. */
function told({ definition }: Descriptor, { trust }: UpstreamSettings): string {
  const { description } = definition
  if (!trust || typeof description !== 'string') return ''
  const [sentence = ''] = description.trim().split(/(?<=[.!?])\s|\n/, 1)
  return sentence === '' ? '' : ` ${cut(shortLine(sentence), MAX_VALUE_LENGTH)}`
}

function costs({ price }: Rule): string {
  return price === undefined ? '' : ` It costs ${price}.`
}

function promise({ remember }: Rule): string {
  if (!remember || remember.offer || remember.max < 2) return ''
  return ` Agreeing holds for ${rememberText(remember)}.`
}

const redactor = new Redactor()

function shown(value: unknown): string {
  if (typeof value === 'string') return cut(shortLine(value), MAX_VALUE_LENGTH)
  const text = JSON.stringify(isObject(value) || Array.isArray(value) ? redactor.value(value) : value)
  return cut(shortLine(text), MAX_VALUE_LENGTH)
}

/** What is cut off need not be read. */
function shortLine(text: string): string {
  return oneLine(text.slice(0, MAX_SUMMARY_LENGTH).toWellFormed())
}

function cut(text: string, longest: number): string {
  return text.length > longest ? `${text.slice(0, longest - 1).toWellFormed()}…` : text
}
