import type { Handler } from '../../core/call.ts'
import { compileRules, type Rule } from '../../core/failure.ts'
import { asCalled } from '../../core/judgement/call.ts'
import type { ToolSettings } from '../../core/settings.ts'
import type { Target } from '../../core/target.ts'
import { settingOf } from '../../core/tool-settings.ts'
import { CAMEL_KEY, IDEMPOTENCY_KEY, keyShape, NS, isTask } from '../../wire/extensions.ts'
import type { Deps, Feature } from '../feature.ts'
import { autoKeyed, isForUs, readKeyed } from './keyed.ts'
import { type ToolPolicy, IdempotentExecutor } from './runs.ts'
import { noTask } from './refusals.ts'
import { type Settings, settingsSchema } from './settings.ts'

/** Makes calls with an idempotency key once, and tells again what came of them. */
export const idempotency: Feature<Settings | false> = {
  name: 'idempotency',
  place: 'features',
  isLeftToGateway: true,
  schema: settingsSchema,
  create: (settings, deps) => {
    const runs = new IdempotentExecutor(deps)
    return {
      middleware: (target) => {
        const { method, upstream, isBuiltin } = target
        const own = settings(upstream)
        if (method !== 'tools/call' || upstream === undefined || isBuiltin || own === false) return undefined
        const ttl = { ttl: own.ttl, longest: own.max_ttl }
        const auto = toolSetting(target, 'autoKey', deps)
        return (next) => {
          const plan = planOf(target, own, next, deps)
          return once({ runs, plan, ttl, auto, deps })
        }
      },
      logFields: ({ upstream, classification }) =>
        settings(upstream) !== false && classification.op !== 'read' ? { isIdempotentWithKey: true } : {},
      values: [{ name: IDEMPOTENCY_KEY, aliases: [CAMEL_KEY], header: 'Idempotency-Key' }],
      reserved: () => [
        {
          argument: `_${IDEMPOTENCY_KEY}`,
          value: IDEMPOTENCY_KEY,
          schema: {
            type: 'string',
            pattern: keyShape.source,
            description:
              'Optional. A name you choose for this action, of letters, digits and "_-:.", at most 128. A call with the same name and arguments is not run again: it gets the first answer.',
          },
          isFor: ({ classification }) => classification.op !== 'read',
        },
      ],
      extensions: (upstream) => {
        const own = settings(upstream)
        if (own === false) return {}
        return { [`${NS}/idempotency`]: { maxTtlSeconds: Math.floor(own.max_ttl / 1000) } }
      },
      close: () => runs.close(),
    }
  },
}

interface Once {
  readonly runs: IdempotentExecutor
  readonly plan: ToolPolicy
  readonly ttl: { readonly ttl: number; readonly longest: number }
  readonly auto: number | undefined
  readonly deps: Deps
}

function once({ runs, plan, ttl, auto, deps }: Once): Handler {
  const { next, upstream } = plan
  const automatic: Handler = async (call) => {
    const listed = await deps.entry(call)
    const entry = listed && asCalled(listed, call)
    if (!entry || entry.classification.op === 'read' || entry.classification.idempotent) return next(call)
    if (isTask(call)) throw noTask()
    return runs.run(autoKeyed(call, upstream, auto ?? 0), plan)
  }
  const keyed: Handler = async (call) => {
    const read = readKeyed(call, upstream, ttl)
    if ('id' in read) {
      if (isTask(call)) throw noTask()
      return runs.run(read, plan)
    }
    return auto === undefined ? next(read) : automatic(read)
  }
  const unkeyed: Handler =
    auto === undefined ? next : (call) => (call.internal ? next(call) : automatic(call))
  return (call) => (isForUs(call) ? keyed(call) : unkeyed(call))
}

function planOf(target: Target, settings: Settings, next: Handler, deps: Deps): ToolPolicy {
  const { upstream = '' } = target
  return {
    upstream,
    next,
    // Those that can not be used are told of by who tells errors.
    rules: rulesOf(upstream, deps),
    quota: { keys: settings.max_keys, bytes: settings.max_bytes },
    compat: settings.compat,
    verify: toolSetting(target, 'verify', deps),
    keyArgument: toolSetting(target, 'keyArgument', deps),
    forwardsKey: toolSetting(target, 'forwardKey', deps) === true,
  }
}

function rulesOf(upstream: string, deps: Deps): readonly Rule[] {
  return compileRules(deps.server(upstream)?.errors ?? [], () => undefined)
}

function toolSetting<Key extends keyof ToolSettings>(
  { upstream = '', name }: Target,
  key: Key,
  deps: Deps,
): NonNullable<ToolSettings[Key]> | undefined {
  const tools = deps.server(upstream)?.tools
  return tools && name !== undefined ? settingOf(tools, name, key)?.value : undefined
}
