/** One form for every failure: code, category, suggestion. Failed results of tools count as failures. */
import type { Call, Middleware, Notification, Outcome } from '../../core/call.ts'
import {
  GatewayError,
  isCancelled,
  type ErrorCode,
  isCategory,
  isErrorCode,
  isUserActionable,
  waitOf,
} from '../../core/error.ts'
import {
  compileRules,
  classify,
  type Diagnosis,
  firstWords,
  type Rule,
  suggestions,
  withoutSdkPrefix,
  hasForeignMessage,
} from '../../core/failure.ts'
import { asObject, isObject, isSame } from '../../core/json/json.ts'
import type { Log } from '../../core/log.ts'
import { Payload } from '../../core/payload.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { cleanedValue, withoutSecrets, isWordOfErrors } from '../../core/text/redact.ts'
import type { Redactor } from '../../core/text/redactor.ts'
import {
  CONFIRMATION_KEY,
  DRY_RUN_KEY,
  ERROR_KEY,
  isAskedFor,
  withoutFlag,
} from '../../protocol/meta-keys.ts'
import { isListening } from '../../protocol/methods.ts'
import type { Feature, Services } from '../feature.ts'
import { explaining } from '../offers.ts'
import type { Compat } from '../../core/setting-schemas.ts'
import { sanitise, type Sent } from './sanitise.ts'
import { type ErrorSettings, errorsSchema } from '../settings/admit.ts'
import { fits } from '../../core/text/pattern.ts'
import { isSecretName } from '../../core/text/secret.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'gateway'>

/**
 * Reports failures in one form: what happened, who can act on it, and when to retry. That is added to what the server
 * said, which stays as it is; with `hide_details`, its texts lose what is internal to it.
 */
export const errors: Feature<ErrorSettings> = {
  ...errorsSchema,
  create: (settings, deps) => {
    const contextByServer = new Map<string | undefined, ServerErrorContext>()
    const { redactor } = deps.gateway
    const contextOf = (upstream: string | undefined): ServerErrorContext => {
      const known =
        contextByServer.get(upstream) ??
        createContext(serverOf(deps, upstream), settings(upstream), deps.log, redactor)
      contextByServer.set(upstream, known)
      return known
    }
    return {
      calls: {
        middleware: ({ upstream, method }) => {
          const { compat, hide_details: isHiding } = settings(upstream)
          if (isListening(method)) return isHiding ? hidingLogSecrets(redactor) : undefined
          if (method.startsWith('notifications/')) return undefined
          const known = contextOf(upstream)
          const options = { context: known, compat }
          const described = method === 'tools/call' ? describingResults(options) : describingErrors(known)
          return isHiding ? (next) => hidingLogSecrets(redactor)(described(next)) : described
        },
        dryRun: 'same', // a refusal has the form that the real call would get
      },
      offers: [
        explaining.offer((failure, call) => {
          const known = contextOf(call.target.upstream)
          return failure instanceof GatewayError
            ? normalised(failure, call, known).data
            : objectOf(failure, call, known)
        }),
      ],
    }
  },
}

function describingErrors(context: ServerErrorContext): Middleware {
  return (next) => (call) =>
    next(call).catch((thrown: unknown) => {
      throw normaliseThrown(thrown, call, context)
    })
}

function describingResults(options: FailureOptions): Middleware {
  return (next) => (call) =>
    next(withoutFlag(call, ERROR_KEY)).then(
      (outcome) => (isFailed(outcome) ? describeFailure(outcome, call, options) : outcome),
      (thrown: unknown) => refusalResult(thrown, call, options),
    )
}

/** Log messages are for people, and often contain what looks like a secret. */
function hidingLogSecrets(redactor: Redactor): Middleware {
  const text = (given: string): string => withoutSecrets(redactor.text(given))
  const hidden = (note: Notification): Notification => {
    const data = note.method === 'notifications/message' ? note.params?.at('data') : undefined
    if (!note.params || !data || text(data.text) === data.text) return note
    return { ...note, params: note.params.with({ data: cleanedValue(data.value, text) }) }
  }
  return (next) => (call) => next({ ...call, emit: (note) => call.emit(hidden(note)) })
}

interface FailureOptions {
  readonly context: ServerErrorContext
  readonly compat: Compat
}

type Result = Outcome & { readonly kind: 'result' }

function isFailed(outcome: Outcome): outcome is Result {
  return outcome.kind === 'result' && outcome.result.member('isError') === true
}

