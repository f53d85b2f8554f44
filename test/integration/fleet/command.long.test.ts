// `gatehouse fleet`: the gateways that share a store, and how one of them is ended.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openStore } from '../../../src/store/open.ts'
import { runCommand } from '../../support/gateway.ts'
import { folder, gatewayTo, httpServer } from '../../support/journey.ts'
import type { Json } from '../../support/server/json.ts'
import { silentLog } from '../../support/silent-log.ts'

test('lists the gateways, and has one of them end', async () => {
  const home = folder()
  const [store, audit, config] = ['store', 'audit.jsonl', 'c.yaml'].map((name) => join(home, name)) as [
    string,
    string,
    string,
  ]
  const upstreams = { one: { url: (await httpServer()).url } }
  writeFileSync(config, JSON.stringify({ store, observe: { audit }, upstreams }))
  const run = (...words: string[]) => runCommand(['fleet', ...words, '--config', config])
  const listed = async () => {
    const { stdout } = await run('list', '--json')
    return JSON.parse(stdout).gateways as readonly { readonly id: string; readonly state: string }[]
  }

  expect(await run('list')).toMatchObject({
    code: 0,
    stdout: 'No gateway with this store serves clients over HTTP.\n',
  })
  const one = await gatewayTo(upstreams, { config: { store } })
  const [first] = await listed()
  await gatewayTo(upstreams, { config: { store } })
  const all = await listed()
  expect(all).toMatchObject([{ id: first?.id, state: 'serving' }, { state: 'serving' }])
  const { stdout } = await run('list')
  expect(stdout).toMatch(/^ID +HOST +PID +VERSION +STATE +SINCE +ADDRESS\n[\da-f]{16} /)

  expect(await run('drain', 'ffffff')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('no such gateway'),
  })
  const drained = await run('drain', first?.id.slice(0, 8) ?? '')
  expect(drained).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^The gateway [\da-f]{16} has ended\.\n$/),
  })
  await expect(fetch(`${one.origin}/ready`)).rejects.toThrow('fetch failed')
  expect(await listed()).toMatchObject([{ id: all[1]?.id }])
  const order = readFileSync(audit, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Json)
    .find((line) => line['event'] === 'order')
  expect(order).toMatchObject({ order: 'drain', gateway: first?.id })
})

test('shows what a record of an unknown kind says of itself as nothing', async () => {
  const store = folder()
  const opened = openStore({ kind: 'folder', path: store }, silentLog)
  for (const [id, text] of [
    ['garbage', '{'],
    ['nothing', 'null'],
    ['half', '{"version":1}'],
    ['late', JSON.stringify({ version: '1', host: 'a', pid: 1, since: 1e20, state: 'serving' })],
    ['bad', JSON.stringify({ version: '\u001b[31m', host: '<b>\u202e', pid: 1, since: 1, state: 'serving' })],
  ] as const)
    await opened.put(`member/${id}`, text, 60_000)
  await opened.close()
  const { code, stdout } = await runCommand(['fleet', 'list', '--store', store])
  expect(code).toBe(0)
  expect(stdout.split('\n')).toHaveLength(3)
  for (const hidden of ['\u001b', '\u202e']) expect(stdout).not.toContain(hidden)
})
