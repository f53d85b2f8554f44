// The process that runs a server for several gateways is killed, stands still, or is asked to end.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { folder, gatewayProcessTo, serverJournal } from '../../support/journey.ts'
import type { GatewayProcess } from '../../support/gateway-process.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { placedServer } from '../../support/placed-server.ts'
import { type Answer, StatelessClient } from '../../support/stateless-client.ts'
import { undoableFiles } from '../../support/undoable-files.ts'

async function sharing() {
  const journal = serverJournal()
  const server = placedServer(folder(), { seenFile: journal.file })
  const config = { store: folder(), features: { confirm: 'off', idempotency: 'off' } }
  const start = (): Promise<GatewayProcess> => gatewayProcessTo({ one: server.settings }, { config })
  const holder = await start()
  const other = await start()
  return { journal, server, holder, other, start }
}

function echo({ url }: GatewayProcess, text: string): Promise<Answer> {
  return new StatelessClient({ url }).call('echo', { text })
}

test('when its process is killed, another one runs it, and a call in flight there has an unknown outcome', async () => {
  const { journal, server, holder, other } = await sharing()
  const hanging = new StatelessClient({ url: other.url }).call('hang')
  await until(() => journal.calls('hang') === 1, 'the call')
  holder.signal('SIGKILL')
  const { fields } = await hanging
  expect(JSON.stringify(fields)).toContain('OUTCOME_UNKNOWN')
  expect((await echo(other, 'after')).texts.join('')).toContain('after')
  await until(() => server.running().length === 1, 'one process of the server')
  expect(server.starts()).toHaveLength(2)
  expect(journal.calls('hang')).toBe(1)
}, 60_000)

test('when its process stands still, another one runs it after the lease, and the first one kills its own when it continues', async () => {
  const { server, holder, other } = await sharing()
  expect((await echo(other, 'before')).texts.join('')).toContain('before')
  holder.signal('SIGSTOP')
  await until(
    async () => (await echo(other, 'during')).texts.join('').includes('during'),
    'the other process',
    40_000,
  )
  holder.signal('SIGCONT')
  await until(() => server.running().length === 1, 'one process of the server', 20_000)
  expect(server.running()).toEqual([server.starts()[1]])
  expect((await echo(holder, 'again')).texts.join('')).toContain('again')
  expect(server.starts()).toHaveLength(2)
}, 120_000)

test('no call is lost while gateways are replaced one after the other, and no two processes of the server overlap', async () => {
  const { server, holder, other, start } = await sharing()
  let running = [holder, other]
  let isOver = false
  const overlaps: number[] = []
  const failed: unknown[] = []
  let calls = 0
  const load = async (): Promise<void> => {
    while (!isOver) {
      const text = `call ${++calls}`
      const gateway = running.at(-1) ?? expect.unreachable()
      const answer = await echo(gateway, text)
      if (!answer.texts.join('').includes(text)) failed.push(answer.fields)
      if (server.running().length > 1) overlaps.push(calls)
    }
  }
  const loads = [load(), load()]
  for (let round = 0; round < 3; round++) {
    const next = await start()
    const [leaving, ...kept] = running
    running = [...kept, next]
    leaving?.stop()
    await leaving?.ended
  }
  isOver = true
  await Promise.all(loads)
  expect({ failed, overlaps }).toEqual({ failed: [], overlaps: [] })
  expect(calls).toBeGreaterThan(10)
  expect(server.starts().length).toBeGreaterThan(1)
}, 120_000)

test('the gateway without the server rolls back what was done through it', async () => {
  const files = folder()
  const file = join(files, 'note.txt')
  writeFileSync(file, 'before')
  const command = publishedServer('@modelcontextprotocol/server-filesystem', files)
  const upstreams = { files: { command, placement: 'one', tools: undoableFiles } }
  const config = { store: folder(), features: { confirm: 'off' }, upstreams }
  const gateways = [await localGateway(config), await localGateway(config)] as const
  onTestFinished(async () => void (await Promise.all(gateways.map((gateway) => gateway.close()))))
  const client = new StatelessClient({ url: gateways[1].url })
  const transaction = { transaction_id: 'one' }
  await client.call('begin_transaction', transaction)
  await client.call('write_file', { path: file, content: 'after' }, transaction)
  expect(readFileSync(file, 'utf8')).toBe('after')
  const { fields } = await client.call('rollback_transaction', transaction)
  expect(fields['structuredContent']).toMatchObject({ status: 'rolled_back' })
  expect(readFileSync(file, 'utf8')).toBe('before')
})

test('with a store in memory, a gateway runs the server without a lease', async () => {
  const server = placedServer(folder())
  const gateway = await localGateway({ features: { confirm: 'off' }, upstreams: { one: server.settings } })
  onTestFinished(() => gateway.close())
  expect((await new StatelessClient({ url: gateway.url }).call('echo', { text: 'hi' })).error).toBeUndefined()
  expect(gateway.lines.filter(({ event }) => String(event).startsWith('placement.'))).toEqual([])
})
