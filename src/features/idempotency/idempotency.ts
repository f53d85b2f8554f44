/** The feature `idempotency`: which calls have a key, and how long it is remembered. */
import { acceptsTaskSlot } from '../../core/slot.ts'
import { NS } from '../../core/identity.ts'
import {
  type Call,
  type Handler,
  listedTool,
  type Middleware,
  type Outcome,
  type Target,
} from '../../core/call.ts'
import { dryRunSlot, withFinding } from '../../core/dry-run.ts'
import { operationSlot } from '../../records/operations.ts'
import { invalidParam } from '../../core/error.ts'
import { compileRules, type Rule } from '../../core/failure.ts'
import { HeldMemory } from '../../core/holdings.ts'
import { asCalled } from '../../core/judgement/call.ts'
import {
  CAMEL_KEY,
  extensionOf,
  hasExtension,
  IDEMPOTENCY_KEY,
  keyShape,
  RUN_AGAIN,
  withoutExtension,
} from '../../protocol/meta-keys.ts'
import { type Feature, type Services, toolSetting } from '../feature.ts'
import { callerValues, modelArguments, type Reserved, toolFacts } from '../offers.ts'
import { type ToolPolicy, IdempotentExecutor } from './executor.ts'
import {
  autoKeyed,
  hasIdempotencyValues,
  type KeyedRequest,
  type KeyTerms,
  readKeyed,
  recovered,
} from './keyed-request.ts'
import { LostAnswers } from './lost-answers.ts'
import { Repetitions } from './repetitions.ts'
import { type IdempotencySettings, idempotencySchema } from '../settings/effect.ts'

type Deps = Pick<
  Services,
  'log' | 'store' | 'scope' | 'servers' | 'invoker' | 'identity' | 'gateway' | 'features'
>

/** Executes calls with an idempotency key once, and replays their outcomes. */
export const idempotency: Feature<IdempotencySettings | false> = {
  ...idempotencySchema,
  create: (settings, deps) => {
    const executor = new IdempotentExecutor(deps)
    const lost = deps.scope.once(LostAnswers)
    lost.held = deps.scope.once(HeldMemory)
    const executing = (
      target: Target,
      execute: (options: OnceOptions) => Handler,
    ): Middleware | undefined => {
      const { method, upstream, name = '', isBuiltin } = target
      const serverSettings = settings(upstream)
      if (method !== 'tools/call' || upstream === undefined || isBuiltin || serverSettings === false)
        return undefined
      const { lost_answers: window } = serverSettings
      const terms: KeyTerms = {
        ttl: serverSettings.ttl,
        maxTtl: serverSettings.max_ttl,
        ...(window !== 'off' && { runAgain: runAgainText(deps.features.isOn('inject_arguments', upstream)) }),
      }
      const autoKeyTtl = toolSetting(deps, upstream, name, 'autoKey')
      return (next) => {
        const policy = policyOf(target, serverSettings, next, deps)
        const repetitions =
          window === 'off' ? undefined : new Repetitions({ lost, executor, policy, terms, window }, deps)
        return execute({ executor, policy, terms, autoKeyTtl, repetitions })
      }
    }
    return {
      calls: {
        middleware: (target) => executing(target, executeOnce),
        dryRun: (target, end) => executing(target, (options) => tryOnce(options, end)),
      },
      builtins: {
        extensions: (upstream) => {
          const serverSettings = settings(upstream)
          if (serverSettings === false) return {}
          return { [`${NS}/idempotency`]: { maxTtlSeconds: Math.floor(serverSettings.max_ttl / 1000) } }
        },
      },
      offers: [
        toolFacts.offer(({ upstream, classification }) =>
          settings(upstream) !== false && classification.op !== 'read' ? { isIdempotentWithKey: true } : {},
        ),
        callerValues.offer([
          { name: IDEMPOTENCY_KEY, aliases: [CAMEL_KEY], header: 'Idempotency-Key' },
          { name: RUN_AGAIN },
        ]),
        modelArguments.offer((upstream) => [
          {
            argument: `_${IDEMPOTENCY_KEY}`,
            value: IDEMPOTENCY_KEY,
            schema: {
              type: 'string',
              pattern: keyShape.source,
              description:
                'Optional. A key that you choose for this action: at most 128 letters, digits and "_-:.". A call with the same key and arguments is not run again: it returns the first result.',
            },
            isFor: ({ classification }) => classification.op !== 'read',
          },
          ...(keepsLostAnswers(settings(upstream)) ? [runAgainArgument] : []),
        ]),
      ],
      close: () => executor.close(),
    }
  },
}

/** Whether outcomes are kept whose answers are lost. */
function keepsLostAnswers(settings: IdempotencySettings | false): boolean {
  return settings !== false && settings.lost_answers !== 'off'
}

const runAgainArgument: Reserved = {
  argument: `_${RUN_AGAIN}`,
  value: RUN_AGAIN,
  schema: {
    type: 'boolean',
    description:
      'Optional. true if this call has to run although it equals one whose answer was lost, for example because that one is meant to be done twice.',
  },
  isFor: ({ classification: { op, idempotent } }) => op !== 'read' && !idempotent,
}

/** What a caller adds to a call that has to run again. */
function runAgainText(hasArguments: boolean): string {
  const inMeta = `_meta {"${NS}/${RUN_AGAIN}": true}`
  return hasArguments ? `the argument _${RUN_AGAIN}: true (or ${inMeta})` : inMeta
}

interface OnceOptions {
  readonly executor: IdempotentExecutor
  readonly policy: ToolPolicy
  readonly terms: KeyTerms
  readonly autoKeyTtl: number | undefined
  /** Absent if no lost answers are kept. */
  readonly repetitions: Repetitions | undefined
}

