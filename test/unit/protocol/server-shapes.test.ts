import { specTypeSchemas } from '@modelcontextprotocol/client'
import {
  InitializeResultSchema,
  ListPromptsResultSchema,
  ListResourcesResultSchema,
  ListResourceTemplatesResultSchema,
  ListToolsResultSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv-provider.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isObject } from '../../../src/core/json/json.ts'
import { Payload } from '../../../src/core/payload.ts'
import { initializeResult } from '../../../src/protocol/legacy.ts'
import { metaKeys } from '../../../src/protocol/meta-keys.ts'
import { lowerResult } from '../../../src/protocol/projection.ts'
import { latestLegacy } from '../../../src/core/revisions.ts'
import { checkedDeclaration, checkedPage } from '../../../src/protocol/server-shapes.ts'
import {
  invalidCapabilities,
  type InvalidEntry,
  invalidPrompts,
  invalidResources,
  invalidTools,
} from '../../support/invalid-entries.ts'

const templates = invalidResources.map((given) =>
  JSON.parse(
    JSON.stringify(given.map((each) => each ?? null))
      .replaceAll('"uri"', '"uriTemplate"')
      .replaceAll(/\buri (is)/g, 'uriTemplate $1'),
  ),
) as readonly InvalidEntry[]

const cases: Readonly<Record<string, readonly InvalidEntry[]>> = {
  tools: invalidTools,
  prompts: invalidPrompts,
  resources: invalidResources,
  resourceTemplates: templates,
}

const methods = {
  tools: ['tools/list', ListToolsResultSchema, specTypeSchemas.ListToolsResult],
  prompts: ['prompts/list', ListPromptsResultSchema, specTypeSchemas.ListPromptsResult],
  resources: ['resources/list', ListResourcesResultSchema, specTypeSchemas.ListResourcesResult],
  resourceTemplates: [
    'resources/templates/list',
    ListResourceTemplatesResultSchema,
    specTypeSchemas.ListResourceTemplatesResult,
  ],
} as const

/** Whether the clients of both official SDKs take a page as they get it. */
function acceptedBySdks(page: Payload, list: keyof typeof methods): true {
  const [method, first, second] = methods[list]
  const lowered = lowerResult(method, page, latestLegacy)
  first.parse(JSON.parse(lowered.text))
  // It compiles the output schemas of all tools together.
  const compiler = new AjvJsonSchemaValidator()
  for (const tool of lowered.at('tools')?.items ?? [])
    if (isObject(tool.fields.outputSchema)) compiler.getValidator(tool.fields.outputSchema)
  for (const each of [lowered, page])
    expect(second['~standard'].validate(JSON.parse(each.text))).not.toHaveProperty('issues')
  return true
}

describe.each(Object.keys(methods) as (keyof typeof methods)[])('an invalid entry of %s', (list) => {
  it.each(cases[list] ?? [])('%j is listed as %j', (given, listed, problem) => {
    const good = { name: 'good', uri: 'a:good', uriTemplate: 'a:{good}', inputSchema: { type: 'object' } }
    const page = Payload.text(JSON.stringify({ [list]: [given, good] }))
    const { payload, found } = checkedPage(page, list)
    expect(payload.fields[list]).toEqual([...((listed ?? null) === null ? [] : [listed]), good])
    expect(found).toHaveLength(1)
    expect(found[0]?.problem).toContain(problem)
    expect(acceptedBySdks(payload, list)).toBe(true)
  })
})

it.each([
  ['"size":1e400', ''],
  ['"size":-2e999', ''],
  ['"size":12345678901234567890', '"size":12345678901234567890'],
  ['"annotations":{"priority":1e400}', '"annotations":{}'],
  ['"annotations":{"priority":0.12345678901234567890}', '"annotations":{"priority":0.12345678901234567890}'],
])('a number %s is listed as clients can read it: %s', (given, listed) => {
  const entry = (member: string): string => `{"uri":"a:b","name":"a"${member === '' ? '' : `,${member}`}}`
  const { payload } = checkedPage(Payload.text(`{"resources":[${entry(given)}]}`), 'resources')
  expect(payload.text).toBe(`{"resources":[${entry(listed)}]}`)
  expect(acceptedBySdks(payload, 'resources')).toBe(true)
})

it.each([
  [{ tools: null }, 'tools is null'],
  [{}, 'tools is missing'],
  [{ tools: 'none' }, 'tools is "none"'],
  [{ tools: { a: { name: 'a' } } }, 'tools is an object'],
])('a list of no entries is empty: %j', (given, problem) => {
  const { payload, found } = checkedPage(Payload.of(given), 'tools')
  expect(payload.fields).toEqual({ tools: [] })
  expect(found).toEqual([{ problem: `${problem}: read as an empty list` }])
})

it('a list that PHP writes as an object is a list', () => {
  const entry = (name: string): object => ({ name, inputSchema: { type: 'object' } })
  const { payload, found } = checkedPage(Payload.of({ tools: { 0: entry('a'), 2: entry('b') } }), 'tools')
  expect(payload.fields).toEqual({ tools: [entry('a'), entry('b')] })
  expect(checkedPage(Payload.of({ tools: {} }), 'tools').payload.fields).toEqual({ tools: [] })
  expect(found).toEqual([])
})

it.each([[null], [0], [7], [true], [{}]])('a cursor %j ends the list', (nextCursor) => {
  const { payload } = checkedPage(Payload.of({ prompts: [], nextCursor, _meta: null }), 'prompts')
  expect(payload.fields).toEqual({ prompts: [] })
})

