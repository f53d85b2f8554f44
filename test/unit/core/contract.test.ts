import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import {
  type Contract,
  contractChanges,
  levelOf,
  raised,
  readDeprecation,
} from '../../../src/core/contract.ts'
import { errorCodes } from '../../../src/core/error.ts'
import { canonical } from '../../../src/core/json/json.ts'
import { contract, toolContract } from '../../support/contracts.ts'

const schema = { type: 'object', properties: { title: { type: 'string' } }, required: ['title'] }
const before = contract({ tools: { get_note: toolContract({ input: schema, output: schema }) } })

function level(after: Contract): unknown {
  return levelOf(contractChanges(before, after))
}

function withTool(more: object): Contract {
  return contract({ tools: { get_note: { ...toolContract({ input: schema, output: schema }), ...more } } })
}

describe('C212 C017 a break of what callers rely on raises the first number', () => {
  it.each<[string, Contract]>([
    ['a tool that went', contract()],
    [
      'a tool of another name',
      contract({ tools: { read_note: toolContract({ input: schema, output: schema }) } }),
    ],
    ['an argument that is required', withTool({ input: { ...schema, required: ['title', 'body'] } })],
    [
      'a result of another type',
      withTool({ output: { ...schema, properties: { title: { type: 'number' } } } }),
    ],
    [
      'a result that is no longer described',
      contract({ tools: { get_note: toolContract({ input: schema }) } }),
    ],
    ['another media type of results', withTool({ returns: ['text/csv'] })],
    ['rights it did not take before', withTool({ scopes: [['write:notes']] })],
    ['an entrance that went', { ...before, entrances: ['stdio'] }],
    ['authentication', { ...before, isGuarded: true }],
    ['an error code that went', { ...before, errorCodes: errorCodes.slice(1) }],
    ['a prompt that went', { ...before, prompts: {} }],
    [
      'an argument of a prompt that is required',
      { ...before, prompts: { brief: { arguments: { of: true }, wording: '' } } },
    ],
    ['another media type of a resource', { ...before, resources: { 'notes://all': 'text/html' } }],
    ['a template that went', { ...before, templates: {} }],
  ])('%s', (_name, after) => {
    expect(level(after)).toBe('major')
  })
})

describe('C213 C018 what is added raises the second number', () => {
  it.each<[string, Contract]>([
    ['a tool', { ...before, tools: { ...before.tools, add_note: toolContract() } }],
    [
      'an argument that need not be sent',
      withTool({ input: { ...schema, properties: { ...schema.properties, body: { type: 'string' } } } }),
    ],
    ['a prompt', { ...before, prompts: { ...before.prompts, other: { arguments: {}, wording: '' } } }],
    ['a resource', { ...before, resources: { ...before.resources, 'notes://one': '' } }],
    [
      'a resource that went, of a scheme that is still there',
      { ...before, resources: { 'notes://two': '' } },
    ],
    ['a template', { ...before, templates: { ...before.templates, 'notes://{id}/text': '' } }],
    ['an end that is announced', withTool({ deprecated: 'use read_note, support ends 2099-01-01' })],
  ])('%s', (_name, after) => {
    expect(level(after)).toBe('minor')
  })
})

test('C213 C019 other words raise the third number, and nothing raises none', () => {
  expect(level(withTool({ wording: 'other' }))).toBe('patch')
  expect(level(withTool({ input: { ...schema, description: 'Longer.' } }))).toBe('patch')
  expect(level(before)).toBeUndefined()
})

test('C212 a URI scheme that went is a break', () => {
  const mail = { ...before, resources: { ...before.resources, 'mail://all': '' } }
  expect(contractChanges(mail, before)).toContainEqual(
    expect.objectContaining({ level: 'major', subject: 'URI scheme mail' }),
  )
})

test('versions rise by what changed', () => {
  expect(['major', 'minor', 'patch'].map((each) => raised('1.4.2', each as 'major'))).toEqual([
    '2.0.0',
    '1.5.0',
    '1.4.3',
  ])
})

const contracts = fc.record({
  tools: fc.dictionary(
    fc.constantFrom('a', 'b'),
    fc.record({
      input: fc.constantFrom<unknown>({}, schema, { type: 'object' }),
      output: fc.constantFrom<unknown>(schema, { type: 'object' }),
      scopes: fc.constantFrom([], [['a']], [['a', 'b']]),
      returns: fc.constantFrom([], ['text/csv']),
      hints: fc.constantFrom({}, { readOnlyHint: true }),
      wording: fc.constantFrom('x', 'y'),
    }),
  ),
  prompts: fc.dictionary(
    fc.constantFrom('p', 'q'),
    fc.record({
      arguments: fc.dictionary(fc.constantFrom('of', 'at'), fc.boolean()),
      wording: fc.constant(''),
    }),
  ),
  resources: fc.dictionary(fc.constantFrom('a://1', 'a://2', 'b://1'), fc.constantFrom('', 'text/plain')),
  templates: fc.dictionary(fc.constantFrom('a://{x}', 'c://{x}'), fc.constant('')),
})

test('any difference is a change, none is none, and what is gone is never other words alone', () => {
  fc.assert(
    fc.property(contracts, contracts, (one, other) => {
      const [was, is] = [contract(one), contract(other)]
      expect(contractChanges(was, was)).toEqual([])
      const changes = contractChanges(was, is)
      expect(changes.length === 0).toBe(canonical(was) === canonical(is))
      const isGone = (['tools', 'prompts', 'templates'] as const).some((list) =>
        Object.keys(was[list]).some((name) => !Object.hasOwn(is[list], name)),
      )
      if (isGone) expect(levelOf(changes)).toBe('major')
    }),
  )
})

test('the end of a tool is read from the words of its owner', () => {
  const text = 'use log_work, support ends 2027-03-31'
  expect(readDeprecation(text)).toEqual({
    text,
    successor: 'log_work',
    until: Date.parse('2027-04-01T00:00:00Z'),
  })
  expect(readDeprecation('Goes away.')).toEqual({ text: 'Goes away.' })
  expect(readDeprecation('Use `notes.add`.')).toMatchObject({ successor: 'notes.add' })
  expect(readDeprecation('use it until 2027-02-31')).not.toHaveProperty('until', Number.NaN)
})
