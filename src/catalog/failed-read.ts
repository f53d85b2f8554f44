import { GatewayError } from '../core/error.ts'
import type { Payload } from '../core/payload.ts'

/** Throws a failure on, about the resource as its client asked for it where the server was sent another URI. */
export function failedRead(thrown: unknown, asked: Payload, sent: Payload): never {
  const { uri } = sent.fields
  const told = { uri: asked.fields.uri }
  if (!(thrown instanceof GatewayError) || typeof uri !== 'string' || uri === told.uri) throw thrown
  const { data, relayed } = thrown.extra
  const theirs = relayed?.at('data')
  throw thrown.with({
    ...(data?.uri === uri && { data: { ...data, ...told } }),
    ...(relayed && theirs?.fields.uri === uri && { relayed: relayed.with({ data: theirs.with(told) }) }),
  })
}