it('of two entries with one name the first one is listed', () => {
  const entry = (description: string): object => ({ name: 'a', description })
  const { payload, found } = checkedPage(Payload.of({ prompts: [entry('1'), entry('2')] }), 'prompts')
  expect(payload.fields).toEqual({ prompts: [entry('1')] })
  expect(found).toEqual([
    { entry: 'a', problem: 'an earlier entry has the same name: the entry is left out', pointer: '/name' },
  ])
})

it('an entry that is nested so deeply that clients fail is left out', () => {
  const deep = `${'{"a":'.repeat(300)}1${'}'.repeat(300)}`
  const text = `{"tools":[{"name":"a","inputSchema":{"type":"object","default":${deep}}}]}`
  expect(checkedPage(Payload.text(text), 'tools').payload.fields).toEqual({ tools: [] })
})

it('a number with more digits than a double has is as valid as its double', () => {
  // How C++ and other languages print 0.1 and 1e-5.
  for (const size of ['0.10000000000000001', '1.0000000000000001e-05', '0.69999999999999996']) {
    const text = `{"resources":[{"uri":"a:b","name":"a","annotations":{"priority":${size}}}]}`
    const { payload, found } = checkedPage(Payload.text(text), 'resources')
    expect([payload.text, found]).toEqual([text, []])
  }
})

it('everything valid keeps its text, also beside what is repaired', () => {
  const schema = '{"type" : "object", "properties":{"b":{"const":12345678901234567890, "x":"\\u00e9"}}}'
  const entry = (more: string): string =>
    `{ "name":"a${more.length}",${more} "inputSchema":${schema}, "z":1.0 }`
  const output = '"outputSchema":{"type":"object","properties":{"b":{"maximum":9007199254740993}}},'
  const valid = Payload.text(`{"tools":[${entry('')},${entry(output)}], "_meta":{ }}`)
  expect(checkedPage(valid, 'tools').payload).toBe(valid)
  const broken = Payload.text(`{"tools":[${entry('')},${entry('"title":null,')}], "_meta":{ }}`)
  const text = checkedPage(broken, 'tools').payload.text
  expect(text).toContain(entry(''))
  expect(text.split(schema)).toHaveLength(3)
  expect(text).not.toContain('null')
  const nested = Payload.text(
    entry('').replace('"x"', '"d":5},"c":null,"e":{"x"').replace(/^/, '{"tools":[').concat(']}'),
  )
  expect(checkedPage(nested, 'tools').payload.text).toContain('12345678901234567890')
})

it.each(invalidCapabilities)('the capabilities %j are read as %j', (given, read) => {
  const declared = { capabilities: given, instructions: null, _meta: { [metaKeys.serverInfo]: { name: 5 } } }
  const { payload, found } = checkedDeclaration(Payload.text(JSON.stringify(declared)))
  expect(payload.fields.capabilities).toEqual(read)
  expect(found.length).toBeGreaterThan(0)
  const { text } = initializeResult(payload, latestLegacy)
  expect(() => InitializeResultSchema.parse(JSON.parse(text))).not.toThrow()
  expect(specTypeSchemas.InitializeResult['~standard'].validate(JSON.parse(text))).not.toHaveProperty(
    'issues',
  )
})

describe('whatever a server sends', () => {
  const names = ['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations', 'execution']
    .concat(['icons', '_meta', 'uri', 'uriTemplate', 'mimeType', 'size', 'arguments', 'type', 'properties'])
    .concat(['required', 'src', 'sizes', 'theme', 'taskSupport', 'audience', 'priority', 'lastModified'])
    .concat(['readOnlyHint', '$schema', '$ref', 'items', 'pattern', '__proto__', 'constructor'])
  const words = ['object', 'string', 'a', '', '#/$defs/x', '2025-01-01T00:00:00Z', 'user', 'light', '(']
  const { garbage } = fc.letrec<{ garbage: unknown }>((tie) => ({
    garbage: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.constantFrom<unknown>(null, true, false, 0, -1.5, ...words),
      fc.array(tie('garbage'), { maxLength: 3 }),
      fc
        .array(fc.tuple(fc.constantFrom(...names), tie('garbage')), { maxLength: 7 })
        .map((entries) => Object.fromEntries(entries)),
    ),
  }))
  const usable = fc.record({
    name: fc.constantFrom('a', 'b'),
    uri: fc.constant('a:b'),
    uriTemplate: fc.constant('a:b'),
  })
  const entry = fc.oneof(
    garbage,
    fc.tuple(usable, garbage).map(([base, more]) => ({ ...base, ...(isObject(more) && more) })),
  )
  const page = fc.record(
    { tools: fc.array(entry, { maxLength: 4 }), nextCursor: garbage, _meta: garbage },
    { requiredKeys: ['tools'] },
  )

  it.each(Object.keys(methods) as (keyof typeof methods)[])('both SDKs take the list of %s', (list) => {
    fc.assert(
      fc.property(page, ({ tools, ...rest }) => {
        const given = Payload.text(JSON.stringify({ ...rest, [list]: tools }))
        const { payload } = checkedPage(given, list)
        // Checking twice changes nothing more.
        expect(checkedPage(payload, list)).toEqual({ payload, found: [] })
        return acceptedBySdks(payload, list)
      }),
      { numRuns: 400 },
    )
  })
})
