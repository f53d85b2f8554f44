import type { Call, Handler, Outcome, Middleware } from '../../core/call.ts'
import { asGatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json.ts'
import type { Target } from '../../core/target.ts'
import { within } from '../../core/waiting.ts'
import { callKey, findCall } from '../../records/calls.ts'
import {
  hasExtension,
  hasIdempotencyKey,
  idempotencyKeyOf,
  withoutExtension,
  withWritten,
} from '../../wire/extensions.ts'
import { method as known } from '../../wire/methods.ts'
import type { Deps, Feature } from '../feature.ts'
import { advised, redirected } from './answer.ts'
import { ruleProblems } from './problems.ts'
import { readRules, type Rule } from './rules.ts'
import { type Settings, settingsSchema } from './settings.ts'
import { INTENT, MAX_INTENT_BYTES, statedIntent } from './stated.ts'
import { createSuggest, type Suggest, type Suggestion } from './suggest.ts'

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
      rewriteResult: (method) => {
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
        const rules = readRules(deps.server(upstream)?.intent ?? [], upstream, deps.log)
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
