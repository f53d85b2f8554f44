// The outcomes of imports, and the check of the tools in the configuration.
import { describe, expect, it } from 'vitest'
import type { Call, Outcome } from '../../../../src/core/call.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { importing, ImportTools } from '../../../../src/features/references/transfer/import.ts'
import { references } from '../../../../src/features/references/references.ts'
import { ada, referenceSettings, referenceWorld } from '../../../support/reference-world.ts'
import { fieldsOf } from '../../../support/chain.ts'
import { type Json, objectAt } from '../../../support/server/json.ts'
import { toolCall } from '../../../support/tool-call.ts'
import { bytesOf } from '../../../support/bytes-of.ts'
import { UPLOADS } from '../../../../src/records/plain-name.ts'

const sheet = { tool: 'sheet', argument: 'rows' }

function descriptor(name: string, more: Json = {}): Descriptor {
  const inputSchema = { type: 'object', properties: { rows: {} }, additionalProperties: false }
  return { upstream: 'one', name, definition: { name, inputSchema }, ...more } as unknown as Descriptor
}

/** The tools of the feature, in front of tools that do `act`. */
function world(act: (call: Call) => Outcome | Promise<Outcome>, imports: Json = { table: sheet }) {
  const calls: Call[] = []
  const base = referenceWorld({
    call: async (call: Call) => {
      calls.push(call)
      return act(call)
    },
    entry: ({ target: { name = '' } }: Call) => {
      if (name === 'broken') throw new GatewayError('SERVER_UNAVAILABLE', 'It is down.')
      if (name === 'own') return descriptor(name, { isBuiltin: true })
      return name === 'sheet' ? descriptor(name) : undefined
    },
    exposed: (_upstream, tool) => tool,
  })
  const instance = references.create(
    () => ({ ...referenceSettings, imports: imports as Record<string, typeof sheet> }),
    base.deps,
  )
  const run = async (tool: string, args: Json, more: Partial<Call> = {}): Promise<Outcome> => {
    const found = instance.builtins?.tools?.find(({ definition }) => definition.name === tool)
    if (!found) throw new Error(`There is no tool ${tool}.`)
    const params = Payload.of({ name: tool, arguments: args })
    return found.handle(
      toolCall({ principal: ada, params, target: { method: 'tools/call', name: tool }, ...more }),
    )
  }
  const start = async (args: Json, more?: Partial<Call>): Promise<Json> =>
    fieldsOf(await run('import_from_ref', args, more))
  return { ...base, instance, calls, run, start }
}

const result = (fields: Json): Outcome => ({ kind: 'result', result: Payload.of(fields) })

