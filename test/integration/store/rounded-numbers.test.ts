import { execFile, spawn } from 'node:child_process'
import { rmSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { end } from '../../support/child-process.ts'
import { inRepository } from '../../support/document.ts'
import { storeFixture } from '../../support/store-fixture.ts'

const main = inRepository('dist/main.js')
const { folder, config, env, done } = storeFixture('store-long-numbers', '2026-11-28T20:10:29Z')

const gateway = spawn(process.execPath, [main, 'stdio', '--config', config], {
  env,
  stdio: ['pipe', 'pipe', 'ignore'],
})
const lines = createInterface({ input: gateway.stdout })[Symbol.asyncIterator]()

/** Sends a request; the text of its response has all digits. */
async function ask(method: string, params: string): Promise<string> {
  gateway.stdin.write(`{"jsonrpc":"2.0","id":"7","method":"${method}","params":${params}}\n`)
  for (;;) {
    const { value, done } = await lines.next()
    if (done === true) throw new Error('the gateway has ended')
    if (value.includes('"id":"7"')) return value
  }
}

function call(name: string, id: string, key?: string): Promise<string> {
  const meta = key === undefined ? '' : `,"_meta":{"dev.gatehouse/idempotency_key":"${key}"}`
  return ask('tools/call', `{"name":"${name}","arguments":{"id":${id}}${meta}}`)
}

async function gatehouse(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [main, ...args, '--config', config], { env })
  return stdout
}

beforeAll(async () => {
  const client = '"capabilities":{},"clientInfo":{"name":"test","version":"1.0.0"}'
  await ask('initialize', `{"protocolVersion":"2025-06-18",${client}}`)
})

afterAll(async () => {
  await end(gateway)
  rmSync(folder, { recursive: true, force: true })
})

describe('a store of a version that rounded long numbers', () => {
  test('a completed call is replayed with its digits, and its key is not that of another number', async () => {
    const replay = await call('charge', '725653563933458433', 'done-key')
    expect(replay).toContain('"was_replay":true')
    expect(replay).toContain('"structuredContent":{"id":725653563933458433}')
    expect(await call('charge', '725653563933458434', 'done-key')).toContain('IDEMPOTENCY_CONFLICT')
    expect(done()).toEqual([])
  })

  test('a granted approval lets its own call run once, and no other', async () => {
    expect(await call('remove', '725653563933458434')).toContain('CONFIRMATION_REQUIRED')
    expect(await call('remove', '725653563933458439')).toContain('CONFIRMATION_REQUIRED')
    expect(done()).toEqual([])
    await call('remove', '725653563933458433')
    expect(done()).toEqual(['remove 725653563933458433'])
  })

  test('an action whose compensation was rounded is not undone, and the reason is printed', async () => {
    const text = await gatehouse('undo', '--since', '1h', '--dry-run')
    expect(text).toContain('a number of more than 15 digits')
    expect(text).not.toContain('refund')
  })
})
