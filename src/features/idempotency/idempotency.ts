/** The feature `idempotency`: which calls have a key, and how long it is remembered. */
import { acceptsTaskSlot } from '../../core/slot.ts'
import { NS } from '../../core/identity.ts'
import { type Call, type Handler, listedTool, type Middleware, type Target } from '../../core/call.ts'
import { dryRunSlot } from '../../core/dry-run.ts'
import { operationSlot } from '../../records/operations.ts'
import { compileRules, type Rule } from '../../core/failure.ts'
import { asCalled } from '../../core/judgement/call.ts'
import { CAMEL_KEY, IDEMPOTENCY_KEY, keyShape } from '../../protocol/meta-keys.ts'
import { type Feature, type Services, toolSetting } from '../feature.ts'
import { callerValues, modelArguments, toolFacts } from '../offers.ts'
import { type ToolPolicy, IdempotentExecutor } from './executor.ts'
import { autoKeyed, hasIdempotencyValues, readKeyed, recovered } from './keyed-request.ts'
import { type IdempotencySettings, idempotencySchema } from '../settings/effect.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'identity' | 'gateway'>

/** Executes calls with an idempotency key once, and replays their outcomes. */
export const idempotency: Feature<IdempotencySettings | false> = {
  ...idempotencySchema,
  create: (settings, deps) => {
    const executor = new IdempotentExecutor(deps)
    const executing = (
      target: Target,
      execute: (options: OnceOptions) => Handler,
    ): Middleware | undefined => {
      const { method, upstream, name = '', isBuiltin } = target
      const serverSettings = settings(upstream)
      if (method !== 'tools/call' || upstream === undefined || isBuiltin || serverSettings === false)
        return undefined
      const ttl = { ttl: serverSettings.ttl, maxTtl: serverSettings.max_ttl }
      const autoKeyTtl = toolSetting(deps, upstream, name, 'autoKey')
      return (next) => {
        const policy = policyOf(target, serverSettings, next, deps)
        return execute({ executor, policy, ttl, autoKeyTtl })
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
        callerValues.offer([{ name: IDEMPOTENCY_KEY, aliases: [CAMEL_KEY], header: 'Idempotency-Key' }]),
        modelArguments.offer(() => [
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
        ]),
      ],
      close: () => executor.close(),
    }
  },
}

interface OnceOptions {
  readonly executor: IdempotentExecutor
  readonly policy: ToolPolicy
  readonly ttl: { readonly ttl: number; readonly maxTtl: number }
  readonly autoKeyTtl: number | undefined
}

/** Whether the gateway gives a call a key itself. */
function isAutoKeyed(call: Call): boolean {
  const listed = listedTool(call)
  const entry = listed && asCalled(listed, call)
  return entry !== undefined && entry.classification.op !== 'read' && !entry.classification.idempotent
}

/** Reports what would become of a keyed call. One that would not run now goes no further. */
function tryOnce({ executor, policy, ttl, autoKeyTtl }: OnceOptions, end: Handler): Handler {
  const { next, upstream } = policy
  return async (given) => {
    const read = hasIdempotencyValues(given) ? readKeyed(given, upstream, ttl) : given
    const isAutomatic = !('id' in read) && autoKeyTtl !== undefined && isAutoKeyed(read)
    const keyed = isAutomatic ? autoKeyed(read, upstream, autoKeyTtl) : read
    if (!('id' in keyed)) return next(keyed)
    const call = await executor.preview(keyed, policy)
    return dryRunSlot.of(call)?.idempotency?.outcome === 'would_run' ? next(call) : end(call)
  }
}

function executeOnce({ executor, policy, ttl, autoKeyTtl }: OnceOptions): Handler {
  const { next, upstream } = policy
  const automatic: Handler = async (call) =>
    isAutoKeyed(call) ? executor.run(autoKeyed(call, upstream, autoKeyTtl ?? 0), policy) : next(call)
  const keyed: Handler = async (call) => {
    const read = readKeyed(call, upstream, ttl)
    // A task waits for a lost attempt; any other call gets IDEMPOTENCY_IN_PROGRESS.
    if ('id' in read)
      return acceptsTaskSlot.of(call) ? executor.repeat(read, policy) : executor.run(read, policy)
    return autoKeyTtl === undefined ? next(read) : automatic(read)
  }
  const unkeyed: Handler =
    autoKeyTtl === undefined ? next : (call) => (call.internal ? next(call) : automatic(call))
  const repeated: Handler = async (call) => {
    const read = hasIdempotencyValues(call) ? readKeyed(call, upstream, ttl) : call
    if ('id' in read) return executor.repeat(read, policy)
    const since = operationSlot.of(call)?.lostSince
    if (since === undefined) return next(read)
    return executor.repeat(recovered(read, upstream, ttl.ttl), policy, since)
  }
  return (call) => {
    if (operationSlot.of(call)) return repeated(call)
    return hasIdempotencyValues(call) ? keyed(call) : unkeyed(call)
  }
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