describe('an import', () => {
  it('calls the tool with the reference and the other arguments, and passes its result on', async () => {
    const structured = { rows_imported: 3, imported_resource_id: 'sheet-1' }
    const content = [{ type: 'text', text: 'Done.' }]
    const { keep, start, calls } = world(() => result({ content, structuredContent: structured }))
    const uri = await keep('[1,2,3]', 'application/json')
    const done = await start({ ref_id: `${uri}?rows=1-2`, target_format: 'table', arguments: { name: 'x' } })
    expect(done['structuredContent']).toEqual({
      status: 'imported',
      ref_id: `${uri}?rows=1-2`,
      checksum_verified: true,
      imported_resource_id: 'sheet-1',
      rows_imported: 3,
      result: structured,
    })
    expect(done['content']).toEqual([
      { type: 'text', text: expect.stringContaining('"imported"') },
      ...content,
    ])
    expect(calls[0]?.params.fields['arguments']).toEqual({ name: 'x', rows: `${uri}?rows=1-2` })
    expect(calls[0]?.target).toEqual({ method: 'tools/call', name: 'sheet' })
  })

  it('names the resource that the tool links to, and nothing that the tool does not say', async () => {
    const link = { type: 'resource_link', uri: 'sheet://1', name: 'sheet' }
    const { keep, start } = world(() => result({ content: [link] }))
    const { structuredContent } = await start({ ref_id: await keep('[1]'), ...sheet })
    expect(structuredContent).toMatchObject({ imported_resource_id: 'sheet://1' })
    expect(structuredContent).not.toHaveProperty('rows_imported')
  })

  it('asks what the tool asks, and is never a task', async () => {
    const asking = { kind: 'input_required', inputRequests: {}, requestState: { confirm: 1 } } as const
    const { keep, run, calls } = world(() => asking)
    const extensions = { 'io.modelcontextprotocol/tasks': {}, 'com.example/other': {} }
    const client = { era: 'modern', revision: '2026-07-28', capabilities: { extensions } } as const
    const requestState = { confirm: 0 }
    const given = { ref_id: await keep('[1]'), ...sheet }
    expect(await run('import_from_ref', given, { client, requestState })).toEqual(asking)
    expect(calls[0]?.client.capabilities).toEqual({ extensions: { 'com.example/other': {} } })
    expect(calls[0]?.requestState).toEqual(requestState)
  })

  it('is pending if the call goes on, with the id that gets the result', async () => {
    const error = { code: 'OPERATION_TIMEOUT', details: { operation_id: 'op' } }
    const _meta = { 'dev.gatehouse/operation_id': 'op', 'dev.gatehouse/error': error }
    const { keep, start } = world(() => result({ content: [], isError: true, _meta }))
    const pending = await start({ ref_id: await keep('[1]'), ...sheet })
    expect(pending['structuredContent']).toMatchObject({ status: 'pending', operation_id: 'op' })
    expect(pending).not.toHaveProperty('isError')
  })

  it('fails as the tool does', async () => {
    const error = { code: 'UPSTREAM_ERROR', message: 'No sheet.' }
    const failing = world(() =>
      result({ content: [], isError: true, _meta: { 'dev.gatehouse/error': error } }),
    )
    const failed = await failing.start({ ref_id: await failing.keep('[1]'), ...sheet })
    expect(failed).toMatchObject({ isError: true, structuredContent: { status: 'failed', error } })
    const silent = world(() => result({ content: [], isError: true }))
    const unexplained = await silent.start({ ref_id: await silent.keep('[1]'), ...sheet })
    expect(unexplained['structuredContent']).toMatchObject({
      status: 'failed',
      error: { code: 'SERVER_ERROR', message: 'The tool failed.', category: expect.any(String) },
    })
    const refusing = world(() => {
      throw new GatewayError('PERMISSION_DENIED', 'Not you.')
    })
    const refused = await refusing.start({ ref_id: await refusing.keep('[1]'), ...sheet })
    expect(refused['structuredContent']).toMatchObject({
      status: 'failed',
      checksum_verified: true,
      error: { code: 'PERMISSION_DENIED' },
    })
  })

  it('fails before the tool is called if the data is not what was kept', async () => {
    const { keep, start, store, calls } = world(() => result({ content: [] }))
    const ref_id = await keep('[1]')
    const id = String((await store.blobs.list())[0]?.id)
    await store.blobs.delete(id)
    await store.blobs.put(id, bytesOf('[2]'))
    const failed = await start({ ref_id, ...sheet })
    expect(failed['structuredContent']).toMatchObject({
      status: 'failed',
      checksum_verified: false,
      error: { code: 'CONFLICT' },
    })
    expect(calls).toEqual([])
  })

  it.each<[what: string, args: (uri: string) => Json, message: string]>([
    [
      'a tool and a format',
      (ref_id) => ({ ref_id, ...sheet, target_format: 'table' }),
      'tool cannot be given too',
    ],
    ['no argument', (ref_id) => ({ ref_id, tool: 'sheet' }), 'argument must name'],
    [
      'the argument twice',
      (ref_id) => ({ ref_id, ...sheet, arguments: { rows: 1 } }),
      'since it gets the data',
    ],
    ['a tool of the gateway', (ref_id) => ({ ref_id, ...sheet, tool: 'own' }), 'a tool of the gateway'],
    ['another origin', (ref_id) => ({ ref_id, ...sheet, origin_server: 'two' }), 'access_url must say'],
    ['a broken reference', () => ({ ref_id: 'ref://ref_1?rows=0', ...sheet }), 'rows must be a range'],
    [
      'a bad checksum',
      () => ({ ref_id: 'x', origin_server: 'far', access_url: 'https://x.example', checksum: 1 }),
      'checksum must be',
    ],
  ])('with %s is refused, and calls nothing', async (_what, args, message) => {
    const { keep, start, calls } = world(() => result({ content: [] }))
    const refused = await start(args(await keep('[1]')))
    expect(refused['isError']).toBe(true)
    expect(JSON.stringify(refused['content'])).toContain(message)
    expect(calls).toEqual([])
  })
})

