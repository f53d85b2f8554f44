import { isObject, readJson } from '../core/json.ts'
import type { HttpAnswer } from './fetch.ts'

/** How much of the body of a refusal rules are tried on, in characters. */
const MAX_BODY_LENGTH = 2000

/** What an answer said, for rules alone. */
export function seenOf({ body }: HttpAnswer): { readonly body?: string } {
  return body === '' ? {} : { body: body.slice(0, MAX_BODY_LENGTH) }
}

/**
 * The message of a refusal, where its body is one and not the words of something before the server. Errors that could
 * not tell the id (`null`, or none) belong to the request they answer.
 */
export function errorIn(body: string, id: number): string | undefined {
  const value = readJson(body)
  if (!isObject(value)) return body
  const { error } = value
  if (value.jsonrpc === undefined && !(isObject(error) && typeof error.code === 'number')) return undefined
  if (!isObject(error) || (value.id !== null && value.id !== undefined)) return body
  return JSON.stringify({ ...value, jsonrpc: '2.0', id })
}
