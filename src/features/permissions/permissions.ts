/** The feature `permissions`: scopes and rules for calls, sessions with fewer scopes, and hidden entries. */
import type { Call, Handler, Outcome, Middleware, Target } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import { TaskOwners } from '../../records/task-owners.ts'
import { extensionOf, hasExtension, SESSION_TOKEN, withoutExtension } from '../../protocol/meta-keys.ts'
import { isProtocolNotification } from '../../protocol/methods.ts'
import type { Feature, SettingsOf } from '../feature.ts'
import type { Services } from '../services.ts'
import { asTool } from '../builtin-tool.ts'
import { type Context, type Guard, createGates, ofSession } from './gate.ts'
import { guardOf } from './guard.ts'
import { answerNegotiate, negotiateTool, settingsSchema, type Settings } from './negotiate.ts'
import { ownTasks } from './own-tasks.ts'
import { answerCheck, checkTool } from './preflight.ts'
import { Sessions } from './sessions.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'pages' | 'gateway'>

/** Lets callers do what their scopes and the rules of each server permit, and tells them beforehand. */
export const permissions: Feature<Settings | false> = {
  name: 'permissions',
  place: 'features',
  schema: settingsSchema,
  create: (settings, deps) => {
    const { maxTtl, idle } = deps.gateway.auth.session
    const sessions = new Sessions({ store: deps.store, log: deps.log, idle, maxTtl })
    const owners = new TaskOwners(deps.store)
    const gates = createGates()
    const contextOf = contexts(settings, deps, gates)
    const check = answerCheck(contextOf, deps)
    const negotiate = answerNegotiate(settings, { deps, sessions })
    return {
      middleware: (target) => {
        if (isProtocolNotification(target.method)) return undefined
        const guard = guarding(target, guardFor(target, contextOf, deps), sessions)
        const tasks = ownTasks(target, owners, deps.log)
        return tasks ? (next) => guard(tasks(next)) : guard
      },
      toolFacts: (entry) => {
        const server = deps.servers.settings(entry.upstream)
        const isOn = settings(entry.upstream) !== false && server
        return isOn ? { scopes: gates(entry, server).requirement } : {}
      },
      methods: { [CHECK]: check, [NEGOTIATE]: negotiate },
      values: [{ name: SESSION_TOKEN, header: 'X-MCP-Session-Token' }],
      tools: [asTool(checkTool, check), asTool(negotiateTool, negotiate)],
    }
  },
}

const CHECK = 'permissions/check'
const NEGOTIATE = 'permissions/negotiate'

function contexts(
  settings: SettingsOf<Settings | false>,
  { servers, gateway: { auth } }: Deps,
  gates: Context['gates'],
): (upstream: string) => Context {
  return (upstream) => {
    const own = settings(upstream)
    const { elevate_url: url, hide_unpermitted: isHiding = false } = own || {}
    return { servers, gates, isOff: own === false, isHiding, elevateUrl: url ?? auth.elevateUrl }
  }
}

function guardFor(
  target: Target,
  contextOf: (upstream: string) => Context,
  { servers: { settings: server } }: Deps,
): Guard | undefined {
  if (target.isBuiltin || target.upstream === undefined) return undefined
  const settings = server(target.upstream)
  return settings && guardOf(target, settings, contextOf(target.upstream))
}

function guarding(target: Target, guard: Guard | undefined, sessions: Sessions): Middleware {
  const isForAll = guard?.isForAll === true
  return (next) => {
    const guarded = guard ? guardedBy(guard, next) : next
    return (call) => {
      if (hasExtension(call, SESSION_TOKEN)) {
        const within = guard ? guardedBy(inSession(guard, call.principal), next) : next
        return narrowed(call, target, sessions).then(within)
      }
      return isForAll || call.principal.scopes ? guarded(call) : next(call)
    }
  }
}

/** The guard of a caller that is in a session: it tells what the caller may do outside of it. */
function inSession({ admit, ...guard }: Guard, principal: Principal): Guard {
  if (!admit) return guard
  return {
    ...guard,
    admit: async (call) => {
      try {
        return await admit(call)
      } catch (error) {
        if (!(error instanceof GatewayError) || error.code !== 'SCOPE_INSUFFICIENT') throw error
        const isAdmitted = await attempted(() => admit({ ...call, principal }))
        throw isAdmitted ? ofSession(error) : error
      }
    },
  }
}

async function attempted(admit: () => unknown): Promise<boolean> {
  try {
    await admit()
    return true
  } catch {
    return false
  }
}

function guardedBy({ admit, show }: Guard, next: Handler): Handler {
  const go = (call: Call, admitted: Call): Promise<Outcome> =>
    show ? next(admitted).then((outcome) => show(call, outcome)) : next(admitted)
  return (call) => {
    try {
      const admitted = admit ? admit(call) : call
      return admitted instanceof Promise ? admitted.then((each) => go(call, each)) : go(call, admitted)
    } catch (error) {
      return Promise.reject(error)
    }
  }
}

/** A session token takes away scopes, and never goes further than this. @throws TOKEN_EXPIRED, INVALID_INPUT */
async function narrowed(call: Call, target: Target, sessions: Sessions): Promise<Call> {
  const token = extensionOf(call, SESSION_TOKEN)
  const bare = withoutExtension(call, SESSION_TOKEN)
  if (typeof token !== 'string') {
    throw new GatewayError('INVALID_INPUT', `Invalid params: ${SESSION_TOKEN} must be a string.`)
  }
  try {
    const { scopes } = await sessions.find(token, call.principal)
    return { ...bare, principal: withScopes(call.principal, scopes) }
  } catch (error) {
    // A session that is over does not hinder its caller from asking for the next one.
    const isEnded = error instanceof GatewayError && error.code === 'TOKEN_EXPIRED'
    if (isEnded && target.isBuiltin && isNegotiation(target)) return bare
    throw error
  }
}

function isNegotiation({ method, name }: Target): boolean {
  return method === NEGOTIATE || (method === 'tools/call' && name?.endsWith(negotiateTool.name) === true)
}

function withScopes(principal: Principal, scopes: readonly string[]): Principal {
  const { scopes: held } = principal
  const outside = held ? { scopes: held } : {}
  return { ...principal, outside, scopes: new Set(held ? scopes.filter((scope) => held.has(scope)) : scopes) }
}
