import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { UndoRules } from '../../../src/catalog/tool-descriptors.ts'
import { toolLines, toolTable } from '../../../src/cli/explain.ts'
import { planText } from '../../../src/cli/plan.ts'
import type { Descriptor } from '../../../src/core/descriptor.ts'
import { judgeUndo } from '../../../src/core/undo/judge-undo.ts'

const text = { type: 'string' }
const fields = fc
  .subarray(['id', 'name', 'path', 'filter', 'force', 'content', 'board', 'dryRun'])
  .chain((names) => fc.subarray(names).map((required) => ({ names, required })))
  .map(({ names, required }) => ({
    type: 'object',
    properties: Object.fromEntries(
      names.map((name) => [name, ['force', 'dryRun'].includes(name) ? { type: 'boolean' } : text]),
    ),
    required,
  }))

const verbs = [
  'create',
  'add',
  'delete',
  'remove',
  'move',
  'update',
  'write',
  'get',
  'enable',
  'disable',
  'toggle',
]
const entry: fc.Arbitrary<Descriptor> = fc
  .record({
    name: fc.constantFrom(...verbs).chain((verb) => fc.constantFrom(`${verb}_card`, `${verb}_file`)),
    inputSchema: fields,
    outputSchema: fc.option(fields, { nil: undefined }),
  })
  .map(({ outputSchema, ...others }) => {
    const definition = { ...others, ...(outputSchema && { outputSchema }) }
    const isRead = definition.name.startsWith('get')
    const classification = isRead
      ? ({ op: 'read', risk: 'safe', idempotent: true, evidence: [] } as const)
      : ({ op: 'write', risk: 'reversible', idempotent: false, evidence: [] } as const)
    return { upstream: 'one', kind: 'tool', name: definition.name, definition, classification }
  })
const lists = fc.uniqueArray(entry, { minLength: 1, maxLength: 8, selector: ({ name }) => name })

/** The undo section that `gatehouse explain` prints for a tool. */
function explained(each: Descriptor, all: readonly Descriptor[], isDerived: boolean) {
  const undoing = judgeUndo(each, all, { tools: {}, isDerived })
  const confirmation = { when: 'never', isOutOfBand: false, why: [] } as const
  const inspected = { entry: each, scopes: [], confirmation, undoing }
  const line = toolLines(inspected).find((one) => one.startsWith('  undo ')) ?? ''
  return { line, row: toolTable([inspected])[1] ?? '' }
}

describe('undo rules across outputs', () => {
  test('the plan, the explanation, the documents and the executed undo agree', async () => {
    await fc.assert(
      fc.asyncProperty(lists, async (all) => {
        const planned = parse(planText([{ upstream: 'one', tools: {}, entries: all }])).upstreams.one.tools
        const rules = new UndoRules({
          settings: () => ({}),
          tools: async () => all,
          unconfigured: () => ({ isDerived: true, usesProofs: true }),
        })
        for (const each of all) {
          const isPlanned = planned[each.name]?.undo !== undefined
          const shown = explained(each, all, false)
          expect(/exactly|approximately/.test(shown.line)).toBe(isPlanned)
          expect(shown.row.includes('proposed: by')).toBe(isPlanned)
          const used = explained(each, all, true)
          expect(used.line.includes('derived from schemas')).toBe(isPlanned)
          expect(rules.among(each, all) !== undefined).toBe(isPlanned)
          expect((await rules.of('one', each.name)) !== undefined).toBe(isPlanned)
        }
      }),
      { numRuns: 300 },
    )
  }, 60_000)

  test('undo is not possible when the configuration contradicts the tools of the server', () => {
    const schema = { type: 'object', properties: { ids: { type: 'array', items: text } } }
    const classification = { op: 'write', risk: 'reversible', idempotent: false, evidence: [] } as const
    const all: Descriptor[] = ['make', 'unmake'].map((name) => ({
      upstream: 'one',
      kind: 'tool',
      name,
      classification,
      definition: {
        name,
        inputSchema: name === 'make' ? { type: 'object' } : schema,
        outputSchema: { type: 'object', properties: { id: text } },
      },
    }))
    const [made] = all
    if (!made) throw new TypeError('nothing is made')
    const tools = { make: { undo: 'unmake(ids=$.result.id)' } }
    const undoing = judgeUndo(made, all, { tools, isDerived: false })
    expect(undoing).toMatchObject({
      from: 'configuration',
      how: 'impossible',
      caveats: ['ids of unmake must be array of string, but $.result.id of make is string'],
    })
    const confirmation = { when: 'never', isOutOfBand: false, why: [] } as const
    const lines = toolLines({ entry: made, scopes: [], confirmation, undoing })
    expect(lines).toContain('  undo         not possible as configured')
    expect(planText([{ upstream: 'one', tools, entries: all }])).toContain(
      '# - but: ids of unmake must be array',
    )
  })
})
