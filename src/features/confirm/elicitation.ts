/**
 * Confirmation by the caller at the client: a form, or a page by URL. A response is valid for exactly the call that
 * was asked about.
 */
import { world } from '../../core/world.ts'
import type { InputResponse, Call, Client, InterimOutcome, Outcome, InputRequest } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { asObject } from '../../core/json/json.ts'
import { oneLine } from '../../core/text/escape.ts'
import { Payload } from '../../core/payload.ts'
import { rememberText } from '../../core/remember.ts'
import { MAX_TIMER_MS } from '../../core/time/waiting.ts'
import type { Store } from '../../store/store.ts'
import { canAnswer } from '../../protocol/input-requests.ts'
import { type Refusal, type ConfirmState, confirmStateOf } from './grant.ts'
import { askAgain, type ConfirmationRequest, STATE_KEY, stateOf } from './request.ts'

/** The key of this input request among those of a call. */
const INPUT_REQUEST_KEY = 'confirm'

/** Whether the client can elicit a confirmation: with a form, or by opening a URL. */
export function canAsk(call: Call, mode: 'form' | 'url'): boolean {
  const { client, internal: purpose, rpcId } = call
  if (client.nonInteractive || purpose || rpcId === undefined) return false
  return canBeAsked(client, mode)
}

function canBeAsked(client: Client, mode: 'form' | 'url'): boolean {
  return canAnswer(client, { method: 'elicitation/create', params: Payload.of({ mode }) })
}

/** Whether input is requested to confirm the call, by the gateway itself. */
export function isConfirmation({ requestState }: InterimOutcome): boolean {
  return confirmStateOf({ requestState })?.kind === 'asked'
}

/**
 * The input request for a confirmation: valid once, for the given time in milliseconds. `again` is for a person who accepted the
 * form without its box: the question is then answered in words.
 */
export function requestForm(
  subject: ConfirmationRequest,
  ttl: number,
  again?: { readonly isChosen: boolean },
): Outcome {
  const { message } = subject
  const nonce = world.randomBytes(16).toString('base64url')
  const about = { ...stateOf(subject), until: world.now() + ttl, ...(again && { again }) }
  // A stream need not be held open for longer than the request is valid.
  const withdrawn = world.timeoutSignal(Math.min(ttl, MAX_TIMER_MS))
  const confirm = gestureOf(subject, again !== undefined)
  const properties = { ...(confirm && { confirm }), ...(again ? {} : optionalProperties(subject)) }
  const requestedSchema = { type: 'object', properties, ...(confirm && { required: ['confirm'] }) }
  const question = again ? `${message} You accepted it without ticking “${BOX}”.` : message
  const asked = `${question}${subject.details ?? ''}`
  const form = inputRequired(
    { mode: 'form', message: asked, requestedSchema },
    { kind: 'asked', nonce, ...about },
  )
  return { ...form, withdrawn }
}

const BOX = 'Run it'
const YES = 'yes'

/**
 * What a person does besides accepting the form. Some clients accept forms by themselves, so destructive calls need a box;
 * others need nothing more.
 */
function gestureOf(
  { message, typed, risk }: ConfirmationRequest,
  isAgain: boolean,
): Readonly<Record<string, unknown>> | undefined {
  const text = typed ?? (isAgain ? YES : undefined)
  if (text !== undefined) return { type: 'string', title: `Type “${text}” to confirm`, description: message }
  if (risk !== 'destructive') return undefined
  return { type: 'boolean', title: BOX, description: message, default: false }
}

/**
 * The request for a person who was asked about the same call already, if its references stand for other data now: what was
 * said then is void. Undefined if nothing has changed.
 */
export function changedRequest(
  state: ConfirmState | undefined,
  subject: ConfirmationRequest,
): ConfirmationRequest | undefined {
  const { referenced, digest } = subject
  const isSameCall = state?.written !== undefined && state.written === referenced?.written
  return isSameCall && state.digest !== digest ? askAgain(subject) : undefined
}

/** The optional choices of the form. */
function optionalProperties({ offer, entry, call }: ConfirmationRequest): Readonly<Record<string, unknown>> {
  if (!offer) return {}
  const scope = call.client.session === undefined ? 'on your behalf' : 'in this session'
  const remember = {
    type: 'boolean',
    title: `Do not ask again about ${oneLine(entry.name)}`,
    description: `The decision then applies to ${rememberText(offer)}, ${scope}.`,
    default: false,
  }
  return { remember }
}

