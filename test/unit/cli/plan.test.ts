import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { planText } from '../../../src/cli/plan.ts'
import type { Descriptor, Classification } from '../../../src/core/descriptor.ts'

const natures: Readonly<Record<string, Classification>> = {
  read: { op: 'read', risk: 'safe', idempotent: true, evidence: ['it reads'] },
  write: { op: 'write', risk: 'reversible', idempotent: false, evidence: ['it writes'] },
  delete: { op: 'delete', risk: 'destructive', idempotent: false, evidence: ['it deletes'] },
}

function entry(name: string, classification: keyof typeof natures, schemas: object = {}): Descriptor {
  const definition = { name, inputSchema: schemaOf({ title: {} }), ...schemas }
  return {
    upstream: 'files',
    kind: 'tool',
    name,
    definition,
    classification: natures[classification] ?? neverRead,
  }
}

const neverRead: Classification = { op: 'read', risk: 'safe', idempotent: true, evidence: [] }

function schemaOf(properties: object): object {
  return { type: 'object', properties, required: Object.keys(properties) }
}

function settingsOf(entries: readonly Descriptor[], tools = {}): Record<string, unknown> {
  const text = planText([{ upstream: 'files', tools, entries }])
  return parse(text).upstreams.files.tools
}

describe('the undo plan', () => {
  test('the plan contains a setting for each tool that can be undone', () => {
    const inputSchema = schemaOf({ id: { type: 'string' } })
    const entries = [
      entry('create_note', 'write', { outputSchema: inputSchema }),
      entry('delete_note', 'delete', { inputSchema }),
      entry('get_note', 'read'),
    ]
    expect(settingsOf(entries)).toMatchObject({ create_note: { undo: 'delete_note(id=$.result.id)' } })
    expect(settingsOf(entries)).not.toHaveProperty('get_note')
  })

  test('an uncertain compensation is a comment that lists the doubts', () => {
    const inputSchema = schemaOf({ id: { type: 'string' } })
    const entries = [entry('create_note', 'write'), entry('delete_note', 'delete', { inputSchema })]
    expect(settingsOf(entries)).not.toHaveProperty('create_note')
    const text = planText([{ upstream: 'files', tools: {}, entries }])
    expect(text).toContain('# Uncertain, so not a setting:\n')
    expect(text).toContain('# - id is assumed to be id of the result, because there is no outputSchema\n')
    expect(text).toContain('# undo: delete_note(id=$.result.id)\n')
  })

  test('a tool that can only be undone approximately requires confirmation', () => {
    const inputSchema = schemaOf({ title: { type: 'string' } })
    const entries = [
      entry('create_note', 'write', { inputSchema }),
      entry('delete_note', 'delete', { inputSchema }),
    ]
    expect(settingsOf(entries)).toEqual({ delete_note: { pivot: true, confirm: 'Delete note {title}?' } })
    const text = planText([{ upstream: 'files', tools: {}, entries }])
    expect(text).toContain(
      '      # undo:\n      #   call: create_note(title=$.args.title)\n      #   exact: false\n',
    )
  })

  test('a tool that cannot be undone requires confirmation', () => {
    const tools = settingsOf([
      entry('wipe_disk', 'delete'),
      entry('drop-table', 'delete', { inputSchema: true }),
    ])
    expect(tools).toEqual({
      wipe_disk: { pivot: true, confirm: 'Wipe disk {title}?' },
      'drop-table': { pivot: true, confirm: 'Drop table?' },
    })
  })

  test('configured tools are left out with a comment', () => {
    const entries = [entry('create_note', 'write'), entry('delete_note', 'delete')]
    const configured = { '*_note': { undo: 'none' } }
    expect(settingsOf(entries, configured)).toEqual({})
    const text = planText([{ upstream: 'files', tools: configured, entries }])
    expect(text).toContain('# - undo is already configured, for *_note')
  })

  test('a read that can verify a call is named in a comment', () => {
    const outputSchema = schemaOf({ notes: { type: 'array' } })
    const entries = [entry('create_note', 'write'), entry('list_notes', 'read', { outputSchema })]
    const text = planText([{ upstream: 'files', tools: {}, entries }])
    expect(text).toContain('# verify: list_notes(title=$.args.title) -> $.result.notes[0]')
  })

  test.each(['a: b', '- x', '{}', 'x #y', '"', 'no', 'null', '1', 'a\nb: c', '*', '\u2028evil: true', ''])(
    'the tool name %j is planned like any other name',
    (name) => {
      const tools = settingsOf([entry(`${name}`, 'delete')])
      expect(Object.keys(tools)).toEqual([name])
    },
  )

  test('the plan is valid YAML with a setting for each tool, whatever servers list', () => {
    const any = fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('\n', ': ', ' #', '\u0085', '\u202e'))
    const name = fc.array(any, { maxLength: 4 }).map((parts) => parts.join('').toWellFormed())
    fc.assert(
      fc.property(fc.uniqueArray(name, { maxLength: 4 }), any, (names, evidence) => {
        const entries = names.map((each) => {
          const made = entry(each, 'delete', { inputSchema: schemaOf({ [evidence]: {} }) })
          return { ...made, classification: { ...made.classification, evidence: [evidence] } }
        })
        const found = settingsOf(entries)
        expect(Object.keys(found).toSorted()).toEqual(names.toSorted())
        for (const each of Object.values(found)) {
          expect(Object.keys(Object(each)).toSorted()).toEqual(['confirm', 'pivot'])
        }
      }),
      { numRuns: 40 },
    )
  }, 60_000)
})
