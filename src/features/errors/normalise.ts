/** From a server's failure to a code of the error table, by rules, statuses and words. */
import type { Call } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import {
  classify,
  type Diagnosis,
  firstWords,
  type Rule,
  suggestions,
  withoutSdkPrefix,
} from '../../core/failure.ts'
import { isObject } from '../../core/json/json.ts'
import type { Payload } from '../../core/payload.ts'
import type { Redactor } from '../../core/text/redact.ts'
import { ERROR_KEY } from '../../protocol/meta-keys.ts'
import { shortened, cleaned, completed, isStructured, nearestCode, type Structured } from './render.ts'
import { sanitise, type Sent } from './sanitise.ts'

/** What is known of the server whose failures are put into words. */
export interface Manners {
  readonly rules: readonly Rule[]
  /** Globs of the hosts that documentation may be on. */
  readonly hosts: readonly string[]
  /** Knows the secrets servers were given. */
  readonly ours: Redactor
}

/** What a failed result of a tool means, as the object programs read. */
export function objectOf(result: Payload, call: Call, manners: Manners): Structured {
  const { hosts, rules, ours } = manners
  const sent = sentBy(call, ours)
  const raw = withoutSdkPrefix(firstWords(result))
  // Cut at last: a part of a secret is not recognised.
  const message = shortened(sanitise(raw, sent))
  const { _meta: meta, error, structuredContent } = result.fields
  const places = [
    isObject(meta) && meta[ERROR_KEY],
    error,
    isObject(structuredContent) && structuredContent.error,
  ]
  const given = places.find(isStructured)
  const object = given
    ? completed(given, message, { sent, hosts })
    : found(message, classify({ text: shortened(raw) }, rules)).data
  return { ...object, requestId: call.requestId }
}

/** A failure below this feature in the words of the one table, safe to be told. */
export function normalised(error: GatewayError, call: Call, manners: Manners): GatewayError {
  if (error.extra.relayed) return completedRelay(error, error.extra.relayed, call, manners)
  if (!isFromServer(error)) return error
  const status = error.extra.details?.http_status
  const message = sanitise(error.message, sentBy(call, manners.ours))
  if (error.code !== 'UPSTREAM_ERROR' && typeof status !== 'number') return reworded(error, message)
  const finding = classify(
    { text: error.message, body: error.extra.body, status: typeof status === 'number' ? status : undefined },
    manners.rules,
  )
  const { extra } = error
  const told = found(message, finding).extra
  const details = { ...extra.details, ...told.details }
  const suggestion = finding.suggestion ?? extra.suggestion ?? told.suggestion
  const retryAfterSeconds = told.retryAfterSeconds ?? extra.retryAfterSeconds
  return new GatewayError(finding.code, message, {
    ...extra,
    ...told,
    details,
    suggestion,
    retryAfterSeconds,
  })
}

/** Codes whose message may carry words of a server or of the system. */
const outside: ReadonlySet<string> = new Set(['UPSTREAM_ERROR', 'SERVER_UNAVAILABLE', 'OUTCOME_UNKNOWN'])

function isFromServer({ code }: GatewayError): boolean {
  return outside.has(code)
}

function reworded(error: GatewayError, message: string): GatewayError {
  return message === error.message ? error : new GatewayError(error.code, message, error.extra)
}

/** The demand for a visit to a URL is no failure: it is relayed as it came. */
const URL_ELICITATION_RPC_CODE = -32042

