// Imports that name neither a tool nor a format: the tool of the server by default, or an error that says what to send.
import { describe, expect, it } from 'vitest'
import type { Call } from '../../../../src/core/call.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { references } from '../../../../src/features/references/references.ts'
import { fieldsOf } from '../../../support/chain.ts'
import { ada, referenceSettings, referenceWorld } from '../../../support/reference-world.ts'
import type { Json } from '../../../support/server/json.ts'
import { toolCall } from '../../../support/tool-call.ts'

const properties: Json = { rows: { type: 'array' }, name: { type: 'string' } }

function descriptor(upstream: string, name: string, members: Json = properties): Descriptor {
  const definition = {
    name,
    inputSchema: { type: 'object', properties: members, additionalProperties: false },
  }
  return {
    upstream,
    kind: 'tool',
    name,
    definition,
    classification: { op: 'write' },
  } as unknown as Descriptor
}

const rows = { tool: 'import_rows', argument: 'rows' }

interface Given {
  /** The tools of each server, in order. */
  readonly tools?: Readonly<Record<string, readonly Descriptor[]>>
  /** The default of each server, and the one for all of them. */
  readonly defaults?: Readonly<Record<string, typeof rows>>
  readonly common?: typeof rows
  readonly imports?: Readonly<Record<string, typeof rows>>
}

const both = {
  one: [descriptor('one', 'list_rows'), descriptor('one', 'import_rows')],
  two: [descriptor('two', 'add_page')],
}

function world({ tools = both, defaults = {}, common, imports }: Given) {
  const calls: Call[] = []
  const all = Object.values(tools).flat()
  const base = referenceWorld({
    servers: () => Object.keys(tools),
    tools: async (upstream) => {
      if (upstream === 'down') throw new GatewayError('SERVER_UNAVAILABLE', 'It is down.')
      return tools[upstream] ?? []
    },
    entry: ({ target: { upstream, name } }) =>
      all.find((each) => each.upstream === upstream && each.name === name),
    call: async (call) => {
      calls.push(call)
      return { kind: 'result', result: Payload.of({ content: [], structuredContent: { rows_imported: 2 } }) }
    },
  })
  const settings = (upstream?: string) => {
    const own = upstream === undefined ? common : (defaults[upstream] ?? common)
    return { ...referenceSettings, ...(own && { import: own }), ...(imports && { imports }) }
  }
  const instance = references.create(settings, base.deps)
  const start = async (args: Json, upstream?: string): Promise<Json> => {
    const tool = instance.builtins?.tools?.find(({ definition }) => definition.name === 'import_from_ref')
    const target = { method: 'tools/call', name: 'import_from_ref', ...(upstream && { upstream }) }
    const params = Payload.of({ name: 'import_from_ref', arguments: args })
    const outcome = await tool?.handle(toolCall({ principal: ada, params, target }))
    return outcome ? fieldsOf(outcome) : {}
  }
  const literal = async (): Promise<Json> => ({ ref_id: await base.keep('[1,2]'), origin_server: 'one' })
  const sent = () =>
    calls.map(({ target, params }) => [target.upstream, target.name, params.fields['arguments']] as const)
  return { start, literal, sent, instance }
}

/** What a refused import says, after the problem. */
function suggestionOf({ error }: Json): unknown {
  return (error as Json)['suggestion']
}

