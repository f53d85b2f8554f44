import { expect, it } from 'vitest'
import { toolNotes } from '../../../../src/descriptions/formats/tool-notes.ts'
import { describedTool } from '../../../support/described-server.ts'

const definition = { name: 't', inputSchema: { type: 'object' } }
const seen = { p50: 5, types: [], hasCursor: false }

it('a listed tool states its cost, latency and media types', () => {
  const facts = {
    cost: { category: 'metered', units: 5, label: 'credits' },
    inputTypes: ['image/*'],
    maxInput: 100,
  } as const
  const tool = { ...describedTool(definition, facts), statistics: { ...seen, types: ['text/plain'] } }
  expect(toolNotes(tool)).toEqual({
    'dev.gatehouse/cost': { category: 'metered', estimated_units: 5, unit_label: 'credits' },
    'dev.gatehouse/latency': 'instant',
    'dev.gatehouse/multimodal': {
      input_types: ['image/*'],
      output_types: ['text/plain'],
      max_input_size_bytes: 100,
    },
  })
})

it('unknown facts are omitted', () => {
  expect(toolNotes(describedTool(definition, { maxInput: 100 }))).toEqual({})
  const texts = { ...seen, p50: 70_000, types: ['text/plain', 'application/json'] }
  expect(toolNotes({ ...describedTool(definition), statistics: texts })).toEqual({
    'dev.gatehouse/latency': 'minutes',
  })
})

it('observed output types are stated if they go beyond text', () => {
  const tool = describedTool({ ...definition, outputSchema: { type: 'object' } })
  expect(toolNotes({ ...tool, statistics: { ...seen, types: ['image/png'] } })).toMatchObject({
    'dev.gatehouse/multimodal': { output_types: ['application/json', 'image/png'] },
  })
})
