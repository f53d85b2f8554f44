// Data that travels by reference between published servers: what people are asked, what is recorded, and how it is undone.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { auditLines } from '../../support/audit-lines.ts'
import { until } from '../../support/condition.ts'
import { gatewayProgram } from '../../support/gateway-process.ts'
import { runCommand, type RunningGateway, startGateway } from '../../support/gateway.ts'
import { eras, type ConfirmingClient } from '../../support/peers/confirming.ts'
import { type Json, objectAt } from '../../support/server/json.ts'
import { twoFolders } from '../../support/two-folders.ts'

/** Larger than a record of the store may be. */
const data = `${'x'.repeat(99)}\n`.repeat(20_000)
const sha256 = createHash('sha256').update(data).digest('hex')

let folders: ReturnType<typeof twoFolders>
let root = ''
let gateway: RunningGateway

beforeAll(async () => {
  folders = twoFolders()
  root = folders.root
  writeFileSync(join(root, 'one/large.log'), data)
  const undo = `write_file(path=${JSON.stringify(join(root, 'two/undone.log'))}, content=$.args.content)`
  gateway = await startGateway({
    store: join(root, 'store'),
    observe: { audit: join(root, 'audit.jsonl') },
    features: { references: 'on' },
    upstreams: {
      one: folders.servers.one,
      two: { ...folders.servers.two, tools: { write_file: { undo } } },
    },
  })
})
afterAll(async () => {
  await gateway.close()
  folders.remove()
})

function metaOf(result: Json): Json {
  return objectAt(result, '_meta')
}

/** Runs a command while a person is asked. */
function refs(...words: string[]): void {
  const [program = process.execPath, ...first] = gatewayProgram()
  const { status, stderr } = spawnSync(program, [...first, 'refs', ...words, '--config', gateway.configFile])
  if (status !== 0) throw new Error(String(stderr))
}

describe.each(eras)('data that changes while a client of the $title asks its person', ({ connect }) => {
  const name = connect.name
  const way = () => ({ transport: 'http', url: gateway.url }) as const

  it('is not sent: the person is asked again, about the new data', async () => {
    const [before, after] = [join(root, `${name}-1.txt`), join(root, `${name}-2.txt`)]
    writeFileSync(before, 'first')
    writeFileSync(after, 'second')
    refs('put', before, '--id', name)
    const client = await connect(way(), () => {
      if (client.asked.length === 1) {
        refs('drop', name)
        refs('put', after, '--id', name)
      }
      return { action: 'accept', content: { confirm: true } }
    })
    try {
      const path = join(root, `two/changed-${name}.txt`)
      const result = await client.call('two_write_file', { path, content: `ref://${name}` })
      expect(result).not.toMatchObject({ isError: true })
      const messages = client.asked.map(({ message }) => String(message))
      expect(messages).toHaveLength(2)
      expect(messages[0]).toContain('5 bytes')
      expect(messages[1]).toContain('has changed since you were asked')
      expect(messages[1]).toContain('6 bytes')
      expect(readFileSync(path, 'utf8')).toBe('second')
    } finally {
      await client.close()
    }
  })

  it('and is gone when the person answers, is a clear error, and nothing is sent', async () => {
    const file = join(root, `${name}-3.txt`)
    writeFileSync(file, 'third')
    refs('put', file, '--id', `${name}-gone`)
    const client = await connect(way(), () => {
      refs('drop', `${name}-gone`)
      return { action: 'accept', content: { confirm: true } }
    })
    try {
      const path = join(root, `two/gone-${name}.txt`)
      const result = await client.call('two_write_file', { path, content: `ref://${name}-gone` })
      expect(result).toMatchObject({ isError: true })
      expect(metaOf(result)['dev.gatehouse/error']).toMatchObject({
        code: 'RESOURCE_NOT_FOUND',
        field: 'content',
      })
      expect(client.asked).toHaveLength(1)
      expect(existsSync(path)).toBe(false)
    } finally {
      await client.close()
    }
  })
})

