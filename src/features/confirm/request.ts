/**
 * What a person is asked to confirm: the call, its digest, its risk, and the message. Values are shortened and secrets
 * masked.
 */
import type { Call } from '../../core/call.ts'
import { clientName } from '../../core/text/words.ts'
import { rememberedSlot, intentSlot } from '../../core/tool-call.ts'
import type { Descriptor, Risk } from '../../core/descriptor.ts'
import { canonicalHash, exactHash } from '../../core/json/canonical-hash.ts'
import { canonical, asObject, isObject } from '../../core/json/json.ts'
import { type Remember, type StopAsking, rememberText } from '../../core/remember.ts'
import { type UpstreamSettings, settingOf } from '../../core/settings.ts'
import { statedTool } from '../../core/stated-tool.ts'
import { oneLine, shortened, visibleLine } from '../../core/text/escape.ts'
import { maskedArguments, maskedText, secretNames } from '../../core/masked-arguments.ts'
import type { Payload } from '../../core/payload.ts'
import {
  comparableArguments,
  writtenArguments,
  referencesSlot,
  partText,
  type UsedReference,
} from '../../core/used-reference.ts'
import { AT_TERMINAL } from '../../records/approval-codes.ts'
import {
  type Approval,
  type ApprovalRequest,
  changeTitle,
  type ReferencedData,
  type ShownChange,
  undoNotes,
} from '../../records/approvals.ts'
import type { DecisionChannels, Services } from '../feature.ts'
import { callUndos } from '../offers.ts'
import { firstLines } from '../../core/text/difference.ts'
import { argumentsHash } from '../../records/receipts.ts'
import { offerOf, riskOf, type Rule } from './rules.ts'
import { isNumber } from '../../core/json/exact-number.ts'
import { withDoubles } from '../../core/json/read.ts'
import { originText } from '../../records/plain-name.ts'

/** The key of this layer in a call's request state. */
export const STATE_KEY = 'confirm'

/** The call without the state and responses of this layer, for the layers below. */
function withoutConfirmState(call: Call): Call {
  const { [STATE_KEY]: own, ...state } = call.requestState
  if (own === undefined) return call
  if (isObject(own) && own.kind === 'granted') return { ...call, requestState: state }
  const { inputResponses: _responses, ...rest } = call
  return { ...rest, requestState: state }
}

type Arguments = Readonly<Record<string, unknown>>

/** A call that people are asked to confirm. */
export interface ConfirmationRequest {
  /** As the layers below receive it. */
  readonly call: Call
  readonly entry: Descriptor
  /** As people see them: references as the caller wrote them. */
  readonly arguments: Arguments
  /** What the references stand for. */
  readonly referenced?: CallData
  /** The digests of the call and of its arguments. */
  readonly digest: string
  readonly argumentsDigest: string
  readonly risk: Risk
  /** The configuration names a compensation for the tool. */
  readonly isUndoable?: true
  readonly message: string
  /** The arguments that are text of several lines, without secrets, unless the owner worded the question. */
  readonly texts: readonly { readonly name: string; readonly lines: readonly string[] }[]
  /** What a form says below the question. */
  readonly details?: string
  /** The text that the person has to type. */
  readonly typed?: string
  /** What the person may choose: that the decision applies to further calls of the tool. */
  readonly offer?: Remember
  /** The configuration that stops these confirmations. */
  readonly stop?: StopAsking
  /** The text of the arguments, if it carries more than the parsed values. */
  readonly sent?: string
}

/** Builds the confirmation request of a call. */
export function confirmationRequestOf(
  given: Call,
  entry: Descriptor,
  rule: Rule,
  server: UpstreamSettings,
): ConfirmationRequest {
  const call = withoutConfirmState(given)
  const actual = asObject(call.params.at('arguments')?.value)
  const references = referencesSlot.of(call)
  const written = writtenArguments(call.params, references)
  const values = asObject(written?.value)
  const sent = writtenText(written, values)
  // Equal values in another order are the same call, and so are equal digits with other white space.
  const asSent = sent === undefined ? values : [canonical(values), withoutSpace(sent)]
  const comparable = comparableArguments(actual, references)
  const referenced = dataOf(call)
  const identity = referenced ? [comparable, sent ?? null, referenced.data.map(identityOf)] : asSent
  // A URL of data is a credential: it must not be shown.
  const typed = typedText(rule, entry, asObject(comparable))
  const offer = offerOf(rule, entry, call)
  return {
    call,
    entry,
    arguments: values,
    ...(referenced && { referenced }),
    digest: canonicalHash([call.principal.id, entry.upstream, entry.name, identity]),
    argumentsDigest: argumentsHash(actual),
    risk: riskOf(rule, entry),
    ...(isUndoable(entry, server) && { isUndoable: true }),
    message: [
      messageOf(rule, entry, values, server),
      dataNote(referenced?.data ?? []),
      rememberedArguments(call),
      statedReason(call),
    ].join(''),
    texts: rule.template === undefined ? textsOf(values, entry) : [],
    ...(typed !== undefined && { typed }),
    ...(offer && { offer }),
    ...(rule.stop && { stop: rule.stop }),
    ...(sent !== undefined && { sent }),
  }
}

