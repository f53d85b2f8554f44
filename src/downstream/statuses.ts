import { isObject } from '../core/json.ts'
import type { Settings } from '../core/settings.ts'

/** Whether each error of a call is to have an HTTP status of its own; else all have 200, which every client reads. */
export function isMapped({ features, profile }: Pick<Settings, 'features' | 'profile'>): boolean {
  const own = features.errors?.common
  if (!isObject(own)) return false
  return (own.http_status ?? (profile === 'corporate' ? 'mapped' : 'compatible')) === 'mapped'
}

/** The HTTP status of each JSON-RPC error, for clients that read it. */
const statuses: Readonly<Record<number, number>> = {
  [-32700]: 400,
  [-32600]: 400,
  [-32602]: 400,
  [-32603]: 500,
  [-32000]: 500,
  [-32003]: 429,
  [-32004]: 504,
  [-32005]: 413,
  [-32006]: 503,
  [-32007]: 409,
  // 404 would say that the session is gone (2025-03-26 basic/transports, session management).
  [-32601]: 200,
  [-32002]: 200,
}

/** The HTTP status of an answer within a session, by the code of its error. */
export function mappedStatus(errorCode: unknown): number {
  return typeof errorCode === 'number' ? (statuses[errorCode] ?? 200) : 200
}
