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

describe('C212 C017 a breaking change raises the major version', () => {
  it.each<[string, Contract]>([
    ['a removed tool', contract()],
    ['a renamed tool', contract({ tools: { read_note: toolContract({ input: schema, output: schema }) } })],
    ['a required argument', withTool({ input: { ...schema, required: ['title', 'body'] } })],
    [
      'a result of a different type',
      withTool({ output: { ...schema, properties: { title: { type: 'number' } } } }),
    ],
    [
      'a result without its former schema',
      contract({ tools: { get_note: toolContract({ input: schema }) } }),
    ],
    ['a different media type of results', withTool({ returns: ['text/csv'] })],
    ['an additional scope', withTool({ scopes: [['write:notes']] })],
    ['a removed entry point', { ...before, entrances: ['stdio'] }],
    ['a new authentication requirement', { ...before, isGuarded: true }],
    ['a removed error code', { ...before, errorCodes: errorCodes.slice(1) }],
    ['a removed prompt', { ...before, prompts: {} }],
    [
      'a required prompt argument',
      { ...before, prompts: { brief: { arguments: { of: true }, wording: '' } } },
    ],
    ['a different media type of a resource', { ...before, resources: { 'notes://all': 'text/html' } }],
    ['a removed template', { ...before, templates: {} }],
  ])('%s raises the major version', (_name, after) => {
    expect(level(after)).toBe('major')
  })
})

describe('C213 C018 an addition raises the minor version', () => {
  it.each<[string, Contract]>([
    ['a tool', { ...before, tools: { ...before.tools, add_note: toolContract() } }],
    [
      'an optional argument',
      withTool({ input: { ...schema, properties: { ...schema.properties, body: { type: 'string' } } } }),
    ],
    ['a prompt', { ...before, prompts: { ...before.prompts, other: { arguments: {}, wording: '' } } }],
    ['a resource', { ...before, resources: { ...before.resources, 'notes://one': '' } }],
    ['a removed resource whose scheme remains', { ...before, resources: { 'notes://two': '' } }],
    ['a template', { ...before, templates: { ...before.templates, 'notes://{id}/text': '' } }],
    ['an announced deprecation', withTool({ deprecated: 'use read_note, support ends 2099-01-01' })],
  ])('%s raises the minor version', (_name, after) => {
    expect(level(after)).toBe('minor')
  })
})

test('C213 C019 a changed description raises the patch version, and no change raises none', () => {
  expect(level(withTool({ wording: 'other' }))).toBe('patch')
  expect(level(withTool({ input: { ...schema, description: 'Longer.' } }))).toBe('patch')
  expect(level(before)).toBeUndefined()
})

test('C212 a removed URI scheme is a breaking change', () => {
  const mail = { ...before, resources: { ...before.resources, 'mail://all': '' } }
  expect(contractChanges(mail, before)).toContainEqual(
    expect.objectContaining({ level: 'major', subject: 'URI scheme mail' }),
  )
})

test('the version rises by the level of the change', () => {
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

test('every difference is a change, and a removal is never a patch', () => {
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

test('the deprecation of a tool is read from the configured text', () => {
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
