import { describe, expect, test } from 'vitest'
import { UndoRules } from '../../../src/catalog/tool-descriptors.ts'
import type { Descriptor } from '../../../src/core/descriptor.ts'

const id = { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] }

function entry(name: string): Descriptor {
  const classification = { op: 'write', risk: 'reversible', idempotent: false, evidence: [] } as const
  const isMaking = name.startsWith('create')
  const definition = { name, ...(isMaking ? { inputSchema: {}, outputSchema: id } : { inputSchema: id }) }
  return { upstream: 'one', kind: 'tool', name, definition, classification: classification }
}

function rules(isDerived: boolean, tools: () => Promise<readonly Descriptor[]>) {
  const settings = { create_alarm: { undo: 'none' } } as const
  return new UndoRules({
    settings: (name) => (name === 'one' ? settings : undefined),
    isDerived: () => isDerived,
    tools,
  })
}

const listed = [
  'create_alarm',
  'delete_alarm',
  'create_light',
  'delete_light',
  'enable_light',
  'disable_light',
]
const entries = listed.map(entry)

describe('undo rules', () => {
  let lists = 0
  const tools = async (): Promise<readonly Descriptor[]> => {
    lists++
    return entries
  }

  test('an undo rule is the configured one unless derivation is enabled', () => {
    const find = rules(false, tools)
    expect(find.of('one', 'create_alarm')).toEqual({ kind: 'none' })
    expect(find.of('one', 'create_light')).toBeUndefined()
    expect(find.of('two', 'create_light')).toBeUndefined()
    expect(lists).toBe(0)
  })

  test('an undo rule is derived if none is configured, and the tools are listed only once', async () => {
    const find = rules(true, tools)
    expect(find.of('one', 'create_alarm')).toEqual({ kind: 'none' })
    expect(await find.of('one', 'create_light')).toMatchObject({
      kind: 'call',
      call: { tool: 'delete_light' },
    })
    expect(await find.of('one', 'enable_light')).toBeUndefined()
    expect(lists).toBe(1)
  })

  test('an undo rule cannot be derived while the server fails to list its tools, and can be afterwards', async () => {
    let isAway = true
    const find = rules(true, () => (isAway ? Promise.reject(new Error('away')) : tools()))
    await expect(find.of('one', 'create_light')).rejects.toThrow('away')
    isAway = false
    expect(await find.of('one', 'create_light')).toMatchObject({ kind: 'call' })
  })

  test.each([true, false])(
    'an undo rule is the same with a given list and with a requested list: %s',
    async (isDerived) => {
      const find = rules(isDerived, async () => entries)
      for (const each of entries) {
        expect(find.among(each, entries)).toEqual(await find.of('one', each.name))
      }
    },
  )
})
