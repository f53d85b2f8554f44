import { usual } from './client/raw.ts'
import { modern } from './fronts.ts'
import { isObject, type Json, parseExact } from './server/json.ts'

/** A call with an idempotency key. */
export interface KeyedCall {
  readonly tool: string
  readonly arguments: Json
  readonly key: string
}

/** What came of one attempt of a call. */
export type Attempt =
  | { readonly kind: 'answered'; readonly answer: Answer }
  /** Nobody knows whether it was done. */
  | { readonly kind: 'doubt' }
  /** The same key can be used again: the answer was lost, or the gateway said so. */
  | { readonly kind: 'again'; readonly why: string; readonly wait?: number }
  | { readonly kind: 'wrong'; readonly why: string }

/** An answer, and what it says of its key. */
export interface Answer {
  readonly structured: Json
  readonly text: string
  readonly wasReplay: boolean
  readonly startedAt: string
  /** A read of the gateway found it. */
  readonly isVerified: boolean
}

/** Makes a call once, without a session. Never throws: what fails on the way is to be tried again. */
export async function attemptCall(url: string, call: KeyedCall, signal: AbortSignal): Promise<Attempt> {
  const params = { name: call.tool, arguments: call.arguments, _meta: { idempotency_key: call.key } }
  const { message, headers } = modern('tools/call', params)
  const request = { method: 'POST', headers: { ...usual, ...headers }, body: JSON.stringify(message), signal }
  try {
    const response = await fetch(url, request)
    const answered = parseExact(await response.text())
    return read(isObject(answered) ? answered : {})
  } catch (error) {
    return { kind: 'again', why: String(error) }
  }
}

function read({ result, error }: Json): Attempt {
  if (isObject(error)) return meaning(isObject(error['data']) ? error['data'] : {}, JSON.stringify(error))
  if (!isObject(result)) return { kind: 'wrong', why: 'neither a result nor an error' }
  const meta = isObject(result['_meta']) ? result['_meta'] : {}
  if (result['isError'] === true) {
    const failure = meta['dev.gatehouse/error']
    return meaning(isObject(failure) ? failure : {}, JSON.stringify(result))
  }
  const { content, structuredContent } = result
  const [block]: readonly unknown[] = Array.isArray(content) ? content : []
  const answer: Answer = {
    structured: isObject(structuredContent) ? structuredContent : {},
    text: isObject(block) ? String(block['text']) : '',
    wasReplay: meta['was_replay'] === true,
    startedAt: String(meta['original_timestamp']),
    isVerified: meta['dev.gatehouse/verified'] === true,
  }
  return { kind: 'answered', answer }
}

const passing = new Set(['transient', 'rate_limited'])

function meaning({ code, category, retry_after_seconds: seconds }: Json, whole: string): Attempt {
  if (code === 'OUTCOME_UNKNOWN') return { kind: 'doubt' }
  if (!passing.has(String(category))) return { kind: 'wrong', why: whole }
  return {
    kind: 'again',
    why: String(code),
    ...(code === 'IDEMPOTENCY_IN_PROGRESS' && typeof seconds === 'number' && { wait: seconds * 1000 }),
  }
}
