import { expect, test } from 'vitest'
import type { EntryDefinition, ToolFacts } from '../../../../src/core/descriptor.ts'
import {
  completedAnnotations,
  completedDescription,
  titleOf,
} from '../../../../src/descriptions/model/completed.ts'
import { describedTool } from '../../../support/described-server.ts'

function entry(definition: EntryDefinition, facts: ToolFacts = {}, settings = {}) {
  return { ...describedTool(definition, facts, { settings }), isRecorded: true }
}

test('the description of a destructive tool states risk, effects, repetition and confirmation', () => {
  const facts = {
    confirmation: { message: 'Sure?', isOutOfBand: true },
    timeout: 30_000,
    rates: ['5/minute'],
    isIdempotentWithKey: true,
    undo: { isExact: true, description: 'Restores it.' },
  }
  expect(completedDescription(entry({ name: 'delete_note', description: 'Removes a note.\n' }, facts))).toBe(
    [
      'Removes a note.',
      '',
      'Risk: high, it can destroy or overwrite what is there. Side effects: deletes a note in files. Undo: Restores it.',
      'Idempotency: a retry with the same idempotency key has no second effect; without a key it acts again.',
      'Retry: only after errors of the category transient or rate_limited, after retry_after_seconds. Timeout: 30 s without a response or progress end it with OPERATION_TIMEOUT; it may still take effect, so check before calling again. Limit: 5/minute.',
      'Recorded: each call is a line of the audit log (event call). Approval: other people must approve before it runs.',
    ].join('\n'),
  )
})

test('the description of a read-only tool is one line about that', () => {
  expect(completedDescription(entry({ name: 'get_note', description: 'Reads a note.' }))).toBe(
    'Reads a note.\n\nRisk: low. It only reads.',
  )
})

test('a tool without a description is described by its title', () => {
  expect(completedDescription(entry({ name: 'createNoteNow' }))).toMatch(
    /^Create Note Now\.\n\nRisk: medium\./,
  )
  expect(titleOf({ name: 'list-all_notes' })).toBe('List all notes')
  expect(titleOf({ name: 'a', annotations: { title: 'A title' } })).toBe('A title')
})

test('missing annotations are added, and no warning annotation is removed', () => {
  expect(completedAnnotations(entry({ name: 'get_note' }))).toEqual({
    readOnlyHint: true,
    idempotentHint: true,
  })
  expect(
    completedAnnotations(entry({ name: 'create_note', annotations: { destructiveHint: true, x: 1 } })),
  ).toEqual({
    destructiveHint: true,
    x: 1,
    readOnlyHint: false,
    idempotentHint: false,
  })
  const claims = { name: 'delete_note', annotations: { readOnlyHint: true, destructiveHint: false } }
  expect(completedAnnotations(entry(claims, {}, { trust: false }))).toMatchObject({
    readOnlyHint: false,
    destructiveHint: true,
  })
})
