// What a server says of a thing it failed to give names it as the server knows it. Where the client asked by another
// name, at the address of all servers or in the scheme of its server, the failure is told in the client's words.
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json.ts'
import type { Payload } from '../core/payload.ts'

/** Throws a failure on, about the resource or prompt as its client asked for it where the server was sent another name. */
export function failedRead(thrown: unknown, asked: Payload, sent: Payload): never {
  const known = sent.fields.uri ?? sent.fields.name
  const told = asked.fields.uri ?? asked.fields.name
  if (!(thrown instanceof GatewayError) || typeof known !== 'string' || typeof told !== 'string') throw thrown
  if (known === told) throw thrown
  const { data, relayed } = thrown.extra
  const renamed = (text: string): string => withName(text, known, told)
  const inData = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> => ({
    ...(fields.uri === known && { uri: told }),
    ...(typeof fields.message === 'string' && { message: renamed(fields.message) }),
  })
  const theirs = relayed?.at('data')
  throw new GatewayError(thrown.code, renamed(thrown.message), {
    ...thrown.extra,
    ...(data && { data: { ...data, ...inData(data) } }),
    ...(relayed && {
      relayed: relayed.with({
        message: renamed(thrown.message),
        ...(isObject(theirs?.value) && { data: theirs.with(inData(theirs.fields)) }),
      }),
    }),
  })
}

/** Characters that mean something in a regular expression. */
const SPECIAL = /[\\^$.*+?()[\]{}|/-]/g

/** A text with a name in place of another, where that stands by itself; the new one may hold the old one. */
function withName(text: string, known: string, told: string): string {
  const word = new RegExp(`(?<![\\w/+:.-])${known.replaceAll(SPECIAL, '\\$&')}(?![\\w/+-])`, 'g')
  return text
    .split(told)
    .map((part) => part.replaceAll(word, () => told))
    .join(told)
}
