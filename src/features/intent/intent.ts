/** Reads the stated intent of calls, suggests better tools, and redirects calls by configured rules. */
import type { Finding } from '../../core/findings.ts'
import { NS } from '../../core/identity.ts'
import type { Call, Handler, Outcome, Middleware, Target } from '../../core/call.ts'
import { isPermitted } from '../own-calls.ts'
import { type Descriptor, riskRanks, type ServerRecord } from '../../core/descriptor.ts'
import { GatewayError, asGatewayError } from '../../core/error.ts'
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
import { callOf, intentSlot } from '../../core/tool-call.ts'
import {
  extensionOf,
  hasExtension,
  hasIdempotencyKey,
  idempotencyKeyOf,
  withoutExtension,
  withWritten,
  ERROR_KEY,
} from '../../protocol/meta-keys.ts'
import { method as known } from '../../protocol/methods.ts'
import { callKey, findCall } from '../../records/calls.ts'
import { toolsToCheck } from '../tool-lists.ts'
import type { Feature, Services } from '../feature.ts'
import { callerValues, modelArguments } from '../offers.ts'
import { type IntentSettings, intentSchema } from '../settings/authorize.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'descriptions' | 'features'>

/** The name of the intent among the values for features. */
const INTENT = 'intent'

/** The maximum length of an intent, in bytes. */
const MAX_INTENT_BYTES = 2048
/** The maximum length of a workflow's name, in characters. */
const MAX_WORKFLOW_ID_LENGTH = 256

const categories = ['user_requested', 'agent_autonomous', 'workflow_step']

/** The intent that the caller of a tool states. @throws INVALID_INPUT if it is malformed */
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

/** Suggests the tool that fits a caller's intent best, if that is not the called one. */
export const intent: Feature<IntentSettings | false> = {
  ...intentSchema,
  create: (settings, deps) => {
    const suggest = createSuggest(deps)
    // Calls at the combined endpoint, whose suggestions use exposed names: the chain only knows the tool's own name.
    const combinedCalls = new WeakSet<Call['logFields']>()
    return {
      calls: {
        middleware: (target) => {
          const { upstream, isBuiltin } = target
          const ownSettings = settings(upstream)
          if (ownSettings === false || upstream === undefined || isBuiltin) return undefined
          if (!isCall(target)) return isNamed(target) && !ownSettings.forward ? withoutIntent : undefined
          const rules = readRules(deps.servers.settings(upstream)?.intent ?? [], upstream, deps.log)
          return suggestTools({
            suggest,
            rules,
            settings: ownSettings,
            deps,
            isCombined: ({ logFields }) => combinedCalls.has(logFields),
          })
        },
        dryRun: 'same',
      },
      responseMiddleware: (method) => {
        if (method !== 'tools/call') return undefined
        return (next) => (call) => {
          if (call.target.upstream === undefined && hasIntent(call)) combinedCalls.add(call.logFields)
          return next(call)
        }
      },
      offers: [
        callerValues.offer([{ name: INTENT }]),
        modelArguments.offer(() => [
          {
            argument: RESERVED,
            value: INTENT,
            schema: {
              type: 'string',
              maxLength: MAX_INTENT_BYTES,
              description: 'Optional. What the user wants, in a sentence.',
            },
          },
        ]),
      ],
      problems: () => ruleProblems(deps),
    }
  },
}

/** The argument in which a model may state the intent. */
const RESERVED = `_${INTENT}`

function hasIntent(call: Call): boolean {
  const { arguments: given } = call.params.fields
  return hasExtension(call, INTENT) || (isObject(given) && Object.hasOwn(given, RESERVED))
}

interface IntentContext {
  readonly suggest: Suggest
  readonly rules: readonly Rule[]
  readonly settings: IntentSettings
  readonly deps: Deps
  isCombined(call: Call): boolean
}

/** How long a suggestion is awaited after the call has ended, in milliseconds. */
const SUGGESTION_TIMEOUT_MS = 500