describe('an import of foreign data', () => {
  const args = { ref_id: 'x', origin_server: 'far', access_url: 'https://far.example/x', ...sheet }

  /** A tool that asks in each call until the round `asks` is over. */
  function far(asks: number, ref_id = 'x') {
    const sent: unknown[] = []
    const base = world(({ params, requestState }) => {
      sent.push(objectAt(params.fields, 'arguments')['rows'])
      if (sent.length > asks) return result({ content: [] })
      return { kind: 'input_required', inputRequests: {}, requestState: { ...requestState, confirm: 1 } }
    })
    const { kept, deps } = base
    let downloads = 0
    const { tool } = importing({
      references: kept,
      mayRead: async () => true,
      tools: new ImportTools({ formats: {}, byDefault: () => undefined }, deps),
      deps,
      download: async ({ principal }) => {
        downloads++
        return kept.add(
          principal,
          { server: UPLOADS, name: 'x', type: 'text/csv', ttl: 60_000 },
          bytesOf('[1]'),
        )
      },
    })
    const round = (requestState: Call['requestState'], principal = ada): Promise<Outcome> =>
      tool.handle(
        toolCall({
          principal,
          requestState,
          params: Payload.of({ name: 'import_from_ref', arguments: { ...args, ref_id } }),
          target: { method: 'tools/call', name: 'import_from_ref' },
        }),
      )
    return { ...base, sent, round, downloads: () => downloads }
  }

  it('is downloaded once, however often the tool asks', async () => {
    const { round, sent, downloads } = far(2)
    let outcome = await round({})
    while (outcome.kind === 'input_required') outcome = await round(outcome.requestState)
    expect(fieldsOf(outcome)['structuredContent']).toMatchObject({ status: 'imported' })
    expect(downloads()).toBe(1)
    expect(sent).toHaveLength(3)
    expect(new Set(sent).size).toBe(1)
  })

  it('is given to the tool in the part that the caller names', async () => {
    const { round, sent, kept } = far(0, 'ref://x?rows=1-2')
    const { structuredContent } = fieldsOf(await round({}))
    const [reference] = await kept.all()
    const uri = `ref://${reference?.id}?rows=1-2`
    expect(sent).toEqual([uri])
    expect(structuredContent).toMatchObject({ status: 'imported', ref_id: uri })
  })

  it('can have an id there that references here do not have', async () => {
    const { round, sent, kept } = far(0, 'job/12:a')
    const { structuredContent } = fieldsOf(await round({}))
    expect(structuredContent).toMatchObject({ status: 'imported' })
    expect(sent).toEqual([`ref://${(await kept.all())[0]?.id}`])
  })

  it('is downloaded again if it is gone by the next round', async () => {
    const { round, kept, downloads } = far(1)
    const first = await round({})
    if (first.kind !== 'input_required') throw new Error('It did not ask.')
    for (const each of await kept.all()) await kept.drop(each)
    const { structuredContent } = fieldsOf(await round(first.requestState))
    expect(structuredContent).toMatchObject({ status: 'imported' })
    expect(downloads()).toBe(2)
  })
})

it('tools in the configuration that no server lists are reported, and those of servers that are down are not', async () => {
  const { instance } = world(() => result({}), {
    good: sheet,
    gone: { tool: 'gone', argument: 'rows' },
    wrong: { tool: 'sheet', argument: 'lines' },
    down: { tool: 'broken', argument: 'rows' },
  })
  const path = ['features', 'references', 'imports']
  expect(await instance.problems?.()).toEqual([
    { path: [...path, 'gone', 'tool'], message: expect.stringContaining('no server lists a tool gone') },
    { path: [...path, 'wrong', 'argument'], message: 'sheet has no argument lines' },
  ])
})
