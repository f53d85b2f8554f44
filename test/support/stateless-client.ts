import { enveloped, mirrorHeaders } from './client/modern-request.ts'
import { post } from './client/raw.ts'
import { isObject, type Json } from './server/json.ts'

/** What a client of 2026-07-28 got for one call. */
export interface Answer {
  /** The result, or the data of the error. */
  readonly fields: Json
  readonly meta: Json
  readonly texts: readonly string[]
  /** The JSON text in the first content block. */
  readonly seen: Json
  /** The state for the next call. */
  readonly state: string | undefined
  readonly error: { readonly code: number; readonly data: Json } | undefined
  /** The notifications that came before the result. */
  readonly notes: readonly Json[]
}

interface Options {
  /** The URL of the endpoint. */
  readonly url: string
  readonly token?: string
  /** Whether it declares the extension for session state. */
  readonly isDeclaring?: boolean
}

const KEY = 'dev.gatehouse/session_state'

/** A client of 2026-07-28 over HTTP that sends back each session state it gets. Every request is a connection of its own. */
export class StatelessClient {
  state: unknown
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  /** Calls a tool with the last state. */
  async call(name: string, args: Json = {}, more: Json = {}): Promise<Answer> {
    const answer = await this.send('tools/call', {
      name,
      arguments: args,
      ...(this.state !== undefined && { session_state: this.state }),
      ...more,
    })
    if (answer.state !== undefined) this.state = answer.state
    return answer
  }

  /** Sends a request as it is given. */
  async send(method: string, given: Json, declared: Json = {}): Promise<Answer> {
    const { url, token, isDeclaring = false } = this.#options
    const capabilities = { ...declared, ...(isDeclaring && { extensions: { [KEY]: {} } }) }
    const params = enveloped(given, '2026-07-28', capabilities)
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
    const headers = {
      ...mirrorHeaders(method, params, new Map()),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    }
    const reply = await post(url, body, headers)
    const events = reply.events.flatMap(({ data }) => data ?? [])
    const messages = events.length > 0 ? events : [reply.text]
    const parsed = messages.map((text) => JSON.parse(text) as Json)
    const last = parsed.at(-1) ?? {}
    return answerOf(last, parsed.slice(0, -1))
  }
}

function answerOf(message: Json, notes: readonly Json[]): Answer {
  const error = isObject(message['error']) ? message['error'] : undefined
  const data = isObject(error?.['data']) ? error['data'] : {}
  const fields = isObject(message['result']) ? message['result'] : data
  const meta = isObject(fields['_meta']) ? fields['_meta'] : {}
  const content: readonly unknown[] = Array.isArray(fields['content']) ? fields['content'] : []
  const texts = content.map((block) => (isObject(block) ? String(block['text']) : ''))
  const state = meta[KEY] ?? fields['session_state']
  return {
    fields,
    meta,
    texts,
    seen: texts[0]?.startsWith('{') ? (JSON.parse(texts[0]) as Json) : {},
    state: typeof state === 'string' ? state : undefined,
    error: error && { code: Number(error['code']), data },
    notes,
  }
}
