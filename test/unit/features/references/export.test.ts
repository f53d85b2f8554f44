// Results that are kept on request: what the caller gets if they cannot be, and references of its choice to the same data.
import { json } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import type { Call, Outcome } from '../../../../src/core/call.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { references } from '../../../../src/features/references/references.ts'
import { OperationIds, Operations } from '../../../../src/records/operations.ts'
import { ada, referenceSettings, referenceWorld } from '../../../support/reference-world.ts'
import { fieldsOf } from '../../../support/chain.ts'
import { type Json, objectAt } from '../../../support/server/json.ts'
import { toolCall } from '../../../support/tool-call.ts'

const NOT_KEPT = 'dev.gatehouse/not_kept'
const FACTS = 'dev.gatehouse/data_reference'

/** The tool and the path over HTTP, in front of calls that end with `result`. */
function world(result: () => Json, settings = referenceSettings) {
  const counted: unknown[] = []
  const calls: Call[] = []
  const base = referenceWorld({
    settings,
    call: async (made: Call): Promise<Outcome> => {
      calls.push(made)
      return { kind: 'result', result: Payload.of(result()) }
    },
    entry: () => ({ upstream: 'one', name: 'sheet', definition: { name: 'sheet' } }) as unknown as Descriptor,
    referenced: (event) => void counted.push(event),
  })
  const instance = references.create(() => settings, base.deps)
  const call = (args: Json, params: Json): Call =>
    toolCall({
      principal: ada,
      params: Payload.of({ ...params, ...args }),
      target: { method: 'tools/call', name: 'export_result_ref' },
    })
  const byModel = async (args: Json): Promise<Json> => {
    const tool = instance.builtins?.tools?.find(({ definition }) => definition.name === 'export_result_ref')
    if (!tool) throw new Error('There is no tool.')
    return fieldsOf(await tool.handle(call({}, { name: 'export_result_ref', arguments: args })))
  }
  const byProgram = async (args: Json): Promise<Json> => {
    const route = instance.http?.routes?.find(({ path }) => path === '/export')
    if (!route) throw new Error('There is no path.')
    return fieldsOf(await route.handle(call(args, {})))
  }
  return { ...base, byModel, byProgram, counted, calls }
}

const given = { tool: 'sheet' }

describe('a result that is kept on request', () => {
  it('is passed on with the reason if there is no room for it', async () => {
    const notKept = { code: 'QUOTA_EXHAUSTED', message: 'There is no room.' }
    const content = [{ type: 'text', text: 'all of it' }]
    const { byModel, calls } = world(() => ({ content, _meta: { [NOT_KEPT]: notKept } }))
    const found = await byModel({ ...given, ref_id: 'mine' })
    expect(found).toMatchObject({ content, structuredContent: { not_kept: notKept } })
    expect(calls[0]?.meta).toEqual({ 'dev.gatehouse/as_reference': true, 'dev.gatehouse/ref_id': 'mine' })
  })

  it('is kept as JSON if it has links alone', async () => {
    const link = { type: 'resource_link', uri: 'sheet://1', name: 'sheet' }
    const { byModel, kept } = world(() => ({ content: [link] }))
    const found = await byModel({ ...given, ref_id: 'mine' })
    expect(found['structuredContent']).toMatchObject({ ref_id: 'mine', mime_type: 'application/json' })
    const reference = await kept.find(ada, 'mine')
    if (!reference) throw new Error('It is not kept.')
    expect(await json(await kept.open(reference))).toEqual({ content: [link] })
  })

  it('has its URL in _meta alone', async () => {
    const data = { ref_id: 'r', access_url: 'https://x.example/data/r?sig=secret' }
    const { byModel } = world(() => ({ content: [], _meta: { [FACTS]: data } }))
    const { _meta, ...rest } = await byModel(given)
    expect(rest['structuredContent']).toEqual({ ref_id: 'r' })
    expect(JSON.stringify(rest)).not.toContain('secret')
    expect(objectAt({ _meta }, '_meta')).toHaveProperty([FACTS, 'access_url'])
  })
})

