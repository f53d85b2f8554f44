/**
 * The feature `dry_run`: answers calls that are to be tried only, and all writes to a server that is a sandbox. Such a call
 * leaves the chain here, above everything that keeps something, and goes through the chain for dry runs instead
 * (`CallLayer.dryRun`), whose end is a report.
 */
import {
  type Call,
  compose,
  type Handler,
  type Middleware,
  type Outcome,
  type Target,
} from '../../core/call.ts'
import { dryRunSlot } from '../../core/dry-run.ts'
import { GatewayError, invalidParam } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { asCalled } from '../../core/judgement/call.ts'
import { namesArgument } from '../../core/tool-call.ts'
import {
  DRY_RUN,
  DRY_RUN_KEY,
  extensionOf,
  hasExtension,
  withoutExtension,
} from '../../protocol/meta-keys.ts'
import type { Feature, Services } from '../feature.ts'
import { callerValues, modelArguments, toolFacts, type Reserved } from '../offers.ts'
import { dryRunSchema } from '../settings/admit.ts'
import { reportDryRun } from './report.ts'

type Deps = Pick<Services, 'servers' | 'features'>

/** The argument by which a model can request a dry run, where arguments for the gateway are on. */
const ARGUMENT = `_${DRY_RUN}`

const reserved: Reserved = {
  argument: ARGUMENT,
  value: DRY_RUN,
  schema: {
    type: 'boolean',
    description: 'Optional. true: the call is only checked, and the result says what it would do.',
  },
  isFor: ({ classification }) => classification.op !== 'read',
}

/** Answers calls with what they would do, without making them. */
export const dryRun: Feature<Record<never, never> | false> = {
  ...dryRunSchema,
  create: (_settings, deps) => ({
    calls: {
      middleware: (target) => (target.method === 'tools/call' ? divert(target, deps) : undefined),
      dryRun: 'absent',
    },
    builtins: {
      extensions: () => ({ [DRY_RUN_KEY]: {} }),
    },
    offers: [
      toolFacts.offer(({ upstream, classification }) => {
        if (classification.op === 'read') return {}
        return { dryRuns: deps.servers.settings(upstream)?.isSandbox ? 'always' : 'on_request' }
      }),
      callerValues.offer([{ name: DRY_RUN, header: 'X-MCP-Dry-Run' }]),
      modelArguments.offer(() => [reserved]),
    ],
  }),
}

/** Refuses dry runs of a target for which the feature is off. */
export function dryRunGuard(
  { method, upstream }: Target,
  { features }: Pick<Services, 'features'>,
): Middleware | undefined {
  return method !== 'tools/call' || features.isOn(dryRun.name, upstream) ? undefined : refuseDryRuns
}

/** Refuses what would be a dry run: a call must not run because nothing reads the request. */
const refuseDryRuns: Middleware = (next) => async (call) => {
  if (!hasExtension(call, DRY_RUN)) return next(call)
  if (!isDryRun(call)) return next(withoutExtension(call, DRY_RUN))
  throw new GatewayError('UNSUPPORTED_OPERATION', 'Dry runs are off here: the call was not made.', {
    field: DRY_RUN,
    suggestion: 'Leave dry_run out to make the call, or ask the operator to set features.dry_run.',
  })
}

/** Sends dry runs of a target through the chain for them. */
function divert(target: Target, deps: Deps): Middleware {
  const { upstream = '', isBuiltin } = target
  const isSandbox = !isBuiltin && deps.servers.settings(upstream)?.isSandbox === true
  const hasArguments = !isBuiltin && deps.features.isOn('inject_arguments', upstream)
  return (next) => {
    let dry: Handler | undefined
    const run = async (call: Call): Promise<Outcome> => {
      const isWanted = isDryRun(call) || isInArguments(call)
      const inner = withoutExtension(call, DRY_RUN)
      const by = isWanted
        ? 'caller'
        : (dryRunSlot.of(call)?.by ?? (isSandbox && writes(call) ? 'sandbox' : undefined))
      if (by === undefined) return next(inner)
      call.logFields.set(DRY_RUN, by)
      dry ??= dryRunChain(target, deps)
      // What an earlier round of a call asked for belongs to a call that was made.
      const { inputResponses: _responses, ...rest } = inner
      return dry({ ...rest, requestState: {}, slots: dryRunSlot.put({ by }, rest.slots) })
    }
    return (call) => {
      if (call.internal) return isSandbox ? runInternal(call, next) : next(call)
      const isAsked = hasExtension(call, DRY_RUN) || (hasArguments && isInArguments(call))
      return isAsked || isSandbox || dryRunSlot.of(call) ? run(call) : next(call)
    }
  }
}

/** The chain of dry runs of a target: the layers that take part, in their order, around a report in the place of the server. */
function dryRunChain(target: Target, deps: Deps): Handler {
  const end = reportDryRun(deps)
  const middlewares = deps.features.layers(target.upstream).map(({ dryRun: role, middleware }) => {
    if (role === 'absent') return undefined
    return role === 'same' ? middleware(target) : role(target, end)
  })
  return compose(middlewares, end)
}

/** The gateway undoes nothing on a sandbox; reads pass, whatever they are for. */
function runInternal(call: Call, next: Handler): Promise<Outcome> {
  if (call.internal === 'read' || !writes(call)) return next(call)
  const message = `${call.target.upstream} is a sandbox, where nothing is undone.`
  return Promise.reject(new GatewayError('COMPENSATION_UNAVAILABLE', message, { isUnsent: true }))
}

/** Whether a call may write: what is not known to read counts as a write. */
function writes(call: Call): boolean {
  return !call.tool || asCalled(call.tool, call).classification.op !== 'read'
}

/** The value of a call. Anything but a boolean is refused: the call must not run by mistake. @throws INVALID_INPUT */
function isDryRun(call: Call): boolean {
  const value = extensionOf(call, DRY_RUN)
  if (value === undefined) return false
  if (typeof value === 'boolean') return value
  throw invalidParam(DRY_RUN, 'must be true or false')
}

/** Whether the value is among the arguments; other values than `true` are judged where they are taken out. */
function isInArguments({ params, tool }: Call): boolean {
  const { arguments: given } = params.fields
  return (
    isObject(given) &&
    given[ARGUMENT] === true &&
    !(tool !== undefined && namesArgument(tool.definition, ARGUMENT))
  )
}
