import { toolFacts } from '../../../src/features/offers.ts'
import type { Services, Feature } from '../../../src/features/feature.ts'
import { describe, expect, it } from 'vitest'
import type { Descriptor, ToolFacts } from '../../../src/core/descriptor.ts'
import type { ToolSettings } from '../../../src/core/settings.ts'
import { undoRuleOf } from '../../../src/core/undo/rules.ts'
import { confirm } from '../../../src/features/confirm/confirm.ts'
import { idempotency } from '../../../src/features/idempotency/idempotency.ts'
import { limits } from '../../../src/features/limits.ts'
import { rateLimit } from '../../../src/features/rate-limit.ts'
import { permissions } from '../../../src/features/permissions/permissions.ts'
import { undo } from '../../../src/features/undo/undo.ts'
import { featureDeps, offeredBy } from '../../support/feature-deps.ts'
import { idempotencyDefaults } from '../../support/idempotency-bench.ts'
import { serverSettings } from '../../support/server-settings.ts'

const classification = { op: 'write', risk: 'reversible', idempotent: false, evidence: [] } as const
const confirming = { level: 'destructive', unannotated: 'derive', remember: false } as const

/** The facts that a feature states about the tool `t` of the server `one`. */
function factsOf<Settings>(
  feature: Feature<Settings>,
  settings: unknown,
  tool: ToolSettings = {},
  given: Partial<Descriptor['classification']> = {},
): ToolFacts | undefined {
  const server = () => serverSettings({ name: 'one', tools: { 't*': tool } })
  const rule: Services['servers']['undoRuleAmong'] = ({ name }) => undoRuleOf(server().tools, name)?.rule
  const deps = featureDeps({ server, undoRuleAmong: rule })
  // Each feature has settings of its own type.
  const instance = feature.create(() => settings as Settings, deps)
  const entry: Descriptor = {
    upstream: 'one',
    kind: 'tool',
    name: 't',
    definition: { name: 't', description: 'Does it. And more.' },
    classification: { ...classification, ...given },
  }
  const facts = offeredBy(instance, toolFacts)?.(entry, [entry])
  instance.close?.().catch(() => undefined)
  return facts
}

describe('facts of a tool from features', () => {
  it('the facts contain the required scopes', () => {
    expect(factsOf(permissions, {})).toEqual({ scopes: [['write:one']] })
    expect(factsOf(permissions, {}, { scopes: ['a', 'b'] })).toEqual({ scopes: [['a'], ['b']] })
    expect(factsOf(permissions, false)).toEqual({})
  })

  it('the facts of a tool with side effects state that it accepts idempotency keys', () => {
    expect(factsOf(idempotency, idempotencyDefaults)).toEqual({ isIdempotentWithKey: true })
    expect(factsOf(idempotency, idempotencyDefaults, {}, { op: 'read' })).toEqual({})
    expect(factsOf(idempotency, false)).toEqual({})
  })

  it('the facts contain the rate limit of the tool', () => {
    expect(factsOf(rateLimit, { rate: '9/minute' })).toEqual({})
    expect(factsOf(rateLimit, {}, { rate: '1/minute' })).toEqual({ rates: ['1/minute'] })
  })

  it('the facts contain the timeout', () => {
    expect(factsOf(limits, { timeout: 30_000, max_timeout: 600_000 })).toEqual({ timeout: 30_000 })
    expect(factsOf(limits, { timeout: 30_000, max_timeout: 600_000 }, { timeout: 5 })).toEqual({ timeout: 5 })
  })

  it('the facts contain the confirmation question, if any', () => {
    expect(factsOf(confirm, confirming)).toEqual({})
    expect(factsOf(confirm, confirming, {}, { risk: 'destructive' })).toEqual({
      confirmation: { message: 'Run t on one? Does it.', isOutOfBand: false },
    })
    expect(factsOf(confirm, confirming, { confirm: 'Do {x}?', approval: 'out_of_band' })).toEqual({
      confirmation: { message: 'Do {x}?', isOutOfBand: true },
    })
  })

  it('the facts contain the required approval of a cost, whatever else is configured', () => {
    const cost = { category: 'requires_approval', units: 1 } as const
    for (const confirmed of [{}, { confirm: false }, { risk: 'safe' }] as const) {
      expect(factsOf(confirm, { ...confirming, level: 'none' }, { ...confirmed, cost })).toEqual({
        confirmation: { message: 'Run t on one? Does it. It costs 1 unit.', isOutOfBand: false },
      })
    }
    expect(factsOf(confirm, confirming, { cost: { category: 'metered', units: 1 } })).toEqual({})
  })

  it('the facts contain the configured undo', () => {
    expect(factsOf(undo, { history: 'off' })).toEqual({})
    expect(factsOf(undo, { history: 'off' }, { undo: 'none' })).toEqual({})
    expect(factsOf(undo, { history: 'off' }, { undo: 'u(id=$.result.id)' })).toEqual({
      undo: { tool: 'u', isExact: true, description: 'u(id=$.result.id)' },
    })
    expect(
      factsOf(
        undo,
        { history: 'off' },
        { undo: { call: 'u()', exact: false, description: 'Takes it back.' } },
      ),
    ).toEqual({ undo: { tool: 'u', isExact: false, description: 'Takes it back.' } })
    expect(factsOf(undo, { history: 'off' }, { undo: 'u()' }, { op: 'read' })).toEqual({})
  })
})
