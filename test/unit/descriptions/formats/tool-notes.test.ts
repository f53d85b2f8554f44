import { expect, it } from 'vitest'
import { mediaMembers, toolNotes } from '../../../../src/descriptions/formats/manifest.ts'
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

it('a tool that takes references says where files for it are sent, and the largest of them', () => {
  const facts = {
    inputTypes: ['image/*'],
    maxInput: 100,
    upload: { url: 'https://gw.example/uploads', max: 1000 },
  }
  expect(toolNotes(describedTool(definition, facts))['dev.gatehouse/multimodal']).toEqual({
    input_types: ['image/*'],
    max_input_size_bytes: 100,
    binary_transport: 'multipart',
    upload_url: 'https://gw.example/uploads',
    max_upload_size_bytes: 1000,
  })
  const limited = describedTool(definition, facts, { settings: { tools: { t: { maxInput: 500 } } } })
  expect(toolNotes(limited)['dev.gatehouse/multimodal']).toMatchObject({ max_upload_size_bytes: 500 })
})

it.each([
  [undefined, true, false],
  ['asked', false, false],
  ['asked', true, true],
  ['always', false, true],
] as const)(
  'with compat %s, asked for: %s, media are members of the entry: %s',
  (mediaPlace, isAsked, isThere) => {
    const facts = { inputTypes: ['image/*'], maxInput: 100, ...(mediaPlace && { mediaPlace }) }
    const members = isThere ? { input_types: ['image/*'], max_input_size_bytes: 100 } : {}
    expect(mediaMembers(describedTool(definition, facts), isAsked)).toEqual(members)
  },
)

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
