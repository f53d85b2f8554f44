/** A client of 2026-07-28 that requests events over HTTP, without an SDK. */
import { onTestFinished } from 'vitest'
import { enveloped, mirrorHeaders } from './client/modern-request.ts'
import { open, post, usual } from './client/raw.ts'
import { isObject, type Json, objectAt, parse } from './server/json.ts'

/** The members of a request besides its method and params. */
interface Options {
  readonly capabilities?: Json
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends a request, and resolves with its result, or with `{ error }`. */
export async function ask(
  url: string,
  method: string,
  params: Json = {},
  options: Options = {},
): Promise<Json> {
  const { body, headers } = requestOf(method, params, options)
  const { text } = await post(url, body, headers)
  const message = parse(text)
  if (!isObject(message)) throw new TypeError(`This is no answer: ${text}`)
  return isObject(message['result']) ? message['result'] : { error: message['error'] }
}

/** What a stream received: the methods of its notifications, without their common prefix, and their params. */
export interface Received {
  readonly what: string
  readonly params: Json
}

/** Opens a request that lasts, until the test is over. */
export async function follow(
  url: string,
  method: string,
  params: Json,
  options: Options = {},
): Promise<{ readonly received: readonly Received[]; readonly ended: Promise<Json> }> {
  const { body, headers } = requestOf(method, params, options)
  const reply = await open(url, { method: 'POST', headers: { ...usual, ...headers }, body })
  onTestFinished(() => reply.destroy())
  const received: Received[] = []
  const read = async (): Promise<Json> => {
    if (!reply.headers['content-type']?.startsWith('text/event-stream')) return objectOf(await reply.text())
    for await (const { data } of reply.events()) {
      const message = objectOf(data ?? '{}')
      if (message['id'] !== undefined) return message
      const what = String(message['method']).replace('notifications/events/', '')
      if (message['method'] !== undefined) received.push({ what, params: objectAt(message, 'params') })
    }
    return {}
  }
  const ended = read()
  ended.catch(() => undefined)
  return { received, ended }
}

function objectOf(text: string): Json {
  const value = parse(text)
  return isObject(value) ? value : {}
}

function requestOf(method: string, given: Json, { capabilities = {}, headers: own = {} }: Options) {
  const params = enveloped(given, '2026-07-28', capabilities)
  const headers = { ...mirrorHeaders(method, params, new Map()), ...own }
  return { body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }), headers }
}