function suggestTools(context: IntentContext): Middleware {
  const { settings, deps } = context
  return (next) => {
    const withSuggestion = async (call: Call): Promise<Outcome> => {
      const text = statedIntent(call)
      const own = settings.forward ? withWritten(call, INTENT) : withoutExtension(call, INTENT)
      const forwarded = intentSlot.set(own, text)
      if (settings.log_intent) call.logFields.set('intent', text)
      const found = find(forwarded, text, context)
      if (settings.mode === 'redirect' && (await mayRedirect(call, deps))) {
        const better = await within(found, SUGGESTION_TIMEOUT_MS, undefined)
        if (better) return redirectResult(call, logSuggestion(call, better), settings.compat)
      }
      const outcome = await next(forwarded)
      if (outcome.kind !== 'result') return outcome
      const better = await within(found, SUGGESTION_TIMEOUT_MS, undefined)
      return better ? addSuggestion(outcome, logSuggestion(call, better), settings.compat) : outcome
    }
    return (call) =>
      call.internal === undefined && hasExtension(call, INTENT) ? withSuggestion(call) : next(call)
  }
}

/** A failed suggestion must not fail the call. */
async function find(call: Call, text: string, context: IntentContext): Promise<Suggestion | undefined> {
  const { suggest, rules, settings, deps, isCombined } = context
  const request = { call, intent: text, isCombined: isCombined(call) }
  try {
    return await suggest(request, { rules, margin: settings.margin, across: settings.across })
  } catch (error) {
    deps.log.debug('intent.unanswered', { cause: asGatewayError(error).message })
    return undefined
  }
}

function logSuggestion(call: Call, suggestion: Suggestion): Suggestion {
  call.logFields.set('suggested', suggestion.recommended_tool)
  return suggestion
}

/** Whether a call is new: resumed calls, and calls whose key was used before, are not redirected. */
async function mayRedirect(call: Call, { store }: Deps): Promise<boolean> {
  if (Object.keys(call.requestState).length > 0) return false
  const { upstream } = call.target
  if (upstream === undefined || !hasIdempotencyKey(call)) return true
  try {
    return (await findCall(store, callKey(call.principal.id, upstream, idempotencyKeyOf(call)))) === undefined
  } catch {
    // Problems with the key or the store are reported by their own features.
    return false
  }
}

/** Removes the intent for servers, also where the gateway does not use it. */
const withoutIntent: Middleware =
  (next: Handler): Handler =>
  (call) =>
    next(hasExtension(call, INTENT) ? withoutExtension(call, INTENT) : call)

function isCall({ method }: Target): boolean {
  return method === 'tools/call'
}

/** Whether a method names an entry of a server. */
function isNamed({ method }: Target): boolean {
  return known(method).nameIn !== undefined
}

/** The `_meta` key of a suggestion in a result. */
const META_KEY = `${NS}/suggestion`

/** The result of a tool, with the suggestion appended. */
function addSuggestion(outcome: Outcome, suggestion: Suggestion, compat: boolean): Outcome {
  if (outcome.kind !== 'result') return outcome
  const { result } = outcome
  const { content } = result.fields
  const block = { type: 'text', text: hintOf(suggestion) }
  const withHint = Array.isArray(content) ? result.withItem('content', block) : result
  const extraMembers = compat && result.fields.suggestion === undefined ? { suggestion } : {}
  return { kind: 'result', result: withHint.with(extraMembers).withMeta({ [META_KEY]: suggestion }) }
}

