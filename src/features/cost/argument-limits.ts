/**
 * Limits that the arguments of calls decide: how much they may add up to in one call, for each caller and for all callers. What a
 * call takes is reserved before it, and given back if it was not made. Amounts are exact decimals.
 */
import { hash } from 'node:crypto'
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { type Decimal, decimalOf, decimalText, isMore, plus, ZERO } from '../../core/json/exact-number.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import type { Finding } from '../../core/findings.ts'
import { asObject, canonical, isObject } from '../../core/json/json.ts'
import { within } from '../../core/time/waiting.ts'
import { parseSteps, type Step } from '../../core/json/path.ts'
import { fits } from '../../core/text/pattern.ts'
import { world } from '../../core/world.ts'
import type { Feature, Services, SettingsOf } from '../feature.ts'
import { type ArgumentLimitSettings, argumentLimitsSchema, type PERIOD_MS } from '../settings/effect.ts'
import { Account, settled } from './account.ts'

type Rule = ArgumentLimitSettings['arguments'][number]
type Deps = Pick<Services, 'log' | 'store' | 'servers'>

/** The caller under which what all callers take together is kept. */
const ALL_CALLERS = '*'

/** Limits what the arguments of calls add up to. */
export const argumentLimits: Feature<ArgumentLimitSettings> = {
  ...argumentLimitsSchema,
  create: (settings, deps) => ({
    calls: {
      judgesArguments: true,
      middleware: ({ upstream, method, name, isBuiltin }) => {
        if (method !== 'tools/call' || isBuiltin || upstream === undefined || name === undefined)
          return undefined
        const limits = limitsOf(upstream, name, settings, deps)
        if (limits.length === 0) return undefined
        return (next) => (call) => (call.internal ? next(call) : limited(call, next, limits, deps))
      },
      dryRun: ({ upstream, name, isBuiltin }) => {
        if (isBuiltin || upstream === undefined || name === undefined) return undefined
        const limits = limitsOf(upstream, name, settings, deps)
        if (limits.length === 0) return undefined
        return (next) => async (call) => {
          for (const { account, caller, amount } of chargesOf(call, limits))
            await account.check(caller, amount, world.now())
          return next(call)
        }
      },
    },
    problems: () => pathProblems(settings, deps),
  }),
}

/** How long a server may take to list its tools for the check of paths, in milliseconds. */
const LISTING_TIMEOUT_MS = 10_000

/** The rules whose path begins with an argument that none of their tools has: they would limit nothing. */
async function pathProblems(
  settings: SettingsOf<ArgumentLimitSettings>,
  { servers }: Deps,
): Promise<readonly Finding[]> {
  const common = settings().arguments
  const listed = await Promise.all(
    servers.names().flatMap((name) => {
      const rules = settings(name).arguments
      if (rules.length === 0) return []
      const tools = within(
        servers.tools(name).catch(() => []),
        LISTING_TIMEOUT_MS,
        [],
      )
      const place = canonical(rules) === canonical(common) ? ['limits'] : ['upstreams', name, 'limits']
      return tools.then((found) =>
        rules.flatMap((rule, index) => uses(rule, found, [...place, 'arguments', String(index)])),
      )
    }),
  )
  const byRule = Map.groupBy(listed.flat(), ({ path }) => path.join('.'))
  return [...byRule.values()].flatMap(([first, ...others]) =>
    first && [first, ...others].every(({ isKnown }) => !isKnown)
      ? [{ path: first.path, message: first.message }]
      : [],
  )
}

interface Use extends Finding {
  /** Whether the tool has the argument. */
  readonly isKnown: boolean
}

/** The tools that a rule is about and that say which arguments they have. */
function uses(
  { tool, sum, count = '' }: Rule,
  tools: readonly Descriptor[],
  place: readonly string[],
): Use[] {
  const [first] = parseSteps(sum ?? count) ?? []
  const path = [...place, sum === undefined ? 'count' : 'sum']
  return tools.flatMap(({ upstream, name, definition }): Use[] => {
    const { properties } = asObject(definition.inputSchema)
    if (!fits(tool, name) || !isObject(properties) || typeof first !== 'string') return []
    const message = `${name} of ${upstream} has no argument \`${first}\`, so this limits nothing`
    return [{ path, message, isKnown: Object.hasOwn(properties, first) }]
  })
}

/** A rule for a tool, with what it is about. */
interface Limit {
  readonly rule: Rule
  readonly steps: readonly Step[]
  /** What one call may have. */
  readonly inCall?: Decimal
  readonly ofCaller?: Account
  readonly inAll?: Account
}

