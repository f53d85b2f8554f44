/** HTTP statuses of failed calls, where `errors.http_status` maps them. */
import { isObject } from '../../core/json/json.ts'
import type { Settings } from '../../core/settings.ts'

/** The HTTP statuses of calls within a session, if errors are mapped to statuses. */
export interface StatusMapping {
  /** The status of a response by its error code. */
  statusOf(errorCode: unknown): number
  /**
   * How long the head of a response may be delayed, in milliseconds: as long as any call may be silent, so that no
   * timeout is sent with status 200.
   */
  readonly maxHeadDelay: number
}

/** The mapping of statuses; undefined if all errors have 200, which every client can read. */
export function statusMapping(settings: Mapped): StatusMapping | undefined {
  return isMapped(settings) ? { statusOf: mappedStatus, maxHeadDelay: maxHeadDelay(settings) } : undefined
}

type Mapped = Pick<Settings, 'features' | 'profile' | 'upstreams'>

function isMapped({ features, profile }: Mapped): boolean {
  const own = features.errors?.common
  if (!isObject(own)) return false
  return (own.http_status ?? (profile === 'corporate' ? 'mapped' : 'compatible')) === 'mapped'
}

function maxHeadDelay({ features, upstreams }: Mapped): number {
  const limits = features.limits
  const given: readonly unknown[] = [limits?.common, ...Object.values(limits?.upstreams ?? {})].map((each) =>
    isObject(each) ? each.timeout : undefined,
  )
  const ofTools = upstreams.flatMap(({ tools }) => Object.values(tools).map(({ timeout }) => timeout))
  const all = [...given, ...ofTools].filter((each) => typeof each === 'number').filter(Number.isFinite)
  return Math.max(0, ...all) + DEADLINE_MARGIN_MS
}

/** How long after its deadline a timeout may be reported, in milliseconds. */
const DEADLINE_MARGIN_MS = 5000

/** The HTTP status of each JSON-RPC error, for clients that read statuses. */
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
  // 404 would mean that the session has ended (2025-03-26 basic/transports, session management).
  [-32601]: 200,
  [-32002]: 200,
}

function mappedStatus(errorCode: unknown): number {
  return typeof errorCode === 'number' ? (statuses[errorCode] ?? 200) : 200
}