function textsOf(args: Arguments, { definition }: Descriptor): ConfirmationRequest['texts'] {
  const given = Object.entries(maskedArguments(args, secretNames(definition.inputSchema)))
  return given.flatMap(([name, value]) =>
    typeof value === 'string' && value.includes('\n') ? [{ name, lines: value.split('\n') }] : [],
  )
}

function isUndoable({ name }: Descriptor, { tools }: UpstreamSettings): boolean {
  const undo = settingOf(tools, name, 'undo')
  return undo !== undefined && undo.value !== 'none'
}

/** The same request, for a person who was asked when the references of the call stood for other data. */
export function askAgain(subject: ConfirmationRequest): ConfirmationRequest {
  const reason =
    'The data that this call refers to has changed since you were asked, so that the earlier approval is void.'
  return { ...subject, message: `${reason} ${subject.message}` }
}

/** What identifies a request, for records of what was asked and granted. */
export function stateOf({
  digest,
  referenced,
}: ConfirmationRequest): Pick<ApprovalRequest, 'digest' | 'written'> {
  return { digest, ...(referenced && { written: referenced.written }) }
}

/**
 * The text of arguments if it carries more than values with doubles, such as long numbers: the server receives the text.
 * The digest of an approval, which is stored, has it.
 */
function writtenText(given: Payload | undefined, values: Arguments): string | undefined {
  const text = given?.text
  if (text === undefined) return undefined
  const encoded = JSON.stringify(withDoubles(values))
  return text === encoded || withoutSpace(text) === encoded ? undefined : text
}

/** JSON without insignificant white space. */
function withoutSpace(json: string): string {
  return json.replaceAll(/("[^"\\]*(?:\\.[^"\\]*)*")|\s+/g, (_all, string: string = '') => string)
}

/** The approval to request for a call. */
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
    referenced,
    arguments: given,
  }: ConfirmationRequest,
  { needed, approvers }: Pick<Rule, 'needed' | 'approvers'>,
  { kind, ttl }: Pick<ApprovalRequest, 'kind' | 'ttl'>,
): ApprovalRequest {
  const { id, isEverybody } = call.principal
  const secrets = secretNames(entry.definition.inputSchema)
  const client = clientName(call.client)
  return {
    kind,
    caller: id,
    ...(client !== undefined && { client }),
    ...(isEverybody && { isEverybody }),
    upstream: entry.upstream,
    tool: entry.name,
    arguments: maskedArguments(given, secrets),
    ...referenced,
    digest,
    risk,
    ...(canUndo && { isUndoable: canUndo }),
    message,
    ...(typed !== undefined && { typed }),
    ...(stop && kind === 'page' && { stop }),
    ...(offer && kind === 'page' && { offer: { for: offer.for, max: offer.max } }),
    ...(sent !== undefined && { sent: maskedText(sent, given, secrets) }),
    needed,
    approvers,
    ttl,
  }
}

/** The maximum length of a value in a message, and of all values together, in characters. */
const MAX_VALUE_LENGTH = 200
const MAX_SUMMARY_LENGTH = 1000

/** The question to the person: one line, with nothing hidden. */
function messageOf(rule: Rule, entry: Descriptor, args: Arguments, server: UpstreamSettings): string {
  const { template } = rule
  const given = maskedArguments(args, secretNames(entry.definition.inputSchema))
  const text = template === undefined ? defaultQuestion(entry, given, server) : fillTemplate(template, given)
  return `${text}${costNote(rule)}${rememberNote(rule)}`
}

/** Which of the values the caller did not write in this call. */
function rememberedArguments(call: Call): string {
  const remembered = rememberedSlot.of(call)
  return remembered ? ` Remembered from earlier calls: ${remembered.map(shortLine).join(', ')}.` : ''
}

/** The caller's stated reason. It comes last, so that no text of ours could be mistaken for the caller's. */
function statedReason(call: Call): string {
  const intent = intentSlot.of(call)
  return intent === undefined || intent === ''
    ? ''
    : ` Stated reason, not verified: “${displayText(intent).replaceAll(/[“”]/g, '"')}”`
}

