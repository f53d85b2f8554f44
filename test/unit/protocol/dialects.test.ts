import { describe, expect, it } from 'vitest'
import type { Client } from '../../../src/core/call.ts'
import { Payload } from '../../../src/core/payload.ts'
import { type Dialect, dialectFor, dialects } from '../../../src/protocol/dialects.ts'
import { repairedTool, toolsFor } from '../../../src/protocol/schema-repair.ts'

const client = (name: unknown): Client => ({
  era: 'legacy',
  revision: '2025-06-18',
  capabilities: {},
  ...(name !== undefined && { info: { name } }),
})

describe('the dialect of a client', () => {
  it.each([
    ['claude-code', 'anthropic'],
    ['claude-ai', 'anthropic'],
    ['Claude Desktop', 'anthropic'],
    ['claude-ai (via mcp-remote 0.1.37)', 'anthropic'],
    ['codex-mcp-client', 'openai'],
    ['openai-mcp', 'openai'],
    ['ChatGPT', 'openai'],
    ['gemini-cli-mcp-client', 'gemini'],
    ['gemini-cli-mcp-client-files', 'gemini'],
    ['Visual Studio Code', 'any'],
    ['cursor-vscode', 'any'],
    ['opencode', 'any'],
    ['goose', 'any'],
    ['Zed', 'any'],
    ['my-claude', 'any'],
    ['claudette', 'any'],
    [null, 'any'],
    [{ name: 'claude' }, 'any'],
    [undefined, 'any'],
  ] as const)('named %s is %s', (name, provider) => {
    expect(dialectFor('auto', client(name))).toBe(dialects[provider])
  })

  it('is the one that is configured', () => {
    expect(dialectFor('gemini', client('claude-code'))).toBe(dialects.gemini)
  })
})

const argument = (rules: unknown, dialect: Dialect): unknown => {
  const inputSchema = { type: 'object', properties: { a: rules } }
  const listed = repairedTool(Payload.of({ name: 'a', inputSchema }), dialect).tool.fields.inputSchema
  return (listed as { properties: { a: unknown } }).properties.a
}

describe('in the subset of Gemini', () => {
  it.each([
    [
      'an optional argument of pydantic',
      { anyOf: [{ type: 'string' }, { type: 'null' }], default: null, description: 'An A' },
      { type: 'string', nullable: true, default: null, description: 'An A' },
      { anyOf: [{ type: 'string' }, { type: 'null' }], default: null, description: 'An A' },
    ],
    [
      'a list of types',
      { type: ['string', 'integer', 'null'], minLength: 1, maximum: 9, description: 'B' },
      {
        anyOf: [
          { type: 'string', minLength: 1, nullable: true, description: 'B' },
          { type: 'integer', maximum: 9, nullable: true },
        ],
      },
      {
        anyOf: [{ type: 'string', minLength: 1 }, { type: 'integer', maximum: 9 }, { type: 'null' }],
        description: 'B',
      },
    ],
    ['a constant', { const: 'x' }, { type: 'string', enum: ['x'] }],
    [
      'numbers in an enum',
      { enum: [1, 2], description: 'Level' },
      { type: 'number', description: 'Level. One of 1, 2.' },
    ],
    [
      'an enum with null',
      { type: ['string', 'null'], enum: ['a', null] },
      { type: 'string', enum: ['a'], nullable: true },
      { anyOf: [{ type: 'string', enum: ['a'] }, { type: 'null' }] },
    ],
    ['null alone', { type: 'null' }, { type: 'string', nullable: true }, { type: 'null' }],
    ['a format', { type: 'string', format: 'uri' }, { type: 'string', description: 'Format: uri.' }],
    [
      'a format that it knows',
      { type: 'string', format: 'date-time' },
      { type: 'string', format: 'date-time' },
    ],
    ['an exclusive bound', { type: 'integer', exclusiveMinimum: 0 }, { type: 'integer', minimum: 0 }],
    ['a map', { type: 'object', additionalProperties: { type: 'string' } }, { type: 'object' }],
    [
      'one part of allOf',
      {
        allOf: [{ type: 'object', properties: { b: { type: 'string' } }, required: ['b'] }],
        description: 'C',
      },
      { type: 'object', properties: { b: { type: 'string' } }, required: ['b'], description: 'C' },
    ],
    [
      'a closed tuple',
      { type: 'array', prefixItems: [{ type: 'string' }, { type: 'number' }], items: false },
      { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'number' }] } },
    ],
    [
      'alternatives of one type',
      {
        type: 'object',
        oneOf: [{ properties: { k: { const: 'a' } } }, { properties: { k: { const: 'b' } } }],
      },
      {
        anyOf: ['a', 'b'].map((each) => ({
          type: 'object',
          properties: { k: { type: 'string', enum: [each] } },
        })),
      },
    ],
    [
      'alternatives beside properties',
      {
        type: 'object',
        properties: { b: { type: 'string' } },
        anyOf: [{ minProperties: 1 }, { maxProperties: 9 }],
      },
      { type: 'object', properties: { b: { type: 'string' } } },
    ],
    ['keywords of another type', { type: 'string', items: {}, properties: {} }, { type: 'string' }],
  ] as const)('%s is listed', (_title, given, gemini, any: unknown = gemini) => {
    expect(argument(given, dialects.gemini)).toEqual(gemini)
    expect(argument(given, dialects.any)).toEqual(any)
    expect(argument(given, dialects.openai)).toEqual(given)
  })

  it.each([
    ['alternatives', 'anyOf', (at: number) => ({ const: `v${at}` })],
    ['parts', 'allOf', (at: number) => ({ properties: { [`p${at}`]: {} }, required: [`p${at}`] })],
  ] as const)('thousands of %s are written in linear time', (_title, key, made) => {
    const start = performance.now()
    argument({ [key]: Array.from({ length: 4000 }, (_, at) => made(at)) }, dialects.gemini)
    expect(performance.now() - start).toBeLessThan(8000)
  })

  it('an argument with a dash is in the description, and can be given', () => {
    const inputSchema = { type: 'object', properties: { 'my-a': { type: 'string' } }, required: ['my-a'] }
    const { tool } = repairedTool(Payload.of({ name: 'a', inputSchema }), dialects.gemini)
    expect(tool.fields.inputSchema).toEqual({
      type: 'object',
      properties: {},
      description: 'Also takes "my-a" (string; required).',
    })
  })
})

