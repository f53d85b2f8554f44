import { createHash, createHmac } from 'node:crypto'
import { RpcError } from './call.ts'
import type { Journal } from './journal.ts'
import { encode, type Id, isObject, type Json, objectAt, parse } from './json.ts'

/** A digest of what a retry must repeat: the method and the original params. */
export function digest(method: string, params: Json): string {
  const { _meta, inputResponses, requestState, ...original } = params
  return createHash('sha256')
    .update(encode([method, original]))
    .digest('hex')
}

/** Writes the answers so far as a request state the client cannot change. */
export function sealState(answers: Json, bound: string, id: Id): string {
  const body = Buffer.from(encode({ answers, bound, id })).toString('base64url')
  return `${body}.${sign(body)}`
}

/**
 * Reads the answers out of a request state; none when there is no state.
 * @throws RpcError -32602 when it was changed or belongs to another request
 */
export function openState(state: unknown, bound: string, id: Id, journal: Journal): Json {
  if (state === undefined) return {}
  const [body = '', signature] = String(state).split('.')
  const content = parse(Buffer.from(body, 'base64url').toString())
  if (signature !== sign(body) || !isObject(content)) throw new RpcError(-32602, 'Invalid requestState')
  if (content['bound'] !== bound) {
    journal.violation('a retry with other params than the call it continues')
    throw new RpcError(-32602, 'The requestState belongs to another request')
  }
  if (content['id'] === id)
    journal.violation(`a retry with the id of the call it continues: ${JSON.stringify(id)}`)
  return objectAt(content, 'answers')
}

function sign(body: string): string {
  return createHmac('sha256', 'fake server').update(body).digest('base64url')
}
