import { describe, expect, test } from 'vitest'
import { readUndo, undoRuleOf } from '../../../../src/core/undo/rules.ts'

describe('how a tool is undone', () => {
  test('is said by a call, which is exact unless said otherwise', () => {
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

  test('is said by what is read before and put back', () => {
    const rule = readUndo({ snapshot: 'read(a=1)', restore: 'write(a=$.snapshot)', absent: 'remove(a=1)' })
    expect(rule).toMatchObject({
      kind: 'restore',
      snapshot: { tool: 'read' },
      restore: { tool: 'write' },
      absent: { tool: 'remove' },
    })
  })

  test.each([[undefined], ['none']])('is unknown for what was not there, where absent is %s', (absent) => {
    const given = { snapshot: 'read()', restore: 'write()', ...(absent !== undefined && { absent }) }
    expect(readUndo(given)).not.toHaveProperty('absent')
  })

  test('may be not at all', () => {
    expect(readUndo('none')).toEqual({ kind: 'none' })
  })

  test('has to be said in full', () => {
    expect(() => readUndo({ snapshot: 'read()' })).toThrow(TypeError)
    expect(() => readUndo('close')).toThrow(TypeError)
  })

  test('is said by the most specific glob, and read once', () => {
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