/** The input request to open the page on which others approve. */
export function requestUrl(subject: ConfirmationRequest, approval: string, url: string): Outcome {
  const { message } = subject
  return inputRequired({ mode: 'url', message, url }, { kind: 'opened', approval, ...stateOf(subject) })
}

function inputRequired(
  params: Readonly<Record<string, unknown>>,
  state: ConfirmState,
): Outcome & { readonly kind: 'input_required' } {
  const inputRequest: InputRequest = { method: 'elicitation/create', params: Payload.of(params) }
  return {
    kind: 'input_required',
    inputRequests: { [INPUT_REQUEST_KEY]: inputRequest },
    requestState: { [STATE_KEY]: state },
  }
}

type AskedState = ConfirmState & { readonly kind: 'asked' }

/** The decision of the person. A response is valid once, whatever it says. @throws CONFIRMATION_TOKEN_INVALID */
export async function readForm(
  call: Call,
  state: AskedState,
  {
    subject,
    store,
    now,
  }: { readonly subject: ConfirmationRequest; readonly store: Store; readonly now: number },
): Promise<FormAnswer> {
  if (state.digest !== subject.digest) throw invalidConfirmation('it was given for a different call')
  const remaining = state.until - now
  if (remaining <= 0) return { verdict: 'timeout', isChosen: false }
  await useOnce(state.nonce, store, remaining)
  const answer = call.inputResponses?.[INPUT_REQUEST_KEY]
  const isChosen = state.again?.isChosen ?? contentOf(answer).remember === true
  return { verdict: verdictOf(answer, subject, state.again !== undefined), isChosen }
}

interface FormAnswer {
  /** `unticked`: the form was accepted, but not its box. */
  readonly verdict: Refusal | 'accept' | 'unticked'
  /** The person chose that the decision applies to further calls. */
  readonly isChosen: boolean
}

/** Uses up a nonce, on whichever gateway it arrives. @throws CONFIRMATION_TOKEN_INVALID */
export async function useOnce(nonce: string, store: Store, ttl: number): Promise<void> {
  const before = await store.setIfAbsent(`approval:nonce:${nonce}`, '1', ttl)
  if (before !== undefined) throw invalidConfirmation('it has already been used')
}

/** The person's response to the request to open the page. */
export function readUrl({ inputResponses: answers }: Call): Refusal | 'accept' {
  const answer = answers?.[INPUT_REQUEST_KEY]
  if (!answer || 'error' in answer) return 'accept'
  return refusals[actionOf(answer)] ?? 'accept'
}

function verdictOf(
  answer: InputResponse | undefined,
  subject: ConfirmationRequest,
  isAgain: boolean,
): FormAnswer['verdict'] {
  if (!answer) return 'timeout'
  if ('error' in answer) return 'error'
  if (actionOf(answer) !== 'accept') return refusals[actionOf(answer)] ?? 'cancel'
  const { confirm } = contentOf(answer)
  const { typed, risk } = subject
  const text = typeof confirm === 'string' ? confirm.trim() : undefined
  if (typed !== undefined) return text === typed ? 'accept' : 'mismatch'
  if (isAgain) return text?.toLowerCase() === YES ? 'accept' : 'decline'
  return confirm === true || risk !== 'destructive' ? 'accept' : 'unticked'
}

function contentOf(answer: InputResponse | undefined): Readonly<Record<string, unknown>> {
  const content = answer && 'result' in answer ? answer.result.fields.content : undefined
  return asObject(content)
}

const refusals: Readonly<Record<string, Refusal>> = {
  decline: 'decline',
  // Some clients send `reject` for `decline`.
  reject: 'decline',
  cancel: 'cancel',
}

function actionOf({ result }: InputResponse & { readonly result: Payload }): string {
  return String(result.fields.action)
}

function invalidConfirmation(why: string): GatewayError {
  return new GatewayError('CONFIRMATION_TOKEN_INVALID', `The confirmation is invalid: ${why}.`, {
    suggestion: 'Repeat the call without requestState to request a new confirmation.',
  })
}
