/**
 * The feature `pause_writes`: while writes are paused (`records/pause.ts`), refuses every call that is not known to read. A call is
 * judged when it comes, so that it asks no one and costs nothing, and again right before it is sent: it may have waited for a person,
 * for its turn, or for its server.
 *
 * Calls whose server has begun go on, and so do the gateway's own: they undo something, or read for a call that runs. Nothing is known
 * of what methods of vendors do, so they count as writes.
 */
import {
  type Call,
  type Handler,
  hasBegun,
  type Middleware,
  type Outcome,
  type Target,
} from '../core/call.ts'
import { withFinding } from '../core/dry-run.ts'
import { GatewayError } from '../core/error.ts'
import { alsoBeforeSend, beforeSendSlot } from '../core/exchange.ts'
import { asCalled } from '../core/judgement/call.ts'
import { oneLine } from '../core/text/escape.ts'
import { isoTime } from '../core/time/waiting.ts'
import {
  isExtensionMethod,
  isForServers,
  isProtocolNotification,
  isVendorRequest,
} from '../protocol/methods.ts'
import { pauseOf, type PauseState } from '../records/pause.ts'
import type { Feature, Services } from './feature.ts'
import { pauseWritesSchema } from './settings/effect.ts'

type Deps = Pick<Services, 'log' | 'store' | 'gateway'>

/** Refuses calls that may change something while an operator pauses them. */
export const pauseWrites: Feature<Record<never, never> | false> = {
  ...pauseWritesSchema,
  create: (_settings, deps) => {
    const watch = pauseOf(deps.store)
    const stop = watch.follow((state) => logChange(state, deps))
    return {
      calls: {
        middleware: (target) => {
          const mayWrite = judgeOf(target)
          return mayWrite && refusing(mayWrite, deps)
        },
        dryRun: (target) => {
          const mayWrite = judgeOf(target)
          return mayWrite && forecasting(mayWrite, deps)
        },
        judgesArguments: true,
      },
      close: async () => stop(),
    }
  },
}

function logChange(state: PauseState | undefined, { log }: Deps): void {
  if (!state) return log.info('writes.resumed')
  const { by, since, reason, until } = state
  log.info('writes.paused', {
    by,
    since: isoTime(since),
    ...(until !== undefined && { until: isoTime(until) }),
    ...(reason !== undefined && { reason }),
  })
}

type Judge = (call: Call) => boolean

/** What the gateway itself begins, as a tool and as a method; its other tools and methods read, end something, or make calls that are judged. */
const BEGIN_TOOL = 'begin_transaction'
const BEGIN_METHOD = 'transaction/begin'

/** Whether a call of a target may write; undefined if none does. */
function judgeOf({ method, name = '', upstream, isBuiltin }: Target): Judge | undefined {
  const isTool = method === 'tools/call'
  // Clients may name a tool of the gateway with a prefix.
  if (isBuiltin) return (isTool ? name.endsWith(BEGIN_TOOL) : method === BEGIN_METHOD) ? always : undefined
  if (upstream === undefined) return undefined
  if (isTool) return isNoRead
  const isVendor = isForServers(method)
    ? !isProtocolNotification(method)
    : isVendorRequest(method) && !isExtensionMethod(method)
  return isVendor ? always : undefined
}

const always: Judge = () => true

/** Whether a call of a tool is not known to read: also if its server does not list the tool, or its list cannot be read. */
function isNoRead(call: Call): boolean {
  if (!call.tool) return true
  const { op, risk } = asCalled(call.tool, call).classification
  return op !== 'read' || risk !== 'safe'
}

function refusing(mayWrite: Judge, { store, gateway }: Deps): Middleware {
  const watch = pauseOf(store)
  const check = (call: Call): void => {
    const { current } = watch
    if (current && mayWrite(call)) throw refusal(current, gateway)
  }
  return (next) => {
    const judged: Handler = (call) => {
      const { current } = watch
      if (current && !hasBegun(call) && mayWrite(call)) return Promise.reject(refusal(current, gateway))
      return next(beforeSendSlot.set(call, alsoBeforeSend(call, check)))
    }
    const afterFirstRead = async (call: Call): Promise<Outcome> => {
      if (await watch.known()) return judged(call)
      throw unknownState()
    }
    return (call) => {
      if (call.internal) return next(call)
      return watch.isKnown || hasBegun(call) || !mayWrite(call) ? judged(call) : afterFirstRead(call)
    }
  }
}

function forecasting(mayWrite: Judge, { store }: Deps): Middleware {
  const watch = pauseOf(store)
  return (next) => async (call) => {
    await watch.known()
    const { current } = watch
    if (!current || !mayWrite(call)) return next(call)
    const { since, until } = current
    return next(withFinding(call, { paused: { since, ...(until !== undefined && { until }) } }))
  }
}

/** Models read it, so it names no person. */
function refusal({ since, until, reason }: PauseState, { redactor }: Deps['gateway']): GatewayError {
  const why = reason === undefined ? '' : ` The reason given: “${oneLine(redactor.text(reason))}”.`
  const end =
    until === undefined ? 'an operator resumes writes' : `writes resume, at ${isoTime(until)} at the latest`
  return new GatewayError(
    'WRITES_PAUSED',
    `Writes are paused: an operator of this gateway stopped them at ${isoTime(since)}.${why} This call may change something, so it was not made.`,
    {
      isUnsent: true,
      suggestion: `Calls that only read still work. Do not repeat this call in a loop: go on without it, or tell the user that it can be made once ${end}.`,
      details: { paused_since: isoTime(since), ...(until !== undefined && { paused_until: isoTime(until) }) },
    },
  )
}

/** A restart must not end a pause: without an answer of the store, nothing is written. */
function unknownState(): GatewayError {
  return new GatewayError(
    'SERVER_UNAVAILABLE',
    'The store has not answered since this gateway started, so it is not known whether writes are paused. This call may change something, so it was not made.',
    { isUnsent: true, suggestion: 'Try again later. Calls that only read still work.' },
  )
}
