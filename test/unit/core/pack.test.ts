import { describe, expect, test } from 'vitest'
import type { Descriptor } from '../../../src/core/descriptor.ts'
import type { ProvedTool } from '../../../src/core/proof.ts'
import { definitionHash, parsePack, proofIndex, provedIn } from '../../../src/core/pack.ts'
import type { ToolSettings } from '../../../src/core/settings.ts'
import { judgeUndo } from '../../../src/core/undo/judge-undo.ts'

const text = { type: 'string' }
const schema = { type: 'object', properties: { id: text }, required: ['id'] }
const create = { name: 'create_note', inputSchema: { type: 'object' }, outputSchema: schema }
const erase = { name: 'delete_note', inputSchema: schema }
const rule = 'delete_note(id=$.result.id)'

function provedTool(
  changes: Partial<ProvedTool['proof']> = {},
  settings: ProvedTool['settings'] = { undo: rule },
): ProvedTool {
  const facts = { date: '2026-11-26', server: 'notes', version: '1.0', gatehouse: '0.3.0' }
  return {
    settings,
    uses: { delete_note: [definitionHash(erase)] },
    proof: { ...facts, proved: ['undo'], refuted: [], ...changes },
  }
}

function entry(definition: Readonly<Record<string, unknown>>, proved?: ProvedTool): Descriptor {
  return {
    upstream: 'notes',
    kind: 'tool',
    name: String(definition.name),
    definition,
    classification: { op: 'write', risk: 'reversible', idempotent: false, evidence: [] },
    ...(proved && { proved }),
  }
}

interface World {
  readonly isDerived?: boolean
  readonly tools?: Readonly<Record<string, ToolSettings>>
  readonly other?: Readonly<Record<string, unknown>>
}

function judged(proved: ProvedTool, { isDerived = false, tools = {}, other = erase }: World = {}) {
  const all = [entry(create, proved), entry(other)]
  return judgeUndo(entry(create, proved), all, { tools, isDerived })
}

describe('the judgement of a tool with a proof', () => {
  test('proposes the proved rule with its proof, and executes it only if rules may be derived', () => {
    expect(judged(provedTool())).toMatchObject({
      from: 'proposal',
      how: 'exact',
      isProved: true,
      undo: rule,
      why: ['proved on 2026-11-26 with notes 1.0: undo'],
    })
    expect(judged(provedTool())).not.toHaveProperty('rule')
    expect(judged(provedTool(), { isDerived: true })).toMatchObject({
      from: 'derivation',
      rule: { kind: 'call' },
    })
  })

  test('keeps a proved rule with doubts that no call can settle uncertain, and never executes it', () => {
    const doubtful = judged(provedTool({ caveats: ['others may have added content'] }), { isDerived: true })
    expect(doubtful).toMatchObject({ how: 'unsure', caveats: ['others may have added content'] })
    expect(doubtful).not.toHaveProperty('rule')
  })

  test('never executes or proposes a rule that was refuted', () => {
    const refuted = judged(provedTool({ proved: [], refuted: ['undo'] }, { pivot: true }), {
      isDerived: true,
    })
    expect(refuted).toMatchObject({ from: 'nowhere', how: 'impossible' })
    expect(refuted.why).toEqual(['refuted on 2026-11-26 with notes 1.0: undo'])
  })

  test('ignores a proof whose undo calls a tool that has changed', () => {
    const changed = judged(provedTool(), {
      other: { ...erase, inputSchema: { ...schema, description: 'new' } },
    })
    expect(changed).not.toHaveProperty('isProved')
    expect(changed.why[0]).toBe(
      'the proof of 2026-11-26 is ignored: delete_note, which it calls, is not as it was then',
    )
  })

  test('prefers the configuration', () => {
    expect(judged(provedTool(), { tools: { create_note: { undo: 'none' } } })).toMatchObject({
      how: 'impossible',
    })
  })
})

const packed = { definitions: [definitionHash(create)], ...provedTool() }

describe('a pack', () => {
  test('applies to exactly one definition', () => {
    const index = proofIndex([
      parsePack(JSON.stringify({ package: 'notes', tools: { create_note: packed } }), 'p'),
    ])
    expect(provedIn(index, create)).toMatchObject({ settings: { undo: rule } })
    expect(provedIn(index, { ...create, description: 'Creates a note.' })).toBe('other')
    expect(provedIn(index, erase)).toBeUndefined()
  })

  test.each<[string, unknown, RegExp]>([
    ['text', 'x', /p: tools is missing/],
    ['an entry without hashes', { create_note: {} }, /tools\.create_note needs definitions/],
    [
      'a rule that is no rule',
      { create_note: { ...packed, settings: { undo: 'delete(' } } },
      /an undo that cannot be used/,
    ],
    [
      'a rule of numbers',
      { create_note: { ...packed, settings: { undo: { call: 1 } } } },
      /neither a call nor/,
    ],
    ['an incomplete proof', { create_note: { ...packed, proof: { date: 'x' } } }, /a proof without date/],
    [
      'a pivot that is a text',
      { create_note: { ...packed, settings: { pivot: 'yes' } } },
      /neither true nor false/,
    ],
  ])('with %s is refused', (_what, tools, message) => {
    expect(() => parsePack(JSON.stringify({ package: 'notes', tools }), 'p')).toThrow(message)
  })
})
