/** One form for every failure: code, category, advice. Failed results of tools count as failures. */
import type { Call, Outcome } from '../../core/call.ts'
import { GatewayError, isCancelled } from '../../core/error.ts'
import {
  isAnswer,
  compileRules,
  classify,
  type Diagnosis,
  firstWords,
  type Rule,
  suggestions,
  withoutSdkPrefix,
} from '../../core/failure.ts'
import { isObject } from '../../core/json/json.ts'
import type { Log } from '../../core/log.ts'
import type { Payload } from '../../core/payload.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { Redactor, secretsOf } from '../../core/text/redact.ts'
import { CONFIRMATION_KEY, ERROR_KEY, isAskedFor, withoutFlag } from '../../protocol/meta-keys.ts'
import type { Feature } from '../feature.ts'
import type { Services } from '../feature.ts'
import {
  renderError,
  safeResult,
  withObject,
  shortened,
  cleaned,
  completed,
  isStructured,
  nearestCode,
  type Structured,
} from './render.ts'
import { sanitise, type Sent } from './sanitise.ts'

type Deps = Pick<Services, 'log' | 'servers'>

interface Settings {
  /** Read at the edge. */
  readonly http_status?: 'compatible' | 'mapped'
  readonly compat: boolean
  readonly documentation_hosts: string | readonly string[]
}

/** Tells failures in one form: what it is, whose it is to do something about it, and when to try again. */
export const errors: Feature<Settings> = {
  name: 'errors',
  place: 'features',
  schema: {
    type: 'object',
    properties: {
      http_status: {
        enum: ['compatible', 'mapped'],
        description:
          'Which HTTP status goes with an error of a call: 200, which every client reads, or one of its own. By default `compatible`, and `mapped` in the corporate profile.',
      },
      compat: {
        type: 'boolean',
        default: true,
        description:
          'Whether the structured error also stands at `error` of a result of a tool that was not run; and of failures of the tool itself for clients that ask.',
      },
      documentation_hosts: {
        type: ['array', 'string'],
        items: { type: 'string', minLength: 1, errorMessage: 'must be a host name or glob' },
        default: [],
        errorMessage: 'must be a list of host names or globs',
        description: 'Hosts that links to documentation in errors may lead to, besides that of the server.',
      },
    },
  },
  create: (settings, deps) => {
    const manners = new Map<string | undefined, Manners>()
    const ours = new Redactor()
    ours.learn(secretsOf(deps.servers.names().map((name) => deps.servers.settings(name))))
    const mannersOf = (upstream: string | undefined): Manners => {
      const known =
        manners.get(upstream) ??
        readManners(serverOf(deps, upstream), settings(upstream), { log: deps.log, ours })
      manners.set(upstream, known)
      return known
    }
    return {
      explained: (failure, call) => {
        const known = mannersOf(call.target.upstream)
        return failure instanceof GatewayError
          ? normalised(failure, call, known).data
          : objectOf(failure, call, known)
      },
      middleware: ({ upstream, method }) => {
        if (method === 'subscriptions/listen' || method.startsWith('notifications/')) return undefined
        const known = mannersOf(upstream)
        if (method !== 'tools/call') {
          return (next) => (call) =>
            next(call).catch((thrown: unknown) => {
              throw told(thrown, call, known)
            })
        }
        const { compat } = settings(upstream)
        const tell = { manners: known, compat }
        return (next) => (call) =>
          next(withoutFlag(call, ERROR_KEY)).then(
            (outcome) => (isFailed(outcome) ? failed(outcome, call, tell) : explicit(outcome)),
            (thrown: unknown) => refused(thrown, call, tell),
          )
      },
    }
  },
}

interface Tell {
  readonly manners: Manners
  readonly compat: boolean
}

type Result = Outcome & { readonly kind: 'result' }

function isFailed(outcome: Outcome): outcome is Result {
  return outcome.kind === 'result' && outcome.result.member('isError') === true
}