function limitsOf(
  upstream: string,
  name: string,
  settings: SettingsOf<ArgumentLimitSettings>,
  { store }: Deps,
): readonly Limit[] {
  const own = settings(upstream).arguments
  const scope = canonical(own) === canonical(settings().arguments) ? '' : upstream
  return own.flatMap((rule): Limit[] => {
    const path = rule.sum ?? rule.count ?? ''
    const steps = parseSteps(path)
    if (!steps || !fits(rule.tool, name)) return []
    // A rule that changes begins anew: what was taken before was of something else.
    const id = hash('sha256', JSON.stringify([scope, rule.tool, rule.sum, rule.count]), 'base64url').slice(
      0,
      16,
    )
    const account = (written: string | number | undefined, of: string): Account | undefined => {
      const { limit, per } = amountOf(written)
      return limit && per && new Account(store, { limit, per, what: path }, `${of}:${id}`)
    }
    const { limit, per } = amountOf(rule.most)
    const [ofCaller, inAll] = [account(rule.most, 'argument'), account(rule.in_all, 'arguments')]
    return [
      {
        rule,
        steps,
        ...(limit && !per && { inCall: limit }),
        ...(ofCaller && { ofCaller }),
        ...(inAll && { inAll }),
      },
    ]
  })
}

/** An amount such as `20` or `500/day`. */
function amountOf(written: string | number | undefined): {
  readonly limit?: Decimal
  readonly per?: keyof typeof PERIOD_MS
} {
  const [number = '', per] = String(written ?? '').split('/')
  const limit = decimalOf(number)
  return limit ? { limit, ...(per !== undefined && { per: per as keyof typeof PERIOD_MS }) } : {}
}

/** An amount that a call takes from an account. */
interface Taken {
  readonly account: Account
  readonly caller: string
  readonly amount: Decimal
}

/** What a call takes. @throws if it has too much in itself, or what cannot be judged */
function chargesOf(call: Call, limits: readonly Limit[]): readonly Taken[] {
  return limits.flatMap(({ rule, steps, inCall, ofCaller, inAll }): Taken[] => {
    const amount = amountIn(call, rule, steps)
    if (inCall && isMore(amount, inCall)) throw tooMuch(rule, amount, inCall)
    if (amount.digits === 0n) return []
    return [
      ...(ofCaller ? [{ account: ofCaller, caller: call.principal.id, amount }] : []),
      ...(inAll ? [{ account: inAll, caller: ALL_CALLERS, amount }] : []),
    ]
  })
}

/** The sum or number of the values at a path; nothing where there is none. @throws INVALID_INPUT if that cannot be told */
function amountIn(call: Call, { sum, count = '' }: Rule, steps: readonly Step[]): Decimal {
  const found = valuesAt(call.params.fields.arguments, steps)
  if (!found) throw unjudged(sum ?? count)
  if (sum === undefined) return decimalOf(found.length) ?? ZERO
  return found.reduce<Decimal>((total, value) => {
    const number = decimalOf(value)
    if (!number) throw unjudged(sum)
    // A negative amount would make room for others.
    return number.digits < 0n ? total : plus(total, number)
  }, ZERO)
}

/**
 * The values at a path; none where it leads to nothing. Undefined if the arguments have another form than the path, such as JSON as
 * a text: a server may read it, and the limit would not hold.
 */
function valuesAt(value: unknown, [step, ...rest]: readonly Step[]): readonly unknown[] | undefined {
  if (value === undefined || value === null) return []
  if (step === undefined) return [value]
  if (typeof step === 'string') {
    if (!isObject(value)) return undefined
    return Object.hasOwn(value, step) ? valuesAt(value[step], rest) : []
  }
  if (!Array.isArray(value)) return undefined
  const items: readonly unknown[] = step === null ? value : [value[step]]
  const found = items.map((item) => valuesAt(item, rest))
  return found.includes(undefined) ? undefined : found.flatMap((each) => each ?? [])
}

function unjudged(path: string): GatewayError {
  return new GatewayError(
    'INVALID_INPUT',
    `The gateway limits ${path}, and cannot tell it from these arguments.`,
    {
      suggestion: 'Send objects and lists as JSON and not as text, and amounts as numbers without a unit.',
    },
  )
}

function tooMuch({ tool, sum, count }: Rule, amount: Decimal, limit: Decimal): GatewayError {
  const what = sum === undefined ? `${count} of ${tool}` : `the sum of ${sum} of ${tool}`
  return new GatewayError(
    'QUOTA_EXHAUSTED',
    `This call has ${decimalText(amount)} in ${what}, and at most ${decimalText(limit)} are permitted in one call.`,
    {
      suggestion: 'Ask the operator for a higher limit, or ask the person whether a smaller call will do.',
      status: 429,
    },
  )
}

/** Makes a call once everything that it takes is reserved. */
function limited(call: Call, next: Handler, limits: readonly Limit[], { log }: Deps): Promise<Outcome> {
  const at = world.now()
  const reserved: Taken[] = []
  const giveBack = async (): Promise<void> => {
    for (const { account, caller, amount } of reserved)
      await account.spend(caller, { ...amount, digits: -amount.digits }, at).catch((error: unknown) => {
        log.warn('limits.not_given_back', { reason: String(error) })
      })
  }
  return settled(call, next, {
    async reserve() {
      for (const taken of chargesOf(call, limits)) {
        // The limit holds also if the store cannot be asked: the call is refused then.
        await taken.account.spend(taken.caller, taken.amount, at).catch(async (error: unknown) => {
          await giveBack()
          throw error
        })
        reserved.push(taken)
      }
      return reserved
    },
    refund: giveBack,
  })
}