/** A tool's failure, with the structured error added. */
function describeFailure(outcome: Result, call: Call, { context, compat }: FailureOptions): Outcome {
  const { result } = outcome
  if (isFromGateway(result, call)) return outcome
  const object = objectOf(result, call, context)
  const safe = context.isHiding ? safeResult(result, sentBy(call, context.redactor)) : result
  const isCompat = compat === 'always' || (compat && isAskedFor(call, ERROR_KEY))
  return { kind: 'result', result: withObject(safe, object, { compat: isCompat, isUnstructured: false }) }
}

/** Whether the gateway made the result itself: an error, a report, or a request to confirm, whose link must stay intact. */
function isFromGateway({ fields }: Payload, { requestId }: Call): boolean {
  const meta = asObject(fields._meta)
  const error = meta[ERROR_KEY]
  if (Object.hasOwn(meta, DRY_RUN_KEY)) return true
  return isObject(error) && (error.requestId === requestId || Object.hasOwn(meta, CONFIRMATION_KEY))
}

/** A refusal as a result of the tool, if a model can act on it. @throws all others */
function refusalResult(thrown: unknown, call: Call, { context, compat }: FailureOptions): Outcome {
  const error = normaliseThrown(thrown, call, context)
  const isResult =
    error instanceof GatewayError && (compat === 'always' ? isPresentable : isForModel)(error, call)
  if (!isResult) throw error
  const known = compat === 'always' ? withRelayed(error) : error.data
  const object = { ...known, requestId: call.requestId }
  const result = renderError(object, { compat: compat !== false, isUnstructured: isUnstructured(call) })
  const { meta } = error.extra
  return { kind: 'result', result: meta ? result.withMeta(meta) : result }
}

/** The structured error, with the code and the data of an error that a server sent: a result has no other place for them. */
function withRelayed({ data, extra: { relayed } }: GatewayError): Structured {
  if (!relayed) return data
  const { code, data: sent } = relayed.fields
  const details = asObject(data.details)
  const own = sent === undefined || isStructured(sent) ? {} : { data: sent }
  return { ...data, details: { ...details, upstream: { code, ...own } } }
}

/** Codes of errors after which a client has to do something itself, by the data of the error. */
const forClients: ReadonlySet<string> = new Set(['AUTHENTICATION_REQUIRED', 'CAPABILITY_REQUIRED'])

/** Whether a refusal can be told in a result: clients act on cancellations, requests to sign in and URLs to open themselves. */
function isPresentable({ code, rpc }: GatewayError, { signal }: Call): boolean {
  return !isCancelled(signal) && rpc !== URL_ELICITATION_RPC_CODE && !forClients.has(code)
}

/** A missing scope that a client can request from its authorization server is handled by the HTTP endpoint. */
function isForModel(error: GatewayError, { principal, signal }: Call): boolean {
  if (isCancelled(signal)) return false
  const isForClient = error.code === 'SCOPE_INSUFFICIENT' && !error.extra.isOfSession
  const hasToken = principal.token !== undefined || principal.hasTokenElsewhere === true
  return error.isResult && !(isForClient && hasToken)
}

/** A failure with a code of the error table; unexpected errors stay as they are, for the log. */
function normaliseThrown(thrown: unknown, call: Call, context: ServerErrorContext): unknown {
  if (!(thrown instanceof GatewayError) || isCancelled(call.signal)) return thrown
  return normalised(thrown, call, context)
}

/** Whether structured content may have any shape, because the tool declares no output schema. */
function isUnstructured({ tool, toolError }: Call): boolean {
  return toolError === undefined && !isObject(tool?.definition.outputSchema)
}

function serverOf(deps: Deps, upstream: string | undefined): UpstreamSettings | undefined {
  return upstream === undefined ? undefined : deps.servers.settings(upstream)
}

function createContext(
  server: UpstreamSettings | undefined,
  { documentation_hosts: hosts, hide_details: isHiding }: ErrorSettings,
  log: Log,
  redactor: Redactor,
): ServerErrorContext {
  const url = server?.reach.kind === 'url' ? new URL(server.reach.url).hostname : undefined
  const ownHosts = url === undefined ? [] : [url, `*.${url}`]
  const rules = compileRules(server?.errors ?? [], ({ match }) =>
    log.warn('errors.rule_unusable', { upstream: server?.name, match }),
  )
  return { rules, hosts: [hosts, ownHosts].flat(), redactor, isHiding }
}

// Classifies a server's failure into a code of the error table, by rules, statuses and message texts.

