import { existsSync } from 'node:fs'
import { mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../support/condition.ts'
import { clientOf } from '../../support/journey.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { type ConfirmingClient, type Connect, connectLegacy, eras } from '../../support/peers/confirming.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { hasSchema, schemaText } from '../../support/published-schemas.ts'
import { openRoom, type Room } from '../../support/room.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'
import { undoableFiles } from '../../support/undoable-files.ts'

/** Three servers: files, a graph of entities, and a room that receives messages. */
interface Town {
  readonly gateway: LocalGateway
  readonly folder: string
  readonly room: Room
}

async function town(features: Json = {}): Promise<Town> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'gatehouse-saga-')))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await writeFile(join(folder, 'plan.txt'), 'the old plan')
  const room = await openRoom()
  const gateway = await localGateway({
    store: 'memory',
    features: { confirm: 'off', ...features },
    upstreams: {
      files: {
        command: publishedServer('@modelcontextprotocol/server-filesystem', folder),
        revision: '2025-11-25',
        tools: undoableFiles,
      },
      graph: {
        command: publishedServer('@modelcontextprotocol/server-memory'),
        revision: '2025-11-25',
        env: { MEMORY_FILE_PATH: join(folder, 'graph.jsonl') },
        tools: { create_entities: { undo: 'delete_entities(entityNames=[$.args.entities[0].name])' } },
      },
      room: {
        url: room.url,
        revision: '2025-11-25',
        tools: { send: { undo: 'unsend(text=$.result.text)' } },
      },
    },
  })
  onTestFinished(() => gateway.close())
  return { gateway, folder, room }
}

/** A client that makes the steps of one transaction. */
async function clientAt({ gateway }: Town, connect: Connect = connectLegacy): Promise<ConfirmingClient> {
  const client = await connect({ transport: 'http', url: gateway.url })
  onTestFinished(() => client.close())
  return client
}

const t = { transaction_id: 't' }

function entity(name: string): Record<string, unknown> {
  return { entities: [{ name, entityType: 'plan', observations: [] }] }
}

async function graph(caller: ConfirmingClient): Promise<string> {
  return JSON.stringify((await caller.call('graph_read_graph', {}))['structuredContent'])
}

describe.each(eras)('a transaction over three servers, by $title', ({ connect }) => {
  async function steps(place: Town): Promise<ConfirmingClient> {
    const caller = await clientAt(place, connect)
    const begun = await caller.call('begin_transaction', t)
    expect(begun['structuredContent']).toMatchObject({ status: 'begun', transaction_id: 't' })
    const path = join(place.folder, 'plan.txt')
    const written = await caller.call('files_write_file', { path, content: 'the new plan' }, t)
    expect(written['_meta']).toMatchObject({
      transaction_id: 't',
      step_id: 'step-1',
      compensation: { tool: 'write_file', server_id: 'files' },
    })
    const made = await caller.call('graph_create_entities', entity('plan'), { ...t, step_id: 'note' })
    expect(made['_meta']).toMatchObject({
      step_id: 'note',
      compensation: { arguments: { entityNames: ['plan'] } },
    })
    return caller
  }

  it('is committed', async () => {
    const place = await town()
    const caller = await steps(place)
    await caller.call('room_send', { text: 'done' }, t)
    const committed = await caller.call('commit_transaction', t)
    expect(committed['structuredContent']).toEqual({
      status: 'committed',
      transaction_id: 't',
      steps_completed: 3,
    })
    expect(await readFile(join(place.folder, 'plan.txt'), 'utf8')).toBe('the new plan')
    expect([...place.room.messages]).toEqual(['done'])
  })

  it('is rolled back in reverse order if its third step fails', async () => {
    const place = await town()
    const caller = await steps(place)
    place.room.isClosed = true
    const failed = await caller.call('room_send', { text: 'done' }, t)
    expect(failed).toMatchObject({
      isError: true,
      _meta: { 'dev.gatehouse/transaction': { status: 'failed' } },
    })
    // The recorded reason is the one in the same response.
    const meta = objectAt(failed, '_meta')
    const reason = objectAt(meta, 'dev.gatehouse/error')
    expect(reason['message']).toBe('the room is closed')
    expect(objectAt(meta, 'dev.gatehouse/transaction')['error']).toEqual(reason)
    const status = await caller.call('get_transaction', t)
    expect(objectAt(status, 'structuredContent')['steps']).toMatchObject([{}, {}, { error: reason }])
    const rolledBack = await caller.call('rollback_transaction', { ...t, reason: 'nobody heard' })
    expect(rolledBack['structuredContent']).toEqual({
      transaction_id: 't',
      status: 'rolled_back',
      reason: 'nobody heard',
      steps_compensated: [
        { step_id: 'note', status: 'compensated', state: 'unknown' },
        { step_id: 'step-1', status: 'compensated', state: 'old' },
      ],
    })
    expect(await readFile(join(place.folder, 'plan.txt'), 'utf8')).toBe('the old plan')
    expect(await graph(caller)).not.toContain('plan')
  })
})

