import fc from 'fast-check'
import { stepSlot } from '../../../../src/records/transactions.ts'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import type { Risk } from '../../../../src/core/descriptor.ts'
import type { ToolSettings, UpstreamSettings } from '../../../../src/core/settings.ts'
import { ruleOf } from '../../../../src/features/confirm/rules.ts'
import type { ConfirmSettings } from '../../../../src/features/settings/effect.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import { bench, confirmDefaults, fieldsOf, plain, TOOL } from './bench.ts'

const step = { transaction: 't', step: 's', deed: 'd', mustBeUndoable: true }
const levels: readonly (readonly [ConfirmSettings['level'], readonly Risk[]])[] = [
  ['destructive', ['destructive']],
  ['reversible', ['reversible', 'destructive']],
  ['all', ['safe', 'reversible', 'destructive']],
  ['none', []],
]

describe.each(levels)('confirmation level %s', (level, expected) => {
  it.each(['safe', 'reversible', 'destructive'] as const)(
    'the confirmation level decides on %s tools',
    async (risk) => {
      const { call } = bench({ settings: { level }, risk })
      expect((await call()).kind).toBe(expected.includes(risk) ? 'input_required' : 'result')
    },
  )
})

describe('confirmation settings of a tool', () => {
  const table: readonly (readonly [string, ToolSettings, Risk, boolean])[] = [
    ['confirm: on', { confirm: true }, 'safe', true],
    ['confirm with a question', { confirm: 'Sure?' }, 'safe', true],
    ['confirm: off', { confirm: false }, 'destructive', false],
    ['confirm: never', { confirm: 'never' }, 'destructive', false],
    ['approval out of band', { approval: 'out_of_band' }, 'reversible', true],
    ['approval out of band, for a read-only tool', { approval: 'out_of_band' }, 'safe', false],
    ['approvers', { approvers: ['ada'] }, 'reversible', true],
    ['confirmation by typing', { typeToConfirm: 'repo' }, 'reversible', true],
    ['remembered approvals', { remember: { for: 1000, max: 2 } }, 'reversible', false],
  ]
  it.each(table)('the setting of a tool overrides the level: %s', async (_what, tool, risk, isAsked) => {
    const { call, served } = bench({ tool, risk })
    await call().catch(() => undefined)
    expect(served).toHaveLength(isAsked ? 0 : 1)
  })
})

it('no middleware is created if the configuration alone excludes confirmation', () => {
  expect(bench({ settings: { level: 'none' } }).isWrapped).toBe(false)
  expect(bench({ tool: { confirm: false } }).isWrapped).toBe(false)
  expect(bench().isWrapped).toBe(true)
})

it('a call is forwarded synchronously if its tool is known', () => {
  const { call, served } = bench({ risk: 'safe' })
  void call()
  expect(served).toHaveLength(1)
})

it.each([
  ['its server says so', { requires_confirmation: true }],
  ['its cost requires approval', { cost: { category: 'requires_approval' } }],
])('a tool that only reads is confirmed if %s, whatever risk its owner sets', async (_why, definition) => {
  for (const tool of [{}, { risk: 'safe' }] as const) {
    const { call, served } = bench({ risk: 'safe', tool, definition })
    expect((await call()).kind).toBe('input_required')
    expect(served).toHaveLength(0)
  }
  const never = bench({ risk: 'safe', tool: { confirm: false }, definition })
  expect((await never.call()).kind).toBe('result')
})

it('a call whose tool cannot be looked up is refused', async () => {
  const failing = bench({ deps: { entry: () => Promise.reject(new Error('down')) } })
  await expect(failing.call()).rejects.toThrow('down')
  expect(failing.served).toHaveLength(0)
})

it('a tool that is in no list is classified by its name', async () => {
  const { call } = bench({ deps: { entry: () => undefined } })
  expect((await call()).kind).toBe('input_required')
})

describe('confirmation of a transaction step', () => {
  it.each([{ pivot: true }, { pivot: true, confirm: false }])(
    'a step without a way back requires confirmation: %j',
    async (tool) => {
      const { call } = bench({ risk: 'reversible', tool })
      expect((await call({ slots: stepSlot.put(step) })).kind).toBe('input_required')
      expect((await call()).kind).toBe('result')
    },
  )
})