/** The error rules and hosts of one server. */
interface ServerErrorContext {
  readonly rules: readonly Rule[]
  /** Globs of the hosts on which documentation may be. */
  readonly hosts: readonly string[]
  /** Knows the secrets that servers were configured with. */
  readonly redactor: Redactor
  /** Whether what is internal to a server is taken out of its texts. */
  readonly isHiding: boolean
}

/** How a server's texts are reported in answer to a call: as they are, or without what is internal to the server. */
function textsFor(call: Call, { isHiding, redactor }: ServerErrorContext): Texts {
  if (!isHiding) return { text: (text) => text, data: (data) => data }
  const sent = sentBy(call, redactor)
  return { text: (text) => sanitise(text, sent), data: (data) => cleaned(data, sent) }
}

/** The structured error of a failed tool result. */
function objectOf(result: Payload, call: Call, context: ServerErrorContext): Structured {
  const { hosts, rules } = context
  const texts = textsFor(call, context)
  const raw = withoutSdkPrefix(firstWords(result))
  // Shortened last: a part of a secret would not be recognised.
  const message = shortened(texts.text(raw))
  const { _meta: meta, error, structuredContent } = result.fields
  const candidates = [
    isObject(meta) && meta[ERROR_KEY],
    error,
    isObject(structuredContent) && structuredContent.error,
  ]
  const given = candidates.find(isStructured)
  const object = given
    ? completed(given, message, { texts, hosts })
    : toError(message, classify({ text: shortened(raw) }, rules)).data
  return { ...object, requestId: call.requestId }
}

/** A failure of the layers below with a code of the error table, safe to report. */
function normalised(error: GatewayError, call: Call, context: ServerErrorContext): GatewayError {
  if (error.extra.relayed) return completedRelay(error, error.extra.relayed, call, context)
  if (!hasForeignMessage(error.code)) return error
  const status = error.extra.details?.http_status
  const message = sanitise(error.message, sentBy(call, context.redactor))
  if (error.code !== 'UPSTREAM_ERROR' && typeof status !== 'number') return withMessage(error, message)
  const finding = classify(
    { text: error.message, body: error.extra.body, status: typeof status === 'number' ? status : undefined },
    context.rules,
  )
  const { extra } = error
  const diagnosis = toError(message, finding).extra
  const details = { ...extra.details, ...diagnosis.details }
  const suggestion = finding.suggestion ?? extra.suggestion ?? diagnosis.suggestion
  const retryAfterSeconds = diagnosis.retryAfterSeconds ?? extra.retryAfterSeconds
  return new GatewayError(finding.code, message, {
    ...extra,
    ...diagnosis,
    details,
    suggestion,
    retryAfterSeconds,
  })
}

function withMessage(error: GatewayError, message: string): GatewayError {
  return message === error.message ? error : new GatewayError(error.code, message, error.extra)
}

/** A URL elicitation error is not a failure: it is relayed as it is. */
const URL_ELICITATION_RPC_CODE = -32042

/** An error of the server with the structured error added to its data. */
function completedRelay(
  error: GatewayError,
  relayed: Payload,
  call: Call,
  context: ServerErrorContext,
): GatewayError {
  const { rpc } = error
  if (rpc === URL_ELICITATION_RPC_CODE) return error
  const { hosts, isHiding } = context
  const texts = textsFor(call, context)
  const text = withoutSdkPrefix(error.message)
  const message = texts.text(text)
  const { requestId } = call
  const data = texts.data(relayed.fields.data)
  const shown = isHiding ? relayed.with({ message, data }) : relayed
  const asked = (object: Structured): Structured => ({
    ...error.extra.data,
    ...(isAskedFor(call, ERROR_KEY) && { [ERROR_KEY]: object }),
  })
  if (isStructured(data)) {
    const object = { ...completed(data, message, { texts, hosts }), ...error.extra.data, requestId }
    return new GatewayError(nearestCode(object), message, {
      ...error.extra,
      relayed: withErrorData(shown, object, asked(object)),
    })
  }
  const isRead = call.method === 'resources/read'
  const uri = isRead ? call.params.fields.uri : undefined
  const isNamed = rpc === -32602 && uri !== undefined && isObject(data) && data.uri === uri
  const symptoms = { text, rpc: isNamed ? -32002 : rpc, isRead }
  const diagnosed = toError(message, classify(symptoms, context.rules))
  const object = {
    ...(diagnosed.code === 'RESOURCE_NOT_FOUND' && typeof uri === 'string' && { uri }),
    ...diagnosed.data,
    ...error.extra.data,
    requestId,
  }
  const { cause, extra } = error
  return new GatewayError(diagnosed.code, message, {
    ...diagnosed.extra,
    data: extra.data,
    meta: extra.meta,
    relayedFrom: extra.relayedFrom,
    cause,
    relayed: withErrorData(shown, object, asked(object)),
  })
}

