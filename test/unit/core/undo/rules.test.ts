import { describe, expect, test } from 'vitest'
import { readUndo, undoRuleOf } from '../../../../src/core/undo/rules.ts'

describe('configured undo rules', () => {
  test('a call is an exact undo by default', () => {
    expect(readUndo('close(id=$.result.id)')).toMatchObject({
      kind: 'call',
      isExact: true,
      call: { tool: 'close' },
    })
    expect(readUndo({ call: 'close(id=1)', exact: false, description: 'Close it' })).toMatchObject({
      kind: 'call',
      isExact: false,
      description: 'Close it',
    })
  })

  test('an undo rule can be a snapshot and a restore', () => {
    const rule = readUndo({ snapshot: 'read(a=1)', restore: 'write(a=$.snapshot)', absent: 'remove(a=1)' })
    expect(rule).toMatchObject({
      kind: 'restore',
      snapshot: { tool: 'read' },
      restore: { tool: 'write' },
      absent: { tool: 'remove' },
    })
  })

  test.each([[undefined], ['none']])(
    'an undo rule has no call for absent state if absent is %s',
    (absent) => {
      const given = { snapshot: 'read()', restore: 'write()', ...(absent !== undefined && { absent }) }
      expect(readUndo(given)).not.toHaveProperty('absent')
    },
  )

  test('none declares that a tool cannot be undone', () => {
    expect(readUndo('none')).toEqual({ kind: 'none' })
  })

  test('an incomplete undo rule is refused', () => {
    expect(() => readUndo({ snapshot: 'read()' })).toThrow(TypeError)
    expect(() => readUndo('close')).toThrow(TypeError)
  })

  test('the most specific glob applies, and its rule is parsed once', () => {
    const tools = {
      '*': { undo: 'none' },
      'make_*': { undo: 'drop(id=$.result.id)' },
      make_tea: { timeout: 1 },
    }
    const found = undoRuleOf(tools, 'make_tea')
    expect(found).toMatchObject({ glob: 'make_*', rule: { kind: 'call' } })
    expect(undoRuleOf(tools, 'make_soup')?.rule).toBe(found?.rule)
    expect(undoRuleOf(tools, 'other')).toEqual({ glob: '*', rule: { kind: 'none' } })
    expect(undoRuleOf({}, 'other')).toBeUndefined()
  })
})
