// Servers of every revision, recorded through a client and replayed to clients of both eras.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { until } from '../../support/condition.ts'
import { fakeServerCommand, startFakeServer } from '../../support/fake-server.ts'
import { commandOnStdio, servedAt } from '../../support/gateway-process.ts'
import { startCommand } from '../../support/gateway.ts'
import type { PeerClient, Way } from '../../support/peers/client.ts'
import { connectSdk1 } from '../../support/peers/sdk1.ts'
import { connectSdk2 } from '../../support/peers/sdk2.ts'
import { revisions } from '../../support/server/revisions.ts'

const root = mkdtempSync(join(tmpdir(), 'gatehouse-recordings-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const clients = [
  { title: 'SDK 1.x', connect: connectSdk1 },
  { title: 'SDK 2.x of 2026-07-28', connect: (way: Way) => connectSdk2(way, { pin: '2026-07-28' }) },
]

async function converse(client: PeerClient): Promise<unknown> {
  const tools = await client.tools()
  const asking = ['ask_form', 'ask_rounds', 'ask_sampling'].filter((name) => tools.includes(name))
  const asked: unknown[] = []
  // Clients write the members of their answers in different orders.
  for (const name of asking) asked.push([name, JSON.parse((await client.call(name, {})).text)])
  return { tools, asked, resources: await client.resources(), prompts: await client.prompts() }
}

describe.each(revisions)('a recorded server of %s', (revision) => {
  it.each(clients)('answers and asks as the server did, recorded by $title', async ({ title, connect }) => {
    const file = join(root, `${revision} ${title}.jsonl`)
    const { command, args } = fakeServerCommand({ revision })
    const recording = await connect(commandOnStdio('record', '-o', file, '--', command, ...args))
    const live = await converse(recording)
    await recording.close()
    expect(live).toMatchObject({ asked: expect.arrayContaining([expect.anything()]) })
    await until(() => readFileSync(file, 'utf8').includes('"prompts":['), 'the recorded prompts')
    const [header = ''] = readFileSync(file, 'utf8').split('\n')
    expect(JSON.parse(header)).toMatchObject({ era: revision === '2026-07-28' ? 'modern' : 'legacy' })
    for (const { connect: reconnect } of clients) {
      const replayed = await reconnect(commandOnStdio('replay', file))
      expect(await converse(replayed)).toEqual(live)
      expect(replayed.asked).toEqual(recording.asked)
      await replayed.close()
    }
  })
})

it.each(['2025-11-25', '2026-07-28'] as const)(
  'records several clients of a server of %s over HTTP',
  async (revision) => {
    const file = join(root, `${revision} http.jsonl`)
    const server = await startFakeServer({ revision, transport: 'http' })
    const recorder = startCommand(['record', `${server.url}`, '-o', file, '--port', '0'])
    try {
      const url = await servedAt(recorder)
      const both = await Promise.all(clients.map(({ connect }) => connect({ transport: 'http', url })))
      const live = await Promise.all(both.map(converse))
      for (const each of both) await each.close()
      recorder.stop()
      expect(await recorder.ended).toMatchObject({ code: 0 })
      for (const [index, { connect }] of clients.entries()) {
        const replayed = await connect(commandOnStdio('replay', file))
        expect(await converse(replayed)).toEqual(live[index])
        await replayed.close()
      }
    } finally {
      await recorder.close()
      await server.close()
    }
  },
)
