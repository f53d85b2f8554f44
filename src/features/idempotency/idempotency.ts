/** The feature `idempotency`: which calls have a key, and how long it is remembered. */
import { type Handler, listedTool, type Target } from '../../core/call.ts'
import { compileRules, type Rule } from '../../core/failure.ts'
import { asCalled } from '../../core/judgement/judge.ts'
import { type ToolSettings, settingOf } from '../../core/settings.ts'
import { durationSchema, sizeSchema } from '../../core/time/units.ts'
import { CAMEL_KEY, IDEMPOTENCY_KEY, keyShape, NS, isTask } from '../../protocol/meta-keys.ts'
import type { Feature } from '../feature.ts'
import type { Services } from '../feature.ts'
import { type ToolPolicy, IdempotentExecutor } from './executor.ts'
import { autoKeyed, isForUs, readKeyed, noTask } from './keyed-request.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'identity' | 'gateway'>

/** The settings of idempotency keys. Times are milliseconds, sizes bytes. */
export interface Settings {
  readonly ttl: number
  readonly max_ttl: number
  readonly max_keys: number
  readonly max_bytes: number
  readonly compat: boolean
}

/** The JSON Schema of the settings of idempotency keys. */
const settingsSchema = {
  type: 'object',
  properties: {
    ttl: {
      ...durationSchema,
      default: '24h',
      description: 'How long what came of a call is remembered, where the caller does not say.',
    },
    max_ttl: {
      ...durationSchema,
      default: '7d',
      description: 'How long a caller may have it remembered at most.',
    },
    max_keys: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000_000,
      default: 1000,
      errorMessage: 'must be a whole number from 1',
      description: 'For how many calls each caller has it remembered at a time; further keys are refused.',
    },
    max_bytes: {
      ...sizeSchema,
      default: '64MB',
      description: 'How much is remembered for each caller.',
    },
    compat: {
      type: 'boolean',
      default: true,
      description: 'Whether what is said of the key also stands at `idempotency` of a result.',
    },
  },
} as const

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
          return once({ runs, plan, ttl, auto })
        }
      },
      toolFacts: ({ upstream, classification }) =>
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
}

function once({ runs, plan, ttl, auto }: Once): Handler {
  const { next, upstream } = plan
  const automatic: Handler = async (call) => {
    const listed = listedTool(call)
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
    // Invalid rules are reported by the errors feature.
    rules: rulesOf(upstream, deps),
    quota: { keys: settings.max_keys, bytes: settings.max_bytes },
    compat: settings.compat,
    verify: toolSetting(target, 'verify', deps),
    keyArgument: toolSetting(target, 'keyArgument', deps),
    forwardsKey: toolSetting(target, 'forwardKey', deps) === true,
  }
}

function rulesOf(upstream: string, deps: Deps): readonly Rule[] {
  return compileRules(deps.servers.settings(upstream)?.errors ?? [], () => undefined)
}

function toolSetting<Key extends keyof ToolSettings>(
  { upstream = '', name }: Target,
  key: Key,
  deps: Deps,
): NonNullable<ToolSettings[Key]> | undefined {
  const tools = deps.servers.settings(upstream)?.tools
  return tools && name !== undefined ? settingOf(tools, name, key)?.value : undefined
}