function completedRelay(
  error: GatewayError,
  relayed: Payload,
  call: Call,
  { rules, hosts, ours }: Manners,
): GatewayError {
  const { rpc } = error
  if (rpc === URL_ELICITATION_RPC_CODE) return error
  const sent = sentBy(call, ours)
  const text = withoutSdkPrefix(error.message)
  const message = sanitise(text, sent)
  const { data } = relayed.fields
  const { requestId } = call
  if (isStructured(data)) {
    const object = { ...completed(data, message, { sent, hosts }), requestId }
    const sound = relayed.with({ message, data: object })
    return new GatewayError(nearestCode(object), message, { ...error.extra, relayed: sound })
  }
  const isRead = call.method === 'resources/read'
  const { uri } = isRead ? call.params.fields : {}
  const isNotThere = typeof uri === 'string' && rpc === -32602 && isObject(data) && data.uri === uri
  const finding = classify({ text, rpc: isNotThere ? -32002 : rpc, isRead }, rules)
  const meant = found(message, finding)
  const object = {
    ...(meant.code === 'RESOURCE_NOT_FOUND' && typeof uri === 'string' && { uri }),
    ...joined(cleaned(data, sent), meant.data),
    requestId,
  }
  const sound = relayed.with({
    ...(isMistold(meant, rpc, isRead) && { code: meant.rpc }),
    message,
    data: object,
  })
  const { cause, extra } = error
  return new GatewayError(meant.code, message, { ...meant.extra, data: extra.data, cause, relayed: sound })
}

/** Whether the server's JSON-RPC code is not the one that clients know such a failure by. */
function isMistold({ code }: GatewayError, rpc: number, isRead: boolean): boolean {
  if (code === 'UNKNOWN_TOOL' || (code === 'INVALID_INPUT' && rpc === 0)) return true
  return code === 'RESOURCE_NOT_FOUND' && isRead && rpc !== -32002
}

/** The server's own data, and ours; what of the server's would not fit beside ours stands apart. */
function joined(data: unknown, ours: Structured): Structured {
  if (data === undefined || data === null) return ours
  const isApart = !isObject(data) || Object.keys(data).some((key) => Object.hasOwn(ours, key))
  return { ...(isObject(data) && data), ...ours, ...(isApart && { upstream: data }) }
}

function found(
  message: string,
  { code, category, suggestion, retryAfterSeconds, by }: Diagnosis,
): GatewayError {
  return new GatewayError(code, message, {
    category,
    suggestion: suggestion ?? suggestions[code],
    retryAfterSeconds,
    details: { classified_by: by },
  })
}

/** How much of a caller's arguments is looked at: values, and characters. */
const most = { values: 1000, characters: 65_536 }

/** What the caller of a call sent, gathered when it is first asked for. */
export function sentBy(call: Call, ours?: Redactor): Sent {
  let gathered: Gathered | undefined
  const all = (): Gathered => (gathered ??= gather(call.params.fields))
  const has = (text: string): boolean => text !== '' && all().texts.some((each) => each.includes(text))
  return {
    has,
    tailOf: (path) => {
      const ends = all().texts.filter((each) => /^[^/\\]/.test(each) && endsIn(path, each))
      return ends.toSorted((one, other) => other.length - one.length)[0]
    },
    hasKey: (key) => all().keys.has(key),
    ...(ours && { withoutOurs: (text) => ours.text(text, has) }),
  }
}

interface Gathered {
  readonly texts: string[]
  readonly keys: Set<string>
}

function gather(params: Readonly<Record<string, unknown>>): Gathered {
  const texts: string[] = []
  const keys = new Set<string>()
  const waiting: unknown[] = [params.arguments, params.uri, params.name]
  let characters = 0
  for (let at = 0; at < waiting.length && at < most.values && characters < most.characters; at++) {
    const value = waiting[at]
    if (typeof value === 'string') {
      texts.push(value.slice(0, most.characters))
      characters += value.length
    } else if (Array.isArray(value)) {
      const items: readonly unknown[] = value.slice(0, most.values)
      waiting.push(...items)
    } else if (isObject(value)) {
      const members = Object.entries(value).slice(0, most.values)
      for (const [key] of members) keys.add(key)
      waiting.push(...members.map(([, member]) => member))
    }
  }
  return { texts, keys }
}

function endsIn(path: string, tail: string): boolean {
  return path.length > tail.length && path.endsWith(tail) && /[/\\]/.test(path.at(-tail.length - 1) ?? '')
}