function toError(
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

/** How much of a caller's arguments is examined: values, and characters. */
const MAX_SENT = { values: 1000, characters: 65_536 }

/** What the caller sent, gathered on first use. */
export function sentBy(call: Call, redactor?: Redactor): Sent {
  let cache: Gathered | undefined
  const all = (): Gathered => (cache ??= gather(call.params.fields))
  const has = (text: string): boolean => text !== '' && all().texts.some((each) => each.includes(text))
  return {
    has,
    tailOf: (path) => {
      const ends = all().texts.filter((each) => /^[^/\\]/.test(each) && endsIn(path, each))
      return ends.toSorted((one, other) => other.length - one.length)[0]
    },
    hasKey: (key) => all().keys.has(key),
    ...(redactor && { withoutConfiguredSecrets: (text) => redactor.text(text, has) }),
  }
}

interface Gathered {
  readonly texts: string[]
  readonly keys: Set<string>
}

function gather(params: Readonly<Record<string, unknown>>): Gathered {
  const texts: string[] = []
  const keys = new Set<string>()
  const queue: unknown[] = [params.arguments, params.uri, params.name]
  let characters = 0
  for (let at = 0; at < queue.length && at < MAX_SENT.values && characters < MAX_SENT.characters; at++) {
    const value = queue[at]
    if (typeof value === 'string') {
      texts.push(value.slice(0, MAX_SENT.characters))
      characters += value.length
    } else if (Array.isArray(value)) {
      const items: readonly unknown[] = value.slice(0, MAX_SENT.values)
      queue.push(...items)
    } else if (isObject(value)) {
      const members = Object.entries(value).slice(0, MAX_SENT.values)
      for (const [key] of members) keys.add(key)
      queue.push(...members.map(([, member]) => member))
    }
  }
  return { texts, keys }
}

function endsIn(path: string, tail: string): boolean {
  return path.length > tail.length && path.endsWith(tail) && /[/\\]/.test(path.at(-tail.length - 1) ?? '')
}

interface ErrorPlacement {
  /** Also at `error` of the result. */
  readonly compat: boolean
  /** Also in `structuredContent`, unless the tool declares an output schema. */
  readonly isUnstructured: boolean
}

/** The result of a tool that was not run: text for a model, and the object for programs. */
function renderError(object: Structured, placement: ErrorPlacement): Payload {
  const text = [object.message, object.suggestion].filter((each) => typeof each === 'string').join(' ')
  const result = Payload.of({ content: [{ type: 'text', text }], isError: true })
  return withObject(result, object, placement)
}

/** A failed result of a server with the structured error added. */
function withObject(
  result: Payload,
  object: Structured,
  { compat, isUnstructured }: ErrorPlacement,
): Payload {
  const { fields } = result
  const added = {
    ...(compat && { error: object }),
    ...(isUnstructured && fields.structuredContent === undefined && { structuredContent: { error: object } }),
  }
  return result.with(added).withMeta({ [ERROR_KEY]: object })
}

/**
 * An error of the server with the structured error: as its data, if it has none; among the members of data that is a
 * structured error itself, or says only what that says. To other data, which is the server's own, only what the caller
 * asked for is added.
 */
function withErrorData(error: Payload, object: Structured, asked: Structured): Payload {
  const data = error.at('data')
  if (!data) return error.with({ data: object })
  if (!isObject(data.value)) return error
  const names = Object.keys(data.fields)
  const isRepeated = (key: string): boolean =>
    Object.hasOwn(object, key) && isSame(data.fields[key], object[key])
  const isOwn = names.length === 0 || !names.every(isRepeated)
  const added = isOwn && !isStructured(data.value) ? asked : object
  const missing = Object.entries(added).filter(([key]) => !Object.hasOwn(data.fields, key))
  return missing.length === 0 ? error : error.with({ data: data.with(Object.fromEntries(missing)) })
}

/** A failed result of a server with sanitised texts, and at least one text. */
function safeResult(result: Payload, sent: Sent): Payload {
  const { content } = result.fields
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  const safe = blocks.map((block) => (isObject(block) ? safeBlock(block, sent) : block))
  const sanitised = safeMembers(result, sent)
  const hasText = safe.some((block) => isObject(block) && block.type === 'text')
  if (!hasText) return sanitised.with({ content: [{ type: 'text', text: 'The tool failed.' }, ...safe] })
  return safe.every((block, index) => block === blocks[index]) ? sanitised : sanitised.with({ content: safe })
}

/** Structured members of a failed result may contain the same texts. */
function safeMembers(result: Payload, sent: Sent): Payload {
  const changed = ['structuredContent', 'error'].flatMap((name) => {
    const value = result.fields[name]
    const safe = cleaned(value, sent)
    return JSON.stringify(safe) === JSON.stringify(value) ? [] : [[name, safe] as const]
  })
  return changed.length === 0 ? result : result.with(Object.fromEntries(changed))
}

function safeBlock(block: Record<string, unknown>, sent: Sent): Record<string, unknown> {
  const { type, text, resource } = block
  if (type === 'text' && typeof text === 'string') {
    const safe = sanitise(text, sent)
    return safe === text ? block : { ...block, text: safe }
  }
  if (type !== 'resource' || !isObject(resource) || typeof resource.text !== 'string') return block
  return { ...block, resource: { ...resource, text: sanitise(resource.text, sent) } }
}

/** A text cut to the maximum length of a message. */
function shortened(text: string): string {
  return text.length > MAX_MESSAGE ? `${text.slice(0, MAX_MESSAGE - 1)}…` : text
}

/** The maximum length of an error message, in characters. */
const MAX_MESSAGE = 2000

/** A structured error object, for programs. */
type Structured = Readonly<Record<string, unknown>>

/** How texts of a server are reported. */
interface Texts {
  text(text: string): string
  /** The texts at any depth of a value. */
  data(value: unknown): unknown
}

interface CompletionContext {
  readonly texts: Texts
  /** Globs of the hosts on which documentation may be. */
  readonly hosts: readonly string[]
}

/** Whether a server sent a structured error itself. */
function isStructured(value: unknown): value is Record<string, unknown> {
  return isObject(value) && typeof value.code === 'string' && value.code !== '' && isCategory(value.category)
}

/** A structured error of a server with its gaps filled. */
function completed(
  given: Record<string, unknown>,
  message: string,
  { texts, hosts }: CompletionContext,
): Structured {
  const { category } = given
  if (!isCategory(category)) throw new TypeError('not a structured error')
  const { documentation_url: url, retryAfter, retry_after_seconds: seconds, ...rest } = given
  const wait = waitOf(category, [seconds, retryAfter].map(Number).find(Number.isFinite))
  const isKnown = typeof given.user_actionable === 'boolean'
  const safe = texts.data(rest)
  return {
    ...(isObject(safe) && safe),
    message: typeof given.message === 'string' ? texts.text(given.message) : message,
    user_actionable: isKnown ? given.user_actionable : isUserActionable(category),
    ...(wait !== undefined && { retry_after_seconds: wait, retryAfter: wait }),
    ...(isDocumentation(url, hosts) && { documentation_url: url }),
  }
}

/** The code of the error table for a server's own code. */
function nearestCode({ code }: Structured): ErrorCode {
  return isErrorCode(code) ? code : 'UPSTREAM_ERROR'
}

/** How deep error data is examined, and how many of its values; the rest is left out. */
const MAX_DATA = { depth: 20, values: 5000 }

/** Data with sanitised texts. */
function cleaned(value: unknown, sent: Sent): unknown {
  let remaining = MAX_DATA.values
  const clean = (each: unknown, depth: number): unknown => {
    remaining -= 1
    if (remaining < 0 || depth > MAX_DATA.depth) return undefined
    if (typeof each === 'string') return sanitise(each, sent)
    if (Array.isArray(each)) return each.map((item) => clean(item, depth + 1))
    if (!isObject(each)) return each
    const members = Object.entries(each).map(([key, member]) => {
      return [key, isSecretName(key) && isSecret(member) ? '[redacted]' : clean(member, depth + 1)] as const
    })
    return Object.fromEntries(members)
  }
  return clean(value, 0)
}

/** Whether a value under a key such as `password` is a secret, not a message about one. */
function isSecret(value: unknown): boolean {
  return typeof value === 'string' && value !== '' && !isWordOfErrors(value)
}

function isDocumentation(url: unknown, hosts: readonly string[]): url is string {
  if (typeof url !== 'string' || url.length > 2000 || !URL.canParse(url)) return false
  const { protocol, hostname, username, password } = new URL(url)
  return protocol === 'https:' && username + password === '' && hosts.some((glob) => fits(glob, hostname))
}