describe('a result that cannot be kept', () => {
  const reason = { code: 'QUOTA_EXHAUSTED', message: 'There is no room.' }
  const content = [{ type: 'text', text: 'all of it' }]
  const result = { content, structuredContent: { rows: [1] }, _meta: { [NOT_KEPT]: reason } }

  it('is returned to a model with the reason', async () => {
    const found = await world(() => result).byModel(given)
    expect(found).toMatchObject({ content, structuredContent: { not_kept: reason, result: { rows: [1] } } })
  })

  it('is returned to a program with the reason', async () => {
    const found = await world(() => result).byProgram(given)
    expect(found).toEqual({ not_kept: reason, content, result: { rows: [1] } })
  })

  it('is returned if it has links alone, since the call took effect', async () => {
    const link = { type: 'resource_link', uri: 'sheet://1', name: 'sheet' }
    const { byModel, byProgram, counted } = world(() => ({ content: [link] }), {
      ...referenceSettings,
      total: 10,
    })
    const not_kept = { code: 'QUOTA_EXHAUSTED', message: expect.any(String) }
    expect(await byModel(given)).toMatchObject({ content: [link], structuredContent: { not_kept } })
    expect(await byProgram(given)).toEqual({ content: [link], not_kept })
    expect(counted).toEqual(['not_kept', 'not_kept'])
  })
})

describe('the result of an operation', () => {
  /** An operation that ended with a result in which the data of the given ids is kept, between other blocks. */
  async function ended(ids: readonly string[], given?: Json) {
    const facts = ids.map((ref_id) => ({ ref_id, origin_server: 'one' }))
    const blocks = ids.flatMap((id) => [
      { type: 'resource_link', uri: `ref://${id}`, name: 'data' },
      { type: 'text', text: `[Kept by the gateway as ref://${id}: …]` },
    ])
    const [first, second] = [
      { type: 'text', text: 'before' },
      { type: 'text', text: 'after' },
    ]
    const _meta = { [FACTS]: facts[0], ...(ids.length > 1 && { [`${FACTS}s`]: facts }) }
    const result = given ?? { content: [first, ...blocks, second], _meta }
    const found = world(() => result)
    for (const id of ids) await found.keep(`data of ${id}`, 'text/plain', { id, requestId: 'r' })
    const { seal, membership } = found.deps.identity
    const { id: operation_id, key } = new OperationIds(seal, membership.id).mint(ada)
    const now = Date.now()
    await new Operations(found.store, Date.now).create(key, {
      id: operation_id,
      expiresAt: now + 60_000,
      state: 'completed',
      owner: 'a',
      startedAt: now,
      updatedAt: now,
      upstream: 'one',
      tool: 'sheet',
      principal: ada,
      requestId: 'r',
      result: Payload.of(result),
    })
    return { ...found, operation_id, first, second, blocks }
  }

  it('has a reference of the caller beside all that it had', async () => {
    const { byModel, kept, operation_id, first, second, blocks, counted } = await ended(['one', 'two'])
    const found = await byModel({ operation_id, ref_id: 'mine' })
    expect(found['content']).toEqual([
      first,
      expect.objectContaining({ type: 'resource_link', uri: 'ref://mine' }),
      { type: 'text', text: expect.stringMatching(/as ref:\/\/mine:[^]*data of one$/) },
      ...blocks.slice(2),
      second,
    ])
    expect(found['structuredContent']).toMatchObject({ ref_id: 'mine' })
    expect(objectAt(found, '_meta')).toMatchObject({
      [FACTS]: { ref_id: 'mine' },
      [`${FACTS}s`]: [{ ref_id: 'mine' }, { ref_id: 'two' }],
    })
    expect(await kept.find(ada, 'mine')).toMatchObject({ server: 'one', size: 11, requestId: 'r' })
    expect(counted).toEqual(['kept'])
  })

  it.each<[what: string, result: Json]>([
    ['with a text', { content: [{ type: 'text', text: 'all of it' }] }],
    ['with links alone', { content: [{ type: 'resource_link', uri: 'sheet://1', name: 'sheet' }] }],
  ])('%s is kept as data of the call that returned it', async (_what, result) => {
    const { byModel, kept, operation_id, counted } = await ended([], result)
    const found = await byModel({ operation_id, ref_id: 'mine' })
    expect(found['structuredContent']).toMatchObject({ ref_id: 'mine' })
    expect(await kept.find(ada, 'mine')).toMatchObject({ server: 'one', tool: 'sheet', requestId: 'r' })
    expect(counted).toEqual(['kept'])
  })

  it('stays as it is with the reference that it has', async () => {
    const { byModel, operation_id, first, second, blocks } = await ended(['one'])
    const found = await byModel({ operation_id })
    expect(found['content']).toEqual([first, ...blocks, second])
  })
})
