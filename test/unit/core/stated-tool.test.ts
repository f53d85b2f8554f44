import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { classify } from '../../../src/core/judgement/classify.ts'
import { reportedRisk, statedTool } from '../../../src/core/stated-tool.ts'
import { serverSettings } from '../../support/server-settings.ts'

const trusted = serverSettings({ name: 'one', trust: true })
const untrusted = serverSettings({ name: 'one', trust: false })

describe('what a server states of a tool in the words of the proposals', () => {
  it('is read from the literal fields of its entry', () => {
    expect(
      statedTool({
        cost: { category: 'metered', estimated_units: 5, unit_label: 'credits' },
        latency: 'minutes',
        idempotent: false,
        requires_confirmation: true,
        confirmation_message: 'Proceed?',
        risk_level: 'destructive',
        required_scopes: ['a', 3],
        input_types: ['image/png'],
        max_input_size_bytes: 10,
      }),
    ).toEqual({
      cost: { category: 'metered', units: 5, label: 'credits' },
      latency: 'minutes',
      idempotent: false,
      risk: 'destructive',
      needsConfirmation: true,
      question: 'Proceed?',
      scopes: ['a'],
      accepts: ['image/png'],
      maxInput: 10,
    })
  })

  it('is nothing where a field has another form', () => {
    const fields = [
      'cost',
      'latency',
      'idempotent',
      'risk_level',
      'required_scopes',
      'input_types',
      'max_input_size_bytes',
    ]
    fc.assert(
      fc.property(
        fc.constantFrom(...fields),
        fc.constantFrom(null, 'odd', [null], {}, -1, { category: 7 }),
        (name, value) => {
          const { needsConfirmation, ...rest } = statedTool({ [name]: value })
          expect(needsConfirmation).toBe(false)
          for (const texts of Object.values(rest)) expect(texts).toEqual([])
        },
      ),
    )
    expect(statedTool({ requires_confirmation: 'yes', confirmation_message: ' ' })).toEqual({
      needsConfirmation: false,
    })
  })

  it('has no names with hidden characters, without an end, or without a beginning', () => {
    const long = 'x'.repeat(201)
    const odd = ['image/png\n# injected', '\u202Eadmin', '', long, '\uD800']
    expect(statedTool({ input_types: [...odd, 'image/png'], required_scopes: odd })).toEqual({
      accepts: ['image/png'],
      scopes: [],
      needsConfirmation: false,
    })
    const cost = { category: 'metered', estimated_units: Number.POSITIVE_INFINITY, unit_label: long }
    expect(statedTool({ cost, max_input_size_bytes: 0.5 })).toEqual({
      cost: { category: 'metered' },
      needsConfirmation: false,
    })
  })

  it('asks for a confirmation if a call costs something that needs approval', () => {
    expect(statedTool({ cost: { category: 'requires_approval' } }).needsConfirmation).toBe(true)
  })
})

describe('the risk of a tool', () => {
  it('is that of a trusted server, and at least the judged one for others', () => {
    expect(reportedRisk('safe', 'reversible', true)).toBe('safe')
    expect(reportedRisk('safe', 'reversible', false)).toBe('reversible')
    expect(reportedRisk('destructive', 'safe', false)).toBe('destructive')
    expect(reportedRisk(undefined, 'safe', true)).toBe('safe')
  })

  it('is raised by what any server states, and lowered by none', () => {
    const reading = { name: 'get_item', annotations: { readOnlyHint: true }, inputSchema: { type: 'object' } }
    const erasing = { name: 'delete_item', inputSchema: { type: 'object' } }
    for (const server of [trusted, untrusted]) {
      expect(classify({ ...reading, risk_level: 'destructive' }, server).risk).toBe('destructive')
      expect(classify({ ...reading, risk_level: 'reversible' }, server).risk).toBe('reversible')
      expect(classify({ ...erasing, risk_level: 'safe' }, server).risk).toBe('destructive')
    }
  })

  it('a tool of a trusted server is idempotent as it states, and one of another server only if it is not', () => {
    const tool = {
      name: 'create_item',
      annotations: { destructiveHint: false },
      inputSchema: { type: 'object' },
    }
    expect(classify({ ...tool, idempotent: true }, trusted).idempotent).toBe(true)
    expect(classify({ ...tool, idempotent: true }, untrusted).idempotent).toBe(false)
    expect(classify({ ...tool, name: 'get_item', idempotent: false }, untrusted).idempotent).toBe(false)
  })
})
