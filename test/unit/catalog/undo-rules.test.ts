import { describe, expect, test } from 'vitest'
import { UndoRules } from '../../../src/catalog/tool-descriptors.ts'
import type { Descriptor } from '../../../src/core/descriptor.ts'
import type { ProvedTool } from '../../../src/core/proof.ts'

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
    unconfigured: () => ({ isDerived, usesProofs: false }),
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

  test('a proved undo rule is used where proofs are, and other tools are not even listed for it', async () => {
    const proved: ProvedTool = {
      settings: { undo: 'move_file(source=$.args.destination, destination=$.args.source)' },
      proof: {
        date: '2026-11-26',
        server: 's',
        version: '1',
        gatehouse: '1',
        proved: ['undo'],
        refuted: [],
      },
      uses: {},
    }
    const moving = { ...entry('move_file'), proved }
    const all = [...entries, moving, entry('write_file')]
    const find = (usesProofs: boolean): UndoRules =>
      new UndoRules({
        settings: () => ({}),
        unconfigured: () => ({ isDerived: false, usesProofs }),
        tools: async () => (lists++, all),
      })
    lists = 0
    expect(find(true).of('one', 'create_light')).toBeUndefined()
    expect(find(false).of('one', 'move_file')).toBeUndefined()
    expect(find(false).among(moving, all)).toBeUndefined()
    expect(lists).toBe(0)
    expect(await find(true).of('one', 'move_file')).toMatchObject({ call: { tool: 'move_file' } })
    expect(find(true).among(moving, all)).toMatchObject({ call: { tool: 'move_file' } })
    // A name says nothing without the proof.
    expect(await find(true).of('one', 'write_file')).toBeUndefined()
    expect(find(true).among(entry('create_light'), all)).toBeUndefined()
  })

  test('an undo is proposed if it is certain and none is configured', async () => {
    const find = rules(false, tools)
    expect(await find.isProposed('one', 'create_light')).toBe(true)
    expect(await find.isProposed('one', 'create_alarm')).toBe(false)
    expect(await find.isProposed('one', 'enable_light')).toBe(false)
    expect(await find.isProposed('one', 'unknown')).toBe(false)
  })

  test('an undo rule is derived if none is configured, and the tools are listed only once', async () => {
    lists = 0
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