/** The response to a call that was not made because another tool fits better. */
function redirectResult({ requestId }: Call, suggestion: Suggestion, compat: boolean): Outcome {
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

/** A tool that fits the intent better than the called one. */
interface Suggestion {
  /** The name as the caller knows it. */
  readonly recommended_tool: string
  readonly reason: string
}

/** A call, its intent, and how it arrived. */
interface IntentRequest {
  readonly call: Call
  readonly intent: string
  /** It arrived at the combined endpoint. */
  readonly isCombined: boolean
}

interface Choice {
  readonly rules: readonly Rule[]
  readonly margin: number
  /** Whether tools of other servers count at the combined endpoint. */
  readonly across: boolean
}

/** Finds a better tool; undefined if there is none, or if the tools are unknown. */
type Suggest = (request: IntentRequest, choice: Choice) => Promise<Suggestion | undefined>

/** Which part of an intent a tool has to match to be suggested, from 0 to 1. */
const MIN_SCORE = 0.25
/** How many of the best matches are considered. */
const MAX_CANDIDATES = 5

/** Suggests the configured tool, otherwise the best match; never a tool with a higher risk. */
function createSuggest(deps: Deps): Suggest {
  const rankingOf = rankingsOf(({ tools }) => tools.map(({ entry }) => describedTool(entry)))

  const toSuggestion = (
    { isCombined }: IntentRequest,
    { upstream, name }: Descriptor,
    reason: string,
  ): Suggestion => {
    return { recommended_tool: deps.servers.exposedName(upstream, name, isCombined), reason }
  }

  const fromRules = async (
    request: IntentRequest,
    called: Descriptor,
    rules: readonly Rule[],
    record: ServerRecord,
  ): Promise<Suggestion | 'none' | undefined> => {
    for (const { appliesTo, suggest, reason = RULE_REASON } of rules) {
      if (!appliesTo(called.name, request.intent)) continue
      if (suggest === called.name) return 'none'
      const entry = record.tools.find((tool) => tool.entry.name === suggest)?.entry
      if (entry && (await isPermitted(deps, callOf(request.call, entry))))
        return toSuggestion(request, entry, reason)
    }
    return undefined
  }

  const fromRanking = async (
    request: IntentRequest,
    called: Descriptor,
    margin: number,
    records: readonly ServerRecord[],
  ): Promise<Suggestion | undefined> => {
    const found = rankingOf(records).rank(request.intent)
    const calledScore = found.find(({ of }) => isSame(of.entry, called))?.score ?? 0
    for (const { of, score, match } of found.slice(0, MAX_CANDIDATES)) {
      if (match < MIN_SCORE || score < margin * calledScore || isSame(of.entry, called)) return undefined
      if (riskRanks[of.entry.classification.risk] > riskRanks[called.classification.risk]) continue
      if (await isPermitted(deps, callOf(request.call, of.entry)))
        return toSuggestion(request, of.entry, MATCH_REASON)
    }
    return undefined
  }

  return async (request, { rules, margin, across }) => {
    const { upstream, name } = request.call.target
    const records = deps.servers.records()
    const record = upstream === undefined ? undefined : await records.of(upstream)
    const called = record?.tools.find(({ entry }) => entry.name === name)?.entry
    if (!record || !called) return undefined
    const found = await fromRules(request, called, rules, record)
    if (found !== undefined) return found === 'none' ? undefined : found
    const isAcross = across && request.isCombined
    const all = isAcross ? await Promise.all(records.names.map(async (each) => records.of(each))) : [record]
    return fromRanking(request, called, margin, all)
  }
}

const RULE_REASON = 'The owner of the server recommends it for this intent.'
const MATCH_REASON = 'Its name and description are closer to the stated intent.'

function isSame(one: Descriptor, other: Descriptor): boolean {
  return one.upstream === other.upstream && one.name === other.name
}

// The configured rules from an intent to a tool, and their problems.

/** A configured rule, compiled. */
interface Rule extends IntentRule {
  /** Whether the rule applies to a call of this tool with this intent. */
  appliesTo(tool: string, intent: string): boolean
}

/** The usable rules, in configured order; the others are logged. */
function readRules(rules: readonly IntentRule[], upstream: string, log: Log): readonly Rule[] {
  return rules.flatMap((rule) => {
    const test = testOf(rule.when)
    if (test) return [{ ...rule, appliesTo: (tool, intent) => fits(rule.on, tool) && test(intent) }]
    log.warn('intent.rule_unusable', { upstream, when: rule.when })
    return []
  })
}

/** The test of a rule's intent; undefined if the rule is invalid. */
function testOf(when: string): ((intent: string) => boolean) | undefined {
  const [, source] = /^\/(.+)\/$/s.exec(when) ?? []
  if (source === undefined) {
    const requiredWords = wordsIn(when).map(stem)
    return requiredWords.length === 0 ? undefined : (intent) => hasAll(intent, requiredWords)
  }
  try {
    const pattern = compilePattern(source, { ignoreCase: true })
    return pattern && ((intent) => pattern.test(intent, false))
  } catch {
    return undefined
  }
}

function hasAll(intent: string, requiredWords: readonly string[]): boolean {
  const words = new Set(wordsIn(intent).map(stem))
  return requiredWords.every((word) => words.has(word))
}

/** Problems of the rules: invalid patterns, and missing tools. */
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
    const unusable = { path: [...path, 'when'], message: 'is neither a valid pattern nor words' }
    const absent = names?.includes(suggest) === false && {
      path: [...path, 'suggest'],
      message: `${upstream} has no tool named ${suggest}${hint(suggest, names)}`,
    }
    return [...(testOf(when) ? [] : [unusable]), ...(absent ? [absent] : [])]
  })
}
