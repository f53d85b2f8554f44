import { execFile } from 'node:child_process'
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isObject } from '../../../src/core/json/json.ts'
import { inRepository } from '../../support/document.ts'
import { storeFixture } from '../../support/store-fixture.ts'

const main = inRepository('dist/main.js')
const { folder, config, env, done } = storeFixture('store-0.3.0', '2026-11-24T13:52:47Z')
const forScripts = join(folder, 'scripts.config.yaml')
const client = new Client({ name: 'test', version: '1.0.0' })

beforeAll(async () => {
  cpSync(inRepository('test/fixtures/store-0.3.0/receipt.json'), join(folder, 'receipt.json'))
  // The command needs a person by default; the gateway has the configuration of then.
  const written = readFileSync(config, 'utf8')
  writeFileSync(forScripts, written.replace('wait: 0s', 'wait: 0s, approve_by_command: script'))
  const args = [main, 'stdio', '--config', config]
  await client.connect(new StdioClientTransport({ command: process.execPath, args, env, stderr: 'ignore' }))
})

afterAll(async () => {
  await client.close()
  rmSync(folder, { recursive: true, force: true })
})

/** Runs a command on the store. */
async function gatehouse(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [main, ...args, ...(args.includes('--config') ? [] : ['--config', config])],
    { env },
  )
  return stdout
}

/** Calls a tool; returns the structured content of its result, with its `_meta`. */
async function call(name: string, given: object, key?: string) {
  const meta = key === undefined ? {} : { 'dev.gatehouse/idempotency_key': key }
  const result = await client.callTool({ name, arguments: { ...given }, _meta: meta })
  const content = isObject(result.structuredContent) ? result.structuredContent : {}
  return { ...content, meta: isObject(result._meta) ? result._meta : {} }
}

describe('a store and a configuration of 0.3.0 work unchanged', () => {
  test('the actions of all charges are listed for undo, with their compensation', async () => {
    const text = await gatehouse('undo', '--since', '1h', '--dry-run')
    for (const id of ['one-1', 'receipt-2', 'kept-3', 'gatehouse tx rollback open'])
      expect(text).toContain(id)
  })

  test('a completed call is replayed and does not run again', async () => {
    const { meta } = await call('charge', { id: 'one' }, 'done-key')
    expect(meta).toMatchObject({ 'dev.gatehouse/idempotency': { was_replay: true } })
    expect(done()).toEqual([])
  })

  test('a call that was in flight is not run again: its outcome is unknown', async () => {
    const { meta } = await call('hang', { id: 'lost' }, 'lost-key')
    expect(meta).toMatchObject({ 'dev.gatehouse/error': { code: 'OUTCOME_UNKNOWN' } })
    expect(done()).toEqual([])
  })

  test('a granted approval lets the call run once', async () => {
    await call('remove', { id: 'granted' })
    expect(done()).toEqual(['remove granted'])
  })

  test('a pending approval is listed, approved, and then lets its call run', async () => {
    const { approvals } = JSON.parse(await gatehouse('approvals', 'list', '--json'))
    const [pending] = approvals.filter((each: { status: string }) => each.status === 'pending')
    expect(pending).toMatchObject({ tool: 'remove', arguments: { id: 'pending' } })
    await gatehouse('approvals', 'approve', pending.id, '--config', forScripts)
    await call('remove', { id: 'pending' })
    expect(done()).toContain('remove pending')
  })

  test('transactions keep their states, and an active one is rolled back', async () => {
    expect(await call('get_transaction', { transaction_id: 'kept' })).toMatchObject({ status: 'committed' })
    expect(await call('get_transaction', { transaction_id: 'open' })).toMatchObject({ status: 'active' })
    const end = await call('rollback_transaction', { transaction_id: 'open' })
    expect(end).toMatchObject({ status: 'rolled_back', steps_compensated: [{ step_id: 'step-1' }] })
    expect(done()).toContain('refund open-4')
  })

  test('a receipt is verified with the keys of the store', async () => {
    expect(await gatehouse('verify', join(folder, 'receipt.json'))).toContain('shop')
  })
})
