/**
 * Confirmation by the caller at the client: a form, or a page by URL. A response counts for exactly the call
 * that was asked about.
 */
import { randomBytes } from 'node:crypto'
import type { InputResponse, Call, Client, Outcome, InputRequest } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { oneLine } from '../../core/text/escape.ts'
import { Payload } from '../../core/payload.ts'
import { rememberText } from '../../core/remember.ts'
import { MAX_TIMER_MS } from '../../core/time/waiting.ts'
import type { Store } from '../../store/store.ts'
import { canAnswer } from '../../protocol/input-requests.ts'
import { type Refusal, type ConfirmState } from './grant.ts'
import { type ConfirmationRequest, STATE_KEY } from './request.ts'

/** Names our question among those of a call. */
const INPUT_REQUEST_KEY = 'confirm'

/** Whether the person at the client can be asked: with a form, or by being sent to a page. */
export function canAsk(call: Call, mode: 'form' | 'url'): boolean {
  const { client, internal: purpose, rpcId } = call
  if (client.nonInteractive || purpose || rpcId === undefined) return false
  return canBeAsked(client, mode)
}

function canBeAsked(client: Client, mode: 'form' | 'url'): boolean {
  return canAnswer(client, { method: 'elicitation/create', params: Payload.of({ mode }) })
}

/** The question whether a call may run, good once and for so many milliseconds from now on. */
export function requestForm(subject: ConfirmationRequest, ttl: number): Outcome {
  const { digest, message, typed } = subject
  const nonce = randomBytes(16).toString('base64url')
  const slot: ConfirmState = { kind: 'asked', nonce, digest, until: Date.now() + ttl }
  // Who holds a stream open for the answer need not do so for longer.
  const withdrawn = AbortSignal.timeout(Math.min(ttl, MAX_TIMER_MS))
  const confirm =
    typed === undefined
      ? { type: 'boolean', title: 'Run it', description: message, default: false }
      : { type: 'string', title: `Type “${typed}” to confirm`, description: message }
  const properties = { confirm, ...choices(subject) }
  const requestedSchema = { type: 'object', properties, required: ['confirm'] }
  return { ...asking({ mode: 'form', message, requestedSchema }, slot), withdrawn }
}

/** What the person may choose besides. */
function choices({ offer, entry, call }: ConfirmationRequest): Readonly<Record<string, unknown>> {
  if (!offer) return {}
  const where = call.client.session === undefined ? 'made in your name' : 'in this session'
  const remember = {
    type: 'boolean',
    title: `Do not ask again about ${oneLine(entry.name)}`,
    description: `The answer then holds for ${rememberText(offer)}, ${where}.`,
    default: false,
  }
  return { remember }
}

/** The question whether the person opens the page on which others approve. */
export function requestUrl({ digest, message }: ConfirmationRequest, approval: string, url: string): Outcome {
  return asking({ mode: 'url', message, url }, { kind: 'opened', approval, digest })
}

function asking(
  params: Readonly<Record<string, unknown>>,
  slot: ConfirmState,
): Outcome & { readonly kind: 'input_required' } {
  const question: InputRequest = { method: 'elicitation/create', params: Payload.of(params) }
  return {
    kind: 'input_required',
    inputRequests: { [INPUT_REQUEST_KEY]: question },
    requestState: { [STATE_KEY]: slot },
  }
}

type Asked = ConfirmState & { readonly kind: 'asked' }

/** What the person said. An answer counts once, whichever it is. @throws CONFIRMATION_TOKEN_INVALID */
export async function readForm(
  call: Call,
  slot: Asked,
  {
    subject,
    store,
    now,
  }: { readonly subject: ConfirmationRequest; readonly store: Store; readonly now: number },
): Promise<FormAnswer> {
  if (slot.digest !== subject.digest) throw notThisAnswer('it was given for another call')
  const left = slot.until - now
  if (left <= 0) return { verdict: 'timeout', isChosen: false }
  await useOnce(slot.nonce, store, left)
  const answer = call.inputResponses?.[INPUT_REQUEST_KEY]
  return { verdict: verdictOf(answer, subject.typed), isChosen: contentOf(answer).remember === true }
}

interface FormAnswer {
  readonly verdict: Refusal | 'accept'
  /** The person chose that it holds for more calls. */
  readonly isChosen: boolean
}

/** Uses up what a client was given, whichever gateway it comes back to. @throws CONFIRMATION_TOKEN_INVALID */
export async function useOnce(nonce: string, store: Store, ttl: number): Promise<void> {
  const before = await store.setIfAbsent(`approval:nonce:${nonce}`, '1', ttl)
  if (before !== undefined) throw notThisAnswer('it was used before')
}

/** What the person said to being sent to the page. */
export function readUrl({ inputResponses: answers }: Call): Refusal | 'accept' {
  const answer = answers?.[INPUT_REQUEST_KEY]
  if (!answer || 'error' in answer) return 'accept'
  return refusals[actionOf(answer)] ?? 'accept'
}

function verdictOf(answer: InputResponse | undefined, typed: string | undefined): Refusal | 'accept' {
  if (!answer) return 'timeout'
  if ('error' in answer) return 'error'
  if (actionOf(answer) !== 'accept') return refusals[actionOf(answer)] ?? 'cancel'
  const { confirm: said } = contentOf(answer)
  if (typed === undefined) return said === true ? 'accept' : 'decline'
  return typeof said === 'string' && said.trim() === typed ? 'accept' : 'mismatch'
}

function contentOf(answer: InputResponse | undefined): Readonly<Record<string, unknown>> {
  const content = answer && 'result' in answer ? answer.result.fields.content : undefined
  return isObject(content) ? content : {}
}

const refusals: Readonly<Record<string, Refusal>> = {
  decline: 'decline',
  // Some clients say `reject` for `decline`.
  reject: 'decline',
  cancel: 'cancel',
}

function actionOf({ result }: InputResponse & { readonly result: Payload }): string {
  return String(result.fields.action)
}

function notThisAnswer(why: string): GatewayError {
  return new GatewayError('CONFIRMATION_TOKEN_INVALID', `The confirmation does not count: ${why}.`, {
    suggestion: 'Make the call again without requestState: a person is then asked anew.',
  })
}