it('a server that is gone before the rollback leaves one failed compensation', async () => {
  const place = await town()
  const caller = await clientAt(place)
  await caller.call('begin_transaction', t)
  await caller.call('room_send', { text: 'first' }, t)
  await caller.call('graph_create_entities', entity('second'), t)
  expect((await caller.call('files_write_file', { path: '/nowhere', content: '' }, t))['isError']).toBe(true)
  await place.room.end()
  const { structuredContent } = await caller.call('rollback_transaction', t)
  expect(structuredContent).toMatchObject({
    status: 'partially_rolled_back',
    needs_attention: true,
    steps_compensated: [
      { step_id: 'step-2', status: 'compensated' },
      {
        step_id: 'step-1',
        status: 'compensation_failed',
        error: { code: 'SERVER_UNAVAILABLE', category: 'transient' },
      },
    ],
  })
  expect(await graph(caller)).not.toContain('second')
  const status = await caller.call('get_transaction', {})
  expect(status['structuredContent']).toMatchObject({
    transactions: [{ transaction_id: 't', needs_attention: true }],
  })
  expect(place.gateway.lines).toContainEqual(
    expect.objectContaining({ level: 'error', event: 'transaction.needs_attention', transaction: 't' }),
  )
})

it('an abandoned transaction is rolled back', async () => {
  const place = await town({ transactions: { timeout: '1s' } })
  const caller = await clientAt(place)
  await caller.call('begin_transaction', { ...t, timeout_seconds: 1 })
  await caller.call('room_send', { text: 'hello' }, t)
  expect(place.room.messages.size).toBe(1)
  await until(() => place.room.messages.size === 0, 'the message to be taken back')
  const status = await until(async () => {
    const { structuredContent } = await caller.call('get_transaction', t)
    return isObject(structuredContent) && structuredContent['status'] === 'rolled_back' && structuredContent
  }, 'the end of the transaction')
  expect(status).toMatchObject({ reason: 'timeout' })
})

it('a step without a known compensation is not run', async () => {
  const place = await town()
  const caller = await clientAt(place)
  await caller.call('begin_transaction', t)
  expect(await caller.call('room_shout', { text: 'hello' }, t)).toMatchObject({
    isError: true,
    _meta: { 'dev.gatehouse/error': { code: 'COMPENSATION_UNAVAILABLE' } },
  })
  const made = await caller.call('files_write_file', { path: join(place.folder, 'new.txt'), content: '' }, t)
  expect(made).toMatchObject({
    isError: true,
    _meta: { 'dev.gatehouse/error': { code: 'COMPENSATION_UNAVAILABLE' } },
  })
  expect(existsSync(join(place.folder, 'new.txt'))).toBe(false)
  expect(place.room.messages.size).toBe(0)
})

describe.each(['2025-11-25', '2026-07-28'] as const)(
  'the transaction methods, for a client of %s',
  (revision) => {
    it('respond and fail as JSON-RPC methods do', async () => {
      const place = await town()
      const client = await clientOf(place.gateway, { revision })
      const { extensions } = objectAt(client.initialized, 'capabilities')
      expect(extensions).toMatchObject({ 'dev.gatehouse/transactions': { timeoutSeconds: 300 } })
      expect((await client.request('transaction/begin', t)).result).toMatchObject({ status: 'begun' })
      const step = { name: 'room_send', arguments: { text: 'hello' }, ...t }
      expect((await client.request('tools/call', step)).result).toMatchObject({
        transaction: { step_id: 'step-1' },
      })
      expect((await client.request('transaction/begin', t)).error).toMatchObject({
        code: -32007,
        data: { code: 'TRANSACTION_CONFLICT' },
      })
      const unknown = await client.request('transaction/commit', { transaction_id: 'x' })
      expect(unknown.error?.['data']).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
      expect((await client.request('transaction/status', t)).result).toMatchObject({ status: 'active' })
      expect((await client.request('transaction/rollback', t)).result).toMatchObject({
        status: 'rolled_back',
      })
      expect(place.room.messages.size).toBe(0)
    })
  },
)

const schemaFile = 'proposals/transactions.schema.json'

it.skipIf(!hasSchema(schemaFile))('transaction metadata fits the schema of the proposal', async () => {
  const whole: Json = JSON.parse(schemaText(schemaFile))
  const error: Json = JSON.parse(schemaText(schemaFile.replace('transactions.', 'error.')))
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  ajv.addSchema({ ...error, $id: String(whole['$id']).replace('transactions.json', 'error.json') })
  ajv.addSchema(whole)
  const fits = (name: string, value: unknown): void => {
    const check = ajv.getSchema(`${String(whole['$id'])}#/$defs/${name}`)
    if (!check) throw new TypeError(`there is no ${name}`)
    expect([name, check(value), check.errors]).toEqual([name, true, null])
  }
  const place = await town({ transactions: { uncompensable: 'allow' } })
  const client = await clientOf(place.gateway)
  fits('TransactionBegin', t)
  await client.request('transaction/begin', t)
  for (const name of ['room_send', 'room_shout', 'files_write_file']) {
    const { result } = await client.request('tools/call', {
      name,
      arguments: { text: name, path: '/x', content: '' },
      ...t,
    })
    fits('TransactionStepResult', result?.['transaction'])
    fits('TransactionStepResult', objectAt(objectAt(result ?? {}, '_meta'), 'dev.gatehouse/transaction'))
  }
  const { result } = await client.request('transaction/rollback', t)
  fits('TransactionRollbackResult', result)
  expect(result).toMatchObject({
    steps_compensated: [
      { step_id: 'step-2', error: { reason: 'no_compensation' } },
      { step_id: 'step-1', status: 'compensated' },
    ],
  })
})
