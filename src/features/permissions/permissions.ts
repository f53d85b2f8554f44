/** The feature `permissions`: scopes and rules for calls, sessions with fewer scopes, and hidden entries. */
import type { Call, Handler, Outcome, Middleware, Target, Notification } from '../../core/call.ts'
import { GatewayError, unknownTask } from '../../core/error.ts'
import { background, type Log } from '../../core/log.ts'
import { Payload } from '../../core/payload.ts'
import type { Principal } from '../../core/principal.ts'
import {
  extensionOf,
  hasExtension,
  SESSION_TOKEN,
  withoutExtension,
  acceptedTask,
  mayBeginTask,
} from '../../protocol/meta-keys.ts'
import { isProtocolNotification, isTaskStatus } from '../../protocol/methods.ts'
import { TaskOwners } from '../../records/task-owners.ts'
import { asTool } from '../builtin-tool.ts'
import type { Feature, SettingsOf } from '../feature.ts'
import type { Services } from '../feature.ts'
import { type Context, type Guard, createGates, ofSession } from './gate.ts'
import { guardOf } from './guard.ts'
import { answerNegotiate, negotiateTool, settingsSchema, type Settings } from './negotiate.ts'
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

// Keeps tasks to those who began them: another caller's task is refused with the words for one that does not exist, and
// is left out of lists and notifications. So are tasks the gateway began for itself. It holds whatever is configured,
// since a server that sees all callers as one cannot tell them apart (2025-11-25 basic/utilities/tasks, SEP-2663).

/** What is done about tasks in the calls of a target; nothing where they have none. */
function ownTasks(
  { method, upstream, isBuiltin: isOwn }: Target,
  owners: TaskOwners,
  log: Log,
): Middleware | undefined {
  if (upstream === undefined || isOwn) return undefined
  switch (method) {
    case 'tools/call':
      return (next) => (call) =>
        mayBeginTask(call)
          ? next(call).then((outcome) => recordOwner(call, outcome, { owners, log }))
          : next(call)
    case 'tasks/list':
      return (next) => async (call) => filterTasks(call, await next(call), owners)
    case 'subscriptions/listen':
      return (next) => (call) =>
        next({ ...call, emit: (note) => forwardOwnStatus(note, call, { owners, log }) })
    default:
      return method.startsWith('tasks/') ? (next) => (call) => refuseUnlessOwn(call, next, owners) : undefined
  }
}

interface Dependencies {
  readonly owners: TaskOwners
  readonly log: Log
}

/** Has the caller own the task it was answered with, before it hears of it. */
async function recordOwner(call: Call, outcome: Outcome, { owners, log }: Dependencies): Promise<Outcome> {
  const task = outcome.kind === 'result' ? acceptedTask(outcome.result) : undefined
  if (!task) return outcome
  try {
    await owners.put(call, task.id, task.ttlMs)
  } catch (error) {
    // The server works on the task already, so its id must not be lost. This process still knows whose it is.
    log.warn('task.owner_not_kept', { error: String(error) })
  }
  return outcome
}

async function refuseUnlessOwn(call: Call, next: Handler, owners: TaskOwners): Promise<Outcome> {
  const { taskId } = call.params.fields
  if (typeof taskId !== 'string' || !(await owners.isOwn(call, taskId))) throw unknownTask()
  return next(call)
}

async function filterTasks(call: Call, outcome: Outcome, owners: TaskOwners): Promise<Outcome> {
  if (outcome.kind !== 'result') return outcome
  const { tasks } = outcome.result.fields
  if (!Array.isArray(tasks)) return outcome
  const entries = outcome.result.at('tasks')?.items ?? []
  const own = await Promise.all(
    entries.map(async ({ fields: { taskId } }) => typeof taskId === 'string' && owners.isOwn(call, taskId)),
  )
  const kept = entries.filter((_entry, index) => own[index])
  return kept.length === entries.length
    ? outcome
    : {
        kind: 'result',
        result: outcome.result.with({ tasks: Payload.text(`[${kept.map(({ text }) => text).join(',')}]`) }),
      }
}

/** Passes a notification on, unless it is about a task of another caller. */
function forwardOwnStatus(note: Notification, call: Call, { owners, log }: Dependencies): void {
  if (!isTaskStatus(note.method)) return call.emit(note)
  const taskId = note.params?.fields.taskId
  if (typeof taskId !== 'string') return
  const pass = (isOwn: boolean): void => {
    if (isOwn) call.emit(note)
  }
  const isOwn = owners.isOwn(call, taskId)
  if (isOwn instanceof Promise) background(isOwn.then(pass), log)
  else pass(isOwn)
}