/** The template of the question about calls of a tool; arguments are named in braces. */
export function templateOf(rule: Rule, entry: Descriptor, server: UpstreamSettings): string {
  const own = server.trust ? statedTool(entry.definition).question : undefined
  return `${rule.template ?? own ?? defaultQuestion(entry, {}, server)}${costNote(rule)}`
}

/**
 * A question of the gateway with what the server says of it: the question of a trusted server comes first, in place of the
 * description of its tool. That of another one is quoted.
 */
function asked(question: string, entry: Descriptor, server: UpstreamSettings): string {
  const { question: own } = statedTool(entry.definition)
  if (own === undefined) return `${question}${descriptionOf(entry, server)}`
  const text = shortened(shortLine(own), MAX_SUMMARY_LENGTH)
  return server.trust
    ? `${text} ${question}`
    : `${question} Its server says: “${text.replaceAll(/[“”]/g, '"')}”`
}

/** What a person has to type: the value of the argument, or the tool's name if that value cannot be typed. */
function typedText({ typed }: Rule, { name, definition }: Descriptor, given: Arguments): string | undefined {
  if (typed === undefined) return undefined
  const value = Object.hasOwn(given, typed) ? given[typed] : undefined
  const isPlain = typeof value === 'string' || isNumber(value) || typeof value === 'boolean'
  const text = isPlain ? String(value).trim() : ''
  const isSecret = maskedArguments(given, secretNames(definition.inputSchema))[typed] !== value
  const isTypable = text !== '' && text.length <= MAX_VALUE_LENGTH && shortLine(text) === text && !isSecret
  return isTypable ? text : name
}

function fillTemplate(template: string, given: Arguments): string {
  return template.replaceAll(/\{([^{}]+)\}/g, (_found, name: string) => {
    const key = name.trim()
    return Object.hasOwn(given, key) && given[key] !== undefined ? displayText(given[key]) : '?'
  })
}

/** The question of the gateway itself, with the given arguments. */
function defaultQuestion(entry: Descriptor, given: Arguments, server: UpstreamSettings): string {
  const values = Object.entries(given).map(([key, value]) => {
    const isLines = typeof value === 'string' && value.includes('\n')
    return `${shortLine(key)}: ${isLines ? linesText(value) : displayText(value)}`
  })
  const summary = shortened(values.join(', '), MAX_SUMMARY_LENGTH)
  return asked(`Run ${toolLabel(entry)}${summary === '' ? '' : ` with ${summary}`}?`, entry, server)
}

/** How many lines a text has; a line break at its end begins no other one. */
function linesText(text: string): string {
  const count = text.replace(/\n$/, '').split('\n').length
  return `${count} ${count === 1 ? 'line' : 'lines'}`
}

function toolLabel({ name, upstream }: Descriptor): string {
  return `${shortened(shortLine(name), MAX_VALUE_LENGTH)} on ${upstream}`
}

/** The first sentence of a tool's description, if its server is trusted. */
function descriptionOf({ definition }: Descriptor, { trust }: UpstreamSettings): string {
  const { description } = definition
  if (!trust || typeof description !== 'string') return ''
  const [sentence = ''] = description.trim().split(/(?<=[.!?])\s|\n/, 1)
  return sentence === '' ? '' : ` ${shortened(shortLine(sentence), MAX_VALUE_LENGTH)}`
}

function costNote({ price }: Rule): string {
  return price === undefined ? '' : ` It costs ${price}.`
}

function rememberNote({ remember }: Rule): string {
  if (!remember || remember.offer || remember.max < 2) return ''
  return ` Your approval applies to ${rememberText(remember)}.`
}

function displayText(value: unknown): string {
  if (typeof value === 'string') return shortened(shortLine(value), MAX_VALUE_LENGTH)
  return shortened(shortLine(JSON.stringify(value)), MAX_VALUE_LENGTH)
}

/** Text beyond the maximum need not be processed. */
function shortLine(text: string): string {
  return oneLine(text.slice(0, MAX_SUMMARY_LENGTH).toWellFormed())
}

/** How people can decide: on a page, or at the command line. */
export function waysToDecide(
  { url, isForPeople, isAtTerminal }: DecisionChannels,
  { approvers }: Approval,
): readonly string[] {
  if (url !== undefined && isForPeople) return [`at ${url}`]
  const page = url === undefined ? [] : [`at ${url}, by a program with its bearer token`]
  // Whoever is at the command line is rarely one of the named approvers.
  const isLimitedToApprovers = url !== undefined && approvers.length > 0
  return isAtTerminal && !isLimitedToApprovers ? [...page, AT_TERMINAL] : page
}