/** A success that says it is one (2025-06-18 server/tools); the acceptance of a task, and questions, are neither. */
function explicit(outcome: Outcome): Outcome {
  if (outcome.kind !== 'result' || typeof outcome.result.member('isError') === 'boolean') return outcome
  return isAnswer(outcome.result) ? { kind: 'result', result: outcome.result.with(SUCCESS) } : outcome
}

const SUCCESS = { isError: false } as const

/** What a tool said of its failure, with what it means. */
function failed(outcome: Result, call: Call, { manners, compat }: Tell): Outcome {
  const { result } = outcome
  if (isOurs(result, call)) return outcome
  const object = objectOf(result, call, manners)
  const safe = safeResult(result, sentBy(call, manners.ours))
  // What its server sent stays as it was, but for clients that ask for more.
  const isBeside = compat && isAskedFor(call, ERROR_KEY)
  return { kind: 'result', result: withObject(safe, object, { compat: isBeside, isFree: false }) }
}

/** What was made of this call here; and an answer that asks for a person's word, whose link has to stay one. */
function isOurs({ fields }: Payload, { requestId }: Call): boolean {
  const meta = isObject(fields._meta) ? fields._meta : {}
  const error = meta[ERROR_KEY]
  return isObject(error) && (error.requestId === requestId || Object.hasOwn(meta, CONFIRMATION_KEY))
}

/** A refusal as the result of the tool, where a model can do something about it. @throws all others */
function refused(thrown: unknown, call: Call, { manners, compat }: Tell): Outcome {
  const error = told(thrown, call, manners)
  if (!(error instanceof GatewayError) || !isForModel(error, call)) throw error
  const object = { ...error.data, requestId: call.requestId }
  return { kind: 'result', result: renderError(object, { compat, isFree: isFree(call) }) }
}

/** A scope that a client can ask its authorization server for is asked for at the edge. */
function isForModel(error: GatewayError, { principal, signal }: Call): boolean {
  if (isCancelled(signal)) return false
  const isForClient = error.code === 'SCOPE_INSUFFICIENT' && !error.extra.isOfSession
  return error.isResult && !(isForClient && principal.token !== undefined)
}

/** A failure in the words of the one table; what was not foreseen stays as it is, for the log. */
function told(thrown: unknown, call: Call, manners: Manners): unknown {
  if (!(thrown instanceof GatewayError) || isCancelled(call.signal)) return thrown
  return normalised(thrown, call, manners)
}

/** Whether the structured content of a tool may be anything: the tool does not say what it is. */
function isFree({ tool, toolError }: Call): boolean {
  return toolError === undefined && !isObject(tool?.definition.outputSchema)
}

function serverOf(deps: Deps, upstream: string | undefined): UpstreamSettings | undefined {
  return upstream === undefined ? undefined : deps.servers.settings(upstream)
}

function readManners(
  server: UpstreamSettings | undefined,
  { documentation_hosts: hosts }: Settings,
  { log, ours }: { readonly log: Log; readonly ours: Redactor },
): Manners {
  const url = server?.reach.kind === 'url' ? new URL(server.reach.url).hostname : undefined
  const own = url === undefined ? [] : [url, `*.${url}`]
  const rules = compileRules(server?.errors ?? [], ({ match }) =>
    log.warn('errors.rule_unusable', { upstream: server?.name, match }),
  )
  return { rules, hosts: [hosts, own].flat(), ours }
}

// From a server's failure to a code of the error table, by rules, statuses and words.

/** What is known of the server whose failures are put into words. */
interface Manners {
  readonly rules: readonly Rule[]
  /** Globs of the hosts that documentation may be on. */
  readonly hosts: readonly string[]
  /** Knows the secrets servers were given. */
  readonly ours: Redactor
}

/** What a failed result of a tool means, as the object programs read. */
function objectOf(result: Payload, call: Call, manners: Manners): Structured {
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
function normalised(error: GatewayError, call: Call, manners: Manners): GatewayError {
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
