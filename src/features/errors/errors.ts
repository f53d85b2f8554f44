/** One form for every failure: code, category, advice. Failed results of tools count as failures. */
import { isAnswer } from '../../core/outcome.ts'
import type { Call, Outcome } from '../../core/call.ts'
import { GatewayError, isCancelled } from '../../core/error.ts'
import { compileRules } from '../../core/failure.ts'
import { isObject } from '../../core/json/json.ts'
import type { Log } from '../../core/log.ts'
import { Redactor, secretsOf } from '../../core/text/redact.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import type { Payload } from '../../core/payload.ts'
import { CONFIRMATION_KEY, ERROR_KEY, isAskedFor, withoutFlag } from '../../protocol/meta-keys.ts'
import type { Feature } from '../feature.ts'
import type { Services } from '../services.ts'
import { renderError, safeResult, withObject } from './render.ts'
import { type Manners, normalised, objectOf, sentBy } from './normalise.ts'

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
