import { expect, test } from 'vitest'
import type { ToolFacts } from '../../../../src/core/descriptor.ts'
import { serverPanel } from '../../../../src/descriptions/formats/front-page.ts'
import { type Given, describedServer } from '../../../support/described-server.ts'

const definition = { name: 'drop_table', description: 'Drops a table. For good.', inputSchema: schema() }

function schema() {
  return {
    type: 'object',
    properties: { table: { type: 'string', description: 'Which.' } },
    required: ['table'],
  }
}

function tool(facts: ToolFacts = {}, given: Given = {}) {
  const panel = serverPanel(describedServer({ ...given, tools: [definition], facts: { drop_table: facts } }))
  const [found] = panel.tools
  if (!found) throw new Error('there is no tool')
  return { ...found, words: found.marks.map(({ text }) => text) }
}

test('a tool is shown with its risk, arguments and first sentence, without invented facts', () => {
  const { name, summary, description, marks, parameters, facts } = tool()
  expect({ name, summary, description }).toEqual({
    name: 'drop_table',
    summary: 'Drops a table.',
    description: 'Drops a table. For good.',
  })
  expect(marks).toEqual([{ kind: 'destructive', text: 'Destructive' }])
  expect(parameters).toEqual([{ name: 'table', type: 'string', isRequired: true, description: 'Which.' }])
  expect(facts).toContainEqual(['Undo', 'None known.'])
})

test('confirmation, undo, scopes, cost and latency are shown next to the risk', () => {
  const facts: ToolFacts = {
    confirmation: { message: 'Drop {table}?', isOutOfBand: false },
    undo: { tool: 'restore_table', isExact: false, description: 'restore_table(table=$.args.table)' },
    scopes: [['delete:files']],
    cost: { category: 'metered', units: 5, label: 'API credits' },
  }
  const seen = { p50: 20, types: [], hasCursor: false }
  const { words, facts: told } = tool(facts, { seen, front: { auth: { methods: ['bearer_token'] } } })
  expect(words).toEqual([
    'Destructive',
    'Asks first',
    'Undone by restore_table, in part',
    'Scope delete:files',
    'Costs 5 API credits',
    'Less than a second',
  ])
  expect(told).toContainEqual(['Asks', 'Drop {table}?'])
  expect(told).toContainEqual(['Undo', expect.stringContaining('The previous state is not fully restored.')])
})

test.each([
  [{ category: 'free' } as const, 'Free'],
  [{ category: 'metered' } as const, 'Metered'],
  [{ category: 'requires_approval' } as const, 'Costs need approval'],
])('a cost of %j is shown as %s', (cost, text) => {
  expect(tool({ cost }).words).toContain(text)
})

test('approval by others and exact undo are shown', () => {
  const { words } = tool({
    confirmation: { message: 'Sure?', isOutOfBand: true },
    undo: { isExact: true, description: '' },
  })
  expect(words).toEqual(['Destructive', 'Needs approval', 'Can be undone'])
})

test('the replacement of a deprecated tool is shown as configured', () => {
  const { facts } = tool(
    {},
    { settings: { tools: { drop_table: { deprecated: 'use hide_table, support ends 2099-03-31' } } } },
  )
  expect(facts).toContainEqual(['Deprecated', 'Use hide_table, support ends 2099-03-31'])
})

test('a title that only repeats the name is omitted', () => {
  const titleOf = (title: string) =>
    serverPanel(describedServer({ tools: [{ ...definition, title }] })).tools[0]?.title
  expect(titleOf('Drop Table')).toBeUndefined()
  expect(titleOf('Remove everything')).toBe('Remove everything')
})

test('a server is shown with its version, its other offers and http links only', () => {
  const panel = serverPanel(
    describedServer({
      record: {
        info: { version: '2025.1', websiteUrl: 'https://files.example' },
        about: { homepage: 'javascript:alert(1)', documentation: 'https://docs.example/' },
        prompts: [{ name: 'tidy' }],
        resources: [{ uri: 'file:///a' }],
        resourceTemplates: [{ uriTemplate: 'file:///{name}' }],
      },
    }),
  )
  expect(panel.version).toBe('2025.1')
  expect(panel.prompts).toEqual(['tidy'])
  expect(panel.resources).toEqual(['file:///a', 'file:///{name}'])
  expect(panel.links).toEqual([
    { label: 'Documentation', url: 'https://docs.example/' },
    { label: 'Web', url: 'https://files.example' },
  ])
})
