import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { promisify } from 'node:util'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { inRepository } from '../../support/document.ts'
import { type CommandProcess, servedAt, startCommandProcess } from '../../support/gateway-process.ts'
import type { Json } from '../../support/server/json.ts'
import { StatelessClient } from '../../support/stateless-client.ts'
import { storeFixture } from '../../support/store-fixture.ts'

const main = inRepository('dist/main.js')
const { folder, config, env, done } = storeFixture('store-every-record', '2026-11-29T14:33:22Z', {
  'blob.gz': 'blobs/a57f11227d7300f6f9a72a3e5629bdee',
})

const RECEIVER_PORT = 21_847
const TASK =
  'IyHkUS5ql_5lCsBEsy94C0OJdtiX6ech8q8_8UtR14IYvPBEgLj3rG7g6E80jGK0HBlcs5g7eDXbvhkMl017QbXCvwYfUYubWQ'
const REFERENCE = 'ref_93643b7236377f26c826a66c3318ef30'
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
const takesTasks = { extensions: { 'io.modelcontextprotocol/tasks': {} } }
const STATE = 'st_M8DAizPNNNfa8CMfYGj2Wg'

/** The events that the receiver of the store gets. */
const events: Json[] = []
const webhook = new Webhook(`whsec_${Buffer.alloc(32, 5).toString('base64')}`)
const receiver = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    const text = Buffer.concat(chunks).toString()
    const [id, time, signature] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) =>
      String(request.headers[name]),
    )
    // The library would refuse the time of then.
    const at = new Date(Number(time) * 1000)
    if (webhook.sign(id ?? '', at, text) !== signature) return void response.writeHead(401).end()
    const body = JSON.parse(text) as Json
    if (body['type'] === 'verification')
      return void response.end(JSON.stringify({ challenge: body['challenge'] }))
    events.push(body)
    response.writeHead(204).end()
  })
})

let gateway: CommandProcess
let url = ''

beforeAll(async () => {
  await new Promise<void>((resolve) => receiver.listen(RECEIVER_PORT, '127.0.0.1', resolve))
  gateway = startCommandProcess(['serve', '--config', config], { env })
  url = await servedAt(gateway)
})

afterAll(async () => {
  receiver.close()
  receiver.closeAllConnections()
  await gateway.close()
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
})

/** Runs a command on the store; its result is JSON. */
async function gatehouse(...args: string[]) {
  const words = [main, ...args, '--json', '--config', config]
  const { stdout } = await promisify(execFile)(process.execPath, words, { env })
  return JSON.parse(stdout)
}

const client = () => new StatelessClient({ url, token: 'token-of-ada' })

function call(name: string, given: Json, key?: string) {
  const meta = key === undefined ? {} : { _meta: { 'dev.gatehouse/idempotency_key': key } }
  return client().call(name, given, meta)
}

describe('a store with every kind of record works unchanged', () => {
  test('a completed call is replayed, and one that was in flight has an unknown outcome', async () => {
    const { meta } = await call('charge', { id: 'one' }, 'done-key')
    expect(meta).toMatchObject({ 'dev.gatehouse/idempotency': { was_replay: true } })
    for (const [id, key] of [
      ['lost', 'lost-key'],
      ['task-lost', 'task-key'],
    ] as const)
      expect((await call('hang', { id }, key)).fields).toMatchObject({ error: { code: 'OUTCOME_UNKNOWN' } })
    expect(done()).toEqual([])
  })

  test('the task of a call in flight ends: its outcome is not known', async () => {
    await expect
      .poll(
        async () =>
          (await client().send('tasks/get', { taskId: TASK, _meta: { [CAPABILITIES]: takesTasks } })).fields,
      )
      .toMatchObject({ status: 'completed', result: { error: { code: 'OUTCOME_UNKNOWN' } } })
    expect(done()).toEqual([])
  })

  test('a granted approval lets its call run once, and a pending one after it is approved', async () => {
    await call('remove', { id: 'granted' })
    expect(done()).toEqual(['remove granted'])
    const { approvals } = await gatehouse('approvals', 'list')
    const pending = approvals.find((each: Json) => each['status'] === 'pending')
    expect(pending).toMatchObject({ tool: 'remove', arguments: { id: 'pending' } })
    await gatehouse('approvals', 'approve', pending.id)
    await call('remove', { id: 'pending' })
    expect(done()).toEqual(['remove granted', 'remove pending'])
  })

  test('transactions keep their states, and an active one is rolled back', async () => {
    const status = async (id: string) =>
      (await client().send('transaction/status', { transaction_id: id })).fields
    expect(await status('kept')).toMatchObject({ status: 'committed' })
    expect(await status('open')).toMatchObject({ status: 'active' })
    const { fields } = await client().send('transaction/rollback', { transaction_id: 'open' })
    expect(fields).toMatchObject({ status: 'rolled_back', steps_compensated: [{ step_id: 'step-1' }] })
    expect(done()).toContain('refund open-4')
  })

  test('the actions of all charges are listed for undo', async () => {
    const text = JSON.stringify(await gatehouse('undo', '--since', '1h', '--dry-run'))
    for (const id of ['one-1', 'owed-2', 'kept-3', 'task-6']) expect(text).toContain(id)
  })

  test('kept data is read by its reference', async () => {
    const { references } = await gatehouse('refs', 'list')
    expect(references).toMatchObject([{ ref_id: REFERENCE, size_bytes: 140_000 }])
    const read = await call('read_reference', { ref: REFERENCE, max_bytes: 100 })
    expect(read.texts.join('')).toContain('r line\nr line\n')
  })

  test('a session state fills in what its caller left out', async () => {
    const { seen } = await call('look', { _session_state: STATE })
    expect(seen).toEqual({ owner: 'acme', shelf: 'top' })
  })

  test('a subscription goes on where its deliveries ended', async () => {
    const ids = () => events.map((event) => (event['data'] as { arguments: Json }).arguments['id'])
    await expect.poll(ids).toEqual(expect.arrayContaining(['owed', 'kept', 'open', 'task']))
    expect(ids().slice(0, 4)).toEqual(['owed', 'kept', 'open', 'task'])
    expect((await gatehouse('events', 'dead-letters')).dead_letters).toHaveLength(1)
  })

  test('the contract of the server has not changed', async () => {
    expect(JSON.stringify(await gatehouse('changelog', 'shop'))).not.toContain('removed')
  })
})