/*
 * What a question says below its line: the arguments that are text of several lines, and what the call would change. Each line of
 * theirs is indented as a block of code (CommonMark 4.4), so that none is taken for one of the gateway, nor for markup.
 */

/** What a call would change, read now; undefined where nothing can be read. Never throws. */
export async function changeOf(
  { call, entry }: ConfirmationRequest,
  { features }: Pick<Services, 'features'>,
): Promise<ShownChange | undefined> {
  const [undo] = features.offered(callUndos, entry.upstream)
  return undo?.preview(call, entry)
}

/** The request with what its form says below the question. */
export async function withDetails(
  subject: ConfirmationRequest,
  deps: Pick<Services, 'features'>,
): Promise<ConfirmationRequest> {
  const change = await changeOf(subject, deps)
  const texts = subject.texts.filter(({ name }) => !isShown(name, change))
  const lines = texts.flatMap(({ name, lines: own }) => [`${name}:`, ...own.map((line) => `  ${line}`)])
  const shown =
    lines.length === 0 ? '' : block('Arguments of several lines', firstLines(lines).map(visibleLine))
  return { ...subject, details: `${shown}${changeText(change)}` }
}

/** Whether the lines of a change have those of an argument. */
function isShown(name: string, change: ShownChange | undefined): boolean {
  if (change?.kind !== 'difference' && change?.kind !== 'created') return false
  return change.lines.some((line) => line === `${name}:` || line.startsWith(`${name}, line `))
}

/** A change as a paragraph below a question; empty without one. */
export function changeText(change: ShownChange | undefined): string {
  if (!change) return ''
  const notes = undoNotes(change).map((note) => `\n\n${note}`)
  return [...notes, block(changeTitle(change), change.lines)].join('')
}

function block(title: string, lines: readonly string[]): string {
  if (lines.length === 0) return `\n\n${title}.`
  return `\n\n${title}:\n\n${lines.map((line) => `    ${line}`).join('\n')}`
}

/*
 * What people see of data that the arguments of a call refer to, in place of the data. An approval applies to the data with
 * these hashes alone.
 */

/** How long a path, a name or a media type is in a message, and how much of a hash, in characters. */
const MAX_WORD_LENGTH = 80
const SHORT_HASH_LENGTH = 12

/** The data that a call refers to. */
interface CallData {
  readonly data: readonly ReferencedData[]
  /** Identifies the call as the caller wrote it, whatever its references stand for. */
  readonly written: string
}

/** The data that a call refers to; undefined if it has no references. */
function dataOf(call: Call): CallData | undefined {
  const references = referencesSlot.of(call)
  if (!references) return undefined
  const { params, principal, target } = call
  const data = references.used.map(factsOf)
  const given = writtenArguments(params, references)?.value
  const written = exactHash([principal.id, target.upstream, target.name, given])
  return { data, written }
}

function factsOf({
  path,
  written,
  isOutside,
  server,
  tool,
  name,
  type,
  size,
  sha256,
}: UsedReference): ReferencedData {
  const origin = { server, ...(tool !== undefined && { tool }) }
  return { path, written, ...(isOutside && { isOutside }), ...origin, name, type, size, sha256 }
}

/**
 * What an approval is for: a person saw the hash of the data, and which part is sent. Equal values may have other digits.
 * Servers see name and type of a file and of what they download.
 */
function identityOf({ path, written, sha256, isOutside, name, type }: ReferencedData): readonly string[] {
  return [path, sha256, partText(written), ...(isOutside ? [name, type] : [])]
}

/** The data in a question to a person: where it goes, and what it is. */
function dataNote(data: readonly ReferencedData[]): string {
  return data.map(sentenceOf).join('')
}

function sentenceOf({ path, written, server, name, type, size, sha256, isOutside }: ReferencedData): string {
  const where = path === '' ? 'the arguments are' : `${quoted(path)} is`
  const part = partText(written)
  const data = part === '' ? 'the data' : `the part ${quoted(part)} of the data`
  const what = isOutside ? `a file or a URL with ${data}` : data
  const facts = `${quoted(type)}, ${size} bytes, SHA-256 ${sha256.slice(0, SHORT_HASH_LENGTH)}`
  return ` In place of its reference, ${where} ${what} ${quoted(name)} from ${word(originText({ server }))} (${facts}).`
}

/** A word of a caller or a server, which could read like ours. */
function quoted(text: string): string {
  return `“${word(text)}”`
}

function word(text: string): string {
  const line = oneLine(text.slice(0, MAX_WORD_LENGTH + 1).toWellFormed()).replaceAll(/[“”]/g, '"')
  return shortened(line, MAX_WORD_LENGTH)
}