describe('for OpenAI', () => {
  it('a long description continues in the schema, whole', () => {
    const description = `${'word '.repeat(400)}end`
    const inputSchema = { type: 'object', description: 'Own.' }
    const { tool, changes } = repairedTool(
      Payload.of({ name: 'a', description, inputSchema }),
      dialects.openai,
    )
    const { description: begin, inputSchema: listed } = tool.fields
    const rest = (listed as { description: string }).description
    expect(begin).toHaveLength(1024)
    expect(`${String(begin).slice(0, -1)}${rest.slice(1)}`).toBe(`${description}. Own.`)
    expect(changes).toEqual([
      { pointer: '/description', what: 'has more than 1024 characters: continued in the schema' },
    ])
  })

  it.each(['openai', 'anthropic'] as const)('what %s takes keeps its text', (provider) => {
    const text =
      '{"name":"a-b","description":"A","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"x-y":{"type":["string","null"],"format":"uri","maxLength":1e1}},"additionalProperties":false}}'
    const tool = Payload.text(text)
    expect(toolsFor([tool], dialects[provider])[0]).toBe(tool)
  })
})

describe('names that providers refuse', () => {
  const named = (...names: string[]): Payload[] =>
    names.map((name) => Payload.of({ name, inputSchema: { type: 'object' } }))
  const namesFor = (dialect: Dialect, ...names: string[]): unknown[] =>
    toolsFor(named(...names), dialect).map(({ fields }) => fields.name)

  it('are replaced by aliases, each of one tool', () => {
    expect(namesFor(dialects.openai, 'files.read', 'Read It', 'get-it')).toEqual([
      'files_read',
      'read_it',
      'get-it',
    ])
    const [one, other, plain] = namesFor(dialects.any, 'a.b', 'a b', 'a_b')
    expect([one, other, plain]).toEqual([
      expect.stringMatching(/^a_b_[0-9a-f]{8}$/),
      expect.stringMatching(/^a_b_[0-9a-f]{8}$/),
      'a_b',
    ])
    expect(one).not.toBe(other)
  })

  it('stay for providers that take them', () => {
    expect(namesFor(dialects.gemini, 'files.read', '2nd')).toEqual(['files.read', 'x_2nd'])
    expect(namesFor(dialects.anthropic, '2nd')).toEqual(['2nd'])
  })
})