/** Whether the gateway gives a call a key itself. */
function isAutoKeyed(call: Call): boolean {
  const listed = listedTool(call)
  const entry = listed && asCalled(listed, call)
  return entry !== undefined && entry.classification.op !== 'read' && !entry.classification.idempotent
}

/** Whether a call must not run twice: it may change something, and is not known to be idempotent. */
function isOnceOnly(call: Call): boolean {
  const { op, idempotent } = (call.tool && asCalled(call.tool, call))?.classification ?? {}
  return op !== 'read' && idempotent !== true
}

/** Whether a call has to run although it equals an earlier one. @throws INVALID_INPUT */
function isMeantAgain(call: Call): boolean {
  const value = extensionOf(call, RUN_AGAIN)
  if (typeof value !== 'boolean' && value !== null) throw invalidParam(RUN_AGAIN, 'must be true or false')
  return value === true
}

/** Reports what would become of a keyed call. One that would not run now goes no further. */
function tryOnce({ executor, policy, terms, autoKeyTtl, repetitions }: OnceOptions, end: Handler): Handler {
  const { next, upstream } = policy
  return async (asked) => {
    const isMeant = hasExtension(asked, RUN_AGAIN) && isMeantAgain(asked)
    const given = hasExtension(asked, RUN_AGAIN) ? withoutExtension(asked, RUN_AGAIN) : asked
    const read = hasIdempotencyValues(given) ? readKeyed(given, upstream, terms) : given
    const isAutomatic = !('id' in read) && autoKeyTtl !== undefined && !isMeant && isAutoKeyed(read)
    const keyed = isAutomatic ? autoKeyed(read, upstream, { ...terms, ttl: autoKeyTtl }) : read
    const plain = 'id' in keyed ? keyed.call : keyed
    const call = 'id' in keyed ? await executor.preview(keyed, policy) : keyed
    const { outcome } = dryRunSlot.of(call)?.idempotency ?? { outcome: 'would_run' }
    if (outcome !== 'would_run') return end(call)
    const repeated = isMeant || !isOnceOnly(plain) ? undefined : repetitions?.find(plain)
    if (!repeated) return next(call)
    const { startedAt: since } = repeated
    return end(withFinding(call, { idempotency: { outcome: 'would_replay', since } }))
  }
}

function executeOnce({ executor, policy, terms, autoKeyTtl, repetitions }: OnceOptions): Handler {
  const { next, upstream } = policy
  const run = (read: KeyedRequest, isMeant: boolean): Promise<Outcome> => {
    const own = repetitions && isOnceOnly(read.call) ? repetitions.keyed(read, isMeant) : policy
    // A task waits for a lost attempt; any other call gets IDEMPOTENCY_IN_PROGRESS.
    return acceptsTaskSlot.of(read.call) ? executor.repeat(read, own) : executor.run(read, own)
  }
  const made = (call: Call, isMeant: boolean): Promise<Outcome> =>
    repetitions && isOnceOnly(call) ? repetitions.unkeyed(call, isMeant) : next(call)
  const automatic = async (call: Call): Promise<Outcome> => {
    if (!isAutoKeyed(call)) return made(call, false)
    const keyed = autoKeyed(call, upstream, { ...terms, ttl: autoKeyTtl ?? 0 })
    return executor.run(keyed, repetitions ? repetitions.keyed(keyed, false) : policy)
  }
  const keyed = async (call: Call, isMeant: boolean): Promise<Outcome> => {
    const read = readKeyed(call, upstream, terms)
    return 'id' in read ? run(read, isMeant) : unkeyed(read, isMeant)
  }
  const unkeyed = (call: Call, isMeant: boolean): Promise<Outcome> => {
    if (call.internal) return next(call)
    return autoKeyTtl === undefined || isMeant ? made(call, isMeant) : automatic(call)
  }
  const repeated: Handler = async (call) => {
    const read = hasIdempotencyValues(call) ? readKeyed(call, upstream, terms) : call
    if ('id' in read) return executor.repeat(read, policy)
    const since = operationSlot.of(call)?.lostSince
    if (since === undefined) return next(read)
    return executor.repeat(recovered(read, upstream, terms.ttl), policy, since)
  }
  const execute = (call: Call, isMeant: boolean): Promise<Outcome> => {
    if (operationSlot.of(call)) return repeated(call)
    return hasIdempotencyValues(call) ? keyed(call, isMeant) : unkeyed(call, isMeant)
  }
  const withRunAgain: Handler = async (call) => execute(withoutExtension(call, RUN_AGAIN), isMeantAgain(call))
  return (call) => (hasExtension(call, RUN_AGAIN) ? withRunAgain(call) : execute(call, false))
}

function policyOf(target: Target, settings: IdempotencySettings, next: Handler, deps: Deps): ToolPolicy {
  const { upstream = '', name = '' } = target
  return {
    upstream,
    next,
    // Invalid rules are reported by the errors feature.
    rules: rulesOf(upstream, deps),
    quota: { keys: settings.max_keys, bytes: settings.max_bytes },
    compat: settings.compat,
    verify: toolSetting(deps, upstream, name, 'verify'),
    keyArgument: toolSetting(deps, upstream, name, 'keyArgument'),
    forwardsKey: toolSetting(deps, upstream, name, 'forwardKey') === true,
  }
}

function rulesOf(upstream: string, deps: Deps): readonly Rule[] {
  return compileRules(deps.servers.settings(upstream)?.errors ?? [], () => undefined)
}
