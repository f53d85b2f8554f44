/**
 * The feature `state`: a token that clients send back, so that the next call continues where the last one ended: on the
 * same connection to the server, with remembered arguments, in the same transaction, and with the server's own state.
 */
import type { Call, Middleware, Outcome } from '../../core/call.ts'
import { hasExtension, isAskedFor, SESSION_STATE, SESSION_STATE_KEY } from '../../protocol/meta-keys.ts'
import { describingTools } from '../tool-lists.ts'
import type { Feature, Services } from '../feature.ts'
import { callerValues, modelArguments, type Reserved } from '../offers.ts'
import { withOptional } from './remember.ts'
import { ownState, planFor, type StatePlan, STATE_KEY, StatefulCall } from './stateful-call.ts'
import { type StateSettings, stateSchema } from './settings.ts'
import { StateTokens } from './session.ts'

/** The methods whose calls can belong to a session. */
const methods: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read'])

/** The longest token that a model can copy: a handle, or a sealed session of usual size. */
const MAX_COPIED_LENGTH = 4096

const reserved: Reserved = {
  argument: `_${SESSION_STATE}`,
  value: SESSION_STATE,
  schema: {
    type: 'string',
    maxLength: MAX_COPIED_LENGTH,
    description:
      'Optional. The session state from an earlier result of this server, to continue in its context.',
  },
}

/** Lets clients without sessions continue where their last call ended. */
export const state: Feature<StateSettings | false> = {
  ...stateSchema,
  create: (settings, deps) => {
    const tokens = new StateTokens(deps)
    const planOf = (upstream: string): StatePlan | undefined => planned(settings(upstream), upstream, deps)
    return {
      calls: {
        middleware: ({ upstream, method, isBuiltin }) => {
          const plan = isBuiltin || upstream === undefined ? undefined : planOf(upstream)
          if (!plan || upstream === undefined) return undefined
          if (method === 'tools/list') return withOptionalArguments(plan, upstream, deps)
          return methods.has(method) ? inSessions(plan, method === 'tools/call', { tokens, deps }) : undefined
        },
        // The session is read, and stays as it is.
        dryRun: ({ upstream, isBuiltin }) => {
          const plan = isBuiltin || upstream === undefined ? undefined : planOf(upstream)
          if (!plan) return undefined
          return (next) => async (call) =>
            next(
              isConcerned(call, plan, true)
                ? await new StatefulCall(call, plan, { tokens, deps }).prepared()
                : call,
            )
        },
      },
      builtins: {
        extensions: () => ({ [SESSION_STATE_KEY]: {} }),
      },
      offers: [
        callerValues.offer([{ name: SESSION_STATE }]),
        modelArguments.offer((upstream) => {
          const plan = planOf(upstream)
          if (!plan) return []
          // A server may also keep a state itself.
          return [plan.isForAll ? reserved : { argument: reserved.argument, value: reserved.value }]
        }),
      ],
    }
  },
}

type Deps = Pick<Services, 'log' | 'store' | 'identity' | 'servers' | 'features'>

function planned(
  settings: StateSettings | false,
  upstream: string,
  { servers, features }: Deps,
): StatePlan | undefined {
  const server = servers.settings(upstream)
  if (settings === false || !server) return undefined
  return planFor(settings, server, features.isOn('inject_arguments', upstream))
}

/** Lists remembered arguments as optional; undefined if there are none. */
function withOptionalArguments(
  { namesOf }: StatePlan,
  upstream: string,
  { servers }: Deps,
): Middleware | undefined {
  if (!namesOf) return undefined
  return describingTools((entry) => {
    const tool = servers.describe(upstream, entry.fields)
    return tool ? withOptional(entry, tool, namesOf) : entry
  })
}

/** Makes calls in their sessions, and begins one where a server returns a state of its own. */
function inSessions(
  plan: StatePlan,
  isTool: boolean,
  parts: { readonly tokens: StateTokens; readonly deps: Deps },
): Middleware {
  return (next) => (call) => {
    if (call.internal) return next(call)
    const stateful = (): StatefulCall => new StatefulCall(call, plan, parts)
    if (isConcerned(call, plan, isTool)) return stateful().run(next)
    const outcome = next(call)
    return isTool ? outcome.then((ended) => (isOfServer(ended) ? stateful().end(ended) : ended)) : outcome
  }
}

/** Whether a call belongs to a session, or may begin one; nearly none does. */
function isConcerned(call: Call, plan: StatePlan, isTool: boolean): boolean {
  const { namesOf, transaction, isBeginning, compat } = plan
  if (hasExtension(call, SESSION_STATE) || call.requestState[STATE_KEY] !== undefined) return true
  if (!isTool) return false
  if (compat === 'always') return true
  return namesOf !== undefined || transaction || isBeginning(call) || isAskedFor(call, SESSION_STATE_KEY)
}

/** Whether a server returned a state of its own. */
function isOfServer(outcome: Outcome): boolean {
  return outcome.kind === 'result' && ownState(outcome.result) !== undefined
}