describe('confirmation of an internal call', () => {
  it('an internal call requires no confirmation', async () => {
    const { call, served } = bench({ settings: { level: 'all' } })
    await call({ internal: 'read' })
    await call({ internal: 'compensate' })
    expect(served).toHaveLength(2)
  })

  it('a compensation requires confirmation out of band if configured', async () => {
    const { call, served } = bench({ settings: { rollbacks: true } })
    expect((await call({ internal: 'compensate' })).kind).toBe('result')
    expect(served).toHaveLength(0)
    await call({ internal: 'read' })
    expect(served).toHaveLength(1)
  })
})

describe('confirmation of a tool without annotations', () => {
  const literal = { settings: { unannotated: 'confirm' }, risk: 'reversible' } as const
  it.each([
    [undefined, true],
    [{}, true],
    [{ readOnlyHint: false }, true],
    [{ destructiveHint: false }, false],
    [{ readOnlyHint: true }, false],
  ])('a tool without annotations requires confirmation if configured: %j', async (annotations, isAsked) => {
    const { call } = bench({ ...literal, definition: { name: TOOL, annotations } })
    expect((await call()).kind).toBe(isAsked ? 'input_required' : 'result')
  })

  it('a tool with a configured risk requires no confirmation', async () => {
    const { call, served } = bench({ ...literal, tool: { risk: 'reversible' }, risk: 'reversible' })
    expect((await call()).kind).toBe('result')
    expect(served).toHaveLength(1)
  })
})

describe('the setting that stops confirmation of a tool', () => {
  const stopOf = async (tools: Readonly<Record<string, ToolSettings>>, tool = TOOL) => {
    const { call, approvals } = bench({ server: { tools }, definition: { name: tool } })
    const outcome = await call({ client: plain })
    const [approval] = await approvals.list()
    return { stop: approval?.stop, answer: JSON.stringify(fieldsOf(outcome)) }
  }

  it.each<[Record<string, ToolSettings>, string, string]>([
    [{}, 'upstreams.hub', 'tools: { delete_repo: { confirm: never } }'],
    [{ '*': { scopes: ['a'] } }, 'upstreams.hub.tools', 'delete_repo: { confirm: never }'],
    [{ [TOOL]: { scopes: ['a'] } }, 'upstreams.hub.tools.delete_repo', 'confirm: never'],
  ])('the setting is placed at the nearest existing level: %j', async (tools, under, write) => {
    expect((await stopOf(tools)).stop).toEqual({ under, write })
  })

  it.each<[ToolSettings]>([
    [{ confirm: true }],
    [{ confirm: 'Sure?' }],
    [{ typeToConfirm: 'repo' }],
    [{ approval: 'out_of_band' }],
    [{ pivot: true }],
    [{ cost: { category: 'requires_approval' } }],
  ])('no setting is proposed if the configuration itself requires confirmation: %j', async (tool) => {
    expect((await stopOf({ [TOOL]: tool })).stop).toBeUndefined()
  })

  it('the setting never appears in text a model reads', async () => {
    expect((await stopOf({})).answer).not.toContain('never')
  })

  it('the setting is valid YAML and effective for any tool name', { timeout: 60_000 }, () => {
    const rule = (tool: string, tools: UpstreamSettings['tools']) =>
      ruleOf(tool, serverSettings({ name: 'hub', tools }), confirmDefaults)
    const stops = (name: string): void => {
      const tool = name.toWellFormed()
      expect(parse(rule(tool, {})?.stop?.write ?? '')).toEqual({ tools: { [tool]: { confirm: 'never' } } })
      expect(rule(tool, { '*': { confirm: true }, [tool]: { confirm: 'never' } })).toBeUndefined()
    }
    for (const name of ['on', 'null', 'a b', 'a: b', "it's", '# a', '\u202e', '-', '*']) stops(name)
    fc.assert(fc.property(fc.string({ unit: 'binary', minLength: 1 }), stops), { numRuns: 30 })
  })
})
