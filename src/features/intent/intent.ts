/** Reads the stated intent of calls, suggests better tools, and redirects where the owner wrote a rule. */
import type { Call, Handler, Outcome, Middleware, Target } from '../../core/call.ts'
import { GatewayError, asGatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { oneLine } from '../../core/text/escape.ts'
import { within } from '../../core/time/waiting.ts'
import {
  extensionOf,
  hasExtension,
  hasIdempotencyKey,
  idempotencyKeyOf,
  withoutExtension,
  withWritten,
  ERROR_KEY,
  NS,
} from '../../protocol/meta-keys.ts'
import { method as known } from '../../protocol/methods.ts'
import { callKey, findCall } from '../../records/calls.ts'
import type { Feature } from '../feature.ts'
import type { Services } from '../services.ts'
import { ruleProblems, readRules, type Rule } from './rules.ts'
import { createSuggest, type Suggest, type Suggestion } from './suggest.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'descriptions' | 'features'>

/** What is done with what callers say they want. */
export interface Settings {
  /** The call is made and a better tool named, or it is not made where there is a better tool. */
  readonly mode: 'advise' | 'redirect'
  /** How many times better than the called tool another must fit. */
  readonly margin: number
  /** Servers see it too. */
  readonly forward: boolean
  readonly log_intent: boolean
  /** Tools of other servers may be named, where all are offered together. */
  readonly across: boolean
  readonly compat: boolean
}

/** The JSON Schema of the settings of intents. */
const settingsSchema = {
  type: 'object',
  properties: {
    mode: {
      enum: ['advise', 'redirect'],
      default: 'advise',
      description:
        'What becomes of a call where another tool fits better what its caller wants: it is made and the other tool is named, or the other tool is named and it is not made.',
    },
    margin: {
      type: 'number',
      minimum: 1,
      maximum: 100,
      default: 1.5,
      errorMessage: 'must be a number from 1',
      description: 'How many times better another tool must fit to be named.',
    },
    forward: {
      type: 'boolean',
      default: false,
      description: 'Whether the server sees the stated intent.',
    },
    log_intent: {
      type: 'boolean',
      default: false,
      description: 'Whether the log tells what callers want; it may say something of people.',
    },
    across: {
      type: 'boolean',
      default: false,
      description: 'Whether tools of other servers may be named, where all servers are offered together.',
    },
    compat: {
      type: 'boolean',
      default: true,
      description: 'Whether a suggestion also stands at `suggestion` of a result.',
    },
  },
} as const

/** What the caller's wish is called among the values for features. */
const INTENT = 'intent'

/** How long it may be, in bytes. */
const MAX_INTENT_BYTES = 2048
/** How long the name of a workflow may be, in characters. */
const MAX_WORKFLOW_ID_LENGTH = 256

const categories = ['user_requested', 'agent_autonomous', 'workflow_step']

/** What the caller of a tool says it wants. @throws INVALID_INPUT where that has another form */
function statedIntent(call: Call): string {
  const stated = extensionOf(call, INTENT)
  const { text, category, workflow_id: workflow } = isObject(stated) ? stated : { text: stated }
  if (typeof text !== 'string') throw invalid(INTENT, 'must be a string, or an object with a string `text`')
  if (Buffer.byteLength(text) > MAX_INTENT_BYTES)
    throw invalid(INTENT, `may have at most ${MAX_INTENT_BYTES} bytes`)
  if (category !== undefined && !categories.some((each) => each === category)) {
    throw invalid(`${INTENT}.category`, `must be one of ${categories.join(', ')}`)
  }
  if (workflow !== undefined && (typeof workflow !== 'string' || workflow.length > MAX_WORKFLOW_ID_LENGTH)) {
    throw invalid(`${INTENT}.workflow_id`, `must be a string of at most ${MAX_WORKFLOW_ID_LENGTH} characters`)
  }
  return text
}

function invalid(field: string, what: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${field} ${what}.`, { field, reason: 'shape' })
}

/** Names the tool that fits best what a caller says it wants, where that is not the one it calls. */
export const intent: Feature<Settings | false> = {
  name: 'intent',
  place: 'features',
  isLeftToGateway: true,
  schema: settingsSchema,
  create: (settings, deps) => {
    const suggest = createSuggest(deps)
    // Calls by the name a tool has among those of all servers: their chain knows it by its own alone.
    const together = new WeakSet<Call['logFields']>()
    return {
      responseMiddleware: (method) => {
        if (method !== 'tools/call') return undefined
        return (next) => (call) => {
          if (call.target.upstream === undefined && isStated(call)) together.add(call.logFields)
          return next(call)
        }
      },
      middleware: (target) => {
        const { upstream, isBuiltin } = target
        const own = settings(upstream)
        if (own === false || upstream === undefined || isBuiltin) return undefined
        if (!isCall(target)) return isNamed(target) && !own.forward ? stripped : undefined
        const rules = readRules(deps.servers.settings(upstream)?.intent ?? [], upstream, deps.log)
        return hinting({
          suggest,
          rules,
          own,
          deps,
          isTogether: ({ logFields }) => together.has(logFields),
        })
      },
      values: [{ name: INTENT }],
      reserved: () => [
        {
          argument: RESERVED,
          value: INTENT,
          schema: {
            type: 'string',
            maxLength: MAX_INTENT_BYTES,
            description: 'Optional. What the user wants, in a sentence.',
          },
        },
      ],
      problems: () => ruleProblems(deps),
    }
  },
}

/** The argument a model may say it in. */
const RESERVED = `_${INTENT}`

function isStated(call: Call): boolean {
  const { arguments: given } = call.params.fields
  return hasExtension(call, INTENT) || (isObject(given) && Object.hasOwn(given, RESERVED))
}

interface Around {
  readonly suggest: Suggest
  readonly rules: readonly Rule[]
  readonly own: Settings
  readonly deps: Deps
  isTogether(call: Call): boolean
}

/** How long a suggestion is waited for once the call has ended, in milliseconds. */
const SUGGESTION_TIMEOUT_MS = 500

function hinting(around: Around): Middleware {
  const { own, deps } = around
  return (next) => {
    const hinted = async (call: Call): Promise<Outcome> => {
      const text = statedIntent(call)
      const bare = {
        ...(own.forward ? withWritten(call, INTENT) : withoutExtension(call, INTENT)),
        intent: text,
      }
      if (own.log_intent) call.logFields.set('intent', text)
      const found = find(bare, text, around)
      if (own.mode === 'redirect' && (await mayRedirect(call, deps))) {
        const better = await within(found, SUGGESTION_TIMEOUT_MS, undefined)
        if (better) return redirected(call, note(call, better), own.compat)
      }
      const outcome = await next(bare)
      if (outcome.kind === 'input_required') return outcome
      const better = await within(found, SUGGESTION_TIMEOUT_MS, undefined)
      return better ? advised(outcome, note(call, better), own.compat) : outcome
    }
    return (call) => (call.internal === undefined && hasExtension(call, INTENT) ? hinted(call) : next(call))
  }
}

/** A suggestion is no reason for a call to fail. */
async function find(call: Call, text: string, around: Around): Promise<Suggestion | undefined> {
  const { suggest, rules, own, deps, isTogether } = around
  const wish = { call, intent: text, isTogether: isTogether(call) }
  try {
    return await suggest(wish, { rules, margin: own.margin, across: own.across })
  } catch (error) {
    deps.log.debug('intent.unanswered', { cause: asGatewayError(error).message })
    return undefined
  }
}

function note(call: Call, suggestion: Suggestion): Suggestion {
  call.logFields.set('suggested', suggestion.recommended_tool)
  return suggestion
}

/** What was begun is not sent elsewhere: neither what was asked about, nor what a key says was called before. */
async function mayRedirect(call: Call, { store }: Deps): Promise<boolean> {
  if (Object.keys(call.requestState).length > 0) return false
  const { upstream } = call.target
  if (upstream === undefined || !hasIdempotencyKey(call)) return true
  try {
    return (await findCall(store, callKey(call.principal.id, upstream, idempotencyKeyOf(call)))) === undefined
  } catch {
    // What is wrong with the key, or with the store, is said by those whose it is.
    return false
  }
}

/** What callers want is for the gateway: servers are not told where nothing is done with it either. */
const stripped: Middleware =
  (next: Handler): Handler =>
  (call) =>
    next(hasExtension(call, INTENT) ? withoutExtension(call, INTENT) : call)

function isCall({ method }: Target): boolean {
  return method === 'tools/call'
}

/** Whether something of a server is asked for by its name. */
function isNamed({ method }: Target): boolean {
  return known(method).nameIn !== undefined
}

/** Where in the `_meta` of a result a suggestion stands. */
const META_KEY = `${NS}/suggestion`

/** What a tool answered, with the tool that would fit better after it. */
function advised(outcome: Outcome, suggestion: Suggestion, compat: boolean): Outcome {
  if (outcome.kind === 'input_required') return outcome
  const { result } = outcome
  const { content } = result.fields
  const block = { type: 'text', text: hintOf(suggestion) }
  const told = Array.isArray(content) ? result.withItem('content', block) : result
  const beside = compat && result.fields.suggestion === undefined ? { suggestion } : {}
  return { kind: 'result', result: told.with(beside).withMeta({ [META_KEY]: suggestion }) }
}

/** The answer to a call that was not made, because another tool fits better. */
function redirected({ requestId }: Call, suggestion: Suggestion, compat: boolean): Outcome {
  const { recommended_tool: tool, reason } = suggestion
  const error = new GatewayError('INVALID_INPUT', 'Not run: another tool fits the stated intent better.', {
    suggestion: `Call ${tool}, or make this call without an intent.`,
    reason: 'redirected',
    details: { recommended_tool: tool },
  })
  const object = { ...error.data, requestId }
  const text = `${error.message} ${hintOf({ recommended_tool: tool, reason })}`
  const result = {
    content: [{ type: 'text', text }],
    isError: true,
    ...(compat && { result: null, suggestion, error: object }),
    _meta: { [META_KEY]: suggestion, [ERROR_KEY]: object },
  }
  return { kind: 'result', result: Payload.of(result) }
}

function hintOf({ recommended_tool: tool, reason }: Suggestion): string {
  return `Hint: ${oneLine(tool)} may fit better. ${oneLine(reason)}`
}