describe('an import with ref_id and origin_server alone', () => {
  it('goes to the tool of the server by default', async () => {
    const { start, literal, sent } = world({ defaults: { one: rows } })
    const args = await literal()
    expect((await start(args, 'one'))['structuredContent']).toEqual({
      status: 'imported',
      ref_id: args['ref_id'],
      checksum_verified: true,
      rows_imported: 2,
      result: { rows_imported: 2 },
    })
    expect(sent()).toEqual([['one', 'import_rows', { rows: args['ref_id'] }]])
  })

  it('goes to the only tool by default at the address of all servers, by its name there', async () => {
    for (const given of [{ defaults: { one: rows } }, { common: rows }]) {
      const { start, literal, sent } = world(given)
      const args = await literal()
      expect((await start(args))['structuredContent']).toMatchObject({ status: 'imported' })
      expect(sent()).toEqual([[undefined, 'one_import_rows', { rows: args['ref_id'] }]])
    }
  })

  it('says which tools there are if several servers have one by default', async () => {
    const defaults = { one: rows, two: { tool: 'add_page', argument: 'name' } }
    const { start, literal, sent } = world({ defaults })
    const refused = await start(await literal())
    expect(refused).toMatchObject({ isError: true, error: { code: 'INVALID_INPUT', field: 'tool' } })
    expect(suggestionOf(refused)).toBe(
      'Send one of "tool":"one_import_rows","argument":"rows", or "tool":"two_add_page","argument":"name".',
    )
    expect(sent()).toEqual([])
  })

  it('goes to the tool for a format, if it names one', async () => {
    const imports = { table: { tool: 'two_add_page', argument: 'name' } }
    const { start, literal, sent } = world({ defaults: { one: rows }, imports })
    const args: Json = { ...(await literal()), target_format: 'table' }
    expect((await start(args))['structuredContent']).toMatchObject({ status: 'imported' })
    expect(sent()).toEqual([[undefined, 'two_add_page', { name: args['ref_id'] }]])
    expect((await start({ ...args, target_format: 'raw' }))['isError']).toBe(true)
  })

  it('goes to the only tool of its server that takes data, if nothing is configured', async () => {
    const { start, literal, sent } = world({})
    const args = await literal()
    expect((await start(args, 'one'))['structuredContent']).toMatchObject({ status: 'imported' })
    expect(sent().at(-1)).toEqual(['one', 'import_rows', { rows: args['ref_id'] }])
    expect(suggestionOf(await start(await literal(), 'two'))).toBe('Name a tool and its argument.')
  })

  it('goes to no tool that a server offers by itself where data of several servers is', async () => {
    const { start, literal, sent } = world({})
    const refused = await start(await literal())
    expect(suggestionOf(refused)).toBe('Send one of "tool":"one_import_rows","argument":"rows".')
    expect(sent()).toEqual([])
  })

  it('goes nowhere if several tools take data, or the only one needs more than that', async () => {
    const twice = [descriptor('one', 'import_rows'), descriptor('one', 'upload_file', { content: {} })]
    const other = world({ tools: { one: twice, down: [] } })
    expect(suggestionOf(await other.start(await other.literal()))).toBe(
      'Send one of "tool":"one_import_rows","argument":"rows", or "tool":"one_upload_file","argument":"content".',
    )
    const importing = descriptor('one', 'import_rows')
    const needing = {
      ...importing.definition,
      inputSchema: { properties: { rows: {} }, required: ['rows', 'sheet'] },
    }
    for (const more of [
      [descriptor('one', 'import_rows', { rows: {}, csv: {} })],
      [{ ...importing, classification: { op: 'read' } } as Descriptor],
      [{ ...importing, definition: needing }],
    ]) {
      const { start, literal, sent } = world({ tools: { one: more, down: [] } })
      expect(suggestionOf(await start(await literal()))).toBe('Name a tool and its argument.')
      expect(sent()).toEqual([])
    }
  })

  it('suggests a format, if there is one', async () => {
    const formats = world({ imports: { table: rows } })
    expect(suggestionOf(await formats.start(await formats.literal(), 'two'))).toBe(
      'Send target_format: table.',
    )
  })

  it('is refused with an argument whose tool it does not name', async () => {
    const { start, literal, sent } = world({ defaults: { one: rows } })
    const refused = await start({ ...(await literal()), argument: 'name' }, 'one')
    expect(suggestionOf(refused)).toContain('"tool":"import_rows","argument":"rows"')
    expect(sent()).toEqual([])
  })
})

it('tools by default that no server has are reported, at the settings that name them', async () => {
  const gone = { tool: 'gone', argument: 'rows' }
  const path = ['features', 'references', 'import']
  expect(await world({ common: rows }).instance.problems?.()).toEqual([])
  expect(await world({ common: gone }).instance.problems?.()).toEqual([
    { path: [...path, 'tool'], message: 'one lists no tool gone: write its own name' },
  ])
  const wrong = { defaults: { one: { ...rows, argument: 'lines' }, two: gone } }
  expect(await world(wrong).instance.problems?.()).toEqual([
    { path: ['upstreams', 'one', ...path, 'argument'], message: 'import_rows has no argument lines' },
    { path: ['upstreams', 'two', ...path, 'tool'], message: 'two lists no tool gone: write its own name' },
  ])
})
