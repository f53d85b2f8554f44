import { expect, test } from 'vitest'
import { toolLines, toolTable } from '../../../src/cli/explain.ts'
import type { Descriptor } from '../../../src/core/descriptor.ts'
import { classify } from '../../../src/core/judgement/classify.ts'
import { judgeUndo } from '../../../src/core/undo/judge-undo.ts'
import { serverSettings } from '../../support/server-settings.ts'

const definition = {
  name: 'manage_users',
  description: 'Manage users.',
  annotations: { destructiveHint: true },
  inputSchema: {
    type: 'object',
    properties: { action: { enum: ['list', 'delete'] }, dry_run: { type: 'boolean' } },
    required: ['action'],
  },
}

test('the explanation of a tool has the effect of each value, and says that arguments require the confirmation', () => {
  const classification = classify(definition, serverSettings())
  const entry: Descriptor = {
    upstream: 'one',
    kind: 'tool',
    name: definition.name,
    definition,
    classification,
  }
  const undoing = judgeUndo(entry, [entry], { tools: {}, isDerived: false })
  const confirmation = { when: 'by_arguments', isOutOfBand: false, why: [] } as const
  const inspected = { entry, scopes: [], confirmation, undoing }
  const text = toolLines(inspected).join('\n')
  expect(text).toContain('action selects what a call does: list (reads), delete (destroys)')
  expect(text).toContain('another value of action destroys')
  expect(text).toContain('calls with dry_run: true change nothing')
  expect(text).toContain('for calls whose arguments require it')
  expect(toolTable([inspected]).join('\n')).toContain('inline, by arguments')
})
