import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { approvingGateway, pageOf, textIn } from '../../support/approving.ts'
import { auditLines } from '../../support/audit-lines.ts'
import { until } from '../../support/condition.ts'
import { runCommand } from '../../support/gateway.ts'
import { clientOf, gatewayTo } from '../../support/journey.ts'
import { openRoom } from '../../support/room.ts'
import type { Json } from '../../support/server/json.ts'

const { username } = userInfo()
const send = (text: string): Json => ({ name: 'send', arguments: { text } })

function placesOf({ configFile }: { readonly configFile: string }): readonly [own: string, beside: string] {
  const folder = dirname(configFile)
  return [join(folder, 'audit.jsonl'), join(folder, 'audit.2.jsonl')]
}

/** A gateway with an audit log, in front of a room whose calls can be undone. */
async function roomGateway() {
  const room = await openRoom()
  const tools = { send: { undo: 'unsend(text=$.args.text)' } }
  const gateway = await gatewayTo(
    { room: { url: room.url, revision: '2025-11-25', tools } },
    {
      config: {
        store: './store',
        observe: { audit: './audit.jsonl' },
        features: { confirm: 'off', transactions: { uncompensable: 'allow' }, undo: {} },
      },
    },
  )
  const run = (...words: string[]) => runCommand([...words, '--config', gateway.configFile])
  return { room, gateway, client: await clientOf(gateway), run }
}

test('a decision at the command line has its own audit line, beside the log of a running gateway', async () => {
  const { gateway, call } = await approvingGateway({
    config: { observe: { audit: './audit.jsonl' }, store: './store' },
  })
  const run = (...words: string[]) => runCommand([...words, '--config', gateway.configFile])
  const [own, beside] = placesOf(gateway)
  const id =
    pageOf(await call({ disk: 'a' }))
      .split('/')
      .at(-1) ?? ''
  expect((await run('approvals', 'list')).code).toBe(0)
  expect((await run('approvals', 'show', id)).code).toBe(0)
  expect(existsSync(beside)).toBe(false)
  expect((await run('approvals', 'approve', id)).code).toBe(0)
  expect((await run('approvals', 'deny', id, '--reason', 'no')).code).toBe(1)
  expect(textIn(await call({ disk: 'a' }))).toBe('wiped')
  const [started, decided, ...later] = auditLines(beside)
  expect(started).toMatchObject({ event: 'started' })
  expect(decided).toMatchObject({
    event: 'approval',
    approval: id,
    principal: username,
    via: 'command_line',
    verdict: 'approved',
    caller: 'anonymous',
    upstream: 'disks',
    tool: 'wipe',
  })
  // The second decision came too late.
  expect(later).toMatchObject([{ event: 'started' }])
  const made = await until(() => auditLines(own).find(({ outcome }) => outcome === 'ok'), 'the call')
  expect(made).toMatchObject({ approval: id, arguments_digest: decided?.['arguments_digest'] })
  expect((await runCommand(['audit', 'verify', own, beside])).code).toBe(0)
})

test('a decision that cannot be recorded is not made', async () => {
  const { gateway, call } = await approvingGateway({ config: { store: './store' } })
  const id =
    pageOf(await call({ disk: 'a' }))
      .split('/')
      .at(-1) ?? ''
  const folder = dirname(gateway.configFile)
  mkdirSync(join(folder, 'audit.jsonl'))
  const other = join(folder, 'other.config.yaml')
  const settings = JSON.parse(readFileSync(gateway.configFile, 'utf8'))
  writeFileSync(other, JSON.stringify({ ...settings, observe: { audit: './audit.jsonl' } }))
  const { code, stdout, stderr } = await runCommand(['approvals', 'approve', id, '--config', other])
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(
    /^gatehouse: the audit log \S+audit\.jsonl cannot be written, so nothing was changed: /,
  )
  expect((await call({ disk: 'a' }))['isError']).toBe(true)
  expect(readdirSync(join(folder, 'audit.jsonl'))).toEqual([])
})

test('the audit log contains the person who undid an action, and the calls a command makes without a gateway', async () => {
  const { room, gateway, client, run } = await roomGateway()
  const [own, beside] = placesOf(gateway)
  await client.request('tools/call', send('a'))
  // The history is written after the responses.
  await until(
    async () => (await run('undo', '--since', '5m', '--dry-run')).stdout.includes('send('),
    'the action to be recorded',
  )
  expect(existsSync(beside)).toBe(false)
  expect((await run('undo', '--since', '5m', '--yes')).code).toBe(0)
  expect(room.calls).toEqual(['send a', 'unsend a'])
  const order = { event: 'order', principal: username, via: 'command_line', caller: 'anonymous' }
  expect(auditLines(beside)).toMatchObject([
    { event: 'started' },
    { ...order, order: 'undo', transaction: expect.stringMatching(/^undo-/) },
  ])

  await client.request('tools/call', send('b'))
  gateway.stop()
  await gateway.ended
  const before = auditLines(own).length
  expect((await run('undo', '--since', '5m', '--yes')).code).toBe(0)
  expect(room.calls.slice(2)).toEqual(['send b', 'unsend b'])
  expect(auditLines(own).slice(before)).toMatchObject([
    { event: 'started' },
    { ...order, order: 'undo' },
    { event: 'call', tool: 'unsend', principal: 'anonymous', upstream: 'room', outcome: 'ok' },
  ])
  expect(auditLines(beside)).toHaveLength(2)
  expect((await runCommand(['audit', 'verify', own, beside])).code).toBe(0)
})

test('the audit log contains the person who ordered a rollback or viewed a failed one', async () => {
  const { room, gateway, client, run } = await roomGateway()
  const [, beside] = placesOf(gateway)
  const t = { transaction_id: 't' }
  await client.request('transaction/begin', t)
  await client.request('tools/call', { ...send('a'), ...t })
  room.isClosed = true
  expect((await run('tx', 'rollback', 't', '--reason', 'a mistake')).code).toBe(1)
  expect((await run('tx', 'show', 't')).code).toBe(0)
  expect((await run('tx', 'ack', 't')).code).toBe(0)
  // If the gateway is slow to pick it up, the command undoes the action itself, which is in the same log.
  const isUndoing = ({ event, tool }: Json): boolean => event === 'call' && tool === 'unsend'
  const told = auditLines(beside).filter((line) => line['event'] !== 'started' && !isUndoing(line))
  expect(told).toMatchObject([
    { event: 'order', order: 'rollback', principal: username, transaction: 't', caller: 'anonymous' },
    { event: 'order', order: 'ack', principal: username, transaction: 't', caller: 'anonymous' },
  ])
})
