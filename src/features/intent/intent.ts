/** Reads the stated intent of calls, suggests better tools, and redirects where the owner wrote a rule. */
import type { Call, Handler, Outcome, Middleware, Target } from '../../core/call.ts'
import { type Descriptor, riskRanks, type ServerRecord } from '../../core/descriptor.ts'
import { GatewayError, asGatewayError } from '../../core/error.ts'
import type { Finding } from '../../core/finding.ts'
import { isObject } from '../../core/json/json.ts'
import type { Log } from '../../core/log.ts'
import { Payload } from '../../core/payload.ts'
import { hint } from '../../core/schema/argument-mismatches.ts'
import type { IntentRule } from '../../core/settings.ts'
import { oneLine } from '../../core/text/escape.ts'
import { fits, compilePattern } from '../../core/text/pattern.ts'
import { describedTool, rankingsOf } from '../../core/text/ranking.ts'
import { stem, wordsIn } from '../../core/text/words.ts'
import { within } from '../../core/time/waiting.ts'
import { callOf } from '../../core/tool-call.ts'
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
import { toolsToCheck } from '../describing.ts'
import type { Feature } from '../feature.ts'
import type { Services } from '../feature.ts'

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

// Finds tools whose names and descriptions are closer to an intent than the called one.

/** A tool that fits better what a caller wants than the one it calls. */
interface Suggestion {
  /** By the name the caller knows it by. */
  readonly recommended_tool: string
  readonly reason: string
}

/** A call with what its caller wants, and how it came. */
interface Wish {
  readonly call: Call
  readonly intent: string
  /** All servers are offered together where it came in. */
  readonly isTogether: boolean
}

interface Choice {
  readonly rules: readonly Rule[]
  readonly margin: number
  /** Tools of other servers count, where all are offered together. */
  readonly across: boolean
}

/** Finds a better tool; nothing where there is none, or where it is not known which tools there are. */
type Suggest = (wish: Wish, choice: Choice) => Promise<Suggestion | undefined>

/** How much of an intent a tool must say to be named at all, from 0 to 1. */
const MIN_SCORE = 0.25
/** How many of the best tools are looked at. */
const MAX_CANDIDATES = 5

/** Suggests what the owner of a server says, or else the tool whose words fit best: never one of more risk. */
function createSuggest(deps: Deps): Suggest {
  const rankingOf = rankingsOf(({ tools }) => tools.map(({ entry }) => describedTool(entry)))

  const named = ({ isTogether }: Wish, { upstream, name }: Descriptor, reason: string): Suggestion => {
    return { recommended_tool: deps.servers.exposedName(upstream, name, isTogether), reason }
  }

  const ruled = async (
    wish: Wish,
    called: Descriptor,
    rules: readonly Rule[],
    record: ServerRecord,
  ): Promise<Suggestion | 'none' | undefined> => {
    for (const { holds, suggest, reason = RULE_REASON } of rules) {
      if (!holds(called.name, wish.intent)) continue
      if (suggest === called.name) return 'none'
      const entry = record.tools.find((tool) => tool.entry.name === suggest)?.entry
      if (entry && (await deps.invoker.isPermitted(callOf(wish.call, entry))))
        return named(wish, entry, reason)
    }
    return undefined
  }

  const ranked = async (
    wish: Wish,
    called: Descriptor,
    margin: number,
    records: readonly ServerRecord[],
  ): Promise<Suggestion | undefined> => {
    const found = rankingOf(records).rank(wish.intent)
    const own = found.find(({ of }) => isSame(of.entry, called))?.score ?? 0
    for (const { of, score, match } of found.slice(0, MAX_CANDIDATES)) {
      if (match < MIN_SCORE || score < margin * own || isSame(of.entry, called)) return undefined
      if (riskRanks[of.entry.classification.risk] > riskRanks[called.classification.risk]) continue
      if (await deps.invoker.isPermitted(callOf(wish.call, of.entry)))
        return named(wish, of.entry, MATCH_REASON)
    }
    return undefined
  }

  return async (wish, { rules, margin, across }) => {
    const { upstream, name } = wish.call.target
    const records = deps.servers.records()
    const record = upstream === undefined ? undefined : await records.of(upstream)
    const called = record?.tools.find(({ entry }) => entry.name === name)?.entry
    if (!record || !called) return undefined
    const found = await ruled(wish, called, rules, record)
    if (found !== undefined) return found === 'none' ? undefined : found
    const isAcross = across && wish.isTogether
    const all = isAcross ? await Promise.all(records.names.map(async (each) => records.of(each))) : [record]
    return ranked(wish, called, margin, all)
  }
}

const RULE_REASON = 'The owner of the server names it for this.'
const MATCH_REASON = 'Its name and description are closer to the stated intent.'

function isSame(one: Descriptor, other: Descriptor): boolean {
  return one.upstream === other.upstream && one.name === other.name
}

// The owner's rules from an intent to a tool, and their problems.

/** A rule of the owner of a server, ready to be held against an intent. */
interface Rule extends IntentRule {
  /** Whether the rule is for a call of this tool with this intent. */
  holds(tool: string, intent: string): boolean
}

/** The rules that can be used, in the order they are written; the others are logged. */
function readRules(rules: readonly IntentRule[], upstream: string, log: Log): readonly Rule[] {
  return rules.flatMap((rule) => {
    const test = testOf(rule.when)
    if (test) return [{ ...rule, holds: (tool, intent) => fits(rule.on, tool) && test(intent) }]
    log.warn('intent.rule_unusable', { upstream, when: rule.when })
    return []
  })
}

/** Whether an intent is of the kind a rule is about; nothing where the rule cannot be read. */
function testOf(when: string): ((intent: string) => boolean) | undefined {
  const [, source] = /^\/(.+)\/$/s.exec(when) ?? []
  if (source === undefined) {
    const wanted = wordsIn(when).map(stem)
    return wanted.length === 0 ? undefined : (intent) => hasAll(intent, wanted)
  }
  try {
    const pattern = compilePattern(source, { ignoreCase: true })
    return pattern && ((intent) => pattern.test(intent, false))
  } catch {
    return undefined
  }
}

function hasAll(intent: string, wanted: readonly string[]): boolean {
  const there = new Set(wordsIn(intent).map(stem))
  return wanted.every((word) => there.has(word))
}

/** What is wrong with the rules about intents: patterns that cannot be used, and tools that are not there. */
async function ruleProblems(deps: Deps): Promise<Finding[]> {
  const found = await Promise.all(deps.servers.names().map((name) => problemsOf(name, deps)))
  return found.flat()
}

async function problemsOf(upstream: string, deps: Deps): Promise<Finding[]> {
  const rules = deps.servers.settings(upstream)?.intent ?? []
  if (rules.length === 0) return []
  const tools = await toolsToCheck(upstream, deps, 'intent.unchecked')
  const names = tools?.map(({ name }) => name)
  return rules.flatMap(({ when, suggest }, at) => {
    const path = ['upstreams', upstream, 'intent', String(at)]
    const unusable = { path: [...path, 'when'], message: 'is no pattern that can be matched, and no words' }
    const absent = names?.includes(suggest) === false && {
      path: [...path, 'suggest'],
      message: `${upstream} has no tool named ${suggest}${hint(suggest, names)}`,
    }
    return [...(testOf(when) ? [] : [unusable]), ...(absent ? [absent] : [])]
  })
}