describe.each(eras)('data by reference with a client of the $title', ({ connect }) => {
  let client: ConfirmingClient
  let uri = ''
  beforeAll(async () => {
    const way = { transport: 'http', url: gateway.url } as const
    client = await connect(way, () => ({ action: 'accept', content: { confirm: true } }))
    const read = await client.call('one_read_text_file', { path: join(root, 'one/large.log') })
    uri = `ref://${String(objectAt(metaOf(read), 'dev.gatehouse/data_reference')['ref_id'])}`
  })
  afterAll(() => client.close())

  it('is confirmed by its facts, written once under its key, and recorded with its origin', async () => {
    const path = join(root, `two/${connect.name}.log`)
    const key = { 'dev.gatehouse/idempotency_key': connect.name, 'dev.gatehouse/provenance': true }
    const before = client.asked.length
    const written = await client.call('two_write_file', { path, content: uri }, key)
    expect(readFileSync(path, 'utf8')).toBe(data)
    expect(client.asked).toHaveLength(before + 1)
    const question = JSON.stringify(client.asked.at(-1))
    expect(question).toContain(`${data.length} bytes, SHA-256 ${sha256.slice(0, 12)}`)
    expect(question).not.toContain('xxxxxxxxxx')
    const replay = await client.call('two_write_file', { path, content: uri }, key)
    expect(metaOf(replay)).toMatchObject({ was_replay: true })
    expect(client.asked).toHaveLength(before + 1)
    const [origin] = metaOf(written)['dev.gatehouse/provenance'] as Json[]
    expect(origin).toMatchObject({
      source: 'one:read_text_file',
      content_hash: `sha256:${sha256}`,
      reference: uri,
    })
    const id = uri.slice('ref://'.length)
    const lines = await until(() => {
      const calls = auditLines(join(root, 'audit.jsonl')).filter(({ event }) => event === 'call')
      const using = calls.filter(({ references_used: used }) => JSON.stringify(used ?? '').includes(id))
      return using.length >= 2 ? { calls, using } : undefined
    }, 'both calls in the audit log')
    const made = lines.calls.find(({ references }) => JSON.stringify(references ?? '').includes(id))
    expect(made).toMatchObject({ tool: 'read_text_file', references: [{ id, sha256, size: data.length }] })
    for (const line of lines.using)
      expect(line).toMatchObject({
        tool: 'write_file',
        references_used: [{ path: 'content', id, sha256, request_id: made?.['request_id'] }],
      })
    expect(origin?.['request_id']).toBe(made?.['request_id'])
  })

  it('is used again when a transaction is rolled back', async () => {
    const path = join(root, `two/step-${connect.name}.log`)
    rmSync(join(root, 'two/undone.log'), { force: true })
    const transaction = `tx-${connect.name}`
    await client.call('begin_transaction', { transaction_id: transaction })
    const step = { 'dev.gatehouse/transaction_id': transaction }
    expect(await client.call('two_write_file', { path, content: uri }, step)).not.toMatchObject({
      isError: true,
    })
    const rolledBack = await client.call('rollback_transaction', { transaction_id: transaction })
    expect(rolledBack).not.toMatchObject({ isError: true })
    expect(rolledBack['structuredContent']).toMatchObject({ status: 'rolled_back' })
    expect(readFileSync(join(root, 'two/undone.log'), 'utf8')).toBe(data)
  })

  it('is listed and saved at the command line, and measured', async () => {
    const id = uri.slice('ref://'.length)
    const listed = await runCommand(['refs', 'list', '--json', '--config', gateway.configFile])
    const { references } = JSON.parse(listed.stdout)
    expect(references).toContainEqual(
      expect.objectContaining({ ref_id: id, caller: 'anonymous', sha256, tool: 'read_text_file' }),
    )
    const file = join(root, `saved-${connect.name}`)
    const saved = await runCommand(['refs', 'get', id, '-o', file, '--config', gateway.configFile])
    expect(saved.code).toBe(0)
    expect(readFileSync(file, 'utf8')).toBe(data)
    const metrics = await (await fetch(new URL('/metrics', gateway.url))).text()
    expect(metrics).toMatch(/^gatehouse_references\{kind="result"\} [1-9]/m)
    expect(metrics).toMatch(/^gatehouse_references_total\{outcome="used"\} [1-9]/m)
  })

  it('that a person puts in a file is an argument like any other', async () => {
    const file = join(root, `note-${connect.name}.txt`)
    writeFileSync(file, 'from a person')
    const put = await runCommand(['refs', 'put', file, '--json', '--config', gateway.configFile])
    const { ref_id: id } = JSON.parse(put.stdout)
    const path = join(root, `two/note-${connect.name}.txt`)
    await client.call('two_write_file', { path, content: { $ref_id: id } })
    expect(readFileSync(path, 'utf8')).toBe('from a person')
    expect(JSON.stringify(client.asked.at(-1))).toContain('from an upload of the caller')
  })
})
