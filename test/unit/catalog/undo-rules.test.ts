import { describe, expect, test } from 'vitest'
import { createUndoRules } from '../../../src/catalog/undo-rules.ts'
import type { Entry } from '../../../src/core/entry.ts'

const link = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] }

function entry(name: string): Entry {
  const nature = { op: 'write', risk: 'reversible', idempotent: false, evidence: [] } as const
  return { upstream: 'one', kind: 'tool', name, definition: { name, inputSchema: link }, nature }
}

function rules(isDerived: boolean, tools: () => Promise<readonly Entry[]>) {
  const settings = { enable_alarm: { undo: 'none' } } as const
  return createUndoRules({
    settings: (name) => (name === 'one' ? settings : undefined),
    isDerived: () => isDerived,
    tools,
  })
}

describe('how a tool is undone', () => {
  let lists = 0
  const tools = async (): Promise<readonly Entry[]> => {
    lists++
    return [
      entry('enable_alarm'),
      entry('disable_alarm'),
      entry('enable_light'),
      entry('disable_light'),
      entry('other'),
    ]
  }

  test('is what is configured, and nothing else unless that is wanted', () => {
    const find = rules(false, tools)
    expect(find('one', 'enable_alarm')).toEqual({ kind: 'none' })
    expect(find('one', 'enable_light')).toBeUndefined()
    expect(find('two', 'enable_light')).toBeUndefined()
    expect(lists).toBe(0)
  })

  test('is found out where that is wanted and nothing is configured; the list is asked for once', async () => {
    const find = rules(true, tools)
    expect(find('one', 'enable_alarm')).toEqual({ kind: 'none' })
    expect(await find('one', 'enable_light')).toMatchObject({ kind: 'call', call: { tool: 'disable_light' } })
    expect(await find('one', 'other')).toBeUndefined()
    expect(lists).toBe(1)
  })

  test('can not be found out where the server does not list, until it does', async () => {
    let isAway = true
    const find = rules(true, () => (isAway ? Promise.reject(new Error('away')) : tools()))
    await expect(find('one', 'enable_light')).rejects.toThrow('away')
    isAway = false
    expect(await find('one', 'enable_light')).toMatchObject({ kind: 'call' })
  })
})
